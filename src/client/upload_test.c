// SPDX-License-Identifier: Apache-2.0
/* What is written here is read by the parser that execd has. */
#include "client/upload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/http/multipart.h"

#include "base/banned.h"

struct source {
	const char *text;
	size_t left, piece;
	bool gives_up;
};

static long give(char *out, size_t max, void *arg)
{
	struct source *s = arg;
	size_t n = s->left < s->piece ? s->left : s->piece;

	n = MIN(n, max);
	if (s->gives_up && s->left < s->piece)
		return -1;
	memcpy(out, s->text, n);
	s->text += n;
	s->left -= n;
	return (long)n;
}

struct parts {
	struct buf seen; /* "name:content|" */
};

static int on_begin(void *arg, const struct multipart_part *part, struct err *e)
{
	(void)e;
	assert_true(part->has_filename);
	return buf_addf(&((struct parts *)arg)->seen, "%.*s:", STR_ARG(part->name)) ? 0 : -1;
}

static int on_data(void *arg, struct str data, struct err *e)
{
	(void)e;
	return buf_add_str(&((struct parts *)arg)->seen, data) ? 0 : -1;
}

static int on_end(void *arg, struct err *e)
{
	(void)e;
	return buf_add_char(&((struct parts *)arg)->seen, '|') ? 0 : -1;
}

/* The whole body, in pieces of SIZE; false: it gave up. */
static bool drain(struct upload *u, size_t size, struct buf *body)
{
	char piece[4096];
	long n;

	while ((n = upload_read(piece, size, u)) > 0)
		assert_true((size_t)n <= size && buf_add(body, piece, (size_t)n));
	return n == 0;
}

static void the_body_is_what_the_parser_reads(void **state)
{
	static const struct multipart_ops ops = { on_begin, on_data, on_end };
	const struct osb_entry entry = { .path = "/a \"b\"\n/\xc3\xa9", .owner = "nobody", .mode = 640 };
	const struct osb_entry bare = { .path = "/x" };

	(void)state;
	for (size_t size = 1; size <= 4096; size = size * 3 + 1)
		for (int known = 0; known < 2; known++) {
			struct source s = { .text = "\r\n--content\r\n", .left = 13, .piece = 5 };
			AUTO(buf_done) struct buf body = BUF_INIT(65536);
			struct parts p = { BUF_INIT(65536) };
			AUTO(multipart_free) struct multipart *m = NULL;
			AUTO(upload_done) struct upload u = { 0 };

			assert_int_equal(upload_init(&u, known ? &entry : &bare, known ? 13 : -1, give, &s, &(struct err){ 0 }), 0);
			assert_true(drain(&u, size, &body));
			if (known)
				assert_int_equal(upload_length(&u), body.n);
			else
				assert_int_equal(upload_length(&u), -1);
			m = multipart_new(str_of(u.type), &ops, &p, &(struct err){ 0 });
			assert_non_null(m);
			assert_int_equal(multipart_feed(m, buf_str(&body), &(struct err){ 0 }), 0);
			assert_int_equal(multipart_finish(m, &(struct err){ 0 }), 0);
			assert_string_equal(p.seen.p, known ? "metadata:{\"path\":\"/a \\\"b\\\"\\n/\xc3\xa9\",\"owner\":\"nobody\",\"mode\":640}|"
							      "file:\r\n--content\r\n|"
							    : "metadata:{\"path\":\"/x\"}|file:\r\n--content\r\n|");
			buf_done(&p.seen);
		}
}

static void a_source_that_ends_early_or_gives_up_is_told(void **state)
{
	const struct osb_entry entry = { .path = "/x" };

	(void)state;
	for (int gives_up = 0; gives_up < 2; gives_up++) {
		struct source s = { .text = "0123456789", .left = 10, .piece = 4, .gives_up = gives_up };
		AUTO(buf_done) struct buf body = BUF_INIT(65536);
		AUTO(upload_done) struct upload u = { 0 };

		assert_int_equal(upload_init(&u, &entry, 11, give, &s, &(struct err){ 0 }), 0);
		assert_false(drain(&u, 4096, &body));
		assert_non_null(strstr(u.problem, gives_up ? "gave up" : "ended before"));
	}
}

static void no_more_is_read_than_was_told(void **state)
{
	const struct osb_entry entry = { .path = "/x" };
	struct source s = { .text = "0123456789", .left = 10, .piece = 4 };
	AUTO(buf_done) struct buf body = BUF_INIT(65536);
	AUTO(upload_done) struct upload u = { 0 };

	(void)state;
	assert_int_equal(upload_init(&u, &entry, 6, give, &s, &(struct err){ 0 }), 0);
	assert_true(drain(&u, 4096, &body));
	assert_int_equal(s.left, 4);
	assert_int_equal(upload_length(&u), body.n);
}

static void a_path_beyond_reason_is_refused(void **state)
{
	AUTO(buf_done) struct buf path = BUF_INIT(200000);
	struct err e = { 0 };
	struct upload u;

	(void)state;
	buf_addf(&path, "/%0100000d", 1);
	assert_int_equal(upload_init(&u, &(struct osb_entry){ .path = path.p }, 0, give, NULL, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_body_is_what_the_parser_reads),
		cmocka_unit_test(a_source_that_ends_early_or_gives_up_is_told),
		cmocka_unit_test(no_more_is_read_than_was_told),
		cmocka_unit_test(a_path_beyond_reason_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
