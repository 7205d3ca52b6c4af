// SPDX-License-Identifier: Apache-2.0
/* base/digest.h - names of content: its digest outside (SHA-256 or SHA-512), a fixed-size name inside.
 *
 * Inside our programs, blobs and layers have names of DIGEST_NAME_SIZE bytes that follow from the digest
 * alone. The name of a SHA-256 is the digest itself, that of a SHA-512 is the SHA-256 of its text. Two
 * digests never share a name, so content that was verified by one of them is never taken for the other. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/sha256.h"
#include "base/sha512.h"
#include "base/str.h"

#define DIGEST_NAME_SIZE SHA256_SIZE
#define DIGEST_TEXT_MAX (sizeof("sha512:") - 1 + SHA512_HEX_LEN)

struct digest {
	uint32_t size; /* SHA256_SIZE or SHA512_SIZE, which says what it is */
	unsigned char bytes[SHA512_SIZE]; /* zero beyond its size */
};

bool digest_valid(const struct digest *d); /* for digests from outside */
bool digest_eq(const struct digest *a, const struct digest *b);

/* "sha256:" or "sha512:" and as many small hexadecimal digits as it takes: the one way a digest is
 * written. */
bool digest_parse(struct str text, struct digest *ret);
void digest_write(const struct digest *d, char out[DIGEST_TEXT_MAX + 1]);
const char *digest_kind(const struct digest *d); /* "sha256", "sha512" */

void digest_name(const struct digest *d, unsigned char out[DIGEST_NAME_SIZE]);
struct digest digest_of_sha256(const unsigned char sum[SHA256_SIZE]);

/* Content that comes in pieces. */
struct hasher {
	uint32_t size; /* of the digest that it makes */
	union {
		struct sha256 sha256;
		struct sha512 sha512;
	};
};
void hasher_init(struct hasher *h, uint32_t size);
void hasher_add(struct hasher *h, const void *p, size_t n);
void hasher_end(struct hasher *h, struct digest *ret);

struct digest digest_of(struct str text, uint32_t size);
bool digest_is_of(const struct digest *d, struct str text);
