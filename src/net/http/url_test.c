// SPDX-License-Identifier: Apache-2.0
#include "net/http/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static void assert_str(struct str got, const char *want)
{
	if (!str_is(got, want))
		fail_msg("got '%.*s', want '%s'", STR_ARG(got), want);
}

static void targets_are_split_by_form(void **state)
{
	static const struct {
		const char *in;
		enum url_form form;
		const char *authority, *path, *query;
		bool has_query;
	} cases[] = {
		{ "/", URL_ORIGIN, "", "/", "", false },
		{ "/a/b%20c?x=1", URL_ORIGIN, "", "/a/b%20c", "x=1", true },
		{ "/a?", URL_ORIGIN, "", "/a", "", true },
		{ "/a?b?c=/d", URL_ORIGIN, "", "/a", "b?c=/d", true },
		{ "//host/x", URL_ORIGIN, "", "//host/x", "", false },
		{ "/\xc3\xa9", URL_ORIGIN, "", "/\xc3\xa9", "", false },
		{ "http://h:80/a?x", URL_ABSOLUTE, "h:80", "/a", "x", true },
		{ "HTTPS://[::1]:8443", URL_ABSOLUTE, "[::1]:8443", "/", "", false },
		{ "http://[::1]/", URL_ABSOLUTE, "[::1]", "/", "", false },
		{ "http://h?x=1", URL_ABSOLUTE, "h", "/", "x=1", true },
		{ "*", URL_ASTERISK, "", "", "", false },
		{ "example.org:443", URL_AUTHORITY, "example.org:443", "", "", false },
		{ "[2001:db8::1]:443", URL_AUTHORITY, "[2001:db8::1]:443", "", "", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct url_target t;
		struct err e = { 0 };

		assert_int_equal(url_target_parse(str_of(cases[i].in), &t, &e), 0);
		assert_int_equal(t.form, cases[i].form);
		assert_str(t.authority, cases[i].authority);
		assert_str(t.path, cases[i].path);
		assert_str(t.query, cases[i].query);
		assert_int_equal(t.has_query, cases[i].has_query);
	}
}

static void bad_targets_are_refused(void **state)
{
	static const char *const cases[] = {
		"", "/a#b", "/a b", "/a\tb", "/a\x7f", "/a\r\n", "a/b", "ftp://h/a", "http://", "http:///a",
		"http://:80/",
		"http://u@h/a", "http://h:/a", "http://h:0/", "http://h:65536/", "http://h:8x/", "http://h\\x/",
		"host",
		"host:", ":443", "[::1]", "**", "http:/a", "u@h:443",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct url_target t;
		struct err e = { 0 };

		if (url_target_parse(str_of(cases[i]), &t, &e) == 0)
			fail_msg("'%s' was accepted", cases[i]);
		assert_int_equal(e.code, ERR_INVALID);
	}
	assert_int_equal(url_target_parse((struct str){ "/a\0b", 4 }, &(struct url_target){ 0 }, &(struct err){ 0 }), -1);
}

static void segments_come_raw_and_a_last_slash_is_reported(void **state)
{
	static const struct {
		const char *in, *want; /* segments, each followed by '|'; then '/' for a trailing slash */
	} cases[] = {
		{ "/", "" },           { "/a", "a|" },        { "/a/", "a|/" },       { "/a/b%2fc", "a|b%2fc|" },
		{ "/a//b", "a||b|" },  { "/a//", "a||/" },    { "//", "|/" },         { "//a", "|a|" },
		{ "", "" },            { "/./..", ".|..|" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(100);
		struct url_segments it = url_segments(str_of(cases[i].in));
		struct str seg;

		while (url_segment_next(&it, &seg))
			buf_addf(&b, "%.*s|", STR_ARG(seg));
		assert_false(url_segment_next(&it, &seg));
		if (it.trailing_slash)
			buf_add_char(&b, '/');
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void the_rest_of_a_path_stays_byte_for_byte(void **state)
{
	struct url_segments it = url_segments(STR("/proxy/8080//a%2Fb/../c"));
	struct str seg;

	(void)state;
	assert_true(url_segment_next(&it, &seg));
	assert_true(url_segment_next(&it, &seg));
	assert_str(seg, "8080");
	assert_str(it.rest, "//a%2Fb/../c");
}

static void segments_are_decoded_once(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "a", "a" },           { "b%20c", "b c" },       { "a+b", "a+b" },     { "%252e", "%2e" },
		{ "%c3%A9", "\xc3\xa9" }, { "\xc3\xa9", "\xc3\xa9" }, { "...", "..." },   { "a%3Fb", "a?b" },
		{ "%41%42", "AB" },
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str raw = str_of(cases[i].in), got;
		struct err e = { 0 };

		assert_int_equal(url_segment_decode(raw, &a, &got, &e), 0);
		assert_str(got, cases[i].want);
		if (!memchr(raw.p, '%', raw.n))
			assert_ptr_equal(got.p, raw.p);
	}
}

static void deceitful_segments_are_refused(void **state)
{
	static const char *const cases[] = {
		"", ".", "..", "%2e", "%2E%2e", ".%2e", "a%00", "%00", "a%2fb", "a%2Fb", "a/b", "a\\b", "a%5cb",
		"a%5C", "%",
		"%4", "a%4", "%zz", "%4g", "a%0ab", "a%1F", "a%7f", "a\tb", "%ff", "%c3", "%c0%af", "%ed%a0%80",
		"\xff",
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(8192);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str got;
		struct err e = { 0 };

		if (url_segment_decode(str_of(cases[i]), &a, &got, &e) == 0)
			fail_msg("'%s' was accepted", cases[i]);
		assert_int_equal(e.code, ERR_INVALID);
	}
	assert_int_equal(url_segment_decode((struct str){ "a\0", 2 }, &a, &(struct str){ 0 }, &(struct err){ 0 }), -1);
}

static void a_full_arena_is_an_error(void **state)
{
	AUTO(arena_done) struct arena none = ARENA_INIT(0);
	AUTO(arena_done) struct arena small = ARENA_INIT(sizeof(struct query_pair) * 2);
	struct query q;
	struct str s;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(url_segment_decode(STR("%41"), &none, &s, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(query_parse(STR("a=b"), &none, &q, &e), -1);
	assert_int_equal(query_parse_strict(STR("a=b"), &none, &q, &e), -1);
	assert_int_equal(query_parse(STR("a=b&a=%41"), &small, &q, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
}

/* "k:v;" per pair. */
static void write_query(struct buf *b, const struct query *q)
{
	for (size_t i = 0; i < q->n; i++)
		buf_addf(b, "%.*s:%.*s;", STR_ARG(q->pairs[i].key), STR_ARG(q->pairs[i].value));
}

static void queries_are_read_pair_by_pair(void **state)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "", "" },
		{ "a=1&b=2", "a:1;b:2;" },
		{ "a", "a:;" },
		{ "a=", "a:;" },
		{ "=v", ":v;" },
		{ "&&a=1&&", "a:1;" },
		{ "a=b=c", "a:b=c;" },
		{ "a=x+y%2Bz", "a:x y+z;" },
		{ "a%3d=%26", "a=:&;" },
		{ "path=/w/%C3%A9.txt", "path:/w/\xc3\xa9.txt;" },
		{ "a=1&a=2", "a:1;a:2;" },
		{ "a=%250a", "a:%0a;" },
		{ "a=1;b=2", "a:1;b=2;" },
		{ "a=%0A", "a:\n;" },
		{ "a=%", NULL },
		{ "a=%2", NULL },
		{ "%zz=1", NULL },
		{ "a=%00", NULL },
		{ "a=%ff", NULL },
		{ "a=\xff", NULL },
		{ "ok=1&b=%c3", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(4096);
		AUTO(buf_done) struct buf b = BUF_INIT(1000);
		struct query q;
		struct err e = { 0 };
		int got = query_parse(str_of(cases[i].in), &a, &q, &e);

		assert_int_equal(got, cases[i].want ? 0 : -1);
		if (got == 0)
			write_query(&b, &q);
		else
			assert_int_equal(e.code, ERR_INVALID);
		assert_string_equal(buf_z(&b), cases[i].want ? cases[i].want : "");
	}
}

static void repeated_keys_are_found_in_order(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);
	const struct query_pair *p;
	struct query q;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(query_parse(STR("state=Running&page=2&state=Paused"), &a, &q, &e), 0);
	p = query_get(&q, "state");
	assert_non_null(p);
	assert_str(p->value, "Running");
	p = query_next(&q, "state", p);
	assert_non_null(p);
	assert_str(p->value, "Paused");
	assert_null(query_next(&q, "state", p));
	assert_null(query_get(&q, "State"));
}

static void a_query_of_too_many_pairs_is_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf b = BUF_INIT(100000);
	struct query q;
	struct err e = { 0 };

	(void)state;
	for (unsigned i = 0; i < QUERY_PAIRS_MAX; i++)
		buf_addf(&b, "%sk%u=", i > 0 ? "&" : "", i);
	assert_int_equal(query_parse(buf_str(&b), &a, &q, &e), 0);
	assert_int_equal(q.n, QUERY_PAIRS_MAX);
	assert_int_equal(query_parse_strict(buf_str(&b), &a, &q, &e), 0);
	assert_int_equal(q.n, QUERY_PAIRS_MAX);
	buf_add_str(&b, STR("&x=1"));
	assert_int_equal(query_parse(buf_str(&b), &a, &q, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(query_parse_strict(buf_str(&b), &a, &q, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void the_metadata_dialect_is_strict(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "" },
		{ "team=a", "team:a;" },
		{ "team=a&env=b+c%21", "team:a;env:b c!;" },
		{ "team=&x==", "team:;x:=;" },
		{ "a=1&b=2&a=3", "a:3;b:2;" },
		{ "=v", ":v;" },
		{ "a", NULL },
		{ "a=1&", NULL },
		{ "&a=1", NULL },
		{ "a=1&&b=2", NULL },
		{ "&", NULL },
		{ "a=1&b", NULL },
		{ "a=%zz", NULL },
		{ "a=%00", NULL },
		{ "a%=1", NULL },
		{ "a=%ff", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(4096);
		AUTO(buf_done) struct buf b = BUF_INIT(1000);
		struct query q;
		struct err e = { 0 };
		int got = query_parse_strict(str_of(cases[i].in), &a, &q, &e);

		if (got != (cases[i].want ? 0 : -1))
			fail_msg("'%s' gives %d", cases[i].in, got);
		if (got == 0)
			write_query(&b, &q);
		assert_string_equal(buf_z(&b), cases[i].want ? cases[i].want : "");
	}
}

static void metadata_encoded_once_or_twice_reads_the_same(void **state)
{
	static const struct str raw[] = { { "metadata=team%3Da%26env%3Db", 27 }, { "metadata=team%3Da%26env%3D%2562", 31 } };
	AUTO(arena_done) struct arena a = ARENA_INIT(8192);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(raw); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(1000);
		struct query outer, inner;
		struct err e = { 0 };

		assert_int_equal(query_parse(raw[i], &a, &outer, &e), 0);
		assert_int_equal(query_parse_strict(query_get(&outer, "metadata")->value, &a, &inner, &e), 0);
		write_query(&b, &inner);
		assert_string_equal(buf_z(&b), "team:a;env:b;");
	}
}

static void encoding_survives_decoding(void **state)
{
	AUTO(buf_done) struct buf segment = BUF_INIT(10000), component = BUF_INIT(10000);
	AUTO(buf_done) struct buf tiny = BUF_INIT(2);
	AUTO(arena_done) struct arena a = ARENA_INIT(8192);
	struct str text = STR("a b/c?d=e&f+g%\xc3\xa9~\n"), got;
	struct query q;
	struct err e = { 0 };

	(void)state;
	assert_true(url_encode_segment(&segment, text));
	assert_string_equal(buf_z(&segment), "a%20b%2Fc%3Fd=e&f+g%25%C3%A9~%0A");
	assert_true(url_encode_query(&component, text));
	assert_string_equal(buf_z(&component), "a%20b%2Fc%3Fd%3De%26f%2Bg%25%C3%A9~%0A");
	assert_int_equal(query_parse(buf_str(&component), &a, &q, &e), 0);
	assert_true(str_eq(q.pairs[0].key, text));
	assert_int_equal(url_segment_decode(STR("d=e&f+g%25~"), &a, &got, &e), 0);
	assert_str(got, "d=e&f+g%~");
	assert_false(url_encode_query(&tiny, text));
}

static void booleans_have_many_spellings(void **state)
{
	static const char *const yes[] = { "true", "True", "1", "yes", "ON", "t", "Y" };
	static const char *const no[] = { "false", "FALSE", "0", "no", "off", "F", "n" };
	static const char *const neither[] = { "", "2", "tru", "truee", " true", "null", "10" };
	bool v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		v = false;
		assert_true(url_parse_bool(str_of(yes[i]), &v) && v);
		v = true;
		assert_true(url_parse_bool(str_of(no[i]), &v) && !v);
		assert_false(url_parse_bool(str_of(neither[i]), &v));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_split_by_form),
		cmocka_unit_test(bad_targets_are_refused),
		cmocka_unit_test(segments_come_raw_and_a_last_slash_is_reported),
		cmocka_unit_test(the_rest_of_a_path_stays_byte_for_byte),
		cmocka_unit_test(segments_are_decoded_once),
		cmocka_unit_test(deceitful_segments_are_refused),
		cmocka_unit_test(a_full_arena_is_an_error),
		cmocka_unit_test(queries_are_read_pair_by_pair),
		cmocka_unit_test(repeated_keys_are_found_in_order),
		cmocka_unit_test(a_query_of_too_many_pairs_is_refused),
		cmocka_unit_test(the_metadata_dialect_is_strict),
		cmocka_unit_test(metadata_encoded_once_or_twice_reads_the_same),
		cmocka_unit_test(encoding_survives_decoding),
		cmocka_unit_test(booleans_have_many_spellings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
