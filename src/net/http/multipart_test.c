// SPDX-License-Identifier: Apache-2.0
#include "net/http/multipart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define CRLF "\r\n"

/* What the callbacks saw, as text: "[name|filename|type]" then the content, then ";". */
struct trace {
	struct buf b;
	unsigned slices;
	int refuse_at; /* the callback to fail in: 1 begin, 2 data, 3 end */
};

static int on_begin(void *arg, const struct multipart_part *part, struct err *e)
{
	struct trace *t = arg;

	if (t->refuse_at == 1)
		return err_set(e, ERR_DENIED, "begin refused");
	buf_addf(&t->b, "[%.*s|%s%.*s|%.*s]", STR_ARG(part->name), part->has_filename ? "=" : "", STR_ARG(part->filename),
		 STR_ARG(part->content_type));
	return 0;
}

static int on_data(void *arg, struct str data, struct err *e)
{
	struct trace *t = arg;

	assert_true(data.n > 0);
	if (t->refuse_at == 2)
		return err_set(e, ERR_DENIED, "data refused");
	t->slices++;
	buf_add_str(&t->b, data);
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	struct trace *t = arg;

	if (t->refuse_at == 3)
		return err_set(e, ERR_DENIED, "end refused");
	buf_add_char(&t->b, ';');
	return 0;
}

static const struct multipart_ops ops = { on_begin, on_data, on_end };

/* Feeds BODY in pieces of PIECE bytes after a first one of FIRST bytes. */
static int parse(const char *type, struct str body, size_t first, size_t piece, struct trace *t, struct err *e)
{
	AUTO(multipart_free) struct multipart *m = multipart_new(str_of(type), &ops, t, e);
	size_t n = first;

	if (!m)
		return -1;
	while (body.n > 0) {
		if (multipart_feed(m, str_first(body, n), e) < 0)
			return -1;
		body = str_skip(body, n);
		n = piece;
	}
	return multipart_finish(m, e);
}

static void parse_as(const char *type, struct str body, size_t first, size_t piece, const char *want)
{
	struct trace t = { .b = BUF_INIT(1 << 20) };
	struct err e = { 0 };

	if (parse(type, body, first, piece, &t, &e) < 0)
		fail_msg("cut at %zu, %zu: %s", first, piece, e.msg);
	assert_string_equal(buf_z(&t.b), want);
	buf_done(&t.b);
}

/* Whole, byte by byte, in sevens, and cut in two at every position. */
static void parse_all_ways(const char *type, struct str body, const char *want)
{
	parse_as(type, body, body.n, 1, want);
	parse_as(type, body, 1, 1, want);
	parse_as(type, body, 7, 7, want);
	for (size_t i = 1; i < body.n; i++)
		parse_as(type, body, i, body.n, want);
}

#define META "{\"path\":\"/w/a.txt\",\"owner\":null,\"mode\":644}"

struct dialect {
	const char *type;
	struct str body;
	const char *want;
};

static void every_client_dialect_is_read_however_it_is_cut(void **state)
{
	const struct dialect dialects[] = {
		/* Python: hex boundary, full path as file name, raw UTF-8. */
		{ "multipart/form-data; boundary=1f0c9a7e5b3d",
		  STR("--1f0c9a7e5b3d" CRLF "Content-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"" CRLF
		      "Content-Type: application/json" CRLF CRLF META CRLF "--1f0c9a7e5b3d" CRLF
		      "Content-Disposition: form-data; name=\"file\"; filename=\"/w/\xc3\xa9.txt\"" CRLF
		      "Content-Type: text/plain; charset=utf-8" CRLF CRLF "hello" CRLF "--1f0c9a7e5b3d--" CRLF),
		  "[metadata|=metadata|application/json]" META ";[file|=/w/\xc3\xa9.txt|text/plain; charset=utf-8]hello;" },
		/* JS: quotes as %22, no file name for the metadata. */
		{ "multipart/form-data; boundary=----formdata-undici-012345678901",
		  STR("------formdata-undici-012345678901" CRLF "Content-Disposition: form-data; name=\"metadata\"" CRLF CRLF
		      "{}" CRLF "------formdata-undici-012345678901" CRLF
		      "Content-Disposition: form-data; name=\"file\"; filename=\"a%22b.txt\"" CRLF
		      "Content-Type: application/octet-stream" CRLF CRLF "x\r\ny\r\n" CRLF
		      "------formdata-undici-012345678901--" CRLF),
		  "[metadata||]{};[file|=a%22b.txt|application/octet-stream]x\r\ny\r\n;" },
		/* Kotlin: UUID boundary, part lengths (which are ignored). */
		{ "multipart/form-data; boundary=9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
		  STR("--9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d" CRLF
		      "Content-Disposition: form-data; name=\"file\"; filename=\"/w/a\"" CRLF
		      "Content-Type: application/octet-stream" CRLF "Content-Length: 99" CRLF
		      "Content-Transfer-Encoding: binary" CRLF CRLF "data" CRLF
		      "--9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d--" CRLF),
		  "[file|=/w/a|application/octet-stream]data;" },
		/* C#: quoted boundary, unquoted parameters, filename*, type first, no type for bytes. */
		{ "multipart/form-data; boundary=\"0e1d-4c2b\"",
		  STR("--0e1d-4c2b" CRLF "Content-Type: application/json" CRLF
		      "Content-Disposition: form-data; name=metadata; filename=metadata; filename*=utf-8''metadata" CRLF CRLF
		      "{}" CRLF "--0e1d-4c2b" CRLF
		      "Content-Disposition: form-data; name=file; filename=\"=?utf-8?B?w6k=?=\"; filename*=utf-8''%C3%A9" CRLF
		      CRLF "\r\n--0e1d\r\n-\r" CRLF "--0e1d-4c2b--" CRLF),
		  "[metadata|=metadata|application/json]{};[file|=\xc3\xa9|]\r\n--0e1d\r\n-\r;" },
		/* Go: hex boundary of 60 digits. */
		{ "multipart/form-data; boundary=012345678901234567890123456789012345678901234567890123456789",
		  STR("--012345678901234567890123456789012345678901234567890123456789" CRLF
		      "Content-Disposition: form-data; name=\"file\"; filename=\"file\"" CRLF
		      "Content-Type: application/octet-stream" CRLF CRLF CRLF
		      "--012345678901234567890123456789012345678901234567890123456789--" CRLF),
		  "[file|=file|application/octet-stream];" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(dialects); i++)
		parse_all_ways(dialects[i].type, dialects[i].body, dialects[i].want);
}

#define PART(name) "Content-Disposition: form-data; name=" name CRLF CRLF

static void the_corners_of_the_grammar_are_read_however_they_are_cut(void **state)
{
	static const char type[] = "Multipart/Form-Data; charset=utf-8; Boundary=b";
	const struct dialect corners[] = {
		{ type, STR("--b--"), "" },
		{ type, STR("preamble\r\n--c\r\n--b--epilogue\r\n--b\r\n"), "" },
		{ type, STR("no--b\r\r\n-\r\n\r\n--b\r\n" PART("x") "1" CRLF "--b--"), "[x||]1;" },
		{ type, STR("--b \t \r\n" PART("x") "1" CRLF "--b  " CRLF PART("y") "2" CRLF "--b--  " CRLF),
		  "[x||]1;[y||]2;" },
		/* Content that nearly is a delimiter, at both of its ends. */
		{ type, STR("--b\r\n" PART("x") "--c\r\n--\r\n-\r\r\n\r\n--a--b" CRLF "--b--"),
		  "[x||]--c\r\n--\r\n-\r\r\n\r\n--a--b;" },
		{ type, STR("--b\r\n" PART("x") "\r\n\r\n" CRLF "--b--"), "[x||]\r\n\r\n;" },
		{ type, STR("--b\r\n" PART("x") "\r\n\r\r\n-" CRLF "--b--"), "[x||]\r\n\r\r\n-;" },
		/* No content: with a CRLF of its own, and sharing the one of the blank line. */
		{ type, STR("--b\r\n" PART("x") CRLF "--b\r\n" PART("y") "--b--"), "[x||];[y||];" },
		{ type, STR("--b\r\ncontent-disposition:form-data;NAME=x\r\nX-Other:\r\n\r\n1\r\n--b--"),
		  "[x||]1;" },
		{ type,
		  STR("--b\r\nContent-Disposition: form-data; name=\"a\\\"b\"; filename=\"\"\r\n\r\n1\r\n--b--"),
		  "[a\"b|=|]1;" },
		{ type,
		  STR("--b\r\nContent-Disposition: form-data; name=x; filename*=latin1''%e9\r\n\r\n1\r\n--b--"),
		  "[x||]1;" },
		{ type,
		  STR("--b\r\nContent-Disposition: form-data; name=x; filename*=utf-8''a; filename=b\r\n\r\n1\r\n--b--"),
		  "[x|=a|]1;" },
		{ "multipart/form-data; boundary=\"a b'()+_,-./:=?\"",
		  STR("--a b'()+_,-./:=?\r\n" PART("x") "1\r\n--a b'()+_,-./:=?--"), "[x||]1;" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(corners); i++)
		parse_all_ways(corners[i].type, corners[i].body, corners[i].want);
}

static void malformed_bodies_are_refused_however_they_are_cut(void **state)
{
	static const char *const bodies[] = {
		"", "--", "--b", "--b-", "--b\r", "--b\r\n", "preamble", "\r\n", "x--b--", "--c--",
		"--b\r\n" PART("x"), "--b\r\n" PART("x") "1", "--b\r\n" PART("x") "1\r\n--b",
		"--b\r\n" PART("x") "1\r\n--b-",
		"--b\r\n" PART("x") "1\n--b--", "--b\n" PART("x") "1\r\n--b--", "--b\rx", "--b-x", "--bx",
		"--b -", "--b\r\r\n",
		"--b\r\n" PART("x") "1\r\n--bc\r\n--b--",
		"--b\r\n\r\n1\r\n--b--", "--b\r\nContent-Type: text/plain\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; filename=x\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: attachment; name=x\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x\n\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data;\r\n name=x\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"x\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x; name=y\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x; filename=a; filename=b\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x; filename*=utf-8''a; filename=b; filename=c\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x; filename*=utf-8''a; filename*=utf-8''b\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=x\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Type: a\r\nContent-Type: b\r\n" PART("x") "1\r\n--b--",
		"--b\r\nContent-Type: \xff\r\n" PART("x") "1\r\n--b--",
		"--b\r\nContent-Transfer-Encoding: base64\r\n" PART("x") "1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"a\rb\"\r\n\r\n1\r\n--b--",
		"--b\r\nContent-Disposition : form-data; name=x\r\n\r\n1\r\n--b--",
		"--b\r\nno colon\r\n" PART("x") "1\r\n--b--",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct str body = str_of(bodies[i]);

		for (size_t first = 1; first <= body.n + 1; first++) {
			struct trace t = { .b = BUF_INIT(4096) };
			struct err e = { 0 };

			if (parse("multipart/form-data; boundary=b", body, first, 1, &t, &e) == 0)
				fail_msg("'%s' was accepted, cut at %zu", bodies[i], first);
			assert_int_equal(e.code, ERR_INVALID);
			buf_done(&t.b);
		}
	}
}

static void the_content_type_must_name_one_usable_boundary(void **state)
{
	static const char *const types[] = {
		"", "application/json", "multipart/mixed; boundary=b", "multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"\"", "multipart/form-data; boundary=a; boundary=b",
		"multipart/form-data; x",
		"multipart/form-data; boundary=\"a \"", "multipart/form-data; boundary=\xc3\xa9",
		"multipart/form-data; boundary=01234567890123456789012345678901234567890123456789012345678901234567890",
		"multipart/form-data; boundary=\"a\tb\"",
	};
	static const char longest[] = "multipart/form-data; boundary="
				      "0123456789012345678901234567890123456789012345678901234567890123456789";
	struct err e = { 0 };
	struct multipart *m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		assert_null(multipart_new(str_of(types[i]), &ops, NULL, &e));
		assert_int_equal(e.code, ERR_INVALID);
	}
	m = multipart_new(str_of(longest), &ops, NULL, &e);
	assert_non_null(m);
	multipart_free(m);
	multipart_free(NULL);
}

static void a_boundary_far_too_long_is_refused(void **state)
{
	AUTO(buf_done) struct buf type = BUF_INIT(4096);
	struct err e = { 0 };

	(void)state;
	buf_add_str(&type, STR("multipart/form-data; boundary=\""));
	for (unsigned i = 0; i < 1000; i++)
		buf_add_str(&type, STR("\\\""));
	buf_add_str(&type, STR("\""));
	assert_null(multipart_new(buf_str(&type), &ops, NULL, &e));
}

static void a_refusing_callback_ends_the_parse(void **state)
{
	struct str body = STR("--b\r\n" PART("x") "1\r\n--b--");
	static const char *const want[] = { "", "begin refused", "data refused", "end refused" };

	(void)state;
	for (int i = 1; i <= 3; i++) {
		struct trace t = { .b = BUF_INIT(4096), .refuse_at = i };
		struct err e = { 0 };
		AUTO(multipart_free) struct multipart *m = multipart_new(STR("multipart/form-data; boundary=b"), &ops, &t, &e);

		assert_int_equal(multipart_feed(m, body, &e), -1);
		assert_int_equal(e.code, ERR_DENIED);
		assert_string_equal(e.msg, want[i]);
		assert_int_equal(multipart_feed(m, STR("x"), &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_int_equal(multipart_finish(m, &e), -1);
		buf_done(&t.b);
	}
	for (size_t cut = 1; cut < body.n; cut++) {
		struct trace t = { .b = BUF_INIT(4096), .refuse_at = 2 };
		struct err e = { 0 };

		assert_int_equal(parse("multipart/form-data; boundary=b", body, cut, 1, &t, &e), -1);
		assert_string_equal(e.msg, "data refused");
		buf_done(&t.b);
	}
}

static void nothing_goes_on_after_the_end_was_asked_for(void **state)
{
	struct err e = { 0 };
	AUTO(multipart_free) struct multipart *m = multipart_new(STR("multipart/form-data; boundary=b"), &ops, NULL, &e);

	(void)state;
	assert_int_equal(multipart_finish(m, &e), -1);
	assert_int_equal(multipart_feed(m, STR("--b--"), &e), -1);
}

static int parse_limit(struct str body, size_t piece)
{
	struct trace t = { .b = BUF_INIT(1 << 20) };
	struct err e = { 0 };
	int got = parse("multipart/form-data; boundary=b", body, piece, piece, &t, &e);

	if (got < 0)
		assert_int_equal(e.code, ERR_LIMIT);
	buf_done(&t.b);
	return got;
}

static void a_header_block_has_a_ceiling(void **state)
{
	static const struct str fixed = { PART("x"), sizeof(PART("x")) - 1 };

	(void)state;
	for (size_t over = 0; over < 2; over++) {
		AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);

		buf_add_str(&b, STR("--b\r\nX: "));
		for (size_t i = fixed.n + 5; i < MULTIPART_HEAD_MAX + over; i++)
			buf_add_char(&b, 'x');
		buf_addf(&b, "\r\n%s1\r\n--b--", fixed.p);
		assert_int_equal(parse_limit(buf_str(&b), b.n), over ? -1 : 0);
		assert_int_equal(parse_limit(buf_str(&b), 1), over ? -1 : 0);
	}
}

static void blanks_after_a_delimiter_have_a_ceiling(void **state)
{
	(void)state;
	for (size_t over = 0; over < 2; over++) {
		AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);

		buf_add_str(&b, STR("--b"));
		for (size_t i = 0; i < MULTIPART_PADDING_MAX + over; i++)
			buf_add_char(&b, ' ');
		buf_add_str(&b, STR("\r\n" PART("x") "1\r\n--b--"));
		assert_int_equal(parse_limit(buf_str(&b), 100), over ? -1 : 0);
	}
}

static void parts_have_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4 << 20);
	size_t n;

	(void)state;
	for (size_t i = 0; i < MULTIPART_PARTS_MAX; i++)
		buf_add_str(&b, STR("--b\r\n" PART("x") "\r\n"));
	n = b.n;
	buf_add_str(&b, STR("--b--"));
	assert_int_equal(parse_limit(buf_str(&b), b.n), 0);
	b.n = n;
	buf_add_str(&b, STR("--b\r\n" PART("x") "\r\n--b--"));
	assert_int_equal(parse_limit(buf_str(&b), b.n), -1);
}

static void content_comes_in_slices_as_large_as_the_input(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct trace t = { .b = BUF_INIT(1 << 20) };
	struct err e = { 0 };

	(void)state;
	buf_add_str(&b, STR("--b\r\n" PART("x")));
	for (unsigned i = 0; i < 10000; i++)
		buf_add_str(&b, STR("line\r\n--c\r"));
	buf_add_str(&b, STR("\r\n--b--"));
	assert_int_equal(parse("multipart/form-data; boundary=b", buf_str(&b), b.n, 1, &t, &e), 0);
	assert_int_equal(t.slices, 1);
	buf_done(&t.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_client_dialect_is_read_however_it_is_cut),
		cmocka_unit_test(the_corners_of_the_grammar_are_read_however_they_are_cut),
		cmocka_unit_test(malformed_bodies_are_refused_however_they_are_cut),
		cmocka_unit_test(the_content_type_must_name_one_usable_boundary),
		cmocka_unit_test(a_boundary_far_too_long_is_refused),
		cmocka_unit_test(a_refusing_callback_ends_the_parse),
		cmocka_unit_test(nothing_goes_on_after_the_end_was_asked_for),
		cmocka_unit_test(a_header_block_has_a_ceiling),
		cmocka_unit_test(blanks_after_a_delimiter_have_a_ceiling),
		cmocka_unit_test(parts_have_a_ceiling),
		cmocka_unit_test(content_comes_in_slices_as_large_as_the_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
