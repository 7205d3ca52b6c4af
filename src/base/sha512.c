// SPDX-License-Identifier: Apache-2.0
#include "base/sha512.h"

#include "base/own.h"

#include "base/banned.h"

static const uint64_t round_keys[80] = {
	0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
	0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
	0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
	0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
	0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
	0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
	0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
	0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
	0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
	0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
	0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
	0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
	0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
	0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
	0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
	0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
	0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
	0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
	0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
	0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

static inline uint64_t ror(uint64_t v, unsigned bits)
{
	return v >> bits | v << (64 - bits);
}

static inline uint64_t load_be64(const unsigned char *p)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static inline void store_be64(unsigned char *p, uint64_t v)
{
	for (unsigned i = 8; i-- > 0; v >>= 8)
		p[i] = (unsigned char)v;
}

/* The next sixteen words of the message schedule, in place of the last sixteen. */
static inline void schedule(uint64_t w[16])
{
	for (unsigned i = 0; i < 16; i++) {
		uint64_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];

		w[i] += (ror(x, 1) ^ ror(x, 8) ^ x >> 7) + w[(i + 9) & 15] + (ror(y, 19) ^ ror(y, 61) ^ y >> 6);
	}
}

/* S is the eight variables of a round, of which only the names move along: variable V of round I is at (V - I) mod 8. */
static inline void sixteen_rounds(uint64_t s[8], const uint64_t *key, const uint64_t w[16])
{
#pragma GCC unroll 16
	for (unsigned i = 0; i < 16; i++) {
		uint64_t a = s[(8 - i) & 7], b = s[(9 - i) & 7], c = s[(10 - i) & 7];
		uint64_t e = s[(12 - i) & 7], f = s[(13 - i) & 7], g = s[(14 - i) & 7];
		uint64_t *h = &s[(15 - i) & 7], t;

		t = *h + (ror(e, 14) ^ ror(e, 18) ^ ror(e, 41)) + (g ^ (e & (f ^ g))) + key[i] + w[i];
		s[(11 - i) & 7] += t;
		*h = t + (ror(a, 28) ^ ror(a, 34) ^ ror(a, 39)) + ((a & b) | (c & (a | b)));
	}
}

static void add_blocks(uint64_t state[8], const unsigned char *p, size_t n)
{
	for (; n > 0; n--, p += SHA512_BLOCK) {
		uint64_t s[8], w[16];

		memcpy(s, state, sizeof(s));
		for (unsigned i = 0; i < 16; i++)
			w[i] = load_be64(p + (size_t)8 * i);
		for (unsigned at = 0; at < ARRAY_LEN(round_keys); at += 16) {
			if (at > 0)
				schedule(w);
			sixteen_rounds(s, round_keys + at, w);
		}
		for (unsigned i = 0; i < 8; i++)
			state[i] += s[i];
	}
}

void sha512_init(struct sha512 *s)
{
	*s = (struct sha512){
		.h = {
			0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
			0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
		},
	};
}

void sha512_add(struct sha512 *s, const void *p, size_t n)
{
	size_t have = s->bytes % SHA512_BLOCK;
	const unsigned char *in = p;

	if (n == 0)
		return;
	s->bytes += n;
	if (have > 0) {
		size_t take = MIN(n, SHA512_BLOCK - have);

		memcpy(s->block + have, in, take);
		if (have + take < SHA512_BLOCK)
			return;
		add_blocks(s->h, s->block, 1);
		in += take;
		n -= take;
	}
	add_blocks(s->h, in, n / SHA512_BLOCK);
	memcpy(s->block, in + n / SHA512_BLOCK * SHA512_BLOCK, n % SHA512_BLOCK);
}

void sha512_end(struct sha512 *s, unsigned char out[SHA512_SIZE])
{
	static const unsigned char padding[SHA512_BLOCK] = { 0x80 };
	unsigned char length[16];

	store_be64(length, s->bytes >> 61);
	store_be64(length + 8, s->bytes << 3);
	/* From 1 to 128 bytes of padding, so that the length ends a block. */
	sha512_add(s, padding, SHA512_BLOCK - (s->bytes + sizeof(length)) % SHA512_BLOCK);
	sha512_add(s, length, sizeof(length));
	for (size_t i = 0; i < 8; i++)
		store_be64(out + 8 * i, s->h[i]);
	secret_wipe(s, sizeof(*s));
}

void sha512(struct str text, unsigned char out[SHA512_SIZE])
{
	struct sha512 s;

	sha512_init(&s);
	sha512_add(&s, text.p, text.n);
	sha512_end(&s, out);
}
