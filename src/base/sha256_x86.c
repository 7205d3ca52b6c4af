// SPDX-License-Identifier: Apache-2.0
/* SHA-256 by the SHA extensions of x86, some six times as fast as plain C. */
#include "base/sha256.h"
#include "base/sha256_impl.h"

#include <stdlib.h> /* __GLIBC__ */

/* Programs in sandboxes (musl) hash little, and asking the CPU what it can do, which a virtual machine answers slowly, would
 * be part of every start. clang 14 cannot ask; what it builds here is its opinion only. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#include <immintrin.h>

#include "base/banned.h"

#define TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* The instructions keep the eight words as A B E F and C D G H. */
struct halves {
	__m128i abef, cdgh;
};

TARGET static inline struct halves to_halves(const uint32_t state[8])
{
	__m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&state[0]), 0xb1);
	__m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)&state[4]), 0x1b);

	return (struct halves){ _mm_alignr_epi8(abcd, efgh, 8), _mm_blend_epi16(efgh, abcd, 0xf0) };
}

TARGET static inline void from_halves(struct halves s, uint32_t state[8])
{
	__m128i feba = _mm_shuffle_epi32(s.abef, 0x1b), dchg = _mm_shuffle_epi32(s.cdgh, 0xb1);

	_mm_storeu_si128((__m128i *)(void *)&state[0], _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(void *)&state[4], _mm_alignr_epi8(dchg, feba, 8));
}

/* Words T to T + 3 of the schedule, from the sixteen before them: W[0] is the oldest four. */
TARGET static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
	__m128i t = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));

	return _mm_sha256msg2_epu32(t, w3);
}

TARGET static inline struct halves add_block(struct halves s, const unsigned char *p)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
	struct halves r = s;
	__m128i w[4];

	for (unsigned i = 0; i < 4; i++)
		w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + (size_t)16 * i)), swap);
#pragma GCC unroll 16
	for (unsigned i = 0; i < 16; i++) { /* four rounds each */
		__m128i t = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(const void *)&sha256_k[(size_t)4 * i]));

		r.cdgh = _mm_sha256rnds2_epu32(r.cdgh, r.abef, t);
		r.abef = _mm_sha256rnds2_epu32(r.abef, r.cdgh, _mm_shuffle_epi32(t, 0x0e));
		if (i < 12)
			w[i % 4] = next_words(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
	}
	r.abef = _mm_add_epi32(r.abef, s.abef);
	r.cdgh = _mm_add_epi32(r.cdgh, s.cdgh);
	return r;
}

TARGET static void add_blocks(uint32_t state[8], const unsigned char *p, size_t n)
{
	struct halves s = to_halves(state);

	for (; n > 0; n--, p += SHA256_BLOCK)
		s = add_block(s, p);
	from_halves(s, state);
}

bool sha256_blocks_fast(uint32_t state[8], const unsigned char *p, size_t n)
{
	if (!__builtin_cpu_supports("sha") || !__builtin_cpu_supports("sse4.1"))
		return false;
	add_blocks(state, p, n);
	return true;
}
#else
#include "base/banned.h"

bool sha256_blocks_fast(uint32_t state[8], const unsigned char *p, size_t n)
{
	(void)state, (void)p, (void)n;
	return false;
}
#endif
