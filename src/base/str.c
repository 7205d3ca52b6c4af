// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"

#include "base/banned.h"

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool str_eq_nocase(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (a.p[i] != b.p[i] && lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

bool str_starts(struct str s, struct str prefix)
{
	return s.n >= prefix.n && str_eq(str_first(s, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
	return s.n >= suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
	while (s.n > 0 && is_blank(s.p[0]))
		s = str_skip(s, 1);
	while (s.n > 0 && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_tail)
{
	const char *at = s.n > 0 ? memchr(s.p, sep, s.n) : NULL;

	if (!at) {
		*ret_head = s;
		*ret_tail = (struct str){ 0 };
		return false;
	}
	*ret_head = str_first(s, (size_t)(at - s.p));
	*ret_tail = str_skip(s, (size_t)(at - s.p) + 1);
	return true;
}

bool str_take_word(struct str *in, struct str *ret_word, size_t max)
{
	struct str s = *in;
	size_t n = 0;

	while (s.n > 0 && is_blank(s.p[0]))
		s = str_skip(s, 1);
	while (n < s.n && !is_blank(s.p[n]))
		n++;
	if (n == 0 || n > max)
		return false;
	*ret_word = str_first(s, n);
	*in = str_skip(s, n);
	return true;
}

bool str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			return false;
	}
	if (v < min || v > max)
		return false;
	*ret = v;
	return true;
}

bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = s.n > 0 && s.p[0] == '-';
	uint64_t ceiling = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	uint64_t u;
	int64_t v;

	if (!str_to_u64(negative ? str_skip(s, 1) : s, 0, ceiling, &u))
		return false;
	v = negative ? (int64_t)(0 - u) : (int64_t)u;
	if (v < min || v > max)
		return false;
	*ret = v;
	return true;
}

int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool str_to_hex64(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 16)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		int d = hex_digit(s.p[i]);

		if (d < 0)
			return false;
		v = v << 4 | (uint64_t)d;
	}
	*ret = v;
	return true;
}

size_t utf8_next(struct str s, uint32_t *ret_rune)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* by length: anything below is overlong */
	unsigned char lead;
	uint32_t rune;
	size_t n;

	if (s.n == 0)
		return 0;
	lead = (unsigned char)s.p[0];
	if (lead < 0x80) {
		*ret_rune = lead;
		return 1;
	}
	n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
	if (lead < 0xc2 || lead > 0xf4 || s.n < n)
		return 0;
	rune = lead & (0x7fU >> n);
	for (size_t i = 1; i < n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if ((c & 0xc0) != 0x80)
			return 0;
		rune = rune << 6 | (c & 0x3f);
	}
	if (rune < least[n] || rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
		return 0;
	*ret_rune = rune;
	return n;
}

bool utf8_valid(struct str s)
{
	while (s.n > 0) {
		uint32_t rune;
		size_t n = utf8_next(s, &rune);

		if (n == 0)
			return false;
		s = str_skip(s, n);
	}
	return true;
}

size_t utf8_put(char out[4], uint32_t rune)
{
	if (rune < 0x80) {
		out[0] = (char)rune;
		return 1;
	}
	if (rune < 0x800) {
		out[0] = (char)(0xc0 | rune >> 6);
		out[1] = (char)(0x80 | (rune & 0x3f));
		return 2;
	}
	if (rune < 0x10000) {
		out[0] = (char)(0xe0 | rune >> 12);
		out[1] = (char)(0x80 | (rune >> 6 & 0x3f));
		out[2] = (char)(0x80 | (rune & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | rune >> 18);
	out[1] = (char)(0x80 | (rune >> 12 & 0x3f));
	out[2] = (char)(0x80 | (rune >> 6 & 0x3f));
	out[3] = (char)(0x80 | (rune & 0x3f));
	return 4;
}

bool secret_eq(struct str a, struct str b)
{
	volatile unsigned char diff = a.n != b.n;

	for (size_t i = 0; i < a.n && b.n > 0; i++)
		diff = (unsigned char)(diff | (a.p[i] ^ b.p[i % b.n]));
	return diff == 0;
}

void secret_wipe(void *p, size_t n)
{
	if (n > 0) /* of nothing there may be no address */
		explicit_bzero(p, n);
}
