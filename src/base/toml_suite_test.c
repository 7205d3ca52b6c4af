// SPDX-License-Identifier: Apache-2.0
/* Runs toml-test, the suite of the TOML project, from $TESTDATA/toml: every valid/ file must parse to the tagged
 * JSON beside it, every invalid/ file must be refused. */
#include "base/toml.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define LIST "files-toml-1.0.0"

static const struct json_limits limits = { .bytes = 1024 * 1024, .depth = JSON_DEPTH_MAX };

struct tally {
	unsigned total, right;
};

static const char *suite_dir(struct arena *a)
{
	const char *base = getenv("TESTDATA");

	return arena_printf(a, "%s/toml", base && *base ? base : "../shared/testdata");
}

static bool read_file(const char *dir, struct str name, struct buf *b)
{
	char path[4096];
	FILE *f;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/%.*s", dir, STR_ARG(name));
	f = fopen(path, "re");
	if (!f)
		return false;
	do {
		char *at = buf_reserve(b, 65536);

		n = at ? fread(at, 1, 65536, f) : 0;
		if (at)
			buf_commit(b, n);
	} while (n > 0);
	(void)fclose(f);
	return !b->failed;
}

/* ---- comparing values ---------------------------------------------------------------------------------- */

static bool same_float(double d, struct str want)
{
	char text[128];

	if (str_is(want, "nan") || str_is(want, "+nan") || str_is(want, "-nan"))
		return isnan(d);
	(void)snprintf(text, sizeof(text), "%.*s", STR_ARG(want));
	return strtod(text, NULL) == d;
}

/* Upper case, 'T' between date and time, no zeros at the end of a fraction, Z for a zero offset. */
static void normalise(struct buf *b, struct str s)
{
	bool in_fraction = false;
	size_t zeros = 0;

	if (str_ends(s, STR("+00:00")) || str_ends(s, STR("-00:00"))) {
		normalise(b, str_first(s, s.n - 6));
		buf_add_char(b, 'Z');
		return;
	}
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i] == ' ' || s.p[i] == 't' ? 'T' : s.p[i] == 'z' ? 'Z' : s.p[i];

		if (c == '.')
			in_fraction = true;
		else if (c < '0' || c > '9')
			in_fraction = false;
		if (in_fraction && (c == '0' || c == '.')) {
			zeros++; /* held back until a digit makes them count */
			continue;
		}
		if (in_fraction)
			buf_add(b, s.p + i - zeros, zeros);
		zeros = 0;
		buf_add_char(b, c);
	}
}

static bool same_date(struct str got, struct str want)
{
	AUTO(buf_done) struct buf a = BUF_INIT(128), b = BUF_INIT(128);

	normalise(&a, got);
	normalise(&b, want);
	return !a.failed && !b.failed && str_eq(buf_str(&a), buf_str(&b));
}

static bool same_scalar(const struct json *v, struct str type, struct str want)
{
	int64_t i;

	switch (v->type) {
	case JSON_BOOL:
		return str_is(type, "bool") && str_is(want, v->b ? "true" : "false");
	case JSON_INT:
		return str_is(type, "integer") && str_to_i64(want, INT64_MIN, INT64_MAX, &i) && i == v->i;
	case JSON_REAL:
		return str_is(type, "float") && same_float(v->d, want);
	case JSON_STRING:
		return str_is(type, "string") && str_eq(v->s, want);
	case JSON_DATETIME:
		return str_is(type, "datetime") && same_date(v->s, want);
	case JSON_DATETIME_LOCAL:
		return str_is(type, "datetime-local") && same_date(v->s, want);
	case JSON_DATE_LOCAL:
		return str_is(type, "date-local") && same_date(v->s, want);
	case JSON_TIME_LOCAL:
		return str_is(type, "time-local") && same_date(v->s, want);
	case JSON_NULL:
	case JSON_UINT:
	case JSON_ARRAY:
	case JSON_OBJECT:
	default:
		return false;
	}
}

static const struct json *member(const struct json *object, struct str key)
{
	for (const struct json *v = json_first(object); v; v = v->next)
		if (str_eq(v->key, key))
			return v;
	return NULL;
}

static bool same(const struct json *v, const struct json *want);

static bool same_kids(const struct json *v, const struct json *want)
{
	const struct json *w = want->kids.first;

	if (v->type != want->type || v->kids.n != want->kids.n)
		return false;
	for (const struct json *k = v->kids.first; k; k = k->next) {
		const struct json *other = v->type == JSON_OBJECT ? member(want, k->key) : w;

		if (!other || !same(k, other))
			return false;
		w = w->next;
	}
	return true;
}

static bool same(const struct json *v, const struct json *want)
{
	const struct json *type = want->type == JSON_OBJECT ? json_get(want, "type") : NULL;
	const struct json *value = want->type == JSON_OBJECT ? json_get(want, "value") : NULL;

	if (want->type == JSON_ARRAY)
		return same_kids(v, want);
	if (type && type->type == JSON_STRING && value && value->type == JSON_STRING)
		return same_scalar(v, type->s, value->s);
	return same_kids(v, want);
}

/* ---- the files ----------------------------------------------------------------------------------------- */

static bool check_invalid(const char *dir, struct str name)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 * 1024 * 1024);
	AUTO(buf_done) struct buf text = BUF_INIT(1024 * 1024);
	struct err e = { 0 };
	unsigned line = 0;

	if (!read_file(dir, name, &text)) {
		print_error("%.*s: cannot be read\n", STR_ARG(name));
		return false;
	}
	if (toml_parse(&a, buf_str(&text), &limits, &line, &e)) {
		print_error("%.*s: was accepted\n", STR_ARG(name));
		return false;
	}
	if (e.code != ERR_INVALID || line == 0) {
		print_error("%.*s: wrong kind of refusal: %s\n", STR_ARG(name), e.msg);
		return false;
	}
	return true;
}

static bool check_valid(const char *dir, struct str name)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 * 1024 * 1024);
	AUTO(buf_done) struct buf text = BUF_INIT(1024 * 1024), tagged = BUF_INIT(1024 * 1024);
	const char *beside = arena_printf(&a, "%.*s.json", (int)name.n - 5, name.p);
	const struct json *v, *want;
	struct err e = { 0 };

	if (!beside || !read_file(dir, name, &text) || !read_file(dir, str_of(beside), &tagged)) {
		print_error("%.*s: cannot be read\n", STR_ARG(name));
		return false;
	}
	v = toml_parse(&a, buf_str(&text), &limits, NULL, &e);
	want = v ? json_parse(&a, buf_str(&tagged), &limits, NULL, &e) : NULL;
	if (!want) {
		print_error("%.*s: %s\n", STR_ARG(name), e.msg);
		return false;
	}
	if (!same(v, want))
		print_error("%.*s: differs from %s\n", STR_ARG(name), beside);
	return same(v, want);
}

static void the_outside_suite_agrees(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	AUTO(buf_done) struct buf list = BUF_INIT(1024 * 1024);
	struct tally valid = { 0 }, invalid = { 0 };
	const char *dir = suite_dir(&a);
	struct str rest, name;

	(void)state;
	if (!read_file(dir, STR(LIST), &list)) {
		print_message("skipped: no toml-test suite in %s\n", dir);
		arena_done(&a); /* skip() jumps past the cleanups */
		buf_done(&list);
		skip();
	}
	for (rest = buf_str(&list); rest.n > 0;) {
		(void)str_cut(rest, '\n', &name, &rest);
		name = str_trim(name);
		if (!str_ends(name, STR(".toml")))
			continue;
		if (str_starts(name, STR("valid/"))) {
			valid.total++;
			valid.right += check_valid(dir, name);
		} else {
			invalid.total++;
			invalid.right += check_invalid(dir, name);
		}
	}
	print_message("toml-test: %u/%u valid, %u/%u invalid\n", valid.right, valid.total, invalid.right,
		      invalid.total);
	assert_true(valid.total > 0 && invalid.total > 0);
	assert_int_equal(valid.right, valid.total);
	assert_int_equal(invalid.right, invalid.total);
}

/* The comparison itself must be able to say no. */
static void values_are_compared_by_meaning(void **state)
{
	static const struct {
		const char *toml, *tagged;
		bool want;
	} cases[] = {
		{ "a = 1", "{\"a\": {\"type\": \"integer\", \"value\": \"1\"}}", true },
		{ "a = 1", "{\"a\": {\"type\": \"integer\", \"value\": \"2\"}}", false },
		{ "a = 1", "{\"a\": {\"type\": \"float\", \"value\": \"1\"}}", false },
		{ "a = 1", "{\"b\": {\"type\": \"integer\", \"value\": \"1\"}}", false },
		{ "a = 1", "{}", false },
		{ "a = {}", "{\"a\": {}}", true },
		{ "a = []", "{\"a\": {}}", false },
		{ "a = nan", "{\"a\": {\"type\": \"float\", \"value\": \"nan\"}}", true },
		{ "a = 1e2", "{\"a\": {\"type\": \"float\", \"value\": \"100.0\"}}", true },
		{ "a = 1.0", "{\"a\": {\"type\": \"float\", \"value\": \"nan\"}}", false },
		{ "a = 'x'", "{\"a\": {\"type\": \"string\", \"value\": \"y\"}}", false },
		{ "a = true", "{\"a\": {\"type\": \"bool\", \"value\": \"false\"}}", false },
		{ "a = 2000-01-01 00:00:00.50-00:00",
		  "{\"a\": {\"type\": \"datetime\", \"value\": \"2000-01-01T00:00:00.5Z\"}}", true },
		{ "a = 00:00:00.000", "{\"a\": {\"type\": \"time-local\", \"value\": \"00:00:00\"}}", true },
		{ "a = 00:00:00.001", "{\"a\": {\"type\": \"time-local\", \"value\": \"00:00:00.1\"}}", false },
		{ "a = 2000-01-01", "{\"a\": {\"type\": \"date-local\", \"value\": \"2000-01-02\"}}", false },
		{ "a = [1]", "{\"a\": [{\"type\": \"integer\", \"value\": \"1\"}]}", true },
		{ "a = {type = 'x', value = 'y'}",
		  "{\"a\": {\"type\": {\"type\": \"string\", \"value\": \"x\"},"
		  " \"value\": {\"type\": \"string\", \"value\": \"y\"}}}",
		  true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct err e = { 0 };
		const struct json *v = toml_parse(&a, str_of(cases[i].toml), &limits, NULL, &e);
		const struct json *want = json_parse(&a, str_of(cases[i].tagged), &limits, NULL, &e);

		assert_non_null(v);
		assert_non_null(want);
		if (same(v, want) != cases[i].want)
			fail_msg("%s against %s", cases[i].toml, cases[i].tagged);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_compared_by_meaning),
		cmocka_unit_test(the_outside_suite_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
