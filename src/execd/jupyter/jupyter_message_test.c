// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/jupyter_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>

#include <cmocka.h>

#include "execd/budget.h"
#include "net/zmtp/zmtp.h"

#include "base/banned.h"

#define KEY "0123456789abcdef"

struct ear {
	struct budget budget;
	struct jupyter_in in;
	struct buf text;
	struct buf err;
};

static void on_text(enum event_stream stream, struct str text, void *arg)
{
	struct ear *x = arg;

	buf_add_str(stream == EVENT_STDERR ? &x->err : &x->text, text);
}

static void ear_init(struct ear *x)
{
	*x = (struct ear){ .budget.max = EXECD_BUDGET, .text = BUF_INIT(1 << 20), .err = BUF_INIT(1 << 20) };
	x->in = (struct jupyter_in){ .budget = &x->budget, .key = STR(KEY), .on_text = on_text, .arg = x };
	jupyter_next(&x->in);
}

static void ear_done(struct ear *x)
{
	jupyter_next(&x->in);
	buf_done(&x->text);
	buf_done(&x->err);
	assert_int_equal(x->budget.used, 0);
}
DEFINE_AUTO_DONE(struct ear, ear_done)

static enum jupyter_step hear(struct ear *x, const struct str *frames, size_t n, size_t step)
{
	enum jupyter_step r = JUPYTER_MORE;

	for (size_t i = 0; i < n && r == JUPYTER_MORE; i++) {
		struct str left = frames[i];

		do {
			struct zmtp_event ev = { .kind = ZMTP_EVENT_BYTES, .data = str_first(left, step), .is_last = i + 1 == n };

			left = str_skip(left, step);
			ev.left = left.n;
			r = jupyter_take(&x->in, &ev);
		} while (left.n > 0 && r == JUPYTER_MORE);
	}
	return r;
}

static enum jupyter_step say(struct ear *x, const char *type, const char *content, size_t step)
{
	char header[128], signature[SHA256_HEX_LEN + 1];
	struct str frames[] = { STR("topic"), STR("<IDS|MSG>"), { signature, SHA256_HEX_LEN }, { 0 }, STR("{\"msg_id\":\"ours\"}"), STR("{}"),
				str_of(content), STR("buffer") };

	(void)snprintf(header, sizeof(header), "{\"msg_id\":\"theirs\",\"msg_type\":\"%s\"}", type);
	frames[3] = str_of(header);
	jupyter_sign(STR(KEY), frames + 3, signature);
	return hear(x, frames, ARRAY_LEN(frames), step);
}

static void signatures_are_those_of_the_protocol(void **state)
{
	const struct str parts[] = { STR("a"), STR("b"), STR("c"), STR("d") };
	unsigned char sum[SHA256_SIZE];
	char got[SHA256_HEX_LEN + 1], want[SHA256_HEX_LEN + 1];

	(void)state;
	jupyter_sign(STR("key"), parts, got);
	hmac_sha256(STR("key"), STR("abcd"), sum);
	for (int i = 0; i < SHA256_SIZE; i++)
		(void)snprintf(want + 2 * i, 3, "%02x", sum[i]);
	assert_string_equal(got, want);
}

static void text_of_streams_goes_on_in_pieces(void **state)
{
	(void)state;
	for (size_t step = 1; step < 50; step += 6) {
		AUTO(ear_done) struct ear x;

		ear_init(&x);
		assert_int_equal(say(&x, "stream", "{\"name\":\"stdout\",\"text\":\"a\\n\\u00e4\"}", step), JUPYTER_MESSAGE);
		assert_string_equal(x.text.p, "a\n\xc3\xa4");
		assert_string_equal(x.in.parent, "ours");
		assert_int_equal(x.in.kind, JUPYTER_STREAM);
		jupyter_next(&x.in);
		assert_int_equal(say(&x, "stream", "{\"name\":\"stderr\",\"text\":\"b\"}", step), JUPYTER_MESSAGE);
		assert_string_equal(x.err.p, "b");
	}
}

static void values_are_collected_with_their_types(void **state)
{
	(void)state;
	for (size_t step = 1; step < 100; step += 9) {
		AUTO(ear_done) struct ear x;
		struct jupyter_values *v;

		ear_init(&x);
		assert_int_equal(say(&x, "execute_result",
				     "{\"execution_count\":7,\"metadata\":{\"a\":{\"b\":1}},"
				     "\"data\":{\"text/plain\":\"4\",\"application/json\":{\"a\": [1]}}}",
				     step),
				 JUPYTER_MESSAGE);
		v = x.in.values;
		assert_int_equal(x.in.count, 7);
		assert_int_equal(v->n_mimes, 2);
		assert_true(str_is(jupyter_text(v, v->types[0]), "text/plain") && str_is(jupyter_text(v, v->mimes[0]), "4"));
		assert_true(str_is(jupyter_text(v, v->types[1]), "application/json"));
		assert_true(str_is(jupyter_text(v, v->mimes[1]), "{\"a\": [1]}"));
	}
}

static void a_value_that_is_too_large_is_left_out(void **state)
{
	AUTO(buf_done) struct buf content = BUF_INIT((size_t)8 * 1024 * 1024);
	AUTO(ear_done) struct ear x;

	(void)state;
	ear_init(&x);
	buf_addf(&content, "{\"data\":{\"image/png\":\"");
	for (size_t i = 0; i < CODE_RESULT_MAX / 16 + 1; i++)
		buf_addf(&content, "0123456789012345");
	buf_addf(&content, "\",\"text/plain\":\"small\"}}");
	assert_false(content.failed);
	assert_int_equal(say(&x, "display_data", content.p, 16384), JUPYTER_MESSAGE);
	assert_int_equal(x.in.values->n_mimes, 1);
	assert_true(x.in.is_cut);
	assert_true(str_is(jupyter_text(x.in.values, x.in.values->mimes[0]), "small"));
	assert_true(x.budget.used > 0);
}

static void errors_replies_and_states_are_read(void **state)
{
	AUTO(ear_done) struct ear x;
	struct jupyter_values *v;

	(void)state;
	ear_init(&x);
	assert_int_equal(say(&x, "error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"one\",\"two\"]}", 5), JUPYTER_MESSAGE);
	v = x.in.values;
	assert_true(str_is(jupyter_text(v, v->name), "E") && str_is(jupyter_text(v, v->value), "v"));
	assert_int_equal(v->n_trace, 2);
	assert_true(str_is(jupyter_text(v, v->trace[1]), "two"));
	jupyter_next(&x.in);
	assert_int_equal(say(&x, "execute_reply", "{\"status\":\"aborted\"}", 5), JUPYTER_MESSAGE);
	assert_true(x.in.is_error && x.in.is_aborted);
	jupyter_next(&x.in);
	assert_int_equal(say(&x, "execute_reply", "{\"status\":\"ok\",\"execution_count\":3}", 5), JUPYTER_MESSAGE);
	assert_false(x.in.is_error || x.in.is_aborted);
	jupyter_next(&x.in);
	assert_int_equal(say(&x, "status", "{\"execution_state\":\"idle\"}", 5), JUPYTER_MESSAGE);
	assert_true(x.in.is_idle);
	jupyter_next(&x.in);
	assert_int_equal(say(&x, "status", "{\"execution_state\":\"busy\"}", 5), JUPYTER_MESSAGE);
	assert_false(x.in.is_idle);
}

static void messages_that_are_wrong_are_refused(void **state)
{
	char right[SHA256_HEX_LEN + 1];
	const struct str parts[] = { STR("{}"), STR("{}"), STR("{}"), STR("{}") };
	const struct {
		struct str frames[7];
		size_t n;
		const char *what;
	} rows[] = {
		{ { STR("<IDS|MSG>"), { right, 64 }, STR("{}"), STR("{}"), STR("{}"), STR("{}") }, 6, NULL },
		{ { STR("<IDS|MSG>"), { right, 64 }, STR("{}"), STR("{}"), STR("{}"), STR("{ }") }, 6, "a message with a wrong signature" },
		{ { STR("<IDS|MSG>"), STR(""), STR("{}"), STR("{}"), STR("{}"), STR("{}") }, 6, "a message without a signature" },
		{ { STR("<IDS|MSG>"), { right, 64 }, STR("{}"), STR("{}"), STR("{}") }, 5, "a message without content" },
		{ { STR("no delimiter") }, 1, "a message without content" },
		{ { STR("<IDS|MSG>"), { right, 64 }, STR("{"), STR("{}"), STR("{}"), STR("{}") }, 6, "a message that is not JSON" },
		{ { STR("<IDS|MSG>"), { right, 64 }, STR("{}"), STR("{}"), STR("{}"), STR("{]") }, 6, "a message that is not JSON" },
	};

	(void)state;
	jupyter_sign(STR(KEY), parts, right);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(ear_done) struct ear x;
		enum jupyter_step want = rows[i].what ? JUPYTER_BROKEN : JUPYTER_MESSAGE;

		ear_init(&x);
		assert_int_equal(hear(&x, rows[i].frames, rows[i].n, 64), want);
		if (rows[i].what)
			assert_string_equal(x.in.what, rows[i].what);
	}
}

static void an_object_of_a_server_says_the_same(void **state)
{
	static const struct str object = STR("{\"content\":{\"name\":\"stdout\",\"text\":\"hi\"},\"channel\":\"iopub\","
					     "\"header\":{\"msg_type\":\"stream\"},\"parent_header\":{\"msg_id\":\"ours\"}}");
	AUTO(ear_done) struct ear x;

	(void)state;
	ear_init(&x);
	assert_true(jupyter_take_heads(&x.in, object));
	assert_int_equal(x.in.kind, JUPYTER_STREAM);
	assert_int_equal(x.in.channel, 'i');
	assert_string_equal(x.in.parent, "ours");
	assert_int_equal(x.text.n, 0);
	for (struct str rest = object; rest.n > 0; rest = str_skip(rest, 7))
		assert_true(jupyter_take_content(&x.in, str_first(rest, 7)));
	assert_string_equal(x.text.p, "hi");
	assert_false(jupyter_take_heads(&x.in, STR("{\"content\":")));
}

static void an_id_that_is_too_long_is_none(void **state)
{
	AUTO(ear_done) struct ear x;
	AUTO(buf_done) struct buf object = BUF_INIT(4096);

	(void)state;
	ear_init(&x);
	buf_addf(&object, "{\"parent_header\":{\"msg_id\":\"%0200d\"},\"header\":{\"msg_type\":\"%0100d\"}}", 0, 0);
	assert_true(jupyter_take_heads(&x.in, buf_str(&object)));
	assert_string_equal(x.in.parent, "");
	assert_int_equal(x.in.kind, JUPYTER_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures_are_those_of_the_protocol),
		cmocka_unit_test(text_of_streams_goes_on_in_pieces),
		cmocka_unit_test(values_are_collected_with_their_types),
		cmocka_unit_test(a_value_that_is_too_large_is_left_out),
		cmocka_unit_test(errors_replies_and_states_are_read),
		cmocka_unit_test(messages_that_are_wrong_are_refused),
		cmocka_unit_test(an_object_of_a_server_says_the_same),
		cmocka_unit_test(an_id_that_is_too_long_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
