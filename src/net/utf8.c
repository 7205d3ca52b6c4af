// SPDX-License-Identifier: Apache-2.0
#include "net/utf8.h"

#include "base/buf.h"

#include "base/banned.h"

#define REPLACEMENT STR("\xef\xbf\xbd")

/* Bytes of ASCII at the front of S, in whole words where possible. */
static size_t ascii_prefix(struct str s)
{
	size_t n = 0;
	uint64_t word;

	while (s.n - n >= sizeof(word)) {
		memcpy(&word, s.p + n, sizeof(word));
		if (word & 0x8080808080808080U)
			break;
		n += sizeof(word);
	}
	while (n < s.n && (unsigned char)s.p[n] < 0x80)
		n++;
	return n;
}

size_t utf8_valid_prefix(struct str s)
{
	size_t n = 0, step = 1;
	uint32_t rune;

	while (step > 0) {
		n += ascii_prefix(str_skip(s, n));
		step = utf8_next(str_skip(s, n), &rune);
		n += step;
	}
	return n;
}

bool utf8_is_cut(struct str s)
{
	char whole[4] = { 0 };
	unsigned char lead;
	size_t need;
	uint32_t rune;

	if (s.n == 0 || s.n > 3)
		return false;
	lead = (unsigned char)s.p[0];
	need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
	if (lead < 0x80 || s.n >= need)
		return false;
	/* Complete it and see: E0 and F0 need a second byte above the lowest one, no other lead minds. */
	memset(whole, 0x80, need);
	whole[1] = (char)(lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80);
	memcpy(whole, s.p, s.n);
	return utf8_next((struct str){ whole, need }, &rune) == need;
}

/* Appends all of IN but an incomplete sequence at its end; returns the length of that. */
static size_t sanitize(struct str in, struct buf *out)
{
	while (in.n > 0) {
		size_t n = utf8_valid_prefix(in);

		buf_add(out, in.p, n);
		in = str_skip(in, n);
		if (in.n == 0 || utf8_is_cut(in))
			break;
		buf_add_str(out, REPLACEMENT);
		in = str_skip(in, 1);
	}
	return in.n;
}

/* Adds bytes of IN to the held ones until these are no longer the front of a sequence. */
static struct str finish_held(struct text_sanitizer *t, struct str in, struct buf *out)
{
	while (t->n > 0 && in.n > 0) {
		size_t left;

		t->held[t->n++] = in.p[0];
		in = str_skip(in, 1);
		left = sanitize((struct str){ t->held, t->n }, out);
		memmove(t->held, t->held + t->n - left, left);
		t->n = left;
	}
	return in;
}

bool text_sanitize(struct text_sanitizer *t, struct str in, struct buf *out)
{
	size_t left;

	in = finish_held(t, in, out);
	if (in.n == 0)
		return !out->failed;
	left = sanitize(in, out);
	memcpy(t->held, in.p + in.n - left, left);
	t->n = left;
	return !out->failed;
}

bool text_sanitize_end(struct text_sanitizer *t, struct buf *out)
{
	for (; t->n > 0; t->n--)
		buf_add_str(out, REPLACEMENT);
	return !out->failed;
}
