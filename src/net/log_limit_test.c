// SPDX-License-Identifier: Apache-2.0
#include "net/log_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

struct fixture {
	struct loop *loop;
	uint64_t now_ms;
	int out[2];
	char text[4096];
	uint64_t told;
};

static uint64_t now(void *arg)
{
	return ((struct fixture *)arg)->now_ms;
}

static int setup(void **state)
{
	static struct fixture f;
	struct err e = { 0 };

	f = (struct fixture){ .now_ms = 1000 };
	f.loop = loop_new(&e);
	if (!f.loop || pipe2(f.out, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	loop_set_clock(f.loop, now, &f);
	log_set_fd(f.out[1]);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	log_set_fd(2);
	loop_free(f->loop);
	(void)close(f->out[0]);
	(void)close(f->out[1]);
	return 0;
}

static void turn(struct fixture *f, uint64_t ms)
{
	f->now_ms += ms;
	assert_int_equal(loop_turn(f->loop, 0, &(struct err){ 0 }), 0);
}

/* What has been logged since the last call. */
static const char *logged(struct fixture *f)
{
	ssize_t n = read(f->out[0], f->text, sizeof(f->text) - 1);

	f->text[n > 0 ? n : 0] = '\0';
	return f->text;
}

static unsigned admitted(struct log_limit *l, struct fixture *f, unsigned of)
{
	unsigned n = 0;

	for (unsigned i = 0; i < of; i++)
		n += log_limit_admits(l, f->loop);
	return n;
}

static void a_flood_is_counted_and_told_once(void **state)
{
	struct fixture *f = *state;
	struct log_limit l = LOG_LIMIT(LOG_LEVEL_WARN, "attempts");

	assert_int_equal(admitted(&l, f, LOG_LIMIT_LINES + 30000), LOG_LIMIT_LINES);
	turn(f, LOG_LIMIT_MS - 1);
	assert_string_equal(logged(f), "");
	turn(f, 1);
	assert_non_null(strstr(logged(f),
			       " warn lines were left out of the log about=attempts lines=30000\n"));
	turn(f, 10 * (uint64_t)LOG_LIMIT_MS);
	assert_string_equal(logged(f), "");
	log_limit_done(&l);
}

static void time_that_is_over_makes_room_again(void **state)
{
	struct fixture *f = *state;
	struct log_limit l = LOG_LIMIT(LOG_LEVEL_INFO, "attempts");

	for (int i = 0; i < 3; i++) {
		assert_int_equal(admitted(&l, f, LOG_LIMIT_LINES), LOG_LIMIT_LINES);
		turn(f, LOG_LIMIT_MS);
	}
	assert_string_equal(logged(f), ""); /* nothing is missing */
	assert_int_equal(admitted(&l, f, 1), 1);
	turn(f, LOG_LIMIT_MS / 2);
	assert_int_equal(admitted(&l, f, LOG_LIMIT_LINES), LOG_LIMIT_LINES - 1); /* its time began with the first one */
	turn(f, LOG_LIMIT_MS / 2);
	assert_non_null(strstr(logged(f), " lines=1\n"));
	log_limit_done(&l);
}

static void kinds_leave_room_to_each_other(void **state)
{
	struct fixture *f = *state;
	struct log_limit a = LOG_LIMIT(LOG_LEVEL_INFO, "a"), b = LOG_LIMIT(LOG_LEVEL_INFO, "b");

	assert_int_equal(admitted(&a, f, 2 * LOG_LIMIT_LINES), LOG_LIMIT_LINES);
	assert_int_equal(admitted(&b, f, 1), 1);
	log_limit_done(&a);
	log_limit_done(&b);
}

static void on_told(const char *what, uint64_t left_out, void *arg)
{
	struct fixture *f = arg;

	assert_string_equal(what, "attempts");
	f->told += left_out;
}

static void the_end_does_not_swallow_the_count(void **state)
{
	struct fixture *f = *state;
	struct log_limit l = LOG_LIMIT(LOG_LEVEL_INFO, "attempts"), unused = LOG_LIMIT(LOG_LEVEL_INFO,
										       "nothing");

	l.told = on_told;
	l.arg = f;
	(void)admitted(&l, f, LOG_LIMIT_LINES + 7);
	assert_int_equal(f->told, 0);
	log_limit_done(&l);
	log_limit_done(&unused);
	assert_int_equal(f->told, 7);
	assert_non_null(strstr(logged(f), " info lines were left out of the log about=attempts lines=7\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_flood_is_counted_and_told_once),
		TEST(time_that_is_over_makes_room_again),
		TEST(kinds_leave_room_to_each_other),
		TEST(the_end_does_not_swallow_the_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
