// SPDX-License-Identifier: Apache-2.0
/* Runs JSONTestSuite from $TESTDATA/json: y_ files must be accepted, n_ files rejected, i_ files may be either. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

struct tally {
	unsigned total[3], right[3]; /* y, n, i */
};

static bool read_file(const char *dir, const char *name, struct buf *b)
{
	char path[4096];
	size_t n = 1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (n > 0) {
		char *at = buf_reserve(b, 65536);

		n = at ? fread(at, 1, 65536, f) : 0;
		if (n > 0)
			buf_commit(b, n);
	}
	(void)fclose(f);
	return !b->failed;
}

/* What was accepted must also survive being written and read again. */
static bool survives_writing(struct arena *a, const struct json *v)
{
	AUTO(buf_done) struct buf once = BUF_INIT(1024 * 1024), twice = BUF_INIT(1024 * 1024);
	struct json_out o = json_out(&once);
	struct json *again;
	struct err e;

	json_tree(&o, v);
	again = json_parse(a, buf_str(&once), NULL, NULL, &e);
	o = json_out(&twice);
	json_tree(&o, again);
	return again && !twice.failed && str_eq(buf_str(&once), buf_str(&twice));
}

static void run_file(const char *dir, const char *name, struct tally *t)
{
	AUTO(buf_done) struct buf text = BUF_INIT(1024 * 1024);
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 * 1024 * 1024);
	size_t kind = name[0] == 'y' ? 0 : name[0] == 'n' ? 1 : 2, offset = 0;
	struct err e = { 0 };
	struct json *v;
	bool right;

	assert_true(read_file(dir, name, &text));
	v = json_parse(&a, buf_str(&text), NULL, &offset, &e);
	right = kind == 2 || (v != NULL) == (kind == 0);
	if (v)
		right = right && survives_writing(&a, v);
	else
		right = right && e.msg[0] != '\0' && offset <= text.n;
	if (!right)
		print_error("%s: %s\n", name, v ? "accepted" : e.msg);
	t->total[kind]++;
	t->right[kind] += right;
}

static void the_suite_is_answered_as_it_asks(void **state)
{
	const char *base = getenv("TESTDATA");
	struct tally t = { 0 };
	struct dirent *entry;
	char dir[2048];
	DIR *d;

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s/json", base && *base ? base : "../shared/testdata");
	d = opendir(dir);
	if (!d) {
		print_message("JSONTestSuite: no folder '%s', skipped\n", dir);
		skip();
	}
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.' && entry->d_name[1] == '_')
			run_file(dir, entry->d_name, &t);
	(void)closedir(d);
	print_message("JSONTestSuite: %u/%u accepted, %u/%u rejected, %u either way\n", t.right[0], t.total[0],
		      t.right[1], t.total[1], t.total[2]);
	assert_true(t.total[0] > 0 && t.total[1] > 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(t.right[i], t.total[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_suite_is_answered_as_it_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
