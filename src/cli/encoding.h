// SPDX-License-Identifier: Apache-2.0
/* cli/encoding.h - converts text of other encodings to UTF-8 and back. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct buf;
struct err;

bool encoding_is_utf8(const char *name); /* also in its other spellings, and ASCII: nothing is to be done */

/* Appends IN to OUT. ERR_INVALID: unknown encoding, or IN is not valid in it. */
int encoding_convert(const char *from, const char *to, struct str in, struct buf *out, struct err *e);
