// SPDX-License-Identifier: Apache-2.0
/* net/utf8.h - UTF-8 that arrives in pieces. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;

size_t utf8_valid_prefix(struct str s); /* bytes of S up to the first ill-formed or incomplete sequence */
bool utf8_is_cut(struct str s);         /* S (1 to 3 bytes) is the front of a longer well-formed sequence */

/* Makes any stream of bytes valid UTF-8: each byte that is not part of a well-formed sequence becomes U+FFFD.
 * A sequence that the end of a piece cuts is held back (up to 3 bytes) until the next piece or the end, so
 * the result does not depend on how the stream is cut. Starts zeroed. */
struct text_sanitizer {
	char held[4];
	size_t n;
};

/* Both append to OUT and return !out->failed. The end also makes the sanitizer ready for another stream. */
bool text_sanitize(struct text_sanitizer *t, struct str in, struct buf *out);
bool text_sanitize_end(struct text_sanitizer *t, struct buf *out);
