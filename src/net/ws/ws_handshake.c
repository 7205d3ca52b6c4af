// SPDX-License-Identifier: Apache-2.0
#include "net/ws/ws_handshake.h"

#include "base/own.h"
#include "net/http/header.h"
#include "net/http/http1.h"

#include "base/banned.h"

#define SHA1_LEN 20

/* ---- SHA-1: the handshake proves that the server speaks the protocol, it keeps no secret -------------------- */

static uint32_t rotate(uint32_t v, unsigned by)
{
	return v << by | v >> (32 - by);
}

static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
	static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned i = 0; i < 80; i++) {
		if (i < 16)
			w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
			       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
		else
			w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	}
	for (unsigned i = 0; i < 80; i++) {
		uint32_t choice = (b & c) | (~b & d), majority = (b & c) | (b & d) | (c & d), parity = b ^ c ^ d;
		uint32_t f = i < 20 ? choice : i >= 40 && i < 60 ? majority : parity;
		uint32_t next = rotate(a, 5) + f + e + k[i / 20] + w[i];

		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

/* Of a key and the protocol's constant: 60 bytes, two blocks with the padding. */
static void sha1_of_key(struct str key, uint8_t out[SHA1_LEN])
{
	static const struct str constant = { "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 36 };
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t data[128] = { 0 };
	size_t n = MIN(key.n, (size_t)WS_KEY_LEN);

	if (n > 0)
		memcpy(data, key.p, n);
	memcpy(data + n, constant.p, constant.n);
	n += constant.n;
	data[n] = 0x80;
	data[126] = (uint8_t)(n * 8 >> 8);
	data[127] = (uint8_t)(n * 8);
	sha1_block(h, data);
	sha1_block(h, data + 64);
	for (unsigned i = 0; i < SHA1_LEN; i++)
		out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- keys -------------------------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i += 3) {
		uint32_t second = i + 1 < n ? p[i + 1] : 0, third = i + 2 < n ? p[i + 2] : 0;
		uint32_t v = (uint32_t)p[i] << 16 | second << 8 | third;

		*out++ = alphabet[v >> 18];
		*out++ = alphabet[v >> 12 & 63];
		*out++ = i + 1 < n ? alphabet[v >> 6 & 63] : '=';
		*out++ = i + 2 < n ? alphabet[v & 63] : '=';
	}
	*out = '\0';
}

bool ws_key_valid(struct str key)
{
	if (key.n != WS_KEY_LEN || key.p[22] != '=' || key.p[23] != '=')
		return false;
	for (size_t i = 0; i < 22; i++)
		if (!memchr(alphabet, key.p[i], 64))
			return false;
	return true;
}

void ws_key_make(const uint8_t bytes[16], char out[WS_KEY_LEN + 1])
{
	base64(bytes, 16, out);
}

void ws_accept(struct str key, char out[WS_ACCEPT_LEN + 1])
{
	uint8_t digest[SHA1_LEN];

	sha1_of_key(key, digest);
	base64(digest, sizeof(digest), out);
}

bool ws_accept_matches(struct str key, struct str accept)
{
	char want[WS_ACCEPT_LEN + 1];

	ws_accept(key, want);
	return str_is(accept, want);
}

/* ---- the request ------------------------------------------------------------------------------------------- */

enum ws_handshake ws_handshake_check(const struct ws_request *rq)
{
	if (!http_list_has(rq->upgrade, "websocket"))
		return WS_HANDSHAKE_NONE;
	if (!http_list_has(rq->connection, "upgrade"))
		return WS_HANDSHAKE_BAD;
	if (rq->version.n > 0 && !str_is(rq->version, "13"))
		return WS_HANDSHAKE_VERSION;
	if (rq->version.n == 0 || !ws_key_valid(rq->key))
		return WS_HANDSHAKE_BAD;
	return WS_HANDSHAKE_OK;
}

bool ws_protocol_choose(struct str offered, const char *const *supported, struct str *ret_protocol)
{
	struct str item;

	while (header_list_next(&offered, &item)) {
		for (size_t i = 0; supported[i]; i++) {
			if (str_is(item, supported[i])) {
				*ret_protocol = item;
				return true;
			}
		}
	}
	return false;
}
