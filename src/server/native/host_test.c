// SPDX-License-Identifier: Apache-2.0
/* What stands before any process of the native runtime does: names, folders, the user, locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "server/config/config.h"
#include "server/native/host.h"

#include "base/banned.h"

static char folder[] = "/tmp/native-test.XXXXXX";
static char state[64], run[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int setup(void **arg)
{
	(void)arg;
	(void)snprintf(folder, sizeof(folder), "/tmp/native-test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	(void)snprintf(state, sizeof(state), "%s/a/state", folder);
	(void)snprintf(run, sizeof(run), "%s/run", folder);
	return 0;
}

static int teardown(void **arg)
{
	(void)arg;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct config config_of(void)
{
	return (struct config){ .native = { .state_dir = state, .run_dir = run, .user = "nobody-has-this-name" },
				.egress = { .user = "nor-this-one" }, .images = { .user = "or-this" } };
}

static void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: needs root\n");
	skip();
}

static void mode_is(const char *path, mode_t mode, uid_t uid)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	assert_int_equal(st.st_uid, uid);
}

static int prepare(struct native_host *n, bool *taken, struct err *e)
{
	struct config c = config_of();

	*n = NATIVE_HOST_INIT;
	*e = (struct err){ 0 };
	return native_host_prepare(&c, n, taken, e);
}

static void names_have_to_fit(void **arg)
{
	struct config c = config_of();
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };
	char lengthy[128];

	(void)arg;
	assert_int_equal(native_host_names(&c, &n, &e), 0);
	assert_non_null(strstr(n.warden, "/opensandbox-warden"));
	assert_non_null(strstr(n.execd, "/execd"));
	memset(lengthy, 'x', sizeof(lengthy));
	lengthy[0] = '/';
	lengthy[sizeof(lengthy) - 1] = '\0';
	c.native.run_dir = lengthy;
	assert_int_equal(native_host_names(&c, &n, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void everything_has_its_owner_and_mode(void **arg)
{
	AUTO(native_host_done) struct native_host n = NATIVE_HOST_INIT;
	struct err e;
	bool taken;

	(void)arg;
	need_root();
	if (prepare(&n, &taken, &e) < 0)
		fail_msg("%s", e.msg);
	assert_true(n.uid >= 61184 && n.uid <= 65519 && n.gid == n.uid);
	mode_is(state, 0711, 0);
	mode_is(run, 0711, 0);
	mode_is(n.server_dir, 0700, n.uid);
	mode_is(n.socket, 0600, n.uid);
	assert_true(n.egress_uid >= 61184 && n.egress_uid <= 65519 && n.egress_uid != n.uid);
	mode_is(n.egress_dir, 0700, n.egress_uid);
	mode_is(n.egress_socket, 0600, n.uid);
	mode_is(n.egress_warden_socket, 0600, n.egress_uid);
	assert_true(n.fetch_uid >= 61184 && n.fetch_uid <= 65519 && n.fetch_uid != n.uid && n.fetch_uid != n.egress_uid);
	mode_is(n.blobs_dir, S_ISGID | 0750, n.fetch_uid);
	mode_is(n.fetch_socket, 0600, n.uid);
}

/* An earlier version gave the folder to the server: its user is not taken for the fetcher's. */
static void blobs_of_the_servers_get_another_owner(void **arg)
{
	AUTO(native_host_done) struct native_host n = NATIVE_HOST_INIT;
	struct err e;
	bool taken;

	(void)arg;
	need_root();
	assert_int_equal(prepare(&n, &taken, &e), 0);
	native_host_done(&n);
	assert_int_equal(chown(n.blobs_dir, n.uid, n.gid), 0);
	assert_int_equal(prepare(&n, &taken, &e), 0);
	assert_int_not_equal(n.fetch_uid, n.uid);
	mode_is(n.blobs_dir, S_ISGID | 0750, n.fetch_uid);
}

/* The warden knows who asks by the user: whoever has the one could otherwise stand in for the other. */
static void no_two_processes_share_a_user(void **arg)
{
	struct config c = config_of();
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };
	bool taken;

	(void)arg;
	need_root();
	c.native.user = c.egress.user = "nobody";
	assert_int_equal(native_host_prepare(&c, &n, &taken, &e), -1);
	native_host_done(&n);
	assert_int_equal(e.code, ERR_INVALID);
	assert_non_null(strstr(e.msg, "egress.user"));
	c.egress.user = "nobody-has-this-name";
	c.images.user = "nobody";
	n = NATIVE_HOST_INIT;
	assert_int_equal(native_host_prepare(&c, &n, &taken, &e), -1);
	native_host_done(&n);
	assert_non_null(strstr(e.msg, "images.user: 'nobody' is native.user, too"));
	c.native.user = "nobody-has-this-name";
	c.egress.user = "root";
	n = NATIVE_HOST_INIT;
	assert_int_equal(native_host_prepare(&c, &n, &taken, &e), -1);
	native_host_done(&n);
	assert_int_equal(e.code, ERR_INVALID);
}

/* A start after a start: the same user, and what was there is used again. */
static void the_next_start_has_the_same_user(void **arg)
{
	struct native_host first, second;
	struct err e;
	bool taken;

	(void)arg;
	need_root();
	assert_int_equal(prepare(&first, &taken, &e), 0);
	native_host_done(&first);
	assert_int_equal(chown(first.server_dir, 61999, 61999), 0);
	assert_int_equal(chmod(state, 0777), 0);
	assert_int_equal(prepare(&second, &taken, &e), 0);
	native_host_done(&second);
	assert_int_equal(second.uid, 61999);
	mode_is(state, 0711, 0);
}

/* In another process: a lock is the process's. */
static int status_of_second(const char *state_dir)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct config c = config_of();
		struct native_host n = NATIVE_HOST_INIT;
		struct err e = { 0 };
		bool taken = false;

		c.native.state_dir = state_dir;
		_exit(native_host_prepare(&c, &n, &taken, &e) == 0 ? 0 : taken ? 4 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void neither_folder_is_shared(void **arg)
{
	struct native_host n;
	struct stat before, after;
	char other[96];
	struct err e;
	bool taken;

	(void)arg;
	need_root();
	(void)snprintf(other, sizeof(other), "%s/other", folder);
	assert_int_equal(prepare(&n, &taken, &e), 0);
	assert_int_equal(stat(n.socket, &before), 0);
	assert_int_equal(status_of_second(state), 4);
	assert_int_equal(status_of_second(other), 4); /* the socket of the first would be gone */
	assert_int_equal(stat(n.socket, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	native_host_done(&n);
	assert_int_equal(status_of_second(other), 0);
}

static void what_others_own_is_refused(void **arg)
{
	struct native_host n;
	struct err e;
	bool taken;

	(void)arg;
	need_root();
	assert_int_equal(mkdir(run, 0755), 0);
	assert_int_equal(chown(run, 12345, 12345), 0);
	assert_int_equal(prepare(&n, &taken, &e), -1);
	native_host_done(&n);
	assert_int_equal(e.code, ERR_DENIED);
	assert_false(taken);
	assert_int_equal(chown(run, 0, 0), 0);
	(void)snprintf(n.server_dir, sizeof(n.server_dir), "%s/server", state);
	assert_int_equal(symlink("/etc", n.server_dir), 0); /* never followed, never given away */
	assert_int_equal(prepare(&n, &taken, &e), -1);
	native_host_done(&n);
	mode_is("/etc", 0755, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_have_to_fit), TEST(everything_has_its_owner_and_mode),
		TEST(no_two_processes_share_a_user),
		cmocka_unit_test(blobs_of_the_servers_get_another_owner), TEST(the_next_start_has_the_same_user),
		TEST(neither_folder_is_shared), TEST(what_others_own_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
