// SPDX-License-Identifier: Apache-2.0
/* base/json_scan.h - what the JSON parser and writer share: finding the end of a run of plain characters. */
#pragma once
#include <stdint.h>
#include <string.h>

/* The first byte in [P, END) that is not a printable ASCII character other than quote and backslash, or END.
 *
 * Eight bytes at a time: x - 1 sets the high bit of a byte that was zero, so each comparison is an xor and a
 * subtraction. Bytes from 0x80 on set theirs by themselves. A borrow disturbs only bytes after a true hit,
 * and the lowest hit is all that counts. */
static inline const char *json_plain(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101;

	while (end - p >= 8) {
		uint64_t w, hit;

		memcpy(&w, p, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
		w = __builtin_bswap64(w);
#endif
		hit = ((w ^ ones * '"') - ones) | ((w ^ ones * '\\') - ones) | ((w ^ ones * 0x7f) - ones) |
		      (w - ones * 0x20) | w;
		hit &= ones * 0x80;
		if (hit)
			return p + (__builtin_ctzll(hit) >> 3);
		p += 8;
	}
	while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f && *p != '"' && *p != '\\')
		p++;
	return p;
}
