// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include "net/zmtp/zmtp.h"

#include "base/banned.h"

#define GREETING "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" \
	"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

/* What comes of IN, in steps of STEP bytes: "g" for the greeting, "c:NAME:DATA;" for a command, bytes of frames as they are with
 * "|" behind a frame and "." behind a message, "!WHAT" for an error. */
static void decode(struct str in, size_t step, uint64_t max, struct buf *out)
{
	struct zmtp_decoder d;
	struct zmtp_event ev;

	zmtp_decoder_init(&d, max);
	for (; in.n > 0; in = str_skip(in, step)) {
		struct str part = str_first(in, step);

		while (zmtp_decode(&d, &part, &ev) != ZMTP_EVENT_NONE) {
			if (ev.kind == ZMTP_EVENT_ERROR) {
				buf_addf(out, "!%s", ev.what);
				return;
			}
			if (ev.kind == ZMTP_EVENT_GREETING)
				buf_add_char(out, 'g');
			if (ev.kind == ZMTP_EVENT_COMMAND)
				buf_addf(out, "c:%.*s:", STR_ARG(ev.name));
			buf_add_str(out, ev.data);
			if (ev.kind == ZMTP_EVENT_COMMAND)
				buf_add_char(out, ';');
			if (ev.kind == ZMTP_EVENT_BYTES && ev.left == 0)
				buf_add_char(out, ev.is_last ? '.' : '|');
		}
		assert_int_equal(part.n, 0);
	}
}

static void bytes_become_events_however_they_are_cut(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} rows[] = {
		{ STR(GREETING), "g" },
		{ STR(GREETING "\4\6\5READY"), "gc:READY:;" },
		{ STR(GREETING "\4\7\4PINGab"), "gc:PING:ab;" },
		{ STR(GREETING "\0\2hi"), "ghi." },
		{ STR(GREETING "\1\1a\1\0\0\1b"), "ga||b." },
		{ STR(GREETING "\2\0\0\0\0\0\0\0\3abc"), "gabc." },
		{ STR(GREETING "\0\0\0\0"), "g.." },
		{ STR(GREETING "\0\5ab"), "gab" },
		{ STR("\xff\0\0\0\0\0\0\0\1\x7f\1\0"), "!the peer does not speak ZMTP 3" },
		{ STR("HTTP/1.1 400 Bad Request"), "!the peer does not speak ZMTP 3" },
		{ STR("\xff\0\0\0\0\0\0\0\1\x7f\3\0PLAIN\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
		  "!the peer asks for another mechanism than NULL" },
		{ STR(GREETING "\x08\1a"), "g!a frame with unknown flags" },
		{ STR(GREETING "\5\1a"), "g!a command in pieces" },
		{ STR(GREETING "\4\0"), "g!a command without a name" },
		{ STR(GREETING "\4\2\5a"), "g!a command without a name" },
		{ STR(GREETING "\1\1a\4\6\5READY"), "ga|!a command inside a message" },
		{ STR(GREETING "\6\0\0\0\0\0\0\x04\x01"), "g!a command that is too large" },
		{ STR(GREETING "\2\0\0\0\0\0\0\0\x65"), "g!a message that is too large" },
		{ STR(GREETING "\2\xff\xff\xff\xff\xff\xff\xff\xff"), "g!a message that is too large" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t step = 1; step < 100; step += 7) {
			AUTO(buf_done) struct buf out = BUF_INIT(4096);

			decode(rows[i].in, step, 100, &out);
			if (strcmp(buf_z(&out), rows[i].want) != 0)
				fail_msg("row %zu in steps of %zu: '%s' instead of '%s'", i, step, buf_z(&out), rows[i].want);
		}
	}
}

static void the_frames_of_a_message_have_ceilings_together(void **state)
{
	AUTO(buf_done) struct buf in = BUF_INIT(65536), out = BUF_INIT(65536);

	(void)state;
	buf_add(&in, GREETING, ZMTP_GREETING);
	for (int i = 0; i < 3; i++)
		assert_true(zmtp_put_frame(&in, STR("0123456789012345678901234567890123456789"), false));
	decode(buf_str(&in), 4096, 100, &out);
	assert_non_null(strstr(buf_z(&out), "!a message that is too large"));
	buf_clear(&in);
	buf_clear(&out);
	buf_add(&in, GREETING, ZMTP_GREETING);
	for (int i = 0; i <= ZMTP_FRAMES_MAX; i++)
		assert_true(zmtp_put_frame(&in, STR(""), false));
	decode(buf_str(&in), 4096, 100, &out);
	assert_non_null(strstr(buf_z(&out), "!a message of too many frames"));
}

static void what_is_written_is_read_back(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536), out = BUF_INIT(65536);
	static char text[300];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_true(zmtp_put_greeting(&b));
	assert_int_equal(b.n, ZMTP_GREETING);
	assert_true(zmtp_put_ready(&b, STR("DEALER")));
	assert_true(zmtp_put_frame(&b, STR("a"), false));
	assert_true(zmtp_put_frame(&b, (struct str){ text, sizeof(text) }, true));
	decode(buf_str(&b), 50, 1000, &out);
	assert_memory_equal(out.p, "gc:READY:\x0bSocket-Type\0\0\0\6DEALER;a|xxx", 37);
	assert_int_equal(out.n, 34 + 300 + 1);
}

static void properties_are_taken_one_by_one(void **state)
{
	struct str data = STR("\1a\0\0\0\2xy\2bc\0\0\0\0"), name, value;

	(void)state;
	assert_true(zmtp_property(&data, &name, &value));
	assert_true(str_is(name, "a") && str_is(value, "xy"));
	assert_true(zmtp_property(&data, &name, &value));
	assert_true(str_is(name, "bc") && value.n == 0);
	assert_false(zmtp_property(&data, &name, &value));
	assert_int_equal(data.n, 0);
	data = STR("\1a\0\0\0\2x");
	assert_false(zmtp_property(&data, &name, &value));
	assert_int_equal(data.n, 7);
	data = STR("\x40" "a");
	assert_false(zmtp_property(&data, &name, &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_become_events_however_they_are_cut),
		cmocka_unit_test(the_frames_of_a_message_have_ceilings_together),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(properties_are_taken_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
