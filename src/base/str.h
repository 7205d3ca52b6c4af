// SPDX-License-Identifier: Apache-2.0
/* base/str.h - borrowed views of bytes, and bounded parsing with them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed view: not NUL-terminated, valid as long as what it was taken from. */
struct str {
	const char *p;
	size_t n;
};

#define STR(lit) ((struct str){ (lit), sizeof(lit) - 1 })
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline struct str str_of(const char *z)
{
	return (struct str){ z, z ? strlen(z) : 0 };
}

static inline bool str_eq(struct str a, struct str b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(struct str a, const char *z)
{
	return str_eq(a, str_of(z));
}

/* S without its first N bytes; empty when it is shorter. */
static inline struct str str_skip(struct str s, size_t n)
{
	if (n > s.n)
		n = s.n;
	if (n > 0) /* an empty view may have no place at all, and adding even 0 to that is undefined */
		s.p += n;
	s.n -= n;
	return s;
}

/* The first N bytes of S, or all of it. */
static inline struct str str_first(struct str s, size_t n)
{
	if (n < s.n)
		s.n = n;
	return s;
}

bool str_eq_nocase(struct str a, struct str b); /* ASCII letters only */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
struct str str_trim(struct str s);              /* spaces, tabs, CR and LF on both sides */

/* Splits at the first SEP: true and both sides, or false with all of S as head and an empty tail. */
bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_tail);

/* Takes the next word (blanks separate words) from *in. False at the end and when the word is longer than
 * MAX. */
bool str_take_word(struct str *in, struct str *ret_word, size_t max);

/* Whole views only: decimal digits (and a sign for the signed one), no blanks, no leading '+', range
 * checked. */
bool str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret);
bool str_to_i64(struct str s, int64_t min, int64_t max, int64_t *ret);
bool str_to_hex64(struct str s, uint64_t *ret); /* 1 to 16 hex digits */
int hex_digit(char c);                          /* 0 to 15 for a digit of either case, or -1 */

/* Length of the well-formed UTF-8 sequence at the front of S (1 to 4), or 0. Surrogates and overlong forms
 * are ill-formed. */
size_t utf8_next(struct str s, uint32_t *ret_rune);
bool utf8_valid(struct str s);
size_t utf8_put(char out[4], uint32_t rune); /* bytes written */

/* Secrets: the time taken depends on lengths only; the wipe is not optimised away. */
bool secret_eq(struct str a, struct str b);
void secret_wipe(void *p, size_t n);
