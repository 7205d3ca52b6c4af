// SPDX-License-Identifier: Apache-2.0
#include "access/route_token.h"

#include <stdio.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/sha256.h"

#include "base/banned.h"

#define DIGEST_CHARS 8 /* of a signature: the rest is the key's id */

/* 0 to 35 for 0-9 and a-z, or -1. */
static int base36_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'z' ? c - 'a' + 10 : -1;
}

/* ---- keys ---- */

static bool route_key_id_valid(char id)
{
	return base36_digit(id) >= 0;
}

static void forget(struct buf *secret)
{
	if (secret->p)
		secret_wipe(secret->p, secret->cap);
	buf_done(secret);
}

int route_keys_add(struct route_keys *k, char id, struct str secret, struct err *e)
{
	unsigned flags = secret.n % 4 == 0 ? BASE64_STD : BASE64_STD | BASE64_UNPADDED;
	struct buf made = BUF_INIT(ROUTE_SECRET_MAX);
	struct buf *at;

	if (!route_key_id_valid(id))
		return err_set(e, ERR_INVALID, "the id of a key is one of 0-9 and a-z");
	if (base64_decode(&made, secret, flags, e) < 0 || made.n == 0) {
		forget(&made);
		return err_set(e, ERR_INVALID, "key '%c' is not base64 of 1 to %d bytes", id, ROUTE_SECRET_MAX);
	}
	at = &k->secrets[base36_digit(id)];
	k->n += at->n == 0;
	forget(at);
	*at = made;
	return 0;
}

int route_keys_parse(struct route_keys *k, struct str list, struct err *e)
{
	struct str item, id, secret;

	while (list.n > 0) {
		(void)str_cut(list, ',', &item, &list);
		item = str_trim(item);
		if (item.n == 0)
			continue;
		if (!str_cut(item, '=', &id, &secret) || id.n != 1)
			return err_set(e, ERR_INVALID, "keys are written as ID=BASE64, with commas between them");
		if (route_keys_add(k, id.p[0], secret, e) < 0)
			return -1;
	}
	return 0;
}

void route_keys_done(struct route_keys *k)
{
	for (size_t i = 0; i < ROUTE_KEYS_MAX; i++)
		forget(&k->secrets[i]);
	k->n = 0;
}

/* ---- signing ---- */

size_t route_expires_write(uint64_t expires, char out[ROUTE_EXPIRES_MAX + 1])
{
	char backwards[ROUTE_EXPIRES_MAX];
	size_t n = 0;

	do {
		backwards[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[expires % 36];
		expires /= 36;
	} while (expires > 0);
	for (size_t i = 0; i < n; i++)
		out[i] = backwards[n - 1 - i];
	out[n] = '\0';
	return n;
}

bool route_expires_read(struct str text, uint64_t *ret_expires)
{
	uint64_t v = 0;

	if (text.n == 0 || text.n > ROUTE_EXPIRES_MAX || (text.n > 1 && text.p[0] == '0'))
		return false;
	for (size_t i = 0; i < text.n; i++) {
		int digit = base36_digit(text.p[i]);

		if (digit < 0 || __builtin_mul_overflow(v, (uint64_t)36, &v) || __builtin_add_overflow(v, (uint64_t)digit, &v))
			return false;
	}
	*ret_expires = v;
	return true;
}

static void add_sized(struct sha256 *s, struct str part)
{
	uint32_t n = (uint32_t)part.n; /* a secret of ours, or an id, a port and a time */
	unsigned char size[4] = { (unsigned char)(n >> 24), (unsigned char)(n >> 16), (unsigned char)(n >> 8), (unsigned char)n };

	sha256_add(s, size, sizeof(size));
	sha256_add(s, part.p, part.n);
}

bool route_sign(const struct route_keys *k, char key_id, struct str id, unsigned port, uint64_t expires,
		char out[ROUTE_SIGNATURE_LEN + 1])
{
	AUTO(buf_done) struct buf canonical = BUF_INIT(1024);
	const struct buf *secret = route_key_id_valid(key_id) ? &k->secrets[base36_digit(key_id)] : NULL;
	char text[ROUTE_EXPIRES_MAX + 1];
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;

	if (!secret || secret->n == 0)
		return false;
	(void)route_expires_write(expires, text);
	buf_addf(&canonical, "v1\nshort\n%.*s\n%u\n%s\n", STR_ARG(id), port, text);
	if (canonical.failed)
		return false;
	sha256_init(&s);
	add_sized(&s, buf_str(secret));
	add_sized(&s, buf_str(&canonical));
	sha256_end(&s, digest);
	hex_encode(out, digest, DIGEST_CHARS / 2);
	out[DIGEST_CHARS] = key_id;
	out[ROUTE_SIGNATURE_LEN] = '\0';
	return true;
}

/* ---- reading ---- */

static bool read_port(struct str text, bool with_zeros, unsigned *ret)
{
	uint64_t port;

	if (!str_to_u64(text, 1, 65535, &port) || (!with_zeros && text.p[0] == '0'))
		return false;
	*ret = (unsigned)port;
	return true;
}

static bool is_signature(struct str s)
{
	for (size_t i = 0; i < DIGEST_CHARS && i < s.n; i++)
		if (hex_digit(s.p[i]) < 0 || (s.p[i] >= 'A' && s.p[i] <= 'F'))
			return false;
	return s.n == ROUTE_SIGNATURE_LEN && route_key_id_valid(s.p[DIGEST_CHARS]);
}

/* Takes what follows the last '-' off S. */
static bool take_last(struct str *s, struct str *ret_last)
{
	size_t n = s->n;

	while (n > 0 && s->p[n - 1] != '-')
		n--;
	if (n == 0)
		return false;
	*ret_last = str_skip(*s, n);
	s->n = n - 1;
	return true;
}

/* ID-PORT-EXPIRES-SIGNATURE; an id of one part or more. */
static bool read_signed_label(struct str label, struct route_token *ret)
{
	struct route_token t = { .id = label, .is_signed = true };
	struct str expires, port;

	if (!take_last(&t.id, &t.signature) || !take_last(&t.id, &expires) || !take_last(&t.id, &port) || t.id.n == 0)
		return false;
	if (!is_signature(t.signature) || !route_expires_read(expires, &t.expires) || !read_port(port, false, &t.port))
		return false;
	*ret = t;
	return true;
}

int route_read_label(struct str value, struct route_token *ret, struct err *e)
{
	struct route_token t = { 0 };
	struct str label, tail, port;

	if (str_starts(value, STR("https://")))
		value = str_skip(value, sizeof("https://") - 1);
	if (str_starts(value, STR("http://")))
		value = str_skip(value, sizeof("http://") - 1);
	(void)str_cut(value, '.', &label, &tail);
	if (read_signed_label(label, ret))
		return 0;
	t.id = label;
	if (!take_last(&t.id, &port) || t.id.n == 0 || !read_port(port, true, &t.port))
		return err_set(e, ERR_INVALID, "a route is ID-PORT or ID-PORT-EXPIRES-SIGNATURE");
	*ret = t;
	return 0;
}

/* The next segment of a raw path; *path begins with the '/' in front of it, or is empty. */
static bool take_segment(struct str *path, struct str *ret_segment)
{
	size_t n = 1;

	if (path->n == 0 || path->p[0] != '/')
		return false;
	while (n < path->n && path->p[n] != '/')
		n++;
	*ret_segment = str_skip(str_first(*path, n), 1);
	*path = str_skip(*path, n);
	return true;
}

int route_read_path(struct str path, struct route_token *ret, struct err *e)
{
	struct route_token t = { 0 };
	struct str port, expires;

	if (!take_segment(&path, &t.id) || t.id.n == 0 || !take_segment(&path, &port) || !read_port(port, false, &t.port))
		return err_set(e, ERR_INVALID, "a route is /ID/PORT or /ID/PORT/EXPIRES/SIGNATURE");
	t.rest = t.plain_rest = path;
	if (take_segment(&path, &expires) && take_segment(&path, &t.signature) && route_expires_read(expires, &t.expires) &&
	    is_signature(t.signature)) {
		t.is_signed = true;
		t.rest = path;
	}
	*ret = t;
	return 0;
}

enum route_verdict route_check(const struct route_keys *k, const struct route_token *t, uint64_t now_s)
{
	char want[ROUTE_SIGNATURE_LEN + 1];

	if (now_s > t->expires)
		return ROUTE_EXPIRED;
	if (!route_sign(k, t->signature.p[DIGEST_CHARS], t->id, t->port, t->expires, want))
		return ROUTE_UNKNOWN_KEY;
	return secret_eq(t->signature, (struct str){ want, ROUTE_SIGNATURE_LEN }) ? ROUTE_VALID : ROUTE_MISMATCH;
}

/* ---- who may come in ---- */

enum access_verdict access_check(struct str token, const struct access_request *rq, const struct route_keys *k, uint64_t now_s)
{
	static const enum access_verdict verdicts[] = {
		[ROUTE_VALID] = ACCESS_OK, [ROUTE_EXPIRED] = ACCESS_EXPIRED, [ROUTE_UNKNOWN_KEY] = ACCESS_UNKNOWN_KEY,
		[ROUTE_MISMATCH] = ACCESS_MISMATCH,
	};

	if (token.n == 0)
		return ACCESS_OK;
	if (rq->has_token)
		return secret_eq(str_trim(rq->token), token) ? ACCESS_OK : ACCESS_TOKEN_MISMATCH;
	if (!rq->route || !rq->route->is_signed)
		return ACCESS_UNSIGNED;
	if (k->n == 0)
		return ACCESS_NO_KEYS;
	return verdicts[route_check(k, rq->route, now_s)];
}

const char *access_text(enum access_verdict v)
{
	static const char *const texts[] = {
		[ACCESS_OK] = "",
		[ACCESS_TOKEN_MISMATCH] = "signature: secure access header mismatch",
		[ACCESS_UNSIGNED] = "signature: signature required for this sandbox",
		[ACCESS_NO_KEYS] = "signature: ingress verifier not configured",
		[ACCESS_EXPIRED] = "signature: access expired",
		[ACCESS_UNKNOWN_KEY] = "signature: unauthorized: unknown signed_key_id",
		[ACCESS_MISMATCH] = "signature: unauthorized: signature mismatch",
	};

	return texts[v];
}
