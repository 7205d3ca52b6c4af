// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/copy/copy.h"
#include "cli/copy/copy_local.h"
#include "cli/test_place.h"
#include "sys/fd.h"

#include "base/banned.h"

static void put(int dir, const char *name, const char *text)
{
	AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, 0640), 0);
}

static const struct copy_entry *find(const struct copy_list *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->items[i].path, path) == 0)
			return &l->items[i];
	return NULL;
}

static void a_tree_is_listed_with_links_as_links(void **state)
{
	struct place *p = *state;
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	struct err e = { 0 };

	put(p->fd, "a.txt", "hello");
	assert_int_equal(mkdirat(p->fd, "d", 0750), 0);
	put(p->fd, "d/b", "xy");
	assert_int_equal(symlinkat("..", p->fd, "d/up"), 0);
	assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
	assert_int_equal(copy_local_list(p->fd, &l, &e), 0);
	assert_int_equal(l.n, 4);
	assert_int_equal(l.bytes, 7);
	assert_int_equal(l.n_skipped, 1);
	assert_int_equal(find(&l, "a.txt")->mode, 0640);
	assert_int_equal(find(&l, "d")->kind, COPY_DIR);
	assert_int_equal(find(&l, "d/up")->kind, COPY_LINK);
	assert_string_equal(find(&l, "d/up")->target, "..");
	assert_true(find(&l, "d") < find(&l, "d/b"));
}

static void files_land_whole_with_their_mode_or_not_at_all(void **state)
{
	struct place *p = *state;
	struct landing l = LANDING_INIT;
	struct stat st;
	struct err e = { 0 };
	DIR *dir;
	int n = 0;

	assert_int_equal(landing_open(&l, p->fd, "new", &e), 0);
	assert_int_equal(fd_write_all(l.fd, "12345", 5, &e), 0);
	assert_int_equal(fstatat(p->fd, "new", &st, 0), -1);
	assert_int_equal(landing_land(&l, 04751, &e), 0);
	assert_int_equal(fstatat(p->fd, "new", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(landing_open(&l, p->fd, "other", &e), 0);
	landing_done(&l);
	dir = fdopendir(openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	assert_int_equal(n, 3); /* ".", ".." and "new" */
}

static void no_link_below_the_top_is_written_through(void **state)
{
	struct place *p = *state;
	struct landing l = LANDING_INIT;
	struct err e = { 0 };
	struct stat st;

	assert_int_equal(mkdirat(p->fd, "in", 0700), 0);
	assert_int_equal(mkdirat(p->fd, "out", 0700), 0);
	assert_int_equal(symlinkat("../out", p->fd, "in/d"), 0);
	put(p->fd, "out/file", "precious");
	assert_int_equal(symlinkat("../out/file", p->fd, "in/f"), 0);
	{
		AUTO_FD in = openat(p->fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(landing_open(&l, in, "d/evil", &e), -1);
		assert_int_equal(copy_local_mkdir(in, "d/evil", &e), -1);
		assert_int_equal(copy_local_mkdir(in, "d", &e), -1);
		assert_int_equal(copy_local_chmod(in, "d", 0777, &e), -1);
		assert_int_equal(copy_local_link(in, "d/evil", "x", &e), -1);
		assert_int_equal(copy_local_read(in, "f", &e), -1);
		assert_int_equal(landing_open(&l, in, "../out/evil", &e), -1);
		assert_int_equal(landing_open(&l, in, "f", &e), 0); /* takes the link's place */
		assert_int_equal(landing_land(&l, 0600, &e), 0);
	}
	assert_int_equal(fstatat(p->fd, "out/file", &st, 0), 0);
	assert_int_equal(st.st_size, 8);
	assert_int_equal(fstatat(p->fd, "in/f", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(fstatat(p->fd, "out/evil", &st, AT_SYMLINK_NOFOLLOW), -1);
}

static void folders_are_made_on_the_way(void **state)
{
	struct place *p = *state;
	AUTO(buf_done) struct buf path = BUF_INIT(256);
	AUTO_FD top = -1;
	struct err e = { 0 };
	struct stat st;

	buf_addf(&path, "%s/x/y//z/", p->path);
	top = copy_local_top(buf_z(&path), &e);
	assert_true(top >= 0);
	assert_int_equal(copy_local_mkdir(top, "m", &e), 1);
	assert_int_equal(copy_local_mkdir(top, "m", &e), 0);
	assert_int_equal(copy_local_chmod(top, "m", 0555, &e), 0);
	assert_int_equal(fstatat(p->fd, "x/y/z/m", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_tree_is_listed_with_links_as_links, make_place, remove_place),
		cmocka_unit_test_setup_teardown(files_land_whole_with_their_mode_or_not_at_all, make_place, remove_place),
		cmocka_unit_test_setup_teardown(no_link_below_the_top_is_written_through, make_place, remove_place),
		cmocka_unit_test_setup_teardown(folders_are_made_on_the_way, make_place, remove_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
