// SPDX-License-Identifier: Apache-2.0
#include "net/ws/websocket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "base/banned.h"

#define TEST_MAX 1000
#define BYTES(lit) ((struct str){ (lit), sizeof(lit) - 1 })

static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };

/* Events as text: "T:", "B:", "ping:", "pong:", "close 1000:", each with its data and ';'; "error 1002;". */
static void write_event(struct buf *b, const struct ws_event *ev)
{
	static const char *const names[] = { "", "", "ping", "pong", "close", "error" };

	if (ev->kind == WS_EVENT_MESSAGE)
		buf_addf(b, "%c:", ev->is_text ? 'T' : 'B');
	else if (ev->kind == WS_EVENT_PING || ev->kind == WS_EVENT_PONG)
		buf_addf(b, "%s:", names[ev->kind]);
	else
		buf_addf(b, "%s %u:", names[ev->kind], ev->code);
	buf_add_str(b, ev->data);
	buf_add_char(b, ';');
}

static void decode(enum ws_role role, struct str in, size_t piece, struct buf *ret_events)
{
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct ws_event ev = { 0 };

	ws_decoder_init(&d, role, TEST_MAX);
	while (in.n > 0 && ev.kind != WS_EVENT_ERROR) {
		struct str part = str_first(in, piece);

		in = str_skip(in, piece);
		while (ev.kind != WS_EVENT_ERROR && ws_decode(&d, &part, &ev) != WS_EVENT_NONE)
			write_event(ret_events, &ev);
		assert_int_equal(part.n, 0);
	}
}

static void decode_as(enum ws_role role, struct str in, const char *want)
{
	for (size_t piece = 1; piece <= in.n; piece++) {
		AUTO(buf_done) struct buf got = BUF_INIT(1 << 20);

		decode(role, in, piece, &got);
		if (!str_is(buf_str(&got), want))
			fail_msg("in pieces of %zu: got '%s', want '%s'", piece, buf_z(&got), want);
	}
}

static void the_examples_of_the_rfc_are_read(void **state)
{
	(void)state;
	decode_as(WS_CLIENT, BYTES("\x81\x05Hello"), "T:Hello;");
	decode_as(WS_SERVER, BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "T:Hello;");
	decode_as(WS_CLIENT, BYTES("\x01\x03Hel\x80\x02lo"), "T:Hello;");
	decode_as(WS_CLIENT, BYTES("\x89\x05Hello"), "ping:Hello;");
	decode_as(WS_SERVER, BYTES("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "pong:Hello;");
}

static void messages_are_assembled_around_control_frames(void **state)
{
	(void)state;
	decode_as(WS_CLIENT, BYTES("\x02\x01" "a\x89\x01p\x00\x00\x8a\x00\x80\x01" "b\x82\x00\x81\x01t"),
		  "ping:p;pong:;B:ab;B:;T:t;");
	decode_as(WS_CLIENT, BYTES("\x01\x00\x80\x00"), "T:;");
	decode_as(WS_CLIENT, BYTES("\x01\x01" "a\x88\x02\x03\xe8\x80\x01" "b"), "close 1000:;");
}

static void protocol_errors_close_with_1002(void **state)
{
	static const struct {
		enum ws_role role;
		struct str in;
	} cases[] = {
		{ WS_CLIENT, { "\xc1\x00", 2 } },                     /* reserved bits */
		{ WS_CLIENT, { "\xa1\x00", 2 } },
		{ WS_CLIENT, { "\x91\x00", 2 } },
		{ WS_CLIENT, { "\x83\x00", 2 } },                     /* opcodes */
		{ WS_CLIENT, { "\x87\x00", 2 } },
		{ WS_CLIENT, { "\x8b\x00", 2 } },
		{ WS_CLIENT, { "\x8f\x00", 2 } },
		{ WS_SERVER, { "\x81\x00", 2 } },                     /* masking */
		{ WS_CLIENT, { "\x81\x80", 2 } },
		{ WS_CLIENT, { "\x09\x00", 2 } },                     /* control frames */
		{ WS_CLIENT, { "\x89\x7e\x00\x7e", 4 } },
		{ WS_CLIENT, { "\x80\x00", 2 } },                     /* continuation */
		{ WS_CLIENT, { "\x00\x00", 2 } },
		{ WS_CLIENT, { "\x01\x00\x81\x00", 4 } },
		{ WS_CLIENT, { "\x01\x00\x02\x00", 4 } },
		{ WS_CLIENT, { "\x82\x7e\x00\x7d", 4 } },             /* lengths */
		{ WS_CLIENT, { "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", 10 } },
		{ WS_CLIENT, { "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", 10 } },
		{ WS_CLIENT, { "\x88\x01\x03", 3 } },                 /* close */
		{ WS_CLIENT, { "\x88\x02\x03\xe7", 4 } },             /* 999 */
		{ WS_CLIENT, { "\x88\x02\x03\xec", 4 } },             /* 1004 */
		{ WS_CLIENT, { "\x88\x02\x03\xed", 4 } },             /* 1005 */
		{ WS_CLIENT, { "\x88\x02\x03\xee", 4 } },             /* 1006 */
		{ WS_CLIENT, { "\x88\x02\x03\xf7", 4 } },             /* 1015 */
		{ WS_CLIENT, { "\x88\x02\x0b\xb7", 4 } },             /* 2999 */
		{ WS_CLIENT, { "\x88\x02\x13\x88", 4 } },             /* 5000 */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		decode_as(cases[i].role, cases[i].in, "error 1002:;");
}

static void close_frames_carry_a_code_and_a_reason(void **state)
{
	(void)state;
	decode_as(WS_CLIENT, BYTES("\x88\x00"), "close 1005:;");
	decode_as(WS_CLIENT, BYTES("\x88\x05\x0f\xa1" "bye\x81\x01x"), "close 4001:bye;");
	decode_as(WS_CLIENT, BYTES("\x88\x02\x03\xf6"), "close 1014:;");
	decode_as(WS_CLIENT, BYTES("\x88\x03\x03\xe8\xff"), "error 1007:;");
}

static void text_must_be_utf8_across_fragments(void **state)
{
	(void)state;
	decode_as(WS_CLIENT, BYTES("\x01\x02\xe2\x82\x80\x01\xac"), "T:\xe2\x82\xac;");
	decode_as(WS_CLIENT, BYTES("\x01\x02\xe2\x82\x80\x01" "a"), "error 1007:;");
	decode_as(WS_CLIENT, BYTES("\x81\x02\xe2\x82"), "error 1007:;");
	decode_as(WS_CLIENT, BYTES("\x81\x02" "a\xff"), "error 1007:;");
	/* The message is not over, but it cannot be saved. */
	decode_as(WS_CLIENT, BYTES("\x01\x7e\x03\xe8\xc0"), "error 1007:;");
	decode_as(WS_CLIENT, BYTES("\x82\x02\xff\xfe"), "B:\xff\xfe;");
}

static void a_message_beyond_the_ceiling_closes_with_1009(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);
	static char zeros[TEST_MAX + 1];

	(void)state;
	assert_true(ws_encode(&b, WS_BINARY, false, (struct str){ zeros, TEST_MAX - 1 }, NULL));
	assert_true(ws_encode(&b, WS_CONTINUATION, true, (struct str){ zeros, 1 }, NULL));
	decode(WS_CLIENT, buf_str(&b), b.n, &got);
	assert_int_equal(got.n, 2 + TEST_MAX + 1);
	buf_clear(&b);
	ws_encode(&b, WS_BINARY, false, (struct str){ zeros, TEST_MAX }, NULL);
	ws_encode(&b, WS_CONTINUATION, true, (struct str){ zeros, 1 }, NULL);
	decode_as(WS_CLIENT, buf_str(&b), "error 1009:;");
	decode_as(WS_CLIENT, BYTES("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"), "error 1009:;");
	decode_as(WS_CLIENT, BYTES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), "error 1009:;");
	decode_as(WS_CLIENT, BYTES("\x82\x7e\x03\xe9"), "error 1009:;");
}

static void an_error_is_final(void **state)
{
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct str in = BYTES("\xff\x00\x81\x01x");
	struct ws_event ev;

	(void)state;
	ws_decoder_init(&d, WS_CLIENT, TEST_MAX);
	assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_ERROR);
	assert_int_equal(in.n, 0);
	assert_string_equal(ev.what, "reserved bit");
	in = BYTES("\x81\x01x");
	assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_ERROR);
	assert_int_equal(ev.code, 1002);
	assert_int_equal(in.n, 0);
}

static void frames_survive_encoding_and_decoding(void **state)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 9, 125, 126, 127, 1000, 65535, 65536, 70000 };
	static char data[70000], filler;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(filler += 31);
	for (size_t i = 0; i < 2 * ARRAY_LEN(sizes); i++) {
		AUTO(ws_decoder_done) struct ws_decoder d;
		AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
		const uint8_t *mask = i % 2 ? key : NULL;
		struct str payload = { data, sizes[i / 2] }, in;
		struct ws_event ev;

		ws_decoder_init(&d, mask ? WS_SERVER : WS_CLIENT, WS_MESSAGE_MAX);
		assert_true(ws_encode(&b, WS_BINARY, true, payload, mask));
		assert_true(ws_encode(&b, WS_TEXT, true, STR("next"), mask));
		in = buf_str(&b);
		assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_MESSAGE);
		assert_true(str_eq(ev.data, payload));
		assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_MESSAGE);
		assert_true(ev.is_text && str_is(ev.data, "next"));
		assert_true(d.message.cap <= 66 * 1024);
		assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_NONE);
	}
}

static void masking_in_pieces_is_masking(void **state)
{
	char whole[37], pieces[37];

	(void)state;
	for (size_t cut = 0; cut <= sizeof(whole); cut++) {
		memset(whole, 'x', sizeof(whole));
		memset(pieces, 'x', sizeof(pieces));
		ws_mask(whole, sizeof(whole), key, 0);
		for (size_t i = 0; i < sizeof(whole); i++)
			assert_int_equal((uint8_t)whole[i], 'x' ^ key[i % 4]);
		ws_mask(pieces, cut, key, 0);
		ws_mask(pieces + cut, sizeof(pieces) - cut, key, cut);
		assert_memory_equal(whole, pieces, sizeof(whole));
	}
}

static void close_frames_are_written_within_their_limit(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1000), reason = BUF_INIT(1000);

	(void)state;
	ws_encode_close(&b, WS_CLOSE_NORMAL, STR("process exited"), NULL);
	decode_as(WS_CLIENT, buf_str(&b), "close 1000:process exited;");
	buf_clear(&b);
	ws_encode_close(&b, WS_CLOSE_NO_STATUS, STR("unused"), key);
	decode_as(WS_SERVER, buf_str(&b), "close 1005:;");
	/* 122 bytes and a character of two: the cut falls before it. */
	for (unsigned i = 0; i < 122; i++)
		buf_add_char(&reason, 'r');
	buf_add_str(&reason, STR("\xc3\xa9"));
	buf_clear(&b);
	assert_true(ws_encode_close(&b, 4001, buf_str(&reason), NULL));
	assert_int_equal(b.n, 2 + 2 + 122);
	buf_clear(&b);
	assert_true(ws_encode_close(&b, 1001, (struct str){ 0 }, NULL));
	assert_int_equal(b.n, 4);
}

static void a_full_buffer_takes_no_part_of_a_frame(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(6), other = BUF_INIT(6);

	(void)state;
	assert_false(ws_encode(&b, WS_TEXT, true, STR("Hello"), NULL));
	assert_int_equal(b.n, 0);
	assert_false(ws_encode(&other, WS_TEXT, true, (struct str){ "x", SIZE_MAX - 3 }, NULL));
	assert_true(other.failed);
}

static void an_allocation_that_fails_closes_with_1011(void **state)
{
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct str in = BYTES("\x82\x01x");
	struct ws_event ev;

	(void)state;
	ws_decoder_init(&d, WS_CLIENT, TEST_MAX);
	d.message.failed = true;
	assert_int_equal(ws_decode(&d, &in, &ev), WS_EVENT_ERROR);
	assert_int_equal(ev.code, WS_CLOSE_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_examples_of_the_rfc_are_read),
		cmocka_unit_test(messages_are_assembled_around_control_frames),
		cmocka_unit_test(protocol_errors_close_with_1002),
		cmocka_unit_test(close_frames_carry_a_code_and_a_reason),
		cmocka_unit_test(text_must_be_utf8_across_fragments),
		cmocka_unit_test(a_message_beyond_the_ceiling_closes_with_1009),
		cmocka_unit_test(an_error_is_final),
		cmocka_unit_test(frames_survive_encoding_and_decoding),
		cmocka_unit_test(masking_in_pieces_is_masking),
		cmocka_unit_test(close_frames_are_written_within_their_limit),
		cmocka_unit_test(a_full_buffer_takes_no_part_of_a_frame),
		cmocka_unit_test(an_allocation_that_fails_closes_with_1011),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
