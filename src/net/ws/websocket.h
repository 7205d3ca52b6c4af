// SPDX-License-Identifier: Apache-2.0
/* net/ws/websocket.h - WebSocket frames (RFC 6455) in both directions, without extensions.
 *
 *     struct ws_decoder d;
 *     ws_decoder_init(&d, WS_SERVER, WS_MESSAGE_MAX);
 *     while (ws_decode(&d, &in, &ev) != WS_EVENT_NONE)
 *         ...ev...
 *
 * The decoder assembles whole messages in one bounded buffer. How many control frames a peer may send in a
 * second is the caller's to limit. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define WS_MESSAGE_MAX (1024 * 1024) /* the usual ceiling of one message */
#define WS_CONTROL_MAX 125           /* payload of a control frame */
#define WS_HEAD_MAX 14

enum ws_role {
	WS_SERVER, /* we are the server: frames to us are masked, ours are not */
	WS_CLIENT,
};

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

enum ws_close_code {
	WS_CLOSE_NORMAL = 1000,
	WS_CLOSE_GOING_AWAY = 1001,
	WS_CLOSE_PROTOCOL = 1002,
	WS_CLOSE_NO_STATUS = 1005, /* never on the wire: a close frame without a code */
	WS_CLOSE_NOT_UTF8 = 1007,
	WS_CLOSE_TOO_BIG = 1009,
	WS_CLOSE_INTERNAL = 1011,
};

enum ws_event_kind {
	WS_EVENT_NONE, /* all input is used up; feed more */
	WS_EVENT_MESSAGE,
	WS_EVENT_PING,
	WS_EVENT_PONG,
	WS_EVENT_CLOSE, /* the last event; what follows is ignored */
	WS_EVENT_ERROR, /* the peer broke the protocol or a ceiling: send a close with `code`, disconnect */
};

struct ws_event {
	enum ws_event_kind kind;
	bool is_text;     /* WS_EVENT_MESSAGE: valid UTF-8 */
	uint16_t code;    /* WS_EVENT_CLOSE, WS_EVENT_ERROR */
	struct str data;  /* payload, or the reason of a close; valid until the next call */
	const char *what; /* WS_EVENT_ERROR: for the log */
};

/* Plain data, to be embedded; the fields are the decoder's own. */
struct ws_decoder {
	enum ws_role role;
	struct buf message;
	size_t utf8_checked; /* of a text message */
	uint8_t message_opcode; /* of the message in progress, 0 when there is none */

	uint8_t head[WS_HEAD_MAX];
	size_t head_n, head_need;
	bool in_payload;
	bool ended; /* an event WS_EVENT_CLOSE or WS_EVENT_ERROR has been given out */
	bool message_given; /* its memory is the caller's until the next call */
	uint64_t left; /* bytes of the current frame that have not arrived */
	uint8_t mask[4];
	size_t mask_at;
	char control[WS_CONTROL_MAX];
	size_t control_n;
	struct ws_event error;
};

void ws_decoder_init(struct ws_decoder *d, enum ws_role role, size_t message_max);
void ws_decoder_done(struct ws_decoder *d);
DEFINE_AUTO_DONE(struct ws_decoder, ws_decoder_done)

/* Advances *in up to the end of the next event and describes it. After an error it is repeated for ever. */
enum ws_event_kind ws_decode(struct ws_decoder *d, struct str *in, struct ws_event *ret_event);

/* Append one frame. MASK is NULL for a server and 4 fresh random bytes for a client. On failure (see
 * buf.failed) nothing has been added. */
bool ws_encode(struct buf *b, enum ws_opcode op, bool is_final, struct str payload, const uint8_t *mask);
/* REASON is cut to what fits, between characters; WS_CLOSE_NO_STATUS gives a frame without a code. */
bool ws_encode_close(struct buf *b, uint16_t code, struct str reason, const uint8_t *mask);

/* Masks or unmasks P in place; AT is the offset of its first byte in the payload. */
void ws_mask(char *p, size_t n, const uint8_t mask[4], size_t at);
bool ws_close_code_valid(uint16_t code); /* may appear on the wire */
