// SPDX-License-Identifier: Apache-2.0
#include "net/http/header.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static void lists_are_cut_at_commas_outside_quotes(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "" },
		{ "a", "a|" },
		{ "keep-alive, Upgrade", "keep-alive|Upgrade|" },
		{ " , a ,,\tb\t,", "a|b|" },
		{ "\"a,b\", c", "\"a,b\"|c|" },
		{ "\"a\\\",b\",c", "\"a\\\",b\"|c|" },
		{ "\"a,b", "\"a,b|" },
		{ "\"a\\", "\"a\\|" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(100);
		struct str in = str_of(cases[i].in), item;

		while (header_list_next(&in, &item))
			buf_addf(&b, "%.*s|", STR_ARG(item));
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void parameters_are_read_as_clients_write_them(void **state)
{
	static const struct {
		const char *in, *want; /* value|name=text|...; NULL: refused */
	} cases[] = {
		{ "text/plain", "text/plain|" },
		{ "text/plain; charset=utf-8", "text/plain|charset=utf-8|" },
		{ " a/b ;c=\"d e\";f=g ", "a/b|c=d e|f=g|" },
		{ "form-data; name=\"a\\\"b\\\\c\"", "form-data|name=a\"b\\c|" },
		{ "form-data; name=\"C:\\dir\\file\"", "form-data|name=C:\\dir\\file|" },
		{ "form-data; name=\"a%22b\"", "form-data|name=a%22b|" },
		{ "form-data; name=\"a;b=c\"; d=e", "form-data|name=a;b=c|d=e|" },
		{ "form-data; name=metadata; filename*=utf-8''metadata",
		  "form-data|name=metadata|filename*=utf-8''metadata|" },
		{ "a; b = c ; d = \"e\" ;", "a|b=c|d=e|" },
		{ "a;;b=c", "a|b=c|" },
		{ "a; b=", "a|b=|" },
		{ "a; b=\"\"", "a|b=|" },
		{ "a; b=/w/x y.txt", "a|b=/w/x y.txt|" },
		{ "a; b=\"\xc3\xa9\"", "a|b=\xc3\xa9|" },
		{ "a; b=x\\\"", NULL },
		{ "a; b", NULL },
		{ "a; b; c=d", NULL },
		{ "a; =c", NULL },
		{ "a; b c=d", NULL },
		{ "a; b=\"c", NULL },
		{ "a; b=\"c\\\"", NULL },
		{ "a; b=\"c\"d", NULL },
		{ "a; b=c\"d\"", NULL },
		{ "a; b=\"c\r\nd\"", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(200);
		struct str params, value = header_value(str_of(cases[i].in), &params);
		struct header_param p;
		struct err e = { 0 };
		char text[200];
		int got;

		buf_addf(&b, "%.*s|", STR_ARG(value));
		while ((got = header_param_next(&params, &p, &e)) > 0) {
			struct str s = header_param_text(&p, text);

			buf_addf(&b, "%.*s=%.*s|", STR_ARG(p.name), STR_ARG(s));
		}
		if (got != (cases[i].want ? 0 : -1))
			fail_msg("'%s' gives %d", cases[i].in, got);
		if (got == 0)
			assert_string_equal(buf_z(&b), cases[i].want);
		else
			assert_int_equal(e.code, ERR_INVALID);
	}
}

static void extended_values_are_utf8_or_nothing(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "utf-8''metadata", "metadata" },
		{ "UTF-8'en'%e2%82%AC%20rates", "\xe2\x82\xac rates" },
		{ "utf-8''", "" },
		{ "iso-8859-1''%a3", NULL },
		{ "utf-8'x", NULL },
		{ "metadata", NULL },
		{ "utf-8''%a3", NULL },
		{ "utf-8''%0a", NULL },
		{ "utf-8''%00", NULL },
		{ "utf-8''%4", NULL },
		{ "utf-8''%", NULL },
		{ "utf-8''%g0", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[100];
		struct str text;
		bool ok = header_ext_value(str_of(cases[i].in), out, &text);

		assert_int_equal(ok, cases[i].want != NULL);
		if (ok)
			assert_true(str_is(text, cases[i].want));
	}
}

static void values_can_be_decoded_in_place(void **state)
{
	char quoted[] = "a\\\"b", ext[] = "utf-8''%41b";
	struct header_param p = { .value = { quoted, sizeof(quoted) - 1 }, .quoted = true };
	struct str text;

	(void)state;
	assert_true(str_is(header_param_text(&p, quoted), "a\"b"));
	assert_true(header_ext_value(str_of(ext), ext, &text));
	assert_true(str_is(text, "Ab"));
}

static void download_names_cannot_break_the_header(void **state)
{
	static const struct {
		struct str name;
		const char *want;
	} cases[] = {
		{ { "a.txt", 5 }, "attachment; filename=\"a.txt\"" },
		{ { "100% x;y", 8 }, "attachment; filename=\"100% x;y\"" },
		{ { "\xc3\xa9.txt", 6 }, "attachment; filename=\"%C3%A9.txt\"; filename*=UTF-8''%C3%A9.txt" },
		{ { "a\"b", 3 }, "attachment; filename=\"a%22b\"; filename*=UTF-8''a%22b" },
		{ { "a\\b/c", 5 }, "attachment; filename=\"a%5Cb%2Fc\"; filename*=UTF-8''a%5Cb%2Fc" },
		{ { "a\r\nX: y", 7 },
		  "attachment; filename=\"a%0D%0AX%3A%20y\"; filename*=UTF-8''a%0D%0AX%3A%20y" },
		{ { "\0", 1 }, "attachment; filename=\"%00\"; filename*=UTF-8''%00" },
		{ { "\xff", 1 }, "attachment; filename=\"%EF%BF%BD\"; filename*=UTF-8''%EF%BF%BD" },
		{ { "", 0 }, "attachment" },
	};
	AUTO(buf_done) struct buf tiny = BUF_INIT(12);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(200);

		assert_true(header_disposition_write(&b, cases[i].name));
		assert_string_equal(buf_z(&b), cases[i].want);
	}
	assert_false(header_disposition_write(&tiny, STR("name")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_cut_at_commas_outside_quotes),
		cmocka_unit_test(parameters_are_read_as_clients_write_them),
		cmocka_unit_test(extended_values_are_utf8_or_nothing),
		cmocka_unit_test(values_can_be_decoded_in_place),
		cmocka_unit_test(download_names_cannot_break_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
