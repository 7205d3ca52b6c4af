// SPDX-License-Identifier: Apache-2.0
/* execd/pty/pty_frame.h - the messages of a terminal's WebSocket. Pure.
 *
 * Data is in binary messages whose first byte is their type, commands and notifications are JSON text
 * messages. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct arena;
struct buf;

enum pty_tag {
	PTY_STDIN = 0,  /* from the client */
	PTY_STDOUT = 1,
	PTY_STDERR = 2,
	PTY_REPLAY = 3, /* 8 bytes, big-endian: the offset of the first byte that follows */
};

#define PTY_REPLAY_HEAD 9
#define PTY_PIECE ((size_t)32 * 1024) /* of output in one message */
#define PTY_TEXT_MAX ((size_t)64 * 1024) /* of an order */

void pty_replay_head(uint64_t offset, char out[PTY_REPLAY_HEAD]);

enum pty_order_kind {
	PTY_ORDER_NONE,   /* to be ignored: no JSON object, or one whose fields are not what they should be */
	PTY_ORDER_RESIZE,
	PTY_ORDER_SIGNAL,
	PTY_ORDER_STDIN,
	PTY_ORDER_STDIN_END, /* of a shell with pipes: it reads the end of its input */
	PTY_ORDER_PING,
	PTY_ORDER_UNKNOWN, /* to be answered with INVALID_FRAME */
};

struct pty_order {
	enum pty_order_kind kind;
	uint16_t cols, rows;
	int signo;
	struct str data; /* a view of the text or of the arena */
};

void pty_order_parse(struct str text, struct arena *a, struct pty_order *ret);

/* Codes of errors. */
#define PTY_START_FAILED "START_FAILED"
#define PTY_STDIN_FAILED "STDIN_WRITE_FAILED"
#define PTY_INVALID_FRAME "INVALID_FRAME"
#define PTY_GONE "SESSION_GONE"

#define PTY_NEWS_MAX 1024 /* bytes of one of these */
void pty_say_connected(struct buf *out, const char *id, const char *mode);
void pty_say_exit(struct buf *out, int exit_code);
void pty_say_error(struct buf *out, const char *code, const char *why);
#define PTY_PONG STR("{\"type\":\"pong\"}")
