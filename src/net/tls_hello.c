// SPDX-License-Identifier: Apache-2.0
#include "net/tls_hello.h"

#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define HANDSHAKE 22
#define CLIENT_HELLO 1
#define EXTENSIONS_MAX 128

enum { EXT_SERVER_NAME = 0, EXT_ESNI = 0xffce, EXT_ECH = 0xfe0d };

/* ---- records: the message without what is around it ---- */

/* 1: the message is whole and *ret_n bytes long at OUT; 0: more is needed; -1. */
static int unwrap(struct str in, unsigned char out[TLS_HELLO_MAX], size_t *ret_n, const char **ret_why)
{
	const unsigned char *p = (const unsigned char *)in.p;
	size_t at = 0, n = 0, want = 4;

	for (unsigned records = 0; n < want; records++) {
		size_t length, part;

		if (in.n > at && p[at] != HANDSHAKE)
			return *ret_why = "no TLS", -1;
		if (in.n > at + 1 && p[at + 1] != 3)
			return *ret_why = "no version of TLS", -1;
		if (records == TLS_HELLO_RECORDS_MAX)
			return *ret_why = "a hello in too many records", -1;
		if (in.n < at + RECORD_HEAD)
			return 0;
		length = (size_t)p[at + 3] << 8 | p[at + 4];
		if (length == 0 || length > RECORD_MAX)
			return *ret_why = "a record of a wrong size", -1;
		at += RECORD_HEAD;
		part = MIN(length, in.n - at);
		memcpy(out + n, p + at, MIN(part, TLS_HELLO_MAX - n)); /* what is behind the message does not count */
		n += MIN(part, TLS_HELLO_MAX - n);
		at += part;
		if (n >= 1 && out[0] != CLIENT_HELLO)
			return *ret_why = "another message than a hello", -1;
		if (n >= 4)
			want = 4 + ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
		if (want > TLS_HELLO_MAX)
			return *ret_why = "a hello that is too long", -1;
		if (part < length && n < want)
			return 0;
	}
	*ret_n = want;
	return 1;
}

/* ---- the message ---- */

struct cursor {
	const unsigned char *p;
	size_t n;
};

/* The next N bytes, or false. */
static bool take(struct cursor *c, size_t n, struct cursor *ret)
{
	if (n > c->n)
		return false;
	if (ret)
		*ret = (struct cursor){ c->p, n };
	c->p += n;
	c->n -= n;
	return true;
}

static bool take_number(struct cursor *c, unsigned bytes, size_t *ret)
{
	struct cursor v;

	if (!take(c, bytes, &v))
		return false;
	*ret = 0;
	for (unsigned i = 0; i < bytes; i++)
		*ret = *ret << 8 | v.p[i];
	return true;
}

/* What has its length before it, in LENGTH_BYTES. */
static bool take_vector(struct cursor *c, unsigned length_bytes, struct cursor *ret)
{
	size_t n;

	return take_number(c, length_bytes, &n) && take(c, n, ret);
}

/* Exactly one name, of the one kind that there is. */
static bool parse_server_name(struct cursor c, struct tls_hello *h)
{
	struct cursor list, name;
	size_t kind;

	if (!take_vector(&c, 2, &list) || c.n > 0 || !take_number(&list, 1, &kind) || kind != 0)
		return false;
	if (!take_vector(&list, 2, &name) || list.n > 0)
		return false;
	h->has_name = true;
	return host_name((struct str){ (const char *)name.p, name.n }, h->name, &(struct err){ 0 }) == 0;
}

static int parse_extensions(struct cursor c, struct tls_hello *h, const char **ret_why)
{
	struct cursor data;
	size_t type;

	for (unsigned i = 0; c.n > 0; i++) {
		if (i == EXTENSIONS_MAX || !take_number(&c, 2, &type) || !take_vector(&c, 2, &data))
			return *ret_why = "broken extensions", -1;
		if (type == EXT_SERVER_NAME && h->has_name)
			return *ret_why = "two server names", -1;
		if (type == EXT_SERVER_NAME && !parse_server_name(data, h))
			return *ret_why = "a server name that is none", -1;
		if (type == EXT_ECH || type == EXT_ESNI)
			h->has_encrypted = true;
	}
	return 0;
}

static int parse_message(struct cursor c, struct tls_hello *h, const char **ret_why)
{
	struct cursor version, part, extensions;

	*ret_why = "a broken hello";
	if (!take(&c, 4, NULL) || !take(&c, 2, &version) || version.p[0] != 3 || !take(&c, 32, NULL))
		return -1;
	if (!take_vector(&c, 1, &part) || part.n > 32) /* session */
		return -1;
	if (!take_vector(&c, 2, &part) || part.n < 2 || part.n % 2) /* ciphers */
		return -1;
	if (!take_vector(&c, 1, &part) || part.n < 1) /* compression */
		return -1;
	if (c.n == 0)
		return 0; /* an old client, which has no name to give */
	if (!take_vector(&c, 2, &extensions) || c.n > 0)
		return -1;
	return parse_extensions(extensions, h, ret_why);
}

int tls_hello_parse(struct str in, struct tls_hello *ret, const char **ret_why)
{
	unsigned char message[TLS_HELLO_MAX];
	struct tls_hello h = { 0 };
	size_t n = 0;
	int k = unwrap(in, message, &n, ret_why);

	if (k <= 0)
		return k;
	if (parse_message((struct cursor){ message, n }, &h, ret_why) < 0)
		return -1;
	*ret = h;
	return 1;
}
