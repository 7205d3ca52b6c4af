// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_frame.h - messages of the programs in drivers/: a letter, a length in decimal, a newline, and so many bytes; what has several
 * parts is a row of "NAME LENGTH\n" and so many bytes each. Code of a user can write such messages, too: nothing in them is believed. */
#pragma once
#include <stddef.h>

#include "base/str.h"

struct err;

#define CODE_FRAME_MAX ((size_t)3 * 1024 * 1024) /* bytes of one message */
#define CODE_FRAME_HEAD_MAX 9
#define CODE_ITEM_NAME_MAX 255

struct code_frame {
	char type;
	size_t length;
};

/* The head that IN begins with: 1 with what it takes of IN, 0: more bytes are needed, -1. */
int code_frame_head(struct str in, struct code_frame *ret, size_t *ret_used, struct err *e);

/* Takes the next part of *IN: 1, 0 at the end, -1. */
int code_frame_item(struct str *in, struct str *ret_name, struct str *ret_value, struct err *e);
