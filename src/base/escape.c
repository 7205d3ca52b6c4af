// SPDX-License-Identifier: Apache-2.0
#include "base/escape.h"

#include <stdio.h>

#include "base/banned.h"

bool escape_needed(uint32_t rune)
{
	return rune < 0x20 || (rune >= 0x7f && rune <= 0x9f) || rune == 0x61c || rune == 0x200e || rune == 0x200f ||
	       (rune >= 0x2028 && rune <= 0x202e) || (rune >= 0x2066 && rune <= 0x2069) || rune == 0xfeff;
}

bool escape_is_free(struct str s)
{
	while (s.n > 0) {
		uint32_t rune;
		size_t n = utf8_next(s, &rune);

		if (n == 0 || escape_needed(rune))
			return false;
		s = str_skip(s, n);
	}
	return true;
}

struct str escape_next(struct str s, char out[ESCAPE_SIZE], size_t *ret_n)
{
	static const char names[] = "\n\r\t\"\\", letters[] = "nrt\"\\";
	const char *name;
	uint32_t rune;
	int n;

	*ret_n = utf8_next(s, &rune);
	name = *ret_n == 1 && rune ? strchr(names, (int)rune) : NULL;
	if (*ret_n == 0) {
		*ret_n = 1;
		n = snprintf(out, ESCAPE_SIZE, "\\x%02x", (unsigned char)s.p[0]);
	} else if (name) {
		n = snprintf(out, ESCAPE_SIZE, "\\%c", letters[name - names]);
	} else if (escape_needed(rune)) {
		n = snprintf(out, ESCAPE_SIZE, "\\u%04x", (unsigned)rune);
	} else {
		return str_first(s, *ret_n);
	}
	return (struct str){ out, (size_t)n };
}

const char *escape_show(struct shown *out, struct str s)
{
	size_t at = 0, n;

	for (; s.n > 0; s = str_skip(s, n)) {
		char escape[ESCAPE_SIZE];
		struct str piece = escape_next(s, escape, &n);

		if (at + piece.n > SHOWN_MAX) {
			memcpy(out->z + at, "...", 3);
			at += 3;
			break;
		}
		memcpy(out->z + at, piece.p, piece.n);
		at += piece.n;
	}
	out->z[at] = '\0';
	return out->z;
}
