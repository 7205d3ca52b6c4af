// SPDX-License-Identifier: Apache-2.0
/* base/sha512.h - SHA-512 (FIPS 180-4), streaming and in one call. The state is wiped when it ends. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SHA512_SIZE 64
#define SHA512_HEX_LEN 128
#define SHA512_BLOCK 128

struct sha512 {
	uint64_t h[8];
	uint64_t bytes; /* fed so far */
	unsigned char block[SHA512_BLOCK];
};

void sha512_init(struct sha512 *s);
void sha512_add(struct sha512 *s, const void *p, size_t n);
void sha512_end(struct sha512 *s, unsigned char out[SHA512_SIZE]);

void sha512(struct str text, unsigned char out[SHA512_SIZE]);
