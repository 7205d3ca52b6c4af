// SPDX-License-Identifier: Apache-2.0
/* net/redis.h - a small client of Redis on the loop: commands go out in order, replies come back in order
 * (RESP 2).
 *
 * A connection is made with the first command and again, at most once a second, after it was lost; what was
 * in progress then fails. Nothing is repeated. Replies are simple strings, errors (which become errors here),
 * integers, bulk strings, nil, and arrays of bulk strings. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"
#include "net/addr.h"

struct err;
struct loop;
struct redis;
struct transport_maker;

#define REDIS_WORD_MAX 255          /* of a DSN: host, user, password */
#define REDIS_ITEMS_MAX 8           /* of an array */
#define REDIS_REPLY_MAX (128 * 1024)
#define REDIS_OUT_MAX (1024 * 1024) /* waiting to be sent */
#define REDIS_PENDING_MAX 256       /* commands without a reply */
#define REDIS_AGAIN_MS 1000

/* ---- where it is ---- */

struct redis_dsn {
	char host[REDIS_WORD_MAX + 1]; /* empty: a socket in the file system */
	unsigned port;
	char user[REDIS_WORD_MAX + 1], password[REDIS_WORD_MAX + 1]; /* empty: none */
	unsigned db;
	bool is_tls;
	struct addr to; /* set for sockets and numeric hosts, else by redis_dsn_resolve() */
};

/* redis://[[user]:password@]host[:port][/db], rediss://... for TLS, unix://[[user]:password@]/path[?db=N].
 * ERR_INVALID; the message never has the text, which may have a password. */
int redis_dsn_parse(struct str text, struct redis_dsn *ret, struct err *e);
/* looks the name up, if it is one: this may block */
int redis_dsn_resolve(struct redis_dsn *d, struct err *e);

/* ---- replies ---- */

enum redis_kind { REDIS_STATUS, REDIS_ERROR, REDIS_INTEGER, REDIS_BULK, REDIS_NIL, REDIS_ARRAY };

struct redis_reply {
	enum redis_kind kind;
	int64_t integer;
	struct str text; /* of a status, an error or a bulk string */
	struct str items[REDIS_ITEMS_MAX];
	size_t n; /* of an array */
};

/* 1: *ret is the first reply of IN, whose bytes are *ret_size; its views point into IN. 0: more is needed.
 * -1: that is no reply that we know, or one beyond a ceiling. Pure. */
int redis_reply_parse(struct str in, struct redis_reply *ret, size_t *ret_size);

/* ---- the client ---- */

/* Both are copied. MAKER: for a DSN that asks for TLS; NULL otherwise. */
struct redis *redis_new(struct loop *l, const struct redis_dsn *dsn, const struct transport_maker *maker,
			struct err *e);
/* no callback comes any more; NULL is fine; may be called from any callback */
void redis_free(struct redis *r);
DEFINE_AUTO(struct redis *, redis_free)

/* Exactly one of REPLY, valid during the call, and E is there. Called from the loop only. */
typedef void redis_fn(const struct redis_reply *reply, const struct err *e, void *arg);

/* -1: it was not sent, and FN will not be called. The reply is waited for TIMEOUT_MS. */
int redis_send(struct redis *r, const struct str *words, size_t n, unsigned timeout_ms, redis_fn *fn,
	       void *arg, struct err *e);
