// SPDX-License-Identifier: Apache-2.0
#include "net/conduit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/banned.h"

struct line {
	int near, far;
};

static struct line line_open(void)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	return (struct line){ ends[0], ends[1] };
}

static void line_close(struct line *l)
{
	closep(&l->near);
	closep(&l->far);
}

static size_t take(int fd, char *to, size_t room)
{
	ssize_t n = recv(fd, to, room, 0);

	assert_true(n > 0);
	return (size_t)n;
}

static void bytes_pass_whole_and_in_order(void **state)
{
	static char in[3 * CONDUIT_NARROW / 2], out[sizeof(in)];
	struct line from = line_open(), to = line_open();
	struct conduit c = CONDUIT_INIT;
	size_t got = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * 7 + i / 4096);
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), 0);
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), 0);
	assert_int_equal(conduit_fill(&c, from.near, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(send(from.far, in, sizeof(in), 0), sizeof(in));
	assert_int_equal(conduit_fill(&c, from.near, 5), 5); /* no more than was asked for */
	assert_int_equal(conduit_drain(&c, to.near), 5);
	got = take(to.far, out, sizeof(out));
	assert_int_equal(got, 5);
	while (got < sizeof(in)) {
		assert_true(conduit_fill(&c, from.near, UINT64_MAX) > 0);
		assert_true(c.held <= CONDUIT_NARROW);
		assert_true(conduit_drain(&c, to.near) > 0);
		assert_int_equal(c.held, 0);
		got += take(to.far, out + got, sizeof(out) - got);
	}
	assert_memory_equal(in, out, sizeof(in));
	line_close(&from);
	line_close(&to);
	conduit_close(&c);
}

static void what_is_not_taken_stays_in_it(void **state)
{
	static char piece[CONDUIT_WIDE];
	struct line from = line_open(), to = line_open();
	struct conduit c = CONDUIT_INIT;
	size_t put = 0, got = 0;

	(void)state;
	assert_int_equal(conduit_open(&c, CONDUIT_WIDE), 0);
	while (c.held == 0) { /* until nobody takes any more */
		ssize_t n = send(from.far, piece, sizeof(piece), 0);

		assert_true(n > 0 || errno == EAGAIN);
		put += n > 0 ? (size_t)n : 0;
		assert_true(conduit_fill(&c, from.near, UINT64_MAX) > 0);
		(void)conduit_drain(&c, to.near);
	}
	assert_int_equal(conduit_drain(&c, to.near), -1);
	assert_int_equal(errno, EAGAIN);
	while (got < put) {
		got += take(to.far, piece, sizeof(piece));
		if (c.held == 0)
			(void)conduit_fill(&c, from.near, UINT64_MAX);
		if (c.held > 0)
			(void)conduit_drain(&c, to.near);
	}
	assert_int_equal(got, put);
	line_close(&from);
	line_close(&to);
	conduit_close(&c);
}

static void it_grows_for_what_is_long_alone(void **state)
{
	static char piece[CONDUIT_NARROW];
	struct line from = line_open(), to = line_open();
	struct conduit c = CONDUIT_INIT;
	uint64_t passed = 0;

	(void)state;
	assert_int_equal(conduit_open(&c, CONDUIT_WIDE), 0);
	while (c.size == CONDUIT_NARROW) {
		ssize_t n;

		assert_true(passed <= CONDUIT_LONG + CONDUIT_NARROW);
		assert_int_equal(fcntl(c.wr, F_GETPIPE_SZ), CONDUIT_NARROW);
		assert_true(send(from.far, piece, sizeof(piece), 0) > 0);
		n = conduit_fill(&c, from.near, UINT64_MAX);
		assert_true(n > 0);
		passed += (uint64_t)n;
		while (c.held > 0) {
			(void)conduit_drain(&c, to.near);
			(void)take(to.far, piece, sizeof(piece));
		}
	}
	assert_true(passed > CONDUIT_LONG);
	assert_int_equal(c.size, CONDUIT_WIDE);
	assert_int_equal(fcntl(c.wr, F_GETPIPE_SZ), CONDUIT_WIDE);
	line_close(&from);
	line_close(&to);
	conduit_close(&c);
}

static void the_ends_of_both_sides_are_told(void **state)
{
	struct line from = line_open(), to = line_open();
	struct conduit c = CONDUIT_INIT;

	(void)state;
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), 0);
	assert_int_equal(send(from.far, "last words", 10, 0), 10);
	closep(&from.far);
	from.far = -1;
	closep(&to.far);
	to.far = -1;
	assert_int_equal(conduit_fill(&c, from.near, UINT64_MAX), 10);
	assert_int_equal(conduit_drain(&c, to.near), -1);
	assert_int_equal(errno, EPIPE);
	conduit_close(&c); /* with what is in it */
	assert_false(conduit_is_open(&c));
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), 0);
	assert_int_equal(conduit_fill(&c, from.near, UINT64_MAX), 0);
	line_close(&from);
	line_close(&to);
	conduit_close(&c);
}

static void descriptors_that_cannot_be_spliced_are_refused(void **state)
{
	struct conduit c = CONDUIT_INIT;
	AUTO_FD dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), 0);
	assert_int_equal(conduit_fill(&c, dir, 1), -1);
	assert_int_equal(errno, EINVAL);
	conduit_close(&c);
}

static void there_is_none_where_sigpipe_would_kill(void **state)
{
	struct conduit c = CONDUIT_INIT;

	(void)state;
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
	assert_int_equal(conduit_open(&c, CONDUIT_NARROW), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

/* As a user who has used up what the kernel gives to pipes. */
static int open_beyond_the_limit(void)
{
	const uid_t uid = 1000000000 + (uid_t)getpid(); /* nobody else's */
	struct conduit c = CONDUIT_INIT;
	int ends[2], n = 0;

	if (setresuid(uid, uid, uid) < 0)
		return 1;
	do {
		if (pipe2(ends, O_CLOEXEC) < 0 || ++n > 1000)
			return 2;
		(void)fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
	} while (fcntl(ends[1], F_GETPIPE_SZ) >= (int)CONDUIT_NARROW);
	return conduit_open(&c, CONDUIT_WIDE) == -1 && errno == ENOTSUP && !conduit_is_open(&c) ? 0 : 3;
}

static void there_is_none_with_less_than_pipes_usually_hold(void **state)
{
	int status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: needs root, to become somebody without privileges\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(open_beyond_the_limit());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_pass_whole_and_in_order),
		cmocka_unit_test(what_is_not_taken_stays_in_it),
		cmocka_unit_test(it_grows_for_what_is_long_alone),
		cmocka_unit_test(the_ends_of_both_sides_are_told),
		cmocka_unit_test(descriptors_that_cannot_be_spliced_are_refused),
		cmocka_unit_test(there_is_none_where_sigpipe_would_kill),
		cmocka_unit_test(there_is_none_with_less_than_pipes_usually_hold),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("conduit", tests, NULL, NULL);
}
