// SPDX-License-Identifier: Apache-2.0
#include "base/hex.h"

#include "base/banned.h"

void hex_encode(char *out, const void *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *in = p;

	for (size_t i = 0; i < n; i++) {
		*out++ = digits[in[i] >> 4];
		*out++ = digits[in[i] & 15];
	}
	*out = '\0';
}

bool hex_decode(struct str text, void *out, size_t n)
{
	unsigned char *at = out;

	if (text.n % 2 != 0 || text.n / 2 != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		uint64_t v;

		if (!str_to_hex64(str_first(str_skip(text, 2 * i), 2), &v))
			return false;
		at[i] = (unsigned char)v;
	}
	return true;
}
