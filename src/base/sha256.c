// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include "base/hex.h"
#include "base/own.h"
#include "base/sha256_impl.h"

#include "base/banned.h"

const uint32_t sha256_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t ror(uint32_t v, unsigned bits)
{
	return v >> bits | v << (32 - bits);
}

static inline uint32_t load_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void store_be32(unsigned char *p, uint32_t v)
{
	p[0] = (unsigned char)(v >> 24);
	p[1] = (unsigned char)(v >> 16);
	p[2] = (unsigned char)(v >> 8);
	p[3] = (unsigned char)v;
}

/* One round. Instead of moving eight variables along, eight consecutive rounds name them in rotation. */
#define ROUND(a, b, c, d, e, f, g, h, i) \
	do { \
		uint32_t t_ = (h) + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))); \
		t_ += key[i] + w[i]; \
		(d) += t_; \
		(h) = t_ + (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b)))); \
	} while (0)

#define EIGHT_ROUNDS(i) \
	do { \
		ROUND(a, b, c, d, e, f, g, h, (i)); \
		ROUND(h, a, b, c, d, e, f, g, (i) + 1); \
		ROUND(g, h, a, b, c, d, e, f, (i) + 2); \
		ROUND(f, g, h, a, b, c, d, e, (i) + 3); \
		ROUND(e, f, g, h, a, b, c, d, (i) + 4); \
		ROUND(d, e, f, g, h, a, b, c, (i) + 5); \
		ROUND(c, d, e, f, g, h, a, b, (i) + 6); \
		ROUND(b, c, d, e, f, g, h, a, (i) + 7); \
	} while (0)

/* The next sixteen words of the message schedule, in place of the last sixteen. */
static inline void schedule(uint32_t w[16])
{
	for (unsigned i = 0; i < 16; i++) {
		uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];

		w[i] += (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[(i + 9) & 15] + (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
	}
}

static void sha256_block(uint32_t state[8], const unsigned char *p)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
	uint32_t w[16];

	for (unsigned i = 0; i < 16; i++)
		w[i] = load_be32(p + (size_t)4 * i);
	for (const uint32_t *key = sha256_k; key < sha256_k + 64; key += 16) {
		if (key != sha256_k)
			schedule(w);
		EIGHT_ROUNDS(0);
		EIGHT_ROUNDS(8);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

void sha256_blocks_plain(uint32_t state[8], const unsigned char *p, size_t n)
{
	for (; n > 0; n--, p += SHA256_BLOCK)
		sha256_block(state, p);
}

static void add_blocks(uint32_t state[8], const unsigned char *p, size_t n)
{
	if (!sha256_blocks_fast(state, p, n))
		sha256_blocks_plain(state, p, n);
}

void sha256_init(struct sha256 *s)
{
	*s = (struct sha256){
		.h = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 },
	};
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
	size_t have = s->bytes % SHA256_BLOCK;
	const unsigned char *in = p;

	if (n == 0)
		return;
	s->bytes += n;
	if (have > 0) {
		size_t take = MIN(n, SHA256_BLOCK - have);

		memcpy(s->block + have, in, take);
		if (have + take < SHA256_BLOCK)
			return;
		add_blocks(s->h, s->block, 1);
		in += take;
		n -= take;
	}
	add_blocks(s->h, in, n / SHA256_BLOCK);
	memcpy(s->block, in + n / SHA256_BLOCK * SHA256_BLOCK, n % SHA256_BLOCK);
}

void sha256_end(struct sha256 *s, unsigned char out[SHA256_SIZE])
{
	static const unsigned char padding[SHA256_BLOCK] = { 0x80 };
	uint64_t bits = s->bytes * 8;
	unsigned char length[8];

	store_be32(length, (uint32_t)(bits >> 32));
	store_be32(length + 4, (uint32_t)bits);
	/* From 1 to 64 bytes of padding, so that the length ends a block. */
	sha256_add(s, padding, SHA256_BLOCK - (s->bytes + 8) % SHA256_BLOCK);
	sha256_add(s, length, sizeof(length));
	for (size_t i = 0; i < 8; i++)
		store_be32(out + 4 * i, s->h[i]);
	secret_wipe(s, sizeof(*s));
}

void hmac_sha256_init(struct hmac_sha256 *h, struct str key)
{
	unsigned char block[SHA256_BLOCK] = { 0 };

	if (key.n > sizeof(block))
		sha256(key, block);
	else if (key.n > 0)
		memcpy(block, key.p, key.n);
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36;
	sha256_init(&h->inner);
	sha256_add(&h->inner, block, sizeof(block));
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36 ^ 0x5c;
	sha256_init(&h->outer);
	sha256_add(&h->outer, block, sizeof(block));
	secret_wipe(block, sizeof(block));
}

void hmac_sha256_add(struct hmac_sha256 *h, const void *p, size_t n)
{
	sha256_add(&h->inner, p, n);
}

void hmac_sha256_end(struct hmac_sha256 *h, unsigned char out[SHA256_SIZE])
{
	sha256_end(&h->inner, out);
	sha256_add(&h->outer, out, SHA256_SIZE);
	sha256_end(&h->outer, out);
}

void sha256(struct str text, unsigned char out[SHA256_SIZE])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, text.p, text.n);
	sha256_end(&s, out);
}

void sha256_hex(struct str text, char out[SHA256_HEX_LEN + 1])
{
	unsigned char digest[SHA256_SIZE];

	sha256(text, digest);
	hex_encode(out, digest, sizeof(digest));
}

void hmac_sha256(struct str key, struct str text, unsigned char out[SHA256_SIZE])
{
	struct hmac_sha256 h;

	hmac_sha256_init(&h, key);
	hmac_sha256_add(&h, text.p, text.n);
	hmac_sha256_end(&h, out);
}
