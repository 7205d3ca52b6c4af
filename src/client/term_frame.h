// SPDX-License-Identifier: Apache-2.0
/* client/term_frame.h - the messages of a terminal's WebSocket, on the client's side. Pure.
 *
 * Data is in binary messages whose first byte is their type, commands and notifications are JSON text
 * messages. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define TERM_STDIN '\0'            /* the first byte of input */
#define TERM_CODE_MAX 63
#define TERM_MESSAGE_MAX 255
#define TERM_ORDER_MAX 256         /* bytes of an order */
#define TERM_STDIN_END STR("{\"type\":\"stdin_end\"}")

enum term_news_kind {
	TERM_NOTHING,   /* to be ignored: nothing that we know, or nothing new */
	TERM_OUTPUT,
	TERM_REPLAY,    /* output from `offset` on, which the client may have seen */
	TERM_CONNECTED,
	TERM_EXIT,
	TERM_ERROR,     /* code and message */
};

struct term_news {
	enum term_news_kind kind;
	bool is_stderr;
	struct str data; /* a view of the message */
	uint64_t offset;
	int exit_code;   /* -1: not known */
	char code[TERM_CODE_MAX + 1], message[TERM_MESSAGE_MAX + 1]; /* of a longer one the beginning */
};

void term_news_parse(bool is_text, struct str message, struct term_news *ret);

/* Orders, appended to OUT. False: SIGNAL is no name of one. */
void term_order_resize(struct buf *out, unsigned columns, unsigned rows);
bool term_order_signal(struct buf *out, const char *name);
