// SPDX-License-Identifier: Apache-2.0
#include "fetch/asker.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#include "base/banned.h"

#define ANSWER_MS 60000
#define PROGRESS_MS 250

static int hung_up(struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
}

static int wait_for(int fd, short events, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&p, 1, ANSWER_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return err_set(e, ERR_TIMEOUT, "the server did not answer");
	return r < 0 ? err_sys(e, errno, "wait for the server") : 0;
}

static int receive(const struct asker *a, enum fetch_request_kind kind, size_t max_fds, struct fetch_request *ret,
		   struct passed *passed, struct err *e)
{
	int r;

	do {
		if (wait_for(a->fd, POLLIN, e) < 0)
			return -1;
		r = passing_recv(a->fd, ret, sizeof(*ret), max_fds, passed, e);
	} while (r == PASSING_NONE);
	if (r != PASSING_MESSAGE)
		return r == PASSING_END ? hung_up(e) : -1;
	if (passed->n != sizeof(*ret) || ret->version != FETCH_VERSION || ret->kind != (uint32_t)kind)
		return err_set(e, ERR_INTERNAL, "a message that is none of this version");
	return 0;
}

int asker_receive(struct asker *a, int *ret_order, int *ret_archive, struct err *e)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_request rq;

	if (receive(a, FETCH_ORDER, 2, &rq, &passed, e) < 0)
		return -1;
	if (passed.n_fds == 0)
		return err_set(e, ERR_INTERNAL, "a request without an order");
	*ret_order = take_fd(&passed.fds[0]);
	*ret_archive = passed.n_fds > 1 ? take_fd(&passed.fds[1]) : -1;
	return 0;
}

bool asker_is_gone(const struct asker *a)
{
	struct pollfd p = { .fd = a->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static int send_message(const struct asker *a, struct fetch_message *m, const int *fds, size_t n_fds, struct err *e)
{
	m->version = FETCH_VERSION;
	for (;;) {
		int r = passing_send(a->fd, m, sizeof(*m), fds, n_fds, e);

		if (r != 0)
			return r < 0 ? -1 : 0;
		if (wait_for(a->fd, POLLOUT, e) < 0)
			return -1;
	}
}

void asker_progress(struct asker *a, const struct fetch_message *m, bool must)
{
	struct fetch_message copy = *m;
	uint64_t now = clock_mono_ms();

	if (!must && now - a->told_ms < PROGRESS_MS)
		return;
	a->told_ms = now;
	copy.version = FETCH_VERSION;
	copy.kind = FETCH_PROGRESS;
	(void)passing_send(a->fd, &copy, sizeof(copy), NULL, 0, &(struct err){ 0 }); /* who is gone is noticed elsewhere */
}

int asker_found(struct asker *a, const struct digest *digest, const char *name, struct str manifest,
		struct str config, struct err *e)
{
	AUTO_FD first = memfd_sealed_bytes("manifest", manifest, e);
	AUTO_FD second = first < 0 ? -1 : memfd_sealed_bytes("config", config, e);
	struct fetch_message m = { .kind = FETCH_FOUND, .digest = *digest };

	if (first < 0 || second < 0)
		return -1;
	if (name)
		(void)snprintf(m.name, sizeof(m.name), "%s", name); /* one that is longer is no name */
	return send_message(a, &m, (const int[]){ first, second }, 2, e);
}

int asker_wants(struct asker *a, uint64_t ret_layers[MANIFEST_LAYERS_MAX / 64], struct err *e)
{
	AUTO(passed_done) struct passed passed = PASSED_INIT;
	struct fetch_request rq;

	if (receive(a, FETCH_WANT, 0, &rq, &passed, e) < 0)
		return -1;
	memcpy(ret_layers, rq.layers, sizeof(rq.layers));
	return 0;
}

void asker_end(struct asker *a, const struct err *outcome)
{
	struct fetch_message m = { .kind = outcome->code == ERR_NONE ? FETCH_DONE : FETCH_FAILED, .err = *outcome };

	(void)send_message(a, &m, NULL, 0, &(struct err){ 0 }); /* there is nobody else to tell */
}
