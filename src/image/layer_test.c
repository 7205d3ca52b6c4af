// SPDX-License-Identifier: Apache-2.0
/* Tars are put together in memory and unpacked below a scratch directory, by the owner of this process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "image/layer.h"
#include "sys/fd.h"
#include "sys/tree.h"

#include "base/banned.h"

#define RECORD 512
#define MARK "is-opaque"

struct fixture {
	char path[64];
	int dir;
	struct buf tar;
	struct err e;
	struct digest digest;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	(void)snprintf(f->path, sizeof(f->path), "/tmp/layer_test.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->dir >= 0);
	f->tar = BUF_INIT((size_t)1 << 20);
	f->digest.size = SHA256_SIZE;
	(void)umask(022);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(tree_remove(AT_FDCWD, f->path, &f->e), 0);
	(void)close(f->dir);
	buf_done(&f->tar);
	free(f);
	return 0;
}

/* ---- making tars ---- */

struct head {
	const char *name, *link;
	char kind; /* '0' file, '1' hard link, '2' symlink, '3' character device, '5' directory, '6' FIFO */
	unsigned mode;
	const char *data;
	size_t size; /* when it is to be another than that of the data */
};

static void add(struct fixture *f, struct head h)
{
	char b[RECORD] = "";
	size_t n = h.data ? strlen(h.data) : 0;
	unsigned sum = 0;
	static const char zeros[RECORD];

	(void)snprintf(b, 100, "%s", h.name);
	(void)snprintf(b + 100, 8, "%07o", h.mode);
	(void)snprintf(b + 108, 8, "%07o", (unsigned)getuid());
	(void)snprintf(b + 116, 8, "%07o", (unsigned)getgid());
	(void)snprintf(b + 124, 12, "%011o", (unsigned)(h.size ? h.size : n));
	(void)snprintf(b + 136, 12, "%011o", 1000000000U);
	memset(b + 148, ' ', 8);
	b[156] = h.kind;
	(void)snprintf(b + 157, 100, "%s", h.link ? h.link : "");
	memcpy(b + 257, "ustar\00000", 8);
	for (size_t i = 0; i < RECORD; i++)
		sum += (unsigned char)b[i];
	(void)snprintf(b + 148, 8, "%06o", sum);
	assert_true(buf_add(&f->tar, b, RECORD));
	if (n > 0)
		assert_true(buf_add(&f->tar, h.data, n));
	if (n % RECORD)
		assert_true(buf_add(&f->tar, zeros, RECORD - n % RECORD));
}

static void end(struct fixture *f)
{
	static const char zeros[2 * RECORD];

	assert_true(buf_add(&f->tar, zeros, sizeof(zeros)));
}

/* Who unpacks cannot make a directory opaque: here a file in it says that somebody was asked to. */
static int note_mark(int dir, void *arg, struct err *e)
{
	int fd = openat(dir, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)arg;
	if (fd < 0)
		return err_sys(e, errno, "mark");
	(void)close(fd);
	return 0;
}

static int unpack_as(struct fixture *f, enum entry_form form, struct tar_limits limits, uint64_t entries_max)
{
	static struct layer layer;
	const struct tar_source source = { .fd = -1, .bytes = buf_str(&f->tar), .form = form, .ret_digest = &f->digest };
	int r;

	layer_init(&layer, f->dir, entries_max, note_mark, f);
	f->e = (struct err){ 0 };
	r = tar_read(&source, &limits, &layer_sink, &layer, &f->e);
	if (r == 0)
		r = layer_finish(&layer, &f->e);
	layer_done(&layer);
	buf_clear(&f->tar);
	return r;
}

static int unpack_within(struct fixture *f, struct tar_limits limits, uint64_t entries_max)
{
	return unpack_as(f, ENTRY_TAR, limits, entries_max);
}

static int unpack(struct fixture *f)
{
	return unpack_within(f, TAR_LIMITS_DEFAULT, TAR_ENTRIES_MAX);
}

static int unpack_layer(struct fixture *f)
{
	return unpack_as(f, ENTRY_LAYER, TAR_LIMITS_DEFAULT, TAR_ENTRIES_MAX);
}

static void assert_content(struct fixture *f, const char *path, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);

	assert_int_equal(fd_read_file(f->dir, path, 65536, &b, &f->e), 0);
	assert_string_equal(buf_z(&b), want);
}

static mode_t mode_of(struct fixture *f, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(f->dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode;
}

static void assert_refused(struct fixture *f, const char *why)
{
	assert_int_equal(unpack(f), -1);
	if (!strstr(f->e.msg, why))
		fail_msg("'%s' does not say '%s'", f->e.msg, why);
}

/* ---- what it makes ---- */

static void files_have_content_mode_and_time(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	add(f, (struct head){ ".", NULL, '5', 0700, NULL, 0 });
	add(f, (struct head){ "d/", NULL, '5', 0510, NULL, 0 });
	add(f, (struct head){ "d/f", NULL, '0', 04751, "hello", 0 });
	add(f, (struct head){ "d/p", NULL, '6', 0622, NULL, 0 });
	add(f, (struct head){ "a/b/c", NULL, '0', 0, "deep", 0 });
	add(f, (struct head){ "h", "d/f", '1', 0, NULL, 0 });
	end(f);
	assert_int_equal(unpack(f), 0);
	assert_content(f, "d/f", "hello");
	assert_int_equal(mode_of(f, "d/f"), S_IFREG | 04751);
	assert_int_equal(mode_of(f, "d"), S_IFDIR | 0510);
	assert_int_equal(mode_of(f, "d/p"), S_IFIFO | 0622);
	assert_int_equal(mode_of(f, "a/b"), S_IFDIR | 0755);
	assert_int_equal(fstatat(f->dir, "h", &st, 0), 0);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
}

static void the_last_of_one_name_holds(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "x", NULL, '0', 0644, "first", 0 });
	add(f, (struct head){ "x", "/etc/passwd", '2', 0777, NULL, 0 });
	add(f, (struct head){ "x", NULL, '0', 0600, "last", 0 });
	add(f, (struct head){ "y", "x", '2', 0777, NULL, 0 });
	add(f, (struct head){ "y", NULL, '5', 0711, NULL, 0 });
	end(f);
	assert_int_equal(unpack(f), 0);
	assert_content(f, "x", "last");
	assert_int_equal(mode_of(f, "y"), S_IFDIR | 0711);
}

static void symlinks_of_the_archive_stay_inside(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "t", NULL, '5', 0755, NULL, 0 });
	add(f, (struct head){ "abs", "/t", '2', 0777, NULL, 0 });
	add(f, (struct head){ "up", "../../../../t", '2', 0777, NULL, 0 });
	add(f, (struct head){ "abs/one", NULL, '0', 0644, "1", 0 });
	add(f, (struct head){ "up/two", NULL, '0', 0644, "2", 0 });
	end(f);
	assert_int_equal(unpack(f), 0);
	assert_content(f, "t/one", "1");
	assert_content(f, "t/two", "2");
}

/* The directory that an entry was put into is remembered for the next; a link that it was reached by may go meanwhile. */
static void a_replaced_link_does_not_lead_the_next_entry(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "x", ".", '2', 0777, NULL, 0 });
	add(f, (struct head){ "x/x", NULL, '5', 0755, NULL, 0 });
	add(f, (struct head){ "x/y", NULL, '0', 0644, "in x", 0 });
	end(f);
	assert_int_equal(unpack(f), 0);
	assert_content(f, "x/y", "in x");
}

static void what_breaks_a_rule_is_told_with_its_name(void **state)
{
	static const struct {
		struct head first, second;
		const char *why;
	} cases[] = {
		{ { "d", NULL, '5', 0755, NULL, 0 }, { "d", "/etc", '2', 0777, NULL, 0 }, "entry 'd': takes the place of a directory" },
		{ { "s", "/none", '2', 0777, NULL, 0 }, { "s/x", NULL, '0', 0644, "", 0 }, "entry 's/x': " },
		{ { "s", "f", '2', 0777, NULL, 0 }, { "h", "s", '1', 0, NULL, 0 }, "entry 'h': a hard link to what is no regular file" },
		{ { "s", ".", '2', 0777, NULL, 0 }, { "h", "s/f", '1', 0, NULL, 0 }, "entry 'h': a hard link" },
		{ { "c", NULL, '3', 0644, NULL, 0 }, { "x", NULL, '0', 0644, "", 0 }, "entry 'c': a whiteout of an overlay" },
		{ { "b", NULL, '0', 0644, "four", 5000 }, { "x", NULL, '0', 0644, "", 0 }, "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture *f = *state;

		add(f, (struct head){ "f", NULL, '0', 0644, "x", 0 });
		add(f, cases[i].first);
		add(f, cases[i].second);
		end(f);
		assert_refused(f, cases[i].why);
		if (i + 1 < ARRAY_LEN(cases)) {
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
		}
	}
}

static void an_archive_without_its_end_is_cut(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "f", NULL, '0', 0644, "x", 0 });
	assert_refused(f, "the archive is cut short");
	assert_refused(f, ""); /* nothing at all */
}

static void limits_hold_before_anything_is_made(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "f", NULL, '0', 0644, "12345678", 0 });
	add(f, (struct head){ "g", NULL, '0', 0644, "12345678", 0 });
	end(f);
	assert_int_equal(unpack_within(f, (struct tar_limits){ 15, 100 }, 100), -1);
	assert_int_equal(f->e.code, ERR_LIMIT);
	assert_int_equal(faccessat(f->dir, "g", F_OK, 0), -1);
	for (int i = 0; i < 3; i++)
		add(f, (struct head){ "f", NULL, '0', 0644, "", 0 });
	end(f);
	assert_int_equal(unpack_within(f, (struct tar_limits){ 15, 2 }, 100), -1);
	assert_int_equal(f->e.code, ERR_LIMIT);
}

/* One entry with a long path is many directories. */
static void directories_that_are_left_out_count(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "a/b/c/d/e", NULL, '0', 0644, "", 0 });
	end(f);
	assert_int_equal(unpack_within(f, TAR_LIMITS_DEFAULT, 4), -1);
	assert_int_equal(f->e.code, ERR_LIMIT);
	add(f, (struct head){ "a/b/c/d/e", NULL, '0', 0644, "", 0 });
	add(f, (struct head){ "a/b/c/d/f", NULL, '0', 0644, "", 0 });
	end(f);
	assert_int_equal(unpack_within(f, TAR_LIMITS_DEFAULT, 6), 0);
}

/* I2: more than 1 MiB of header for one entry. */
static void a_huge_header_is_refused(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "long", NULL, 'x', 0644, "", 2 << 20 });
	assert_int_equal(unpack(f), -1);
	assert_int_equal(f->e.code, ERR_INVALID);
}

/* ---- layers of a stack ---- */

static bool is_there(struct fixture *f, const char *path)
{
	return faccessat(f->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_whiteout(struct fixture *f, const char *path)
{
	struct stat st;

	return fstatat(f->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

static void whiteouts_are_what_an_overlay_takes_for_one(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ ".wh.gone", NULL, '0', 0644, NULL, 0 });
	add(f, (struct head){ "d/e/.wh.gone", NULL, '0', 0, "data of a whiteout means nothing", 0 });
	add(f, (struct head){ "d/e/.wh.gone", NULL, '0', 0, NULL, 0 });
	end(f);
	assert_int_equal(unpack_layer(f), 0);
	assert_true(is_whiteout(f, "gone"));
	assert_true(is_whiteout(f, "d/e/gone"));
	assert_false(is_there(f, "d/e/" MARK));
}

/* What is in the same layer is above what the whiteout is about, in whichever order the two come. */
static void a_whiteout_hides_nothing_of_its_own_layer(void **state)
{
	for (int is_first = 0; is_first < 2; is_first++) {
		struct fixture *f = *state;
		static const struct head whiteouts[] = {
			{ ".wh.file", NULL, '0', 0644, NULL, 0 }, { ".wh.dir", NULL, '0', 0644, NULL, 0 },
			{ "a/.wh.b", NULL, '0', 0644, NULL, 0 },  { ".wh.link", NULL, '0', 0644, NULL, 0 },
		};

		for (size_t i = 0; is_first && i < 4; i++)
			add(f, whiteouts[i]);
		add(f, (struct head){ "file", NULL, '0', 0644, "stays", 0 });
		add(f, (struct head){ "dir", NULL, '5', 0711, NULL, 0 });
		add(f, (struct head){ "a/b/c/d", NULL, '0', 0644, "deep", 0 });
		add(f, (struct head){ "link", "file", '2', 0777, NULL, 0 });
		for (size_t i = 0; !is_first && i < 4; i++)
			add(f, whiteouts[i]);
		end(f);
		assert_int_equal(unpack_layer(f), 0);
		assert_content(f, "file", "stays");
		assert_content(f, "a/b/c/d", "deep");
		assert_int_equal(mode_of(f, "link") & S_IFMT, S_IFLNK);
		assert_int_equal(mode_of(f, "dir"), S_IFDIR | 0711);
		assert_true(is_there(f, "dir/" MARK) && is_there(f, "a/b/" MARK) && !is_there(f, "a/b/c/" MARK));
		if (!is_first) {
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
		}
	}
}

static void opaque_directories_are_given_away_to_be_marked(void **state)
{
	struct fixture *f = *state;

	add(f, (struct head){ "d", NULL, '5', 0750, NULL, 0 });
	add(f, (struct head){ "d/kept", NULL, '0', 0644, "of this layer", 0 });
	add(f, (struct head){ "d/.wh..wh..opq", NULL, '0', 0644, NULL, 0 });
	add(f, (struct head){ "made/for/it/.wh..wh..opq", NULL, '0', 0644, NULL, 0 });
	add(f, (struct head){ ".wh.w", NULL, '0', 0644, NULL, 0 });
	add(f, (struct head){ "w/.wh..wh..opq", NULL, '0', 0644, NULL, 0 });
	end(f);
	assert_int_equal(unpack_layer(f), 0);
	assert_content(f, "d/kept", "of this layer");
	assert_true(is_there(f, "d/" MARK) && is_there(f, "made/for/it/" MARK) && is_there(f, "w/" MARK));
	assert_false(is_there(f, "made/for/" MARK));
	add(f, (struct head){ "file", NULL, '0', 0644, "x", 0 });
	add(f, (struct head){ "file/.wh..wh..opq", NULL, '0', 0644, NULL, 0 });
	end(f);
	assert_int_equal(unpack_layer(f), -1);
}

static void directories_get_their_times_last(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	add(f, (struct head){ "d", NULL, '5', 0510, NULL, 0 });
	add(f, (struct head){ "d/e", NULL, '5', 0755, NULL, 0 });
	add(f, (struct head){ "d/e/f", NULL, '0', 0644, "x", 0 });
	add(f, (struct head){ "d/.wh.g", NULL, '0', 0644, NULL, 0 });
	add(f, (struct head){ "tmp/x", NULL, '0', 0644, NULL, 0 });
	end(f);
	assert_int_equal(unpack_layer(f), 0);
	assert_int_equal(fstatat(f->dir, "d", &st, 0), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	assert_int_equal(st.st_mode, S_IFDIR | 0510);
	assert_int_equal(fstatat(f->dir, "d/e", &st, 0), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	assert_int_equal(mode_of(f, "tmp"), S_IFDIR | 01777); /* left out by the layer, and never 0755 */
}

static void assert_digest_is_of_all_that_was_read(struct fixture *f, uint32_t size)
{
	struct digest want;

	add(f, (struct head){ "/abs/f", NULL, '0', 0644, "x", 0 });
	end(f);
	assert_true(buf_add(&f->tar, "whatever follows", 16));
	want = digest_of(buf_str(&f->tar), size);
	f->digest.size = size;
	assert_int_equal(unpack_layer(f), 0);
	assert_true(digest_eq(&f->digest, &want));
	assert_content(f, "abs/f", "x");
}

static void the_digest_is_of_all_that_was_read(void **state)
{
	assert_digest_is_of_all_that_was_read(*state, SHA256_SIZE);
}

static void the_digest_is_of_the_kind_that_was_asked_for(void **state)
{
	assert_digest_is_of_all_that_was_read(*state, SHA512_SIZE);
}

/* A few bytes of gzip are as many zeros as one likes, and those behind the end mark count as well. */
static void what_follows_the_end_counts(void **state)
{
	struct fixture *f = *state;
	static const char zeros[4096];

	add(f, (struct head){ "f", NULL, '0', 0644, "x", 0 });
	end(f);
	for (int i = 0; i < 100; i++)
		assert_true(buf_add(&f->tar, zeros, sizeof(zeros)));
	assert_int_equal(unpack_as(f, ENTRY_LAYER, (struct tar_limits){ 1000, 10 }, 10), -1);
	assert_int_equal(f->e.code, ERR_LIMIT);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_have_content_mode_and_time),
		TEST(the_last_of_one_name_holds),
		TEST(symlinks_of_the_archive_stay_inside),
		TEST(a_replaced_link_does_not_lead_the_next_entry),
		TEST(what_breaks_a_rule_is_told_with_its_name),
		TEST(an_archive_without_its_end_is_cut),
		TEST(limits_hold_before_anything_is_made),
		TEST(directories_that_are_left_out_count),
		TEST(a_huge_header_is_refused),
		TEST(whiteouts_are_what_an_overlay_takes_for_one),
		TEST(a_whiteout_hides_nothing_of_its_own_layer),
		TEST(opaque_directories_are_given_away_to_be_marked),
		TEST(directories_get_their_times_last),
		TEST(the_digest_is_of_all_that_was_read),
		TEST(the_digest_is_of_the_kind_that_was_asked_for),
		TEST(what_follows_the_end_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
