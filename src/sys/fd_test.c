// SPDX-License-Identifier: Apache-2.0
#include "sys/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

struct dir {
	char path[64];
	int fd;
};

static int make_dir(void **state)
{
	static struct dir d;

	(void)snprintf(d.path, sizeof(d.path), "/tmp/fd_test.XXXXXX");
	if (!mkdtemp(d.path))
		return -1;
	d.fd = open(d.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*state = &d;
	return d.fd < 0 ? -1 : 0;
}

static int remove_dir(void **state)
{
	struct dir *d = *state;
	struct dirent *entry;
	DIR *list = opendir(d->path);

	while (list && (entry = readdir(list)))
		(void)unlinkat(d->fd, entry->d_name, 0);
	if (list)
		(void)closedir(list);
	(void)close(d->fd);
	return rmdir(d->path);
}

static void flags_are_set_and_cleared(void **state)
{
	struct err e = { 0 };
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fd_set_nonblock(ends[0], true, &e), 0);
	assert_true(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblock(ends[0], true, &e), 0);
	assert_int_equal(fd_set_nonblock(ends[0], false, &e), 0);
	assert_false(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_cloexec(ends[0], true, &e), 0);
	assert_int_equal(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_set_cloexec(ends[0], false, &e), 0);
	assert_int_equal(fcntl(ends[0], F_GETFD), 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(fd_set_nonblock(ends[0], true, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(fd_set_cloexec(ends[0], true, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

static void bytes_go_through_a_pipe(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024 * 1024);
	static char big[50000];
	struct err e = { 0 };
	int ends[2];

	(void)state;
	memset(big, 'x', sizeof(big));
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(fd_write_all(ends[1], big, sizeof(big), &e), 0);
	assert_int_equal(fd_write_all(ends[1], big, sizeof(big), &e), -1); /* the pipe holds 64 KiB */
	assert_int_equal(e.sys, EAGAIN);
	assert_int_equal(fd_read_all(ends[0], sizeof(big) * 2, &b, &e), -1); /* its writer is still there */
	assert_int_equal(e.sys, EAGAIN);
	(void)close(ends[1]);
	assert_true(b.n >= sizeof(big));
	assert_int_equal(fd_read_all(ends[0], 16, &b, &e), 0);
	(void)close(ends[0]);
	assert_int_equal(fd_read_all(ends[0], 16, &b, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(fd_write_all(ends[1], "x", 1, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

/* A reader that starts late and a writer that is slow: both sides block, and both are interrupted. */
static int copy_interrupted(void *arg)
{
	static char big[200000];
	struct err e = { 0 };
	int ends[2];
	pid_t pid;

	(void)arg;
	if (interrupt_often() < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		AUTO(buf_done) struct buf b = BUF_INIT(2 * sizeof(big));

		(void)close(ends[1]);
		if (interrupt_often() < 0) /* timers are not inherited */
			_exit(1);
		for (int i = 0; i < 10; i++)
			(void)usleep(20000);
		_exit(fd_read_all(ends[0], 2 * sizeof(big), &b, &e) == 0 && b.n == sizeof(big) ? 0 : 2);
	}
	(void)close(ends[0]);
	if (fd_write_all(ends[1], big, sizeof(big), &e) < 0)
		return 2;
	for (int i = 0; i < 10; i++)
		(void)usleep(20000); /* the reader waits for the end */
	(void)close(ends[1]);
	while (waitpid(pid, ends, 0) < 0 && errno == EINTR)
		;
	return ends[0] == 0 ? 0 : 3;
}

static void interruptions_go_unnoticed(void **state)
{
	(void)state;
	assert_int_equal(in_child(copy_interrupted, NULL), 0);
}

static void a_file_is_read_whole_up_to_its_ceiling(void **state)
{
	const struct dir *d = *state;
	AUTO(buf_done) struct buf b = BUF_INIT(65536), eight = BUF_INIT(8);
	struct err e = { 0 };

	assert_int_equal(file_replace(d->fd, "f", STR("12345678"), 0640, &e), 0);
	assert_int_equal(fd_read_file(d->fd, "f", 8, &b, &e), 0);
	assert_string_equal(buf_z(&b), "12345678");
	assert_int_equal(fd_read_file(d->fd, "f", 7, &b, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "'f': read: more than 7 bytes");
	assert_int_equal(fd_read_file(d->fd, "f", 16, &eight, &e), 0);
	assert_int_equal(fd_read_file(d->fd, "f", 16, &eight, &e), -1); /* no room for it in the buffer again */
	assert_int_equal(e.code, ERR_LIMIT);
	buf_clear(&b);
	assert_int_equal(fd_read_file(AT_FDCWD, "/proc/self/status", 65535, &b, &e), 0); /* its size is 0 to stat() */
	assert_true(b.n > 100);
	assert_int_equal(fd_read_file(d->fd, "absent", 8, &b, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void only_regular_files_are_read(void **state)
{
	const struct dir *d = *state;
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct err e = { 0 };

	assert_int_equal(mkfifoat(d->fd, "fifo", 0600), 0);
	assert_int_equal(fd_read_file(d->fd, "fifo", 8, &b, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_string_equal(e.msg, "'fifo' is not a regular file");
	assert_int_equal(fd_read_file(AT_FDCWD, "/dev/zero", 8, &b, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(fd_read_file(d->fd, ".", 8, &b, &e), -1);
	assert_int_equal(b.n, 0);
}

static unsigned count_entries(const char *path)
{
	DIR *list = opendir(path);
	unsigned n = 0;

	while (list && readdir(list))
		n++;
	if (list)
		(void)closedir(list);
	return n - 2;
}

static void a_file_is_replaced_as_one_step(void **state)
{
	const struct dir *d = *state;
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct err e = { 0 };
	struct stat st;
	mode_t old = umask(077);

	assert_int_equal(file_replace(d->fd, "f", STR("one"), 0644, &e), 0);
	assert_int_equal(file_replace(d->fd, "f", STR("two"), 0604, &e), 0);
	(void)umask(old);
	assert_int_equal(fd_read_file(d->fd, "f", 64, &b, &e), 0);
	assert_string_equal(buf_z(&b), "two");
	assert_int_equal(fstatat(d->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
	assert_int_equal(count_entries(d->path), 1);
}

static void a_failing_replace_leaves_nothing_behind(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "/a" };
	const struct dir *d = *state;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(file_replace(d->fd, bad[i], STR("x"), 0600, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
	assert_int_equal(mkdirat(d->fd, "sub", 0700), 0);
	assert_int_equal(file_replace(d->fd, "sub", STR("x"), 0600, &e), -1); /* a directory is in its place */
	assert_int_equal(e.sys, EISDIR);
	assert_int_equal(count_entries(d->path), 1);
	assert_int_equal(unlinkat(d->fd, "sub", AT_REMOVEDIR), 0);
	assert_int_equal(file_replace(-1, "f", STR("x"), 0600, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

/* A full disk, as far as the file can tell: nothing may grow beyond a few bytes. */
static int replace_without_room(void *arg)
{
	struct rlimit few = { 4, 4 };
	struct err e = { 0 };
	const int *dirfd = arg;

	(void)signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &few) < 0)
		return 1;
	if (file_replace(*dirfd, "f", STR("more than four bytes"), 0600, &e) == 0)
		return 2;
	return e.sys == EFBIG ? 0 : 3;
}

static void no_room_keeps_the_old_content(void **state)
{
	struct dir *d = *state;
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct err e = { 0 };

	assert_int_equal(file_replace(d->fd, "f", STR("old"), 0600, &e), 0);
	assert_int_equal(in_child(replace_without_room, &d->fd), 0);
	assert_int_equal(fd_read_file(d->fd, "f", 64, &b, &e), 0);
	assert_string_equal(buf_z(&b), "old");
	assert_int_equal(count_entries(d->path), 1);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Descriptors 100 to 119 and 300, then the range from 101 on. */
static int drop_and_look(void *arg)
{
	int (*const *refuse)(void) = arg;
	struct err e = { 0 };

	for (int fd = 100; fd < 120; fd++)
		if (dup2(0, fd) < 0)
			return 1;
	if (dup2(0, 300) < 0 || (*refuse && (*refuse)() < 0))
		return 2;
	if (cloexec_from(110, &e) < 0)
		return 3;
	if (fcntl(100, F_GETFD) != 0 || fcntl(110, F_GETFD) != FD_CLOEXEC || fcntl(300, F_GETFD) != FD_CLOEXEC)
		return 4;
	if (close_from(101, &e) < 0)
		return 5;
	for (int fd = 101; fd < 400; fd++)
		if (is_open(fd))
			return 6;
	return is_open(100) && is_open(0) ? 0 : 7;
}

static int no_close_range(void)
{
	return refuse_syscall(SYS_close_range);
}

static int no_close_range_flag(void)
{
	return refuse_flag(SYS_close_range, 2, ~0U);
}

static void all_descriptors_of_a_range_are_dropped(void **state)
{
	int (*refuse)(void) = NULL;

	(void)state;
	assert_int_equal(in_child(drop_and_look, &refuse), 0);
}

static void without_close_range_they_are_listed(void **state)
{
	int (*refuse[])(void) = { no_close_range, no_close_range_flag };

	(void)state;
	assert_int_equal(in_child(drop_and_look, &refuse[0]), 0);
	assert_int_equal(in_child(drop_and_look, &refuse[1]), 0);
}

static int drop_without_list(void *arg)
{
	struct rlimit none = { 3, 3 };
	struct err e = { 0 };

	(void)arg;
	if (refuse_syscall(SYS_close_range) < 0 || dup2(0, 1) < 0 || dup2(0, 2) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &none) < 0)
		return 1;
	return close_from(2, &e) < 0 && e.sys == EMFILE ? 0 : 2;
}

static void a_range_that_cannot_be_dropped_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(in_child(drop_without_list, NULL), 0);
}

static void the_limit_is_the_soft_one(void **state)
{
	struct rlimit r;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &r), 0);
	assert_true(fd_limit() == r.rlim_cur && r.rlim_cur > 0);
}

static void an_event_is_taken_once(void **state)
{
	struct err e = { 0 };
	AUTO_FD fd = event_open(&e);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_false(event_take(fd));
	event_raise(fd);
	event_raise(fd);
	assert_true(event_take(fd));
	assert_false(event_take(fd));
}

static int open_without_room(void *arg)
{
	struct rlimit none = { 1, 1 };
	struct err e = { 0 };

	(void)arg;
	return setrlimit(RLIMIT_NOFILE, &none) == 0 && event_open(&e) < 0 && e.code == ERR_LIMIT ? 0 : 1;
}

static void an_event_needs_a_descriptor(void **state)
{
	(void)state;
	assert_int_equal(in_child(open_without_room, NULL), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_are_set_and_cleared),
		cmocka_unit_test(bytes_go_through_a_pipe),
		cmocka_unit_test(interruptions_go_unnoticed),
		cmocka_unit_test_setup_teardown(a_file_is_read_whole_up_to_its_ceiling, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(only_regular_files_are_read, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_file_is_replaced_as_one_step, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(a_failing_replace_leaves_nothing_behind, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(no_room_keeps_the_old_content, make_dir, remove_dir),
		cmocka_unit_test(all_descriptors_of_a_range_are_dropped),
		cmocka_unit_test(without_close_range_they_are_listed),
		cmocka_unit_test(a_range_that_cannot_be_dropped_is_an_error),
		cmocka_unit_test(the_limit_is_the_soft_one),
		cmocka_unit_test(an_event_is_taken_once),
		cmocka_unit_test(an_event_needs_a_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
