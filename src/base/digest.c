// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <assert.h>
#include <string.h>

#include "base/hex.h"
#include "base/own.h"

#include "base/banned.h"

#define KIND_LEN (sizeof("sha256:") - 1) /* of either */
#define HEX_LEN(size) ((size_t)2 * (size))

static bool size_valid(uint32_t size)
{
	return size == SHA256_SIZE || size == SHA512_SIZE;
}

bool digest_valid(const struct digest *d)
{
	static const unsigned char nothing[SHA512_SIZE];

	return size_valid(d->size) && memcmp(d->bytes + d->size, nothing, sizeof(d->bytes) - d->size) == 0;
}

bool digest_eq(const struct digest *a, const struct digest *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* ---- as text ---- */

const char *digest_kind(const struct digest *d)
{
	return d->size == SHA512_SIZE ? "sha512" : "sha256";
}

bool digest_parse(struct str text, struct digest *ret)
{
	struct digest d = { 0 };

	if (str_starts(text, STR("sha256:")))
		d.size = SHA256_SIZE;
	else if (str_starts(text, STR("sha512:")))
		d.size = SHA512_SIZE;
	if (d.size == 0 || text.n != KIND_LEN + HEX_LEN(d.size))
		return false;
	text = str_skip(text, KIND_LEN);
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] >= 'A' && text.p[i] <= 'F')
			return false;
	if (!hex_decode(text, d.bytes, d.size))
		return false;
	*ret = d;
	return true;
}

void digest_write(const struct digest *d, char out[DIGEST_TEXT_MAX + 1])
{
	assert(size_valid(d->size));
	memcpy(out, digest_kind(d), KIND_LEN - 1);
	out[KIND_LEN - 1] = ':';
	hex_encode(out + KIND_LEN, d->bytes, d->size);
}

/* ---- inside ---- */

void digest_name(const struct digest *d, unsigned char out[DIGEST_NAME_SIZE])
{
	char text[DIGEST_TEXT_MAX + 1];

	if (d->size == SHA256_SIZE) {
		memcpy(out, d->bytes, SHA256_SIZE);
		return;
	}
	digest_write(d, text);
	sha256(str_of(text), out);
}

struct digest digest_of_sha256(const unsigned char sum[SHA256_SIZE])
{
	struct digest d = { .size = SHA256_SIZE };

	memcpy(d.bytes, sum, SHA256_SIZE);
	return d;
}

/* ---- making them ---- */

void hasher_init(struct hasher *h, uint32_t size)
{
	assert(size_valid(size));
	h->size = size;
	if (size == SHA512_SIZE)
		sha512_init(&h->sha512);
	else
		sha256_init(&h->sha256);
}

void hasher_add(struct hasher *h, const void *p, size_t n)
{
	if (h->size == SHA512_SIZE)
		sha512_add(&h->sha512, p, n);
	else
		sha256_add(&h->sha256, p, n);
}

void hasher_end(struct hasher *h, struct digest *ret)
{
	*ret = (struct digest){ .size = h->size };
	if (h->size == SHA512_SIZE)
		sha512_end(&h->sha512, ret->bytes);
	else
		sha256_end(&h->sha256, ret->bytes);
}

struct digest digest_of(struct str text, uint32_t size)
{
	struct digest d;
	struct hasher h;

	hasher_init(&h, size);
	hasher_add(&h, text.p, text.n);
	hasher_end(&h, &d);
	return d;
}

bool digest_is_of(const struct digest *d, struct str text)
{
	struct digest is;

	if (!digest_valid(d))
		return false;
	is = digest_of(text, d->size);
	return digest_eq(&is, d);
}
