// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses the role, the second how the rest is cut: events never depend on the cuts, and frames
 * that we write are read back by the other side. */
#include <stdint.h>

#include "base/buf.h"
#include "net/ws/websocket.h"
#include "net/ws/ws_handshake.h"

#include "base/banned.h"

#define MESSAGE_MAX 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void write_event(struct buf *out, const struct ws_event *ev)
{
	require(ev->kind != WS_EVENT_MESSAGE || !ev->is_text || utf8_valid(ev->data));
	require(ev->kind != WS_EVENT_CLOSE || ev->code == WS_CLOSE_NO_STATUS || ws_close_code_valid(ev->code));
	buf_addf(out, "%d %d %u %zu:", ev->kind, ev->is_text, ev->code, ev->data.n);
	buf_add_str(out, ev->data);
}

static void decode(enum ws_role role, struct str in, size_t piece, struct buf *out)
{
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct ws_event ev = { 0 };

	ws_decoder_init(&d, role, MESSAGE_MAX);
	for (; in.n > 0 && ev.kind != WS_EVENT_ERROR; in = str_skip(in, piece)) {
		struct str part = str_first(in, piece);

		while (ev.kind != WS_EVENT_ERROR && ws_decode(&d, &part, &ev) != WS_EVENT_NONE)
			write_event(out, &ev);
		require(part.n == 0 && d.message.n <= MESSAGE_MAX);
	}
}

static void check_encoding(enum ws_role role, struct str payload)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	AUTO(ws_decoder_done) struct ws_decoder d;
	const uint8_t *mask = role == WS_SERVER ? (const uint8_t *)payload.p : NULL;
	struct str in, half = str_first(payload, payload.n / 2);
	struct ws_event ev;

	require(ws_encode(&b, WS_BINARY, false, half, mask));
	require(ws_encode_close(&b, 4000, payload, mask) && b.n <= half.n + 10 + WS_HEAD_MAX + WS_CONTROL_MAX);
	buf_clear(&b);
	require(ws_encode(&b, WS_BINARY, false, half, mask));
	require(ws_encode(&b, WS_PING, true, STR("p"), mask));
	require(ws_encode(&b, WS_CONTINUATION, true, str_skip(payload, half.n), mask));
	ws_decoder_init(&d, role, payload.n);
	in = buf_str(&b);
	require(ws_decode(&d, &in, &ev) == WS_EVENT_PING && str_is(ev.data, "p"));
	require(ws_decode(&d, &in, &ev) == WS_EVENT_MESSAGE && str_eq(ev.data, payload));
	require(ws_decode(&d, &in, &ev) == WS_EVENT_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(1 << 24), cut = BUF_INIT(1 << 24);
	enum ws_role role;
	char accept[WS_ACCEPT_LEN + 1];
	struct str in, protocol;

	if (size < 6 || size > 128 * 1024)
		return 0;
	role = data[0] % 2 ? WS_CLIENT : WS_SERVER;
	in = (struct str){ (const char *)data + 2, size - 2 };
	decode(role, in, in.n, &whole);
	decode(role, in, 1U + data[1] % 16, &cut);
	require(str_eq(buf_str(&whole), buf_str(&cut)));
	check_encoding(role, in);
	ws_accept(in, accept);
	require(!ws_key_valid(in) || in.n == WS_KEY_LEN);
	(void)ws_protocol_choose(in, (const char *const[]){ "a", NULL }, &protocol);
	return 0;
}
