// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static const char alphabet_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char alphabet_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool base64_encode(struct buf *out, const void *p, size_t n, unsigned flags)
{
	const char *alphabet = flags & BASE64_URL ? alphabet_url : alphabet_std;
	size_t rest = n % 3, tail = rest == 0 ? 0 : flags & BASE64_UNPADDED ? rest + 1 : 4;
	const unsigned char *in = p;
	char *at = n / 3 < SIZE_MAX / 4 - 1 ? buf_reserve(out, n / 3 * 4 + tail) : NULL;

	if (!at) {
		out->failed = true;
		return false;
	}
	for (size_t i = 0; i + 3 <= n; i += 3) {
		*at++ = alphabet[in[i] >> 2];
		*at++ = alphabet[(in[i] & 3) << 4 | in[i + 1] >> 4];
		*at++ = alphabet[(in[i + 1] & 15) << 2 | in[i + 2] >> 6];
		*at++ = alphabet[in[i + 2] & 63];
	}
	if (rest > 0) {
		unsigned first = in[n - rest], second = rest > 1 ? in[n - 1] : 0;

		*at++ = alphabet[first >> 2];
		*at++ = alphabet[(first & 3) << 4 | second >> 4];
		if (tail > 2)
			*at++ = rest > 1 ? alphabet[(second & 15) << 2] : '=';
		if (tail > 3)
			*at++ = '=';
	}
	buf_commit(out, n / 3 * 4 + tail);
	return true;
}

/* 0 to 63, or -1. Arithmetic instead of a table indexed by the character: no cache lines tell about secrets. */
static int sextet(char c, unsigned flags)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == (flags & BASE64_URL ? '-' : '+'))
		return 62;
	if (c == (flags & BASE64_URL ? '_' : '/'))
		return 63;
	return -1;
}

/* Takes the padding off: what is left holds data characters only, unless it is malformed. */
static bool strip_padding(struct str *text, unsigned flags)
{
	if (flags & BASE64_UNPADDED)
		return text->n % 4 != 1;
	if (text->n % 4 != 0)
		return false;
	for (int i = 0; i < 2 && text->n > 0 && text->p[text->n - 1] == '='; i++)
		text->n--;
	return true;
}

/* Decodes up to four characters into one byte less than there are; the bits beyond must be zero. */
static bool decode_group(struct str group, unsigned flags, char *out)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i < group.n ? sextet(group.p[i], flags) : 0;

		if (v < 0)
			return false;
		bits = bits << 6 | (uint32_t)v;
	}
	if ((group.n == 2 && (bits & 0xffff)) || (group.n == 3 && (bits & 0xff)))
		return false;
	for (size_t i = 0; i + 1 < group.n; i++)
		out[i] = (char)(bits >> (16 - 8 * i) & 0xff);
	return true;
}

int base64_decode(struct buf *out, struct str text, unsigned flags, struct err *e)
{
	size_t size, n = 0;
	char *at;

	if (!strip_padding(&text, flags))
		return err_set(e, ERR_INVALID, "base64 text has the wrong length or padding");
	size = text.n / 4 * 3 + (text.n % 4 > 0 ? text.n % 4 - 1 : 0);
	at = buf_reserve(out, size);
	if (!at && size > out->max - out->n)
		return err_set(e, ERR_LIMIT, "base64 text holds more than %zu bytes", out->max - out->n);
	if (!at)
		return err_no_memory(e);
	for (size_t i = 0; i < text.n; i += 4, n += 3)
		if (!decode_group(str_first(str_skip(text, i), 4), flags, at + n)) {
			buf_commit(out, 0); /* puts back the NUL after the old content */
			return err_set(e, ERR_INVALID, "base64 text is malformed near character %zu", i + 1);
		}
	buf_commit(out, size);
	return 0;
}
