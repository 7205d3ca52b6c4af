// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_frame.h - messages of the programs in drivers/: a letter, a length in decimal, a newline,
 * and that many bytes. Messages with several parts are a row of "NAME LENGTH\n", each with its bytes. User
 * code can forge such messages, so their content is untrusted. */
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
