// SPDX-License-Identifier: Apache-2.0
/* access/route_token.h - routes to ports behind a gateway: format, parsing and signature. Pure.
 *
 *     label    ID-PORT, or signed ID-PORT-EXPIRES-SIGNATURE: the first label of a host name, or a header's value
 *     path     /ID/PORT[/REST], or signed /ID/PORT/EXPIRES/SIGNATURE[/REST]
 *
 * EXPIRES is Unix time in base 36. SIGNATURE is eight hex digits of a SHA-256 and the id of the key. It
 * covers id, port and expiry only. Because it has 32 bits, the checking program must count failures
 * (access/attempts.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct err;

#define ROUTE_KEYS_MAX 36
#define ROUTE_SECRET_MAX 4096
#define ROUTE_EXPIRES_MAX 13  /* characters */
#define ROUTE_SIGNATURE_LEN 9

/* ---- keys ---- */

struct route_keys {
	struct buf secrets[ROUTE_KEYS_MAX]; /* by the number of their id; empty: there is none */
	unsigned n;
};

/* SECRET in base64, padded or not, of one byte or more. Replaces one of the same id. The message never has
 * the secret. */
int route_keys_add(struct route_keys *k, char id, struct str secret, struct err *e);
/* "a=BASE64,b=BASE64"; empty: none */
int route_keys_parse(struct route_keys *k, struct str list, struct err *e);
void route_keys_done(struct route_keys *k); /* wipes; usable again */
DEFINE_AUTO_DONE(struct route_keys, route_keys_done)

/* ---- signing ---- */

size_t route_expires_write(uint64_t expires, char out[ROUTE_EXPIRES_MAX + 1]);
bool route_expires_read(struct str text, uint64_t *ret_expires);
/* False: there is no such key. */
bool route_sign(const struct route_keys *k, char key_id, struct str id, unsigned port, uint64_t expires,
		char out[ROUTE_SIGNATURE_LEN + 1]);

/* ---- reading ---- */

/* Views of what was read. */
struct route_token {
	struct str id;
	unsigned port;
	bool is_signed;       /* looks like it */
	uint64_t expires;     /* if so */
	struct str signature;
	struct str rest;       /* of a path: what follows all of it, from its '/' on, or empty */
	struct str plain_rest; /* the same if it is taken for unsigned */
};

/* VALUE: a host, or a header's, with or without a scheme; what follows the first '.' does not count.
 * ERR_INVALID. */
int route_read_label(struct str value, struct route_token *ret, struct err *e);
int route_read_path(struct str path, struct route_token *ret, struct err *e); /* raw, without a query */

enum route_verdict {
	ROUTE_VALID,
	ROUTE_EXPIRED,
	ROUTE_UNKNOWN_KEY,
	ROUTE_MISMATCH,
};
/* Of one that is_signed. */
enum route_verdict route_check(const struct route_keys *k, const struct route_token *t, uint64_t now_s);

/* ---- who may come in ---- */

/* What came with a request. */
struct access_request {
	bool has_token; /* a secure-access header, the first of them */
	struct str token;
	const struct route_token *route; /* NULL, or not signed: none */
};

enum access_verdict {
	ACCESS_OK,
	ACCESS_TOKEN_MISMATCH,
	ACCESS_UNSIGNED,
	ACCESS_NO_KEYS, /* 503: signatures cannot be checked here */
	ACCESS_EXPIRED,
	ACCESS_UNKNOWN_KEY,
	ACCESS_MISMATCH,
};

/* TOKEN: what the header must have; empty: everybody may. A header that is there decides alone. */
enum access_verdict access_check(struct str token, const struct access_request *rq,
				 const struct route_keys *k, uint64_t now_s);
const char *access_text(enum access_verdict v); /* "signature: access expired", as clients know it */
static inline unsigned access_status(enum access_verdict v)
{
	return v == ACCESS_NO_KEYS ? 503 : 401;
}
/* Whether it was a guess: of these, somebody who tries can only do so many. */
static inline bool access_is_guess(enum access_verdict v)
{
	return v == ACCESS_TOKEN_MISMATCH || v == ACCESS_UNKNOWN_KEY || v == ACCESS_MISMATCH;
}
