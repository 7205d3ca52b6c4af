// SPDX-License-Identifier: Apache-2.0
/* base/sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), streaming and in one call.
 * The states are wiped when they end: they may have seen secrets. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define SHA256_SIZE 32
#define SHA256_HEX_LEN 64
#define SHA256_BLOCK 64

struct sha256 {
	uint32_t h[8];
	uint64_t bytes; /* fed so far */
	unsigned char block[SHA256_BLOCK];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_SIZE]);

struct hmac_sha256 {
	struct sha256 inner, outer;
};

void hmac_sha256_init(struct hmac_sha256 *h, struct str key);
void hmac_sha256_add(struct hmac_sha256 *h, const void *p, size_t n);
void hmac_sha256_end(struct hmac_sha256 *h, unsigned char out[SHA256_SIZE]);

void sha256(struct str text, unsigned char out[SHA256_SIZE]);
void sha256_hex(struct str text, char out[SHA256_HEX_LEN + 1]); /* lower case */
void hmac_sha256(struct str key, struct str text, unsigned char out[SHA256_SIZE]);
