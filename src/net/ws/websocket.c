// SPDX-License-Identifier: Apache-2.0
#include "net/ws/websocket.h"

#include "net/utf8.h"

#include "base/banned.h"

#define FIN 0x80
#define RESERVED 0x70
#define OPCODE 0x0f
#define MASKED 0x80
#define LENGTH 0x7f
#define LENGTH_16 126
#define LENGTH_64 127
#define KEEP_MAX (64 * 1024) /* memory kept between messages: most connections are idle most of the time */

/* ---- both directions --------------------------------------------------------------------------------------- */

void ws_mask(char *p, size_t n, const uint8_t mask[4], size_t at)
{
	uint8_t turned[8];
	uint64_t key, word;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(turned); k++)
		turned[k] = mask[(at + k) % 4];
	memcpy(&key, turned, sizeof(key));
	for (; n - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		word ^= key;
		memcpy(p + i, &word, sizeof(word));
	}
	for (; i < n; i++)
		p[i] = (char)(p[i] ^ (char)turned[i % 4]);
}

bool ws_close_code_valid(uint16_t code)
{
	if (code >= 3000 && code <= 4999)
		return true;
	return code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006;
}

static bool is_control(unsigned opcode)
{
	return opcode >= WS_CLOSE;
}

/* ---- decoding ---------------------------------------------------------------------------------------------- */

void ws_decoder_init(struct ws_decoder *d, enum ws_role role, size_t message_max)
{
	*d = (struct ws_decoder){ .role = role, .message = BUF_INIT(message_max), .head_need = 2 };
}

void ws_decoder_done(struct ws_decoder *d)
{
	buf_done(&d->message);
}

static enum ws_event_kind fail(struct ws_decoder *d, uint16_t code, const char *what)
{
	d->ended = true;
	d->error = (struct ws_event){ .kind = WS_EVENT_ERROR, .code = code, .what = what };
	return WS_EVENT_ERROR;
}

static enum ws_event_kind check_first_bytes(struct ws_decoder *d)
{
	unsigned opcode = d->head[0] & OPCODE;
	bool is_final = d->head[0] & FIN, is_masked = d->head[1] & MASKED;
	unsigned length = d->head[1] & LENGTH;

	if (d->head[0] & RESERVED)
		return fail(d, WS_CLOSE_PROTOCOL, "reserved bit");
	if (opcode > WS_PONG || (opcode > WS_BINARY && opcode < WS_CLOSE))
		return fail(d, WS_CLOSE_PROTOCOL, "unknown opcode");
	if (is_masked != (d->role == WS_SERVER))
		return fail(d, WS_CLOSE_PROTOCOL, is_masked ? "masked frame" : "unmasked frame");
	if (is_control(opcode) && !is_final)
		return fail(d, WS_CLOSE_PROTOCOL, "fragmented control frame");
	if (is_control(opcode) && length > WS_CONTROL_MAX)
		return fail(d, WS_CLOSE_PROTOCOL, "control frame too long");
	if (opcode == WS_CONTINUATION && d->message_opcode == 0)
		return fail(d, WS_CLOSE_PROTOCOL, "continuation of nothing");
	if ((opcode == WS_TEXT || opcode == WS_BINARY) && d->message_opcode != 0)
		return fail(d, WS_CLOSE_PROTOCOL, "message inside a message");
	d->head_need = 2U + (length == LENGTH_16 ? 2U : length == LENGTH_64 ? 8U : 0U) + (is_masked ? 4U : 0U);
	return WS_EVENT_NONE;
}

static uint64_t read_big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static enum ws_event_kind begin_payload(struct ws_decoder *d)
{
	unsigned opcode = d->head[0] & OPCODE, length = d->head[1] & LENGTH;
	size_t extra = length == LENGTH_16 ? 2 : length == LENGTH_64 ? 8 : 0;

	d->left = extra > 0 ? read_big_endian(d->head + 2, extra) : length;
	if ((extra == 2 && d->left < LENGTH_16) || (extra == 8 && d->left <= UINT16_MAX))
		return fail(d, WS_CLOSE_PROTOCOL, "length not in its shortest form");
	if (d->left > INT64_MAX)
		return fail(d, WS_CLOSE_PROTOCOL, "length with its top bit set");
	if (!is_control(opcode) && d->left > d->message.max - d->message.n)
		return fail(d, WS_CLOSE_TOO_BIG, "message too long");
	if (d->role == WS_SERVER)
		memcpy(d->mask, d->head + 2 + extra, sizeof(d->mask));
	if (opcode == WS_TEXT || opcode == WS_BINARY) {
		d->message_opcode = (uint8_t)opcode;
		d->utf8_checked = 0;
	}
	d->mask_at = 0;
	d->control_n = 0;
	d->in_payload = true;
	return WS_EVENT_NONE;
}

static enum ws_event_kind take_head(struct ws_decoder *d, struct str *in)
{
	size_t n = MIN(in->n, d->head_need - d->head_n);

	memcpy(d->head + d->head_n, in->p, n);
	d->head_n += n;
	*in = str_skip(*in, n);
	if (d->head_n < d->head_need)
		return WS_EVENT_NONE;
	if (d->head_n == 2 && check_first_bytes(d) != WS_EVENT_NONE)
		return WS_EVENT_ERROR;
	return d->head_n == d->head_need ? begin_payload(d) : WS_EVENT_NONE;
}

/* Fails as soon as the text can no longer become valid, not only at its end. */
static enum ws_event_kind check_text(struct ws_decoder *d)
{
	struct str rest = str_skip(buf_str(&d->message), d->utf8_checked);
	size_t n = utf8_valid_prefix(rest);

	d->utf8_checked += n;
	if (n < rest.n && !utf8_is_cut(str_skip(rest, n)))
		return fail(d, WS_CLOSE_NOT_UTF8, "text is not UTF-8");
	return WS_EVENT_NONE;
}

static enum ws_event_kind take_payload(struct ws_decoder *d, struct str *in)
{
	size_t n = (size_t)MIN((uint64_t)in->n, d->left);
	bool in_control = is_control(d->head[0] & OPCODE);
	char *at = in_control ? d->control + d->control_n : buf_reserve(&d->message, n);

	if (!at)
		return fail(d, WS_CLOSE_INTERNAL, "out of memory");
	if (n > 0)
		memcpy(at, in->p, n);
	if (d->role == WS_SERVER)
		ws_mask(at, n, d->mask, d->mask_at);
	d->mask_at = (d->mask_at + n) % 4;
	d->left -= n;
	*in = str_skip(*in, n);
	if (in_control) {
		d->control_n += n;
		return WS_EVENT_NONE;
	}
	buf_commit(&d->message, n);
	return d->message_opcode == WS_TEXT ? check_text(d) : WS_EVENT_NONE;
}

static enum ws_event_kind end_close(struct ws_decoder *d, struct ws_event *ev)
{
	ev->code = WS_CLOSE_NO_STATUS;
	if (d->control_n == 1)
		return fail(d, WS_CLOSE_PROTOCOL, "close frame with half a code");
	if (d->control_n >= 2) {
		ev->code = (uint16_t)read_big_endian((const uint8_t *)d->control, 2);
		ev->data = (struct str){ d->control + 2, d->control_n - 2 };
		if (!ws_close_code_valid(ev->code))
			return fail(d, WS_CLOSE_PROTOCOL, "close frame with a code that cannot be sent");
		if (!utf8_valid(ev->data))
			return fail(d, WS_CLOSE_NOT_UTF8, "close reason is not UTF-8");
	}
	d->ended = true;
	return WS_EVENT_CLOSE;
}

static enum ws_event_kind end_data(struct ws_decoder *d, struct ws_event *ev)
{
	if (!(d->head[0] & FIN))
		return WS_EVENT_NONE;
	ev->is_text = d->message_opcode == WS_TEXT;
	if (ev->is_text && d->utf8_checked != d->message.n)
		return fail(d, WS_CLOSE_NOT_UTF8, "text ends inside a character");
	d->message_opcode = 0;
	d->message_given = true;
	ev->data = buf_str(&d->message);
	return WS_EVENT_MESSAGE;
}

static enum ws_event_kind end_frame(struct ws_decoder *d, struct ws_event *ev)
{
	unsigned opcode = d->head[0] & OPCODE;

	d->in_payload = false;
	d->head_n = 0;
	d->head_need = 2;
	if (!is_control(opcode))
		return end_data(d, ev);
	if (opcode == WS_CLOSE)
		return end_close(d, ev);
	ev->data = (struct str){ d->control, d->control_n };
	return opcode == WS_PING ? WS_EVENT_PING : WS_EVENT_PONG;
}

static void drop_given_message(struct ws_decoder *d)
{
	if (d->message_given && d->message.cap > KEEP_MAX)
		buf_done(&d->message);
	else if (d->message_given)
		buf_clear(&d->message);
	d->message_given = false;
}

enum ws_event_kind ws_decode(struct ws_decoder *d, struct str *in, struct ws_event *ret_event)
{
	enum ws_event_kind kind = WS_EVENT_NONE;
	struct ws_event ev = { 0 };

	drop_given_message(d);
	while (!d->ended && kind == WS_EVENT_NONE) {
		if (d->in_payload && d->left == 0)
			kind = end_frame(d, &ev);
		else if (in->n == 0)
			break;
		else
			kind = d->in_payload ? take_payload(d, in) : take_head(d, in);
	}
	if (d->ended)
		*in = (struct str){ 0 };
	ev.kind = kind;
	*ret_event = d->error.kind == WS_EVENT_ERROR ? d->error : ev;
	return ret_event->kind;
}

/* ---- encoding ---------------------------------------------------------------------------------------------- */

/* Returns the length of the head. */
static size_t ws_frame_head(uint8_t out[WS_HEAD_MAX], enum ws_opcode op, bool is_final, uint64_t n, const uint8_t *mask)
{
	size_t extra = n < LENGTH_16 ? 0 : n <= UINT16_MAX ? 2 : 8;
	unsigned length = extra == 0 ? (unsigned)n : extra == 2 ? LENGTH_16 : LENGTH_64;

	out[0] = (uint8_t)((is_final ? FIN : 0) | op);
	out[1] = (uint8_t)((mask ? MASKED : 0) | length);
	for (size_t i = 0; i < extra; i++)
		out[2 + i] = (uint8_t)(n >> (8 * (extra - 1 - i)));
	if (!mask)
		return 2 + extra;
	memcpy(out + 2 + extra, mask, 4);
	return 2 + extra + 4;
}

bool ws_encode(struct buf *b, enum ws_opcode op, bool is_final, struct str payload, const uint8_t *mask)
{
	uint8_t head[WS_HEAD_MAX];
	size_t head_n = ws_frame_head(head, op, is_final, payload.n, mask);
	size_t total;
	char *at;

	if (__builtin_add_overflow(head_n, payload.n, &total)) {
		b->failed = true;
		return false;
	}
	at = buf_reserve(b, total);
	if (!at)
		return false;
	memcpy(at, head, head_n);
	if (payload.n > 0)
		memcpy(at + head_n, payload.p, payload.n);
	if (mask)
		ws_mask(at + head_n, payload.n, mask, 0);
	buf_commit(b, total);
	return true;
}

bool ws_encode_close(struct buf *b, uint16_t code, struct str reason, const uint8_t *mask)
{
	char payload[WS_CONTROL_MAX] = { (char)(code >> 8), (char)code };
	size_t n;

	if (code == WS_CLOSE_NO_STATUS)
		return ws_encode(b, WS_CLOSE, true, (struct str){ 0 }, mask);
	n = utf8_valid_prefix(str_first(reason, sizeof(payload) - 2));
	if (n > 0)
		memcpy(payload + 2, reason.p, n);
	return ws_encode(b, WS_CLOSE, true, (struct str){ payload, 2 + n }, mask);
}
