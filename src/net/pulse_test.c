// SPDX-License-Identifier: Apache-2.0
#include "net/pulse.h"

#include <unistd.h>

#include "net/test_wire.h"

#include "base/banned.h"

static int beats(int fd)
{
	char bytes[64];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	return n < 0 ? 0 : (int)n;
}

static void a_loop_that_turns_is_heard(void **state)
{
	struct pulse p = PULSE_INIT;
	struct err e = { 0 };
	struct wire w;
	int fd[2];

	(void)state;
	wire_open(&w);
	assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pulse_start(&p, w.loop, &fd[1], &e), 0);
	assert_int_equal(fd[1], -1);
	assert_int_equal(beats(fd[0]), 1);
	wire_wait(&w, PULSE_MS - 1);
	assert_int_equal(beats(fd[0]), 0);
	wire_wait(&w, 1);
	wire_wait(&w, PULSE_MS);
	assert_int_equal(beats(fd[0]), 2);
	pulse_done(&p);
	wire_close(&w);
	(void)close(fd[0]);
}

static void nobody_needs_to_listen(void **state)
{
	struct pulse p = PULSE_INIT;
	struct err e = { 0 };
	struct wire w;
	int fd[2];

	(void)state;
	wire_open(&w);
	assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(fd[1], "x", 1) == 1)
		;
	assert_int_equal(pulse_start(&p, w.loop, &fd[1], &e), 0); /* a pipe that is full holds nobody up */
	wire_wait(&w, PULSE_MS);
	pulse_done(&p);
	pulse_done(&p);
	wire_close(&w);
	(void)close(fd[0]);
}

static void a_descriptor_that_is_none_is_an_error(void **state)
{
	struct pulse p = PULSE_INIT;
	struct err e = { 0 };
	struct wire w;
	int fd = -1;

	(void)state;
	wire_open(&w);
	assert_int_equal(pulse_start(&p, w.loop, &fd, &e), -1);
	pulse_done(&p);
	wire_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_loop_that_turns_is_heard),
		cmocka_unit_test(nobody_needs_to_listen),
		cmocka_unit_test(a_descriptor_that_is_none_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
