// SPDX-License-Identifier: Apache-2.0
/* A directory is packed, and read again by the reader of layers. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/own.h"
#include "image/entry.h"
#include "image/pack.h"
#include "image/tar.h"

#include "base/banned.h"

struct rig {
	char dir[64];
	int root, out;
	struct pack_spec spec;
	unsigned char digest[SHA256_SIZE];
	struct digest read_digest;
	struct buf seen; /* a line for each entry */
	struct err e;
};

static int no_opaque(int dir, void *arg, struct err *e)
{
	(void)dir, (void)arg, (void)e;
	return 0;
}

/* Those that have a file "opaque" in them. */
static int is_opaque(int dir, void *arg, struct err *e)
{
	(void)arg, (void)e;
	return faccessat(dir, "opaque", F_OK, 0) == 0;
}

static int setup(void **state)
{
	static struct rig r;

	memset(&r, 0, sizeof(r));
	(void)snprintf(r.dir, sizeof(r.dir), "/tmp/pack-test.XXXXXX");
	assert_non_null(mkdtemp(r.dir));
	r.root = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r.out = memfd_create("tar", MFD_CLOEXEC);
	r.seen = BUF_INIT(1 << 20);
	r.spec = (struct pack_spec){ .root = r.root, .out = r.out, .bytes_max = 1 << 30, .disk_max = 1 << 30, .entries_max = 1000,
				     .is_opaque = no_opaque };
	*state = &r;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct rig *r = *state;

	(void)nftw(r->dir, remove_one, 64, FTW_DEPTH | FTW_PHYS);
	(void)close(r->root);
	(void)close(r->out);
	buf_done(&r->seen);
	return 0;
}

static void file(const struct rig *r, const char *path, const char *text)
{
	AUTO_FD fd = openat(r->root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* ---- reading it ---- */

static int make(void *arg, const struct entry *en, struct err *e)
{
	static const char *const kinds[] = { [ENTRY_FILE] = "file", [ENTRY_DIR] = "dir", [ENTRY_SYMLINK] = "symlink",
					     [ENTRY_HARDLINK] = "link", [ENTRY_FIFO] = "fifo", [ENTRY_WHITEOUT] = "whiteout",
					     [ENTRY_OPAQUE] = "opaque" };
	struct rig *r = arg;

	(void)e;
	buf_addf(&r->seen, "%s %s %04o %llu %s %lld.%09ld\n", kinds[en->kind], en->path, en->mode, (unsigned long long)en->size,
		 en->target, (long long)en->mtime_s, en->mtime_ns);
	return 0;
}

static int attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	buf_addf(&r->seen, " %s=%.*s\n", name, (int)n, (const char *)value);
	return 0;
}

static int data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct rig *r = arg;

	(void)e;
	if (n < 64)
		buf_addf(&r->seen, " %llu:%.*s\n", (unsigned long long)at, (int)n, (const char *)p);
	return 0;
}

static int end(void *arg, struct err *e)
{
	(void)arg, (void)e;
	return 0;
}

static void pack_and_read(struct rig *r)
{
	static const struct tar_sink sink = { make, attr, data, end };
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;
	const struct tar_source source = { .fd = r->out, .form = ENTRY_LAYER, .ret_digest = &r->read_digest };

	r->read_digest.size = SHA256_SIZE;
	if (pack_tree(&r->spec, r->digest, &r->e) < 0)
		fail_msg("%s", r->e.msg);
	assert_int_equal(lseek(r->out, 0, SEEK_SET), 0);
	assert_int_equal(tar_prepare(&r->e), 0);
	if (tar_read(&source, &limits, &sink, r, &r->e) < 0)
		fail_msg("%s", r->e.msg);
	assert_memory_equal(r->digest, r->read_digest.bytes, SHA256_SIZE);
}

static void has(const struct rig *r, const char *line)
{
	struct buf b = r->seen;

	if (!strstr(buf_z(&b), line))
		fail_msg("there is no '%s' in\n%s", line, buf_z(&b));
}

static void times(const struct rig *r, const char *path, int64_t s, long ns)
{
	const struct timespec both[2] = { { s, ns }, { s, ns } };

	assert_int_equal(utimensat(r->root, path, both, AT_SYMLINK_NOFOLLOW), 0);
}

static void everything_that_a_layer_can_say_is_said(void **state)
{
	struct rig *r = *state;
	char deep[256];

	file(r, "file", "text");
	times(r, "file", 1000000000, 123456789);
	assert_int_equal(fchmodat(r->root, "file", 04751, 0), 0);
	assert_int_equal(linkat(r->root, "file", r->root, "twin", 0), 0);
	assert_int_equal(mkdirat(r->root, "dir", 0750), 0);
	file(r, "dir/opaque", "");
	assert_int_equal(symlinkat("anywhere/../else", r->root, "dir/symlink"), 0);
	times(r, "dir", -2, 500000000);
	assert_int_equal(mkfifoat(r->root, "fifo", 0600), 0);
	(void)snprintf(deep, sizeof(deep), "%0200d", 1);
	file(r, deep, "long");
	r->spec.is_opaque = is_opaque;
	pack_and_read(r);
	has(r, "dir dir 0750 0  -2.000000000\n");
	has(r, "opaque dir ");
	has(r, "file dir/opaque 0644 0 ");
	has(r, "symlink dir/symlink 0777 0 anywhere/../else ");
	has(r, "fifo fifo 0600 ");
	has(r, " 4751 4  1000000000.123456789\n 0:text\n");
	assert_true(strstr(buf_z(&r->seen), "link twin ") || strstr(buf_z(&r->seen), "link file "));
	has(r, deep);
	has(r, " 0:long\n");
}

static void what_is_to_be_left_out_is_as_good_as_never_made(void **state)
{
	static const char *const left_out[] = { "etc/hosts", "etc/resolv.conf", NULL };
	struct rig *r = *state;

	assert_int_equal(mkdirat(r->root, "etc", 0755), 0);
	assert_int_equal(mkdirat(r->root, "etc/resolv.conf", 0755), 0);
	file(r, "etc/resolv.conf/below", "secret");
	file(r, "etc/hosts", "secret");
	assert_int_equal(linkat(r->root, "etc/hosts", r->root, "etc/mine", 0), 0);
	file(r, "etc/hosts.allow", "other");
	file(r, "hosts", "top");
	r->spec.left_out = left_out;
	pack_and_read(r);
	has(r, "dir etc 0755 ");
	has(r, "file etc/hosts.allow ");
	has(r, "file hosts ");
	has(r, "file etc/mine 0644 6 "); /* no link to what is not there */
	assert_null(strstr(buf_z(&r->seen), " etc/hosts "));
	assert_null(strstr(buf_z(&r->seen), "etc/resolv.conf"));
}

static void attributes_of_programs_come_along(void **state)
{
	struct rig *r = *state;
	AUTO_FD fd = -1;

	file(r, "file", "x");
	fd = openat(r->root, "file", O_RDONLY | O_CLOEXEC);
	if (fsetxattr(fd, "user.name", "value", 5, 0) < 0)
		skip(); /* this file system has none */
	pack_and_read(r);
	has(r, " user.name=value\n");
}

static void holes_stay_holes(void **state)
{
	struct rig *r = *state;
	AUTO_FD fd = openat(r->root, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	assert_int_equal(ftruncate(fd, 64 << 20), 0);
	assert_int_equal(pwrite(fd, "end", 3, 64 << 20), 3);
	r->spec.disk_max = 1 << 20;
	pack_and_read(r);
	has(r, " 67108867 ");
	assert_int_equal(fstat(r->out, &st), 0);
	assert_true(st.st_size > 64 << 20);
	assert_true(st.st_blocks * 512 < 2 << 20);
}

static void refused(struct rig *r, enum err_code code, const char *why)
{
	assert_int_equal(pack_tree(&r->spec, r->digest, &r->e), -1);
	assert_int_equal(r->e.code, code);
	if (!strstr(r->e.msg, why))
		fail_msg("%s", r->e.msg);
}

static void what_is_too_much_is_refused(void **state)
{
	struct rig *r = *state;

	file(r, "a", "x");
	file(r, "b", "x");
	r->spec.entries_max = 1;
	refused(r, ERR_LIMIT, "more than 1 files");
	r->spec.entries_max = 2;
	r->spec.bytes_max = 2000;
	refused(r, ERR_LIMIT, "more than 2000 bytes");
	r->spec.bytes_max = 1 << 20;
	r->spec.disk_max = 600;
	refused(r, ERR_LIMIT, "no room");
}

static void what_a_layer_cannot_say_is_refused(void **state)
{
	struct rig *r = *state;
	char path[1400] = "d";
	size_t n = 1;

	file(r, ".wh.x", "");
	refused(r, ERR_INVALID, "name of a whiteout");
	assert_int_equal(unlinkat(r->root, ".wh.x", 0), 0);
	for (unsigned i = 0; i <= ENTRY_DEPTH_MAX; i++) {
		assert_int_equal(mkdirat(r->root, path, 0755), 0);
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/d");
	}
	refused(r, ERR_INVALID, "too deep");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(everything_that_a_layer_can_say_is_said),
		TEST(what_is_to_be_left_out_is_as_good_as_never_made),
		TEST(attributes_of_programs_come_along),
		TEST(holes_stay_holes),
		TEST(what_is_too_much_is_refused),
		TEST(what_a_layer_cannot_say_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
