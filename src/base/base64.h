// SPDX-License-Identifier: Apache-2.0
/* base/base64.h - RFC 4648 base64.
 *
 * The decoder is strict, so that one value has one spelling: no blanks, exactly the padding that the flags
 * ask for, no foreign characters, and the unused bits of the last character are zero. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;
struct err;

enum base64_flags {
	BASE64_STD = 0,      /* alphabet with '+' and '/', padded with '=' */
	BASE64_URL = 1,      /* alphabet with '-' and '_' */
	BASE64_UNPADDED = 2, /* neither written nor accepted: '=' */
};

/* Appends to OUT, whose ceiling bounds the result. */
bool base64_encode(struct buf *out, const void *p, size_t n, unsigned flags);

/* Appends to OUT; on failure its content is as before. ERR_INVALID for malformed text, ERR_LIMIT when the
 * result does not fit under OUT's ceiling. The messages never repeat the text: it may be a secret. */
int base64_decode(struct buf *out, struct str text, unsigned flags, struct err *e);
