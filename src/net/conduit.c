// SPDX-License-Identifier: Apache-2.0
#include "net/conduit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/banned.h"

static bool is_sigpipe_harmless(void)
{
	struct sigaction act;
	sigset_t mask;

	if (sigaction(SIGPIPE, NULL, &act) == 0 && act.sa_handler == SIG_IGN)
		return true;
	return sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGPIPE) == 1;
}

int conduit_open(struct conduit *c, size_t most)
{
	int ends[2];

	if (conduit_is_open(c))
		return 0;
	if (!is_sigpipe_harmless()) {
		errno = ENOTSUP;
		return -1;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	*c = (struct conduit){ .rd = ends[0], .wr = ends[1], .size = CONDUIT_NARROW, .most = most };
	if (fcntl(ends[1], F_GETPIPE_SZ) >= (int)CONDUIT_NARROW)
		return 0;
	conduit_close(c); /* two pages: copying is faster */
	errno = ENOTSUP;
	return -1;
}

void conduit_close(struct conduit *c)
{
	closep(&c->rd);
	closep(&c->wr);
	*c = CONDUIT_INIT;
}

ssize_t splice_now(int from, int to, size_t n)
{
	ssize_t moved;

	do
		moved = splice(from, NULL, to, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (moved < 0 && errno == EINTR);
	return moved;
}

/* Refused to a user who has many: then it stays as it is. */
static void grow(struct conduit *c)
{
	if (fcntl(c->wr, F_SETPIPE_SZ, (int)c->most) >= (int)c->most)
		c->size = c->most;
	else
		c->most = c->size;
}

ssize_t conduit_fill(struct conduit *c, int from, uint64_t n)
{
	ssize_t moved;

	assert(c->held == 0);
	if (c->size < c->most && c->passed >= CONDUIT_LONG)
		grow(c);
	moved = splice_now(from, c->wr, (size_t)MIN(n, (uint64_t)c->size));
	if (moved > 0) {
		c->held = (size_t)moved;
		c->passed += (uint64_t)moved;
	}
	return moved;
}

ssize_t conduit_drain(struct conduit *c, int to)
{
	ssize_t moved = splice_now(c->rd, to, c->held);

	if (moved > 0)
		c->held -= (size_t)moved;
	return moved;
}
