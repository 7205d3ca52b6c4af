// SPDX-License-Identifier: Apache-2.0
#include "sys/memfd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/process.h"
#include "sys/root_test.h"

#include "base/banned.h"

#define PROGRAM "/bin/cat"
#define UNMAPPED 1000001

/* Every way to change the content fails, through FD itself and through a descriptor opened anew. */
static void assert_sealed(int fd)
{
	AUTO_FD again = -1;
	char path[64];
	const int fds[] = { fd, -1 };
	void *map;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC); /* which only root can do */
	for (size_t i = 0; i < 2; i++) {
		int use = i == 0 ? fds[0] : again;

		if (use < 0)
			continue;
		assert_true(write(use, "x", 1) < 0 && errno == EPERM);
		assert_true(pwrite(use, "x", 1, 0) < 0 && errno == EPERM);
		assert_true(ftruncate(use, 0) < 0 && errno == EPERM);
		assert_true(ftruncate(use, 1 << 20) < 0 && errno == EPERM);
		assert_true(fallocate(use, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1) < 0 && errno == EPERM);
		map = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, use, 0);
		assert_true(map == MAP_FAILED);
		assert_true(fcntl(use, F_ADD_SEALS, F_SEAL_WRITE) < 0);
	}
	assert_true(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC) < 0);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & 0xf, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void read_all_at(int fd, struct buf *b)
{
	struct err e = { 0 };

	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_all(fd, b->max, b, &e), 0);
}

static void a_copy_has_the_content_the_owner_and_the_mode_and_cannot_be_changed(void **state)
{
	AUTO(buf_done) struct buf want = BUF_INIT(64 << 20);
	AUTO(buf_done) struct buf have = BUF_INIT(64 << 20);
	AUTO_FD from = open(PROGRAM, O_RDONLY | O_CLOEXEC);
	AUTO_FD fd = -1;
	uid_t owner = geteuid() == 0 ? UNMAPPED : geteuid();
	struct err e = { 0 };
	struct stat st;

	(void)state;
	assert_int_equal(lseek(from, 7, SEEK_SET), 7); /* no matter */
	fd = memfd_sealed_copy(from, "copy", owner, &e);
	assert_string_equal(e.msg, "");
	assert_int_equal(fstat(fd, &st), 0);
	assert_true((st.st_mode & 07777) == 0111 && st.st_uid == owner && st.st_gid == owner);
	assert_int_equal(lseek(from, 0, SEEK_CUR), 7);
	read_all_at(from, &want);
	read_all_at(fd, &have);
	assert_true(want.n > 0 && str_eq(buf_str(&want), buf_str(&have)));
	assert_sealed(fd);
}

static int become(void *arg)
{
	char name[] = "cat", file[] = "/dev/null";
	char *argv[] = { name, file, NULL }, *envp[] = { NULL };
	struct err e = { 0 };

	(void)memfd_exec(*(int *)arg, argv, envp, &e);
	(void)dprintf(2, "%s\n", e.msg);
	return 9;
}

static void a_copy_runs_as_a_program(void **state)
{
	AUTO_FD from = open(PROGRAM, O_RDONLY | O_CLOEXEC);
	AUTO_FD fd = -1;
	AUTO_FD data = -1;
	struct err e = { 0 };
	char *none[] = { NULL };

	(void)state;
	fd = memfd_sealed_copy(from, "program", geteuid(), &e);
	assert_int_equal(in_child(become, &fd), 0);
	data = memfd_sealed_bytes("data", STR("\177ELF"), &e);
	assert_int_equal(memfd_exec(data, none, none, &e), -1);
	assert_int_equal(e.sys, EACCES);
	assert_int_equal(memfd_exec(-1, none, none, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

/* With an owner that is not its user and no right to read, the kernel makes it undumpable: its files in /proc are
 * root's (D2, C3). */
static int wait_as_user(void *arg)
{
	char name[] = "cat";
	char *argv[] = { name, NULL }, *envp[] = { NULL };
	int *fds = arg; /* the program, the read end of a pipe that stays open */
	struct err e = { 0 };

	CHECK(dup2(fds[1], 0) == 0);
	CHECK(setresgid(1000000, 1000000, 1000000) == 0 && setresuid(1000000, 1000000, 1000000) == 0);
	(void)memfd_exec(fds[0], argv, envp, &e);
	(void)dprintf(2, "%s\n", e.msg);
	return 9;
}

/* Waits until the process runs the program of that memfd. */
static bool came_to_run(pid_t pid, const char *name)
{
	char path[64], exe[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	for (int i = 0; i < 500; i++) {
		ssize_t n = readlink(path, exe, sizeof(exe) - 1);

		exe[MAX(n, 0)] = '\0';
		if (strstr(exe, name))
			return true;
		(void)usleep(10000);
	}
	return false;
}

static void its_process_is_not_dumpable(void **state)
{
	AUTO_FD from = open(PROGRAM, O_RDONLY | O_CLOEXEC);
	AUTO_FD fd = -1;
	struct err e = { 0 };
	struct stat proc = { 0 };
	char path[64];
	int ends[2], fds[2], status;
	bool ran;
	pid_t pid;

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	fd = memfd_sealed_copy(from, "hidden", UNMAPPED, &e);
	assert_true(fd >= 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fds[0] = fd;
	fds[1] = ends[0];
	pid = fork();
	if (pid == 0)
		_exit(wait_as_user(fds));
	ran = came_to_run(pid, "memfd:hidden");
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	(void)stat(path, &proc);
	(void)close(ends[0]);
	(void)close(ends[1]); /* the end of its input */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(ran);
	assert_int_equal(proc.st_uid, 0);
}

static void bytes_are_read_from_their_start_and_stay(void **state)
{
	AUTO_FD fd = -1;
	AUTO_FD empty = -1;
	struct err e = { 0 };
	struct stat st;
	char text[8] = "";

	(void)state;
	fd = memfd_sealed_bytes("token", STR("secret"), &e);
	assert_int_equal(read(fd, text, sizeof(text)), 6);
	assert_string_equal(text, "secret");
	assert_sealed(fd);
	empty = memfd_sealed_bytes("empty", (struct str){ 0 }, &e);
	assert_true(empty >= 0 && fstat(empty, &st) == 0 && st.st_size == 0);
}

static void what_is_no_file_or_too_large_is_refused(void **state)
{
	AUTO_FD dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD large = memfd_create("large", MFD_CLOEXEC);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(memfd_sealed_copy(dir, "x", 0, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(memfd_sealed_copy(-1, "x", 0, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(ftruncate(large, (off_t)MEMFD_COPY_MAX + 1), 0);
	assert_int_equal(memfd_sealed_copy(large, "x", 0, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

/* Before Linux 6.3. */
static int make_old(void *arg)
{
	struct err e = { 0 };
	int fd;

	(void)arg;
	CHECK(refuse_flag(SYS_memfd_create, 1, 0x18) == 0);
	fd = memfd_sealed_bytes("old", STR("x"), &e);
	CHECK_OK(fd, &e);
	CHECK(write(fd, "y", 1) < 0 && errno == EPERM);
	return 0;
}

static void older_kernels_get_no_flags_that_they_do_not_know(void **state)
{
	(void)state;
	assert_int_equal(in_child(make_old, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_has_the_content_the_owner_and_the_mode_and_cannot_be_changed),
		cmocka_unit_test(a_copy_runs_as_a_program),
		cmocka_unit_test(its_process_is_not_dumpable),
		cmocka_unit_test(bytes_are_read_from_their_start_and_stay),
		cmocka_unit_test(what_is_no_file_or_too_large_is_refused),
		cmocka_unit_test(older_kernels_get_no_flags_that_they_do_not_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
