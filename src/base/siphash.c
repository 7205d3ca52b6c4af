// SPDX-License-Identifier: Apache-2.0
#include "base/siphash.h"

#include "base/banned.h"

struct sip {
	uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static inline uint64_t load_le(const char *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)(unsigned char)p[i] << (8 * i);
	return v;
}

static inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->b = rotate(s->b, 13) ^ s->a;
	s->a = rotate(s->a, 32);
	s->c += s->d;
	s->d = rotate(s->d, 16) ^ s->c;
	s->a += s->d;
	s->d = rotate(s->d, 21) ^ s->a;
	s->c += s->b;
	s->b = rotate(s->b, 17) ^ s->c;
	s->c = rotate(s->c, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
	s->d ^= word;
	sip_round(s);
	s->a ^= word;
}

uint64_t siphash(const uint64_t seed[2], struct str text)
{
	struct sip s = {
		.a = seed[0] ^ 0x736f6d6570736575,
		.b = seed[1] ^ 0x646f72616e646f6d,
		.c = seed[0] ^ 0x6c7967656e657261,
		.d = seed[1] ^ 0x7465646279746573,
	};
	uint64_t last = (uint64_t)text.n << 56; /* the length modulo 256 closes the message */

	for (; text.n >= 8; text = str_skip(text, 8))
		sip_word(&s, load_le(text.p, 8));
	sip_word(&s, last | load_le(text.p, text.n));
	s.c ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}
