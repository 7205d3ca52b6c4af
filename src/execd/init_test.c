// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/own.h"
#include "execd/init.h"
#include "execd/io/drain.h"
#include "execd/launch.h"
#include "sys/signals.h"

#include "base/banned.h"

struct seen {
	struct loop *loop;
	struct init init;
	struct child child;
	int started, failed, ended, stopped;
	struct err why;
	struct process_end end;
};

static void on_started(void *arg)
{
	((struct seen *)arg)->started++;
}

static void on_failed(const struct err *why, void *arg)
{
	struct seen *s = arg;

	s->failed++;
	s->why = *why;
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct seen *s = arg;

	s->ended++;
	s->end = *end;
}

static void on_stop(int signo, void *arg)
{
	((struct seen *)arg)->stopped = signo;
}

static const struct child_ops ops = { .started = on_started, .failed = on_failed, .ended = on_ended };

static int setup(void **state)
{
	struct seen *s = calloc(1, sizeof(*s));
	struct err e = { 0 };

	assert_non_null(s);
	*state = s;
	signals_prepare();
	s->init = INIT_INIT;
	s->loop = loop_new(&e);
	assert_non_null(s->loop);
	return init_open(&s->init, s->loop, on_stop, s, &e);
}

static int teardown(void **state)
{
	struct seen *s = *state;

	init_done(&s->init);
	loop_free(s->loop);
	free(s);
	return 0;
}

static void start(struct seen *s, const char *script, struct launch *launch)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, strdup(script), NULL };
	struct spawn_spec sp = SPAWN_INIT("/bin/sh", argv);
	struct err e = { 0 };

	sp.new_session = true;
	if (launch) {
		sp.setup = launch_setup;
		sp.setup_arg = launch;
	}
	assert_int_equal(child_start(&s->child, &s->init, &sp, &ops, s, &e), 0);
	free(argv[2]);
}

static void run(struct seen *s, const int *until)
{
	struct err e = { 0 };

	for (int i = 0; i < 200 && *until == 0; i++)
		assert_int_equal(loop_turn(s->loop, 50, &e), 0);
	assert_true(*until != 0);
}

static void a_child_is_told_to_start_and_to_end(void **state)
{
	struct seen *s = *state;

	start(s, "exit 7", NULL);
	run(s, &s->ended);
	assert_true(s->started == 1 && s->failed == 0 && !s->end.by_signal && s->end.code == 7);
	assert_null(s->init.children);
	child_signal(&s->child, SIGKILL); /* nobody is hit any more */
	child_forget(&s->child);
}

static void a_child_that_cannot_be_started_says_why(void **state)
{
	struct seen *s = *state;
	char *argv[] = { (char[]){ "x" }, NULL };
	struct spawn_spec sp = SPAWN_INIT("/nonexistent", argv);
	struct err e = { 0 };

	assert_int_equal(child_start(&s->child, &s->init, &sp, &ops, s, &e), 0);
	run(s, &s->failed);
	assert_true(s->started == 0 && s->ended == 0);
	assert_int_equal(s->why.sys, ENOENT);
}

static void a_signal_reaches_the_whole_group(void **state)
{
	struct seen *s = *state;

	start(s, "sleep 100 & wait", NULL);
	run(s, &s->started);
	child_signal(&s->child, SIGTERM);
	run(s, &s->ended);
	assert_true(s->end.by_signal && s->end.code == SIGTERM);
}

static void a_forgotten_child_is_collected_without_a_word(void **state)
{
	struct seen *s = *state;
	pid_t pid;

	start(s, "exit 0", NULL);
	pid = s->child.pid;
	child_forget(&s->child);
	for (int i = 0; i < 200 && kill(pid, 0) == 0; i++)
		(void)loop_turn(s->loop, 20, &s->why);
	assert_int_equal(kill(pid, 0), -1);
	assert_true(s->started == 0 && s->ended == 0 && s->failed == 0);
}

static void signals_count_unless_they_come_from_inside(void **state)
{
	struct seen *s = *state;

	assert_int_equal(raise(SIGTERM), 0);
	run(s, &s->stopped);
	assert_int_equal(s->stopped, SIGTERM);
	s->stopped = 0;
	s->init.is_pid1 = true;
	assert_int_equal(raise(SIGTERM), 0);
	for (int i = 0; i < 3; i++)
		(void)loop_turn(s->loop, 5, &s->why);
	assert_int_equal(s->stopped, 0);
}

static void a_program_enters_the_leaf_and_its_directory(void **state)
{
	struct seen *s = *state;
	AUTO_FD procs = memfd_create("cgroup.procs", MFD_CLOEXEC);
	AUTO_FD cwd = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct leaf leaf = { .fds = { procs }, .n = 1, .oom_fd = -1 };
	struct launch launch = { .leaf = &leaf, .cwd_fd = cwd };
	char text[8] = { 0 };

	start(s, "test \"$(pwd)\" = /usr", &launch);
	run(s, &s->ended);
	assert_int_equal(s->end.code, 0);
	assert_int_equal(pread(procs, text, sizeof(text), 0), 1);
	assert_string_equal(text, "0");
}

static void a_leaf_that_cannot_be_entered_stops_the_start(void **state)
{
	struct seen *s = *state;
	AUTO_FD full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct leaf leaf = { .fds = { full }, .n = 1, .oom_fd = -1 };
	struct launch launch = { .leaf = &leaf, .cwd_fd = -1 };

	start(s, "true", &launch);
	run(s, &s->failed);
	assert_non_null(strstr(s->why.msg, "enter the cgroup"));
}

static void kills_for_lack_of_memory_are_counted(void **state)
{
	static const char text[] = "low 0\nhigh 0\nmax 3\noom 1\noom_kill 42\noom_group_kill 0\n";
	AUTO_FD fd = memfd_create("memory.events", MFD_CLOEXEC);
	struct leaf leaf = LEAF_INIT;

	(void)state;
	assert_int_equal(leaf_oom_kills(&leaf), 0);
	leaf.oom_fd = fd;
	assert_int_equal(leaf_oom_kills(&leaf), 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(leaf_oom_kills(&leaf), 42);
}

static void drains_take_what_comes_until_the_end(void **state)
{
	struct seen *s = *state;
	struct drains *ds = calloc(1, sizeof(*ds));
	struct err e = { 0 };
	int first[2], second[2], writer;

	assert_non_null(ds);
	drains_init(ds, s->loop, 1);
	assert_int_equal(pipe2(first, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pipe2(second, O_CLOEXEC | O_NONBLOCK), 0);
	drains_take(ds, &first[0]);
	assert_int_equal(first[0], -1);
	assert_int_equal(write(first[1], "x", 1), 1);
	drains_take(ds, &second[0]); /* no room for two: the older one ends */
	assert_int_equal(ds->n, 1);
	assert_int_equal(write(first[1], "x", 1), -1);
	writer = second[1];
	for (int i = 0; i < 40; i++) { /* more than a pipe holds */
		char piece[16384] = { 0 };
		ssize_t n = write(writer, piece, sizeof(piece));

		if (n < 0)
			assert_int_equal(loop_turn(s->loop, 100, &e), 0);
	}
	(void)close(writer);
	for (int i = 0; i < 100 && ds->n > 0; i++)
		assert_int_equal(loop_turn(s->loop, 100, &e), 0);
	assert_int_equal(ds->n, 0);
	drains_done(ds);
	(void)close(first[1]);
	free(ds);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_child_is_told_to_start_and_to_end),
		TEST(a_child_that_cannot_be_started_says_why),
		TEST(a_signal_reaches_the_whole_group),
		TEST(a_forgotten_child_is_collected_without_a_word),
		TEST(signals_count_unless_they_come_from_inside),
		TEST(a_program_enters_the_leaf_and_its_directory),
		TEST(a_leaf_that_cannot_be_entered_stops_the_start),
		TEST(kills_for_lack_of_memory_are_counted),
		TEST(drains_take_what_comes_until_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
