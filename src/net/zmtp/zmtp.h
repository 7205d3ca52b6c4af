// SPDX-License-Identifier: Apache-2.0
/* net/zmtp/zmtp.h - ZMTP 3.0 (RFC 23 of ZeroMQ), the framing of its sockets, with the NULL mechanism.
 *
 *     peer:  greeting    command READY    messages, each of one or more frames
 *     we:    greeting    command READY    the same
 *
 * The decoder stores greetings and commands, which are small. Bytes of frames are passed on as they arrive;
 * the receiver decides whether to store them. A peer of a later minor version uses 3.0 with us, because we
 * announce that. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define ZMTP_GREETING 64
#define ZMTP_COMMAND_MAX 1024 /* a larger one is an error */
#define ZMTP_FRAMES_MAX 256   /* of one message */
#define ZMTP_HEAD_MAX 9

enum zmtp_event_kind {
	ZMTP_EVENT_NONE, /* all input is used up; feed more */
	ZMTP_EVENT_GREETING,
	ZMTP_EVENT_COMMAND,
	ZMTP_EVENT_BYTES, /* of a frame; an empty frame comes as one event without bytes */
	ZMTP_EVENT_ERROR, /* the peer broke the protocol or a ceiling */
};

struct zmtp_event {
	enum zmtp_event_kind kind;
	struct str name; /* of a command */
	struct str data; /* what follows its name; or bytes of a frame. Valid until the next call */
	unsigned frame;  /* which of its message, from 0 */
	uint64_t left;   /* bytes of this frame that follow; 0: it is complete */
	bool is_last;    /* no frame follows this one in its message */
	const char *what; /* of an error */
};

/* Plain data, to be embedded; the fields are the decoder's own. */
struct zmtp_decoder {
	uint64_t message_max; /* bytes of all frames of a message */
	bool has_greeting, in_frame, is_broken;
	uint8_t held[ZMTP_COMMAND_MAX]; /* a greeting, a head or a command that has not arrived in full */
	size_t n_held;
	uint8_t flags;
	uint64_t left, of_message;
	unsigned frame;
	const char *what;
};

void zmtp_decoder_init(struct zmtp_decoder *d, uint64_t message_max);

/* Advances *in up to the end of the next event and describes it. After an error it is repeated for ever. */
enum zmtp_event_kind zmtp_decode(struct zmtp_decoder *d, struct str *in, struct zmtp_event *ret);

/* The next property of a READY command's data, taken from *data. False at the end, and where that is
 * malformed: *data is not empty then. */
bool zmtp_property(struct str *data, struct str *ret_name, struct str *ret_value);

/* Append. On failure (see buf.failed) nothing has been added. */
bool zmtp_put_greeting(struct buf *b);
bool zmtp_put_ready(struct buf *b, struct str socket_type);
bool zmtp_put_command(struct buf *b, struct str name, struct str data); /* ZMTP_COMMAND_MAX bytes together */
bool zmtp_put_frame(struct buf *b, struct str bytes, bool is_last);
