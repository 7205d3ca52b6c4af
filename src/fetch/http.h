// SPDX-License-Identifier: Apache-2.0
/* fetch/http.h - requests to registries, by libcurl: several at once, each by the rules of I4.
 *
 * Nothing is followed automatically: a redirect is an ordinary response, and fetch/registry.h decides about
 * the next request. An address of W4 is not connected to, unless the operator has allowed it for the registry
 * or the host. For proxies see fetch/proxy.h. */
#pragma once
#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "fetch/order.h"
#include "net/reserved.h"

struct asker;

#define URL_MAX 8192
#define PLACE_MAX (REFERENCE_REGISTRY_MAX + 8)

/* Where a request goes. */
struct target {
	char url[URL_MAX];
	char host[REFERENCE_REGISTRY_MAX + 1];
	char place[PLACE_MAX]; /* "host:port", the port always said: what a credential is for */
	bool is_https;
};

/* TEXT may be relative to BASE, or BASE NULL. Only http and https, without a user; what follows '#' is
 * dropped. */
int target_parse(const char *base, const char *text, struct target *ret, struct err *e);

/* What an order allows about HOST, with the port that is not the scheme's own: the rule for it, or NULL. */
const struct registry_rule *target_rule(const struct order *o, const struct target *t);

struct session {
	CURLM *multi;
	const struct order *order;
	struct asker *asker;
	const struct own_addresses *own;
	const struct registry_rule *rule; /* of the registry that all this is for, or NULL */
	uint64_t deadline_ms;
};

int session_open(struct session *s, struct err *e); /* the other fields are set before */
void session_close(struct session *s);
DEFINE_AUTO_DONE(struct session, session_close)

/* -1: stop, with E set. */
typedef int body_fn(const char *p, size_t n, void *arg, struct err *e);

struct transfer {
	/* what is asked; lives until it is over */
	struct target target;
	bool is_head;
	const char *const *accept; /* media types, NULL at the end; or NULL */
	const char *authorization; /* value of the header, or NULL */
	uint64_t from;             /* bytes to leave out at the front */
	/* where the body of an answer 200 or 206 goes: into a buffer, which begins anew with each try, or in
	 * pieces */
	struct buf *whole;
	body_fn *body;
	void *arg;
	/* what came of it */
	bool is_over;
	struct err err; /* ERR_NONE: there is an answer */
	bool is_transient; /* with an error, which may not come again */
	unsigned status;
	char type[256];         /* without parameters */
	char digest[160];       /* Docker-Content-Digest */
	uint64_t range_from;    /* of 206 */
	struct buf challenge, location;
	/* its own */
	CURL *easy;
	struct curl_slist *headers;
	bool was_refused, uses_proxy;
	long proxy_status; /* what it said about the way to the registry; 0: nothing */
	size_t ignored; /* bytes of a body that is not wanted */
	struct session *session;
};

void transfer_init(struct transfer *t);
void transfer_done(struct transfer *t); /* in progress or not */
DEFINE_AUTO_DONE(struct transfer, transfer_done)

int transfer_begin(struct session *s, struct transfer *t, struct err *e); /* again, too, once it is over */

/* Waits for something to happen, at most WAIT_MS, and lets it. -1: all of it has to end: time is over, nobody
 * waits. */
int session_turn(struct session *s, int wait_ms, struct err *e);

/* Until T is over, while the others go on; -1 as above. */
int session_wait(struct session *s, struct transfer *t, struct err *e);
