// SPDX-License-Identifier: Apache-2.0
/* base/escape.h - makes foreign text safe for messages: one line, and no control sequences for terminals.
 *
 *     err_set(e, ERR_INVALID, "key '%s' is already defined", SHOWN(key)); */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Characters that could end a line, move the cursor or turn the reading direction of a terminal. */
bool escape_needed(uint32_t rune);
bool escape_is_free(struct str s); /* S is UTF-8 and has none of these */

/* The character at the front of S as it is shown: itself, or its escape in OUT: these, '"' and '\' as in
 * JSON, an ill-formed byte as "\xff". *ret_n is how many bytes of S that takes. */
#define ESCAPE_SIZE 8 /* of the longest escape, with its NUL */
struct str escape_next(struct str s, char out[ESCAPE_SIZE], size_t *ret_n);

/* S with these, '"' and '\' escaped ("\n", "\u001b") and each ill-formed byte as "\xff". At most SHOWN_MAX
 * bytes; a longer text is cut between two characters, and "..." says so. */
#define SHOWN_MAX 64
struct shown {
	char z[SHOWN_MAX + sizeof("...")];
};
const char *escape_show(struct shown *out, struct str s);

/* The same, in memory that lives as long as the enclosing block. */
#define SHOWN(s) escape_show(&(struct shown){ .z = "" }, (s))
