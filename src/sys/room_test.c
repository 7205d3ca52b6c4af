// SPDX-License-Identifier: Apache-2.0
#include "sys/room.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mount.h>
#include <cmocka.h>

#include "sys/root_test.h"

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

/* A file system of 256 MiB, of which FILLED are not free any more. */
static int in_tmpfs(void *arg)
{
	AUTO_FD dir = -1;
	AUTO_FD file = -1;
	struct room r;
	struct err e = { 0 };

	(void)arg;
	CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("none", "/tmp", "tmpfs", 0, "size=256m") == 0);
	dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	file = openat(dir, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_OK(room_look(dir, 0, &r, &e), &e);
	CHECK(r.reserve == ROOM_RESERVE_MIN && r.free > 255 * MIB && r.free <= 256 * MIB);
	CHECK_OK(room_check(dir, 0, 0, &e), &e);
	CHECK_OK(room_check(dir, 0, 191 * MIB, &e), &e);
	CHECK(room_check(dir, 0, 192 * MIB + 1, &e) < 0 && e.code == ERR_LIMIT && e.sys == ENOSPC);
	CHECK(room_check(dir, 0, UINT64_MAX, &e) < 0 && room_check(dir, ROOM_RESERVE_MAX, 0, &e) < 0);
	CHECK(fallocate(file, 0, 0, (off_t)(191 * MIB)) == 0);
	CHECK_OK(room_check(dir, 0, 0, &e), &e);
	CHECK(room_check(dir, 128 * MIB, 0, &e) < 0);
	CHECK(fallocate(file, 0, 0, (off_t)(193 * MIB)) == 0);
	CHECK(room_check(dir, 0, 0, &e) < 0 && e.code == ERR_LIMIT);
	return 0;
}

static void the_reserve_is_nobodys(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNS);
	assert_int_equal(in_child(in_tmpfs, NULL), 0);
}

static void what_cannot_be_looked_at_has_no_room(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(room_check(-1, 0, 0, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reserve_is_nobodys),
		cmocka_unit_test(what_cannot_be_looked_at_has_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
