// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses how the rest is cut: what comes of a peer's bytes never depends on that, pieces of frames add up to their
 * lengths, and what we write is read back. */
#include <stdint.h>

#include "base/buf.h"
#include "net/zmtp/zmtp.h"

#include "base/banned.h"

#define MESSAGE_MAX 3000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void write_event(struct buf *out, const struct zmtp_event *ev)
{
	struct str rest = ev->data, name, value;

	require(ev->kind != ZMTP_EVENT_BYTES || ev->frame < ZMTP_FRAMES_MAX);
	if (ev->kind == ZMTP_EVENT_COMMAND) {
		require(ev->name.n > 0 && ev->name.n + ev->data.n < ZMTP_COMMAND_MAX);
		while (zmtp_property(&rest, &name, &value))
			require(name.n > 0 && value.n < ZMTP_COMMAND_MAX);
	}
	if (ev->kind != ZMTP_EVENT_BYTES)
		buf_addf(out, "%d:", ev->kind);
	buf_add_str(out, ev->name);
	buf_add_str(out, ev->data);
	if (ev->left == 0)
		buf_addf(out, "%u%d%s;", ev->frame, ev->is_last, ev->what ? ev->what : "");
}

static void decode(struct str in, size_t step, struct buf *out)
{
	struct zmtp_decoder d;
	struct zmtp_event ev = { 0 };

	zmtp_decoder_init(&d, MESSAGE_MAX);
	for (; in.n > 0 && ev.kind != ZMTP_EVENT_ERROR; in = str_skip(in, step)) {
		struct str part = str_first(in, step);

		while (ev.kind != ZMTP_EVENT_ERROR && zmtp_decode(&d, &part, &ev) != ZMTP_EVENT_NONE)
			write_event(out, &ev);
		require(ev.kind == ZMTP_EVENT_ERROR || part.n == 0);
		require(d.of_message <= MESSAGE_MAX);
	}
}

static void check_encoding(struct str payload)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct zmtp_decoder d;
	struct zmtp_event ev;
	struct str in;

	require(zmtp_put_greeting(&b) && zmtp_put_ready(&b, STR("SUB")));
	require(zmtp_put_frame(&b, payload, false) && zmtp_put_frame(&b, STR(""), true));
	in = buf_str(&b);
	zmtp_decoder_init(&d, payload.n);
	require(zmtp_decode(&d, &in, &ev) == ZMTP_EVENT_GREETING && zmtp_decode(&d, &in, &ev) == ZMTP_EVENT_COMMAND);
	require(zmtp_decode(&d, &in, &ev) == ZMTP_EVENT_BYTES && str_eq(ev.data, payload) && !ev.is_last);
	require(zmtp_decode(&d, &in, &ev) == ZMTP_EVENT_BYTES && ev.data.n == 0 && ev.is_last && in.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(1 << 22), cut = BUF_INIT(1 << 22);
	struct str in = { (const char *)data + 1, size - 1 };

	if (size < 2 || size > 65536)
		return 0;
	decode(in, in.n, &whole);
	decode(in, 1U + data[0] % 16, &cut);
	require(str_eq(buf_str(&whole), buf_str(&cut)));
	check_encoding(in);
	return 0;
}
