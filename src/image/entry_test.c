// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "image/entry.h"

#include "base/banned.h"

static int check_path(const char *path, struct entry *en, struct err *e)
{
	return entry_check(&(struct entry_claim){ .path = path, .kind = ENTRY_DIR }, ENTRY_TAR, en, e);
}

static void paths_are_plain_afterwards_or_refused(void **state)
{
	static const struct {
		const char *in, *out, *why;
	} cases[] = {
		{ "a", "a", NULL },
		{ "./a//b/./c/", "a/b/c", NULL },
		{ "./", "", NULL },
		{ ".", "", NULL },
		{ "a/...", "a/...", NULL },
		{ "a\\..\\b", "a\\..\\b", NULL },
		{ "a/.who", "a/.who", NULL },
		{ "", NULL, "entry '': path is empty" },
		{ "/", NULL, "entry '/': an absolute name" },
		{ "/etc/passwd", NULL, "entry '/etc/passwd': an absolute name" },
		{ "..", NULL, "entry '..': a name with '..'" },
		{ "a/../b", NULL, "entry 'a/../b': a name with '..'" },
		{ "a/..", NULL, "entry 'a/..': a name with '..'" },
		{ "a/.wh.b", NULL, "entry 'a/.wh.b': a whiteout" },
		{ ".wh..wh..opq", NULL, "entry '.wh..wh..opq': a whiteout" },
		{ ".wh.d/x", NULL, "entry '.wh.d/x': a whiteout" },
		{ "a\n\x1b[31m/..", NULL, "entry 'a\\n\\u001b[31m/..': a name with '..'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct entry en;
		int k = check_path(cases[i].in, &en, &e);

		assert_int_equal(k, cases[i].out ? 1 : -1);
		if (cases[i].out)
			assert_string_equal(en.path, cases[i].out);
		else
			assert_string_equal(e.msg, cases[i].why);
	}
}

static void depth_and_length_have_ceilings(void **state)
{
	char path[5000] = "";
	struct err e = { 0 };
	struct entry en;

	(void)state;
	for (size_t i = 0; i < ENTRY_DEPTH_MAX; i++)
		memcpy(path + 2 * i, "d/", 3);
	assert_int_equal(check_path(path, &en, &e), 1);
	memcpy(path + (size_t)2 * ENTRY_DEPTH_MAX, "d", 2);
	assert_int_equal(check_path(path, &en, &e), -1);
	memset(path, 'c', sizeof(path) - 1);
	for (size_t i = 200; i < sizeof(path); i += 200)
		path[i] = '/';
	path[PATH_BYTES_MAX] = '\0';
	assert_int_equal(check_path(path, &en, &e), 1);
	assert_int_equal(strlen(en.path), PATH_BYTES_MAX);
	path[PATH_BYTES_MAX] = 'c';
	path[PATH_BYTES_MAX + 1] = '\0';
	assert_int_equal(check_path(path, &en, &e), -1);
	path[256] = '\0';
	path[200] = 'c';
	assert_int_equal(check_path(path, &en, &e), -1);
}

static void kinds_have_their_rules(void **state)
{
	static const struct {
		struct entry_claim claim;
		int want;
	} cases[] = {
		{ { .path = "f", .kind = ENTRY_FILE, .size = 5 }, 1 },
		{ { .path = "f", .kind = ENTRY_FILE, .size = -5 }, -1 },
		{ { .path = ".", .kind = ENTRY_FILE }, -1 },
		{ { .path = ".", .kind = ENTRY_SYMLINK, .target = "/" }, -1 },
		{ { .path = ".", .kind = ENTRY_HARDLINK, .target = "x" }, -1 },
		{ { .path = NULL, .kind = ENTRY_FILE }, -1 },
		{ { .path = "s", .kind = ENTRY_SYMLINK, .target = "../../etc" }, 1 },
		{ { .path = "s", .kind = ENTRY_SYMLINK, .target = "" }, -1 },
		{ { .path = "s", .kind = ENTRY_SYMLINK }, -1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK, .target = "./a/b" }, 1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK, .target = "./h" }, -1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK, .target = "." }, -1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK, .target = "/h" }, -1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK, .target = "../h" }, -1 },
		{ { .path = "h", .kind = ENTRY_HARDLINK }, -1 },
		{ { .path = "p", .kind = ENTRY_FIFO }, 1 },
		{ { .path = "c", .kind = ENTRY_DEVICE, .major = 1, .minor = 3 }, 0 },
		{ { .path = "c", .kind = ENTRY_DEVICE, .major = 1 }, 0 },
		{ { .path = "c", .kind = ENTRY_DEVICE }, -1 },
		{ { .path = "u", .kind = ENTRY_UNKNOWN }, -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct entry en;

		assert_int_equal(entry_check(&cases[i].claim, ENTRY_TAR, &en, &e), cases[i].want);
	}
}

static void ids_modes_and_times_are_brought_into_range(void **state)
{
	static const struct {
		int64_t in;
		uint32_t out;
	} ids[] = { { 0, 0 }, { 65535, 65535 }, { 65536, 65534 }, { -1, 65534 }, { INT64_MAX, 65534 }, { INT64_MIN, 65534 } };
	struct err e = { 0 };
	struct entry en;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		const struct entry_claim c = { .path = "d", .kind = ENTRY_DIR, .uid = ids[i].in, .gid = ids[i].in, .mode = 0177777,
					       .mtime_ns = 1000000000 };

		assert_int_equal(entry_check(&c, ENTRY_TAR, &en, &e), 1);
		assert_int_equal(en.uid, ids[i].out);
		assert_int_equal(en.gid, ids[i].out);
		assert_int_equal(en.mode, 07777);
		assert_int_equal(en.mtime_ns, 0);
	}
}

static void whiteouts_of_a_layer_name_what_they_hide(void **state)
{
	static const struct {
		const char *in;
		enum entry_kind claimed;
		const char *out; /* or why not, with: */
		int want;
		enum entry_kind kind;
	} cases[] = {
		{ ".wh.a", ENTRY_FILE, "a", 1, ENTRY_WHITEOUT },
		{ "./d/.wh.a", ENTRY_FILE, "d/a", 1, ENTRY_WHITEOUT },
		{ "/d//.wh..hidden", ENTRY_FILE, "d/.hidden", 1, ENTRY_WHITEOUT },
		{ "d/.wh.a", ENTRY_HARDLINK, "d/a", 1, ENTRY_WHITEOUT },
		{ "d/.wh...", ENTRY_FILE, "a whiteout of no name", -1, 0 },
		{ "d/.wh..", ENTRY_FILE, "a whiteout of no name", -1, 0 },
		{ "d/.wh.", ENTRY_FILE, "a whiteout of no name", -1, 0 },
		{ "d/.wh..wh.plnk", ENTRY_FILE, "a whiteout of no name", -1, 0 },
		{ "d/.wh..wh.aufs", ENTRY_FILE, "a whiteout of no name", -1, 0 },
		{ "d/.wh.a/b", ENTRY_FILE, "a whiteout", -1, 0 },
		{ "d/.wh.a", ENTRY_DIR, "a whiteout that is no file", -1, 0 },
		{ "d/.wh.a", ENTRY_SYMLINK, "a whiteout that is no file", -1, 0 },
		{ "d/.wh.a", ENTRY_DEVICE, "a whiteout that is no file", -1, 0 },
		{ "d/e/.wh..wh..opq", ENTRY_FILE, "d/e", 1, ENTRY_OPAQUE },
		{ ".wh..wh..opq", ENTRY_FILE, "a root that hides what is below it", -1, 0 },
		{ "/etc/passwd", ENTRY_FILE, "etc/passwd", 1, ENTRY_FILE },
		{ "/../etc", ENTRY_FILE, "a name with '..'", -1, 0 },
		{ "a/.who", ENTRY_FILE, "a/.who", 1, ENTRY_FILE },
		{ "c", ENTRY_DEVICE, "a whiteout of an overlay", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct entry_claim c = { .path = cases[i].in, .kind = cases[i].claimed, .target = "x" };
		struct err e = { 0 };
		struct entry en;

		assert_int_equal(entry_check(&c, ENTRY_LAYER, &en, &e), cases[i].want);
		if (cases[i].want < 0) {
			assert_non_null(strstr(e.msg, cases[i].out));
			continue;
		}
		assert_string_equal(en.path, cases[i].out);
		assert_int_equal(en.kind, cases[i].kind);
	}
}

static void links_of_a_layer_lead_to_no_whiteout(void **state)
{
	struct entry_claim c = { .path = "h", .kind = ENTRY_HARDLINK, .target = "/a/b" };
	struct err e = { 0 };
	struct entry en;

	(void)state;
	assert_int_equal(entry_check(&c, ENTRY_LAYER, &en, &e), 1);
	assert_string_equal(en.target, "a/b");
	c.target = "a/.wh.b";
	assert_int_equal(entry_check(&c, ENTRY_LAYER, &en, &e), -1);
}

static void attributes_are_kept_left_out_or_refused(void **state)
{
	static const struct {
		const char *name;
		int want;
	} cases[] = {
		{ "user.mime_type", 1 },  { "user.overlayx", 1 },       { "user.overlay.opaque", -1 }, { "trusted.overlay.opaque", -1 },
		{ "trusted.x", -1 },      { "security.capability", 0 }, { "system.posix_acl_access", 0 }, { "", 0 }, { "user", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(entry_check_attr(cases[i].name, &(struct err){ 0 }), cases[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_plain_afterwards_or_refused), cmocka_unit_test(depth_and_length_have_ceilings),
		cmocka_unit_test(kinds_have_their_rules),                cmocka_unit_test(ids_modes_and_times_are_brought_into_range),
		cmocka_unit_test(attributes_are_kept_left_out_or_refused), cmocka_unit_test(whiteouts_of_a_layer_name_what_they_hide),
		cmocka_unit_test(links_of_a_layer_lead_to_no_whiteout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
