// SPDX-License-Identifier: Apache-2.0
#include "mcp/transcript.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "client/opensandbox.h"

#include "base/banned.h"

static void say(struct transcript *t, enum osb_event_kind kind, const char *text)
{
	assert_true(transcript_add(t, &(struct osb_event){ .kind = kind, .timestamp_ms = 5, .text = text, .n_text = strlen(text) }));
}

static const char *written(const struct transcript *t, struct buf *b)
{
	struct json_out o;

	buf_clear(b);
	o = json_out(b);
	transcript_write(t, true, 3, &o);
	return buf_z(b);
}

static void a_run_is_told_as_it_was(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(10000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);

	(void)state;
	say(t, OSB_EVENT_INIT, "e1");
	say(t, OSB_EVENT_STDOUT, "out");
	say(t, OSB_EVENT_STDERR, "err");
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_ERROR, .timestamp_ms = 9, .name = "N", .value = "3",
							   .traceback = { (const char *const[]){ "a\nb", "c" }, 2 } }));
	assert_string_equal(written(t, &b),
			    "{\"id\":\"e1\",\"execution_count\":null,\"result\":[],\"error\":{\"name\":\"N\",\"value\":\"3\",\"timestamp\":9,"
			    "\"traceback\":[\"a\\nb\",\"c\"]},\"complete\":null,\"exit_code\":3,\"logs\":{\"stdout\":[{\"text\":\"out\","
			    "\"timestamp\":5,\"is_error\":false}],\"stderr\":[{\"text\":\"err\",\"timestamp\":5,\"is_error\":true}]}}");
}

static void what_is_behind_a_nul_is_not_lost(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(10000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);

	(void)state;
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_STDOUT, .text = "a\0b", .n_text = 3 }));
	assert_non_null(strstr(written(t, &b), "\"a\\u0000b\""));
}

static void endless_output_keeps_its_ends(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(4000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20), recent = BUF_INIT(4096);
	char line[32];

	(void)state;
	for (int i = 0; i < 100000; i++) {
		(void)snprintf(line, sizeof(line), "line %d", i);
		say(t, OSB_EVENT_STDOUT, line);
	}
	(void)written(t, &b);
	assert_true(b.n < 8000);
	assert_non_null(strstr(b.p, "\"line 0\""));
	assert_non_null(strstr(b.p, "\"line 99999\""));
	assert_null(strstr(b.p, "\"line 5000\""));
	assert_non_null(strstr(b.p, " lines, "));
	transcript_recent(t, 24, &recent);
	assert_string_equal(recent.p, "line 99998\nline 99999");
}

static void one_long_line_is_cut_by_itself(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(4000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20), line = BUF_INIT(1 << 20);

	(void)state;
	for (int i = 0; i < 100000; i++)
		(void)buf_add_char(&line, 'x');
	say(t, OSB_EVENT_STDOUT, buf_z(&line));
	(void)written(t, &b);
	assert_true(b.n < 2000);
	assert_non_null(strstr(b.p, "[... 99000 bytes left out ...]"));
}

static void pictures_are_shown_as_such(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(4000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	const struct osb_pair values[] = { { "text", "<Figure>" }, { "image/png", "aGVsbG8=" }, { "image/jpeg", "no base64!" } };
	struct transcript_image image;

	(void)state;
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT, .timestamp_ms = 1, .results = { values, 3 } }));
	assert_true(transcript_image(t, 0, &image));
	assert_string_equal(image.type, "image/png");
	assert_string_equal(image.base64, "aGVsbG8=");
	assert_false(transcript_image(t, 1, &image));
	assert_non_null(strstr(written(t, &b), "{\"text\":\"<Figure>\",\"timestamp\":1,\"extra_properties\":{\"image/png\":\"(shown as an image)\","
					       "\"image/jpeg\":\"no base64!\"}}"));
}

static void pictures_are_no_more_than_an_answer_can_carry(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(4000);
	AUTO(buf_done) struct buf picture = BUF_INIT(TRANSCRIPT_IMAGE_MAX);
	struct transcript_image image;
	size_t n = 0;

	(void)state;
	while (picture.n < TRANSCRIPT_IMAGE_MAX)
		(void)buf_add(&picture, "aGVs", 4);
	for (int i = 0; i < TRANSCRIPT_IMAGES_MAX; i++)
		assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT,
								   .results = { &(struct osb_pair){ "image/png", buf_z(&picture) }, 1 } }));
	while (transcript_image(t, n, &image))
		n++;
	assert_int_equal(n, TRANSCRIPT_IMAGES_BYTES_MAX / TRANSCRIPT_IMAGE_MAX);
}

#define LONG 100000

/* A sandbox says what it likes, as often as it likes: no part of that gets around the limit. */
static void nothing_that_a_sandbox_names_is_beyond_the_limit(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(4000);
	AUTO(buf_done) struct buf b = BUF_INIT(64 << 20), text = BUF_INIT(1 << 20);
	static struct osb_pair many[2000];

	(void)state;
	for (int i = 0; i < LONG; i++)
		(void)buf_add_char(&text, 'x');
	say(t, OSB_EVENT_INIT, buf_z(&text));
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_ERROR, .name = buf_z(&text), .value = buf_z(&text) }));
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT,
							   .results = { &(struct osb_pair){ buf_z(&text), buf_z(&text) }, 1 } }));
	for (size_t i = 0; i < 2000; i++)
		many[i] = (struct osb_pair){ "text/html", buf_z(&text) };
	assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT, .results = { many, 2000 } }));
	for (size_t i = 0; i < 2000; i++)
		many[i] = (struct osb_pair){ "k", "" };
	for (int i = 0; i < 1000; i++)
		assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT, .results = { many, 2000 } }));
	(void)written(t, &b);
	assert_true(b.n < 5 * 4000);
	assert_non_null(strstr(b.p, " bytes left out ...]"));
}

/* Results of little text are as many as there may be, if they are small. */
static void small_results_are_all_there(void **state)
{
	AUTO(transcript_free) struct transcript *t = transcript_new(100000);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	const struct osb_pair values[] = { { "text", "a" }, { "text/html", "<b>a</b>" } };
	size_t n = 0;

	(void)state;
	for (int i = 0; i < TRANSCRIPT_RESULTS_MAX; i++)
		assert_true(transcript_add(t, &(struct osb_event){ .kind = OSB_EVENT_RESULT, .results = { values, 2 } }));
	for (const char *at = written(t, &b); (at = strstr(at, "text/html")); at++)
		n++;
	assert_int_equal(n, TRANSCRIPT_RESULTS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_told_as_it_was),
		cmocka_unit_test(what_is_behind_a_nul_is_not_lost),
		cmocka_unit_test(endless_output_keeps_its_ends),
		cmocka_unit_test(one_long_line_is_cut_by_itself),
		cmocka_unit_test(pictures_are_shown_as_such),
		cmocka_unit_test(pictures_are_no_more_than_an_answer_can_carry),
		cmocka_unit_test(nothing_that_a_sandbox_names_is_beyond_the_limit),
		cmocka_unit_test(small_results_are_all_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
