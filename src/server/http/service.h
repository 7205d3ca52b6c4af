// SPDX-License-Identifier: Apache-2.0
/* server/http/service.h - what all routes share: request ids, CORS, key, limits, error bodies, access log.
 *
 * A struct service is the ctx of its requests: handlers get it with service_of(). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "base/str.h"
#include "net/http/server.h"
#include "net/log_limit.h"
#include "server/http/auth.h"

struct asset;
struct decode;
struct err;
struct field;
struct plane;

#define CODE_INVALID_PARAMETER "SANDBOX::INVALID_PARAMETER"
#define CODE_UNKNOWN_ERROR "GENERAL::UNKNOWN_ERROR"

struct service_spec {
	struct auth auth;
	unsigned requests_per_key; /* in progress; one more is answered 429 */
	unsigned requests;         /* in progress, in all; one more is answered 503; 0: no limit */
	const struct route *routes;
	const struct asset *(*find_asset)(const char *name); /* documents that come with the program */
	struct plane *plane;      /* sandboxes and what they run on; NULL: there are none */
	bool is_proxy_origin;     /* answers on the port of the endpoint proxy alone */
	/* The audit: one line per call; NULL: none. */
	void (*audit)(const struct request *rq, unsigned status, uint64_t body_bytes);
	/* How many calls were not told, because anybody can make as many as they like. */
	void (*audit_left_out)(const struct plane *p, const char *what, uint64_t n);
};

/* Requests that anybody can make: LOG_LIMIT_LINES of a kind are logged, and audited, in a minute. */
enum service_stranger {
	STRANGER_OPEN, /* what needs no key, but for what a sandbox has answered */
	STRANGER_MISSING,
	STRANGER_INVALID,
	STRANGER_HOST,
	STRANGER_ORIGIN,
	STRANGER_MALFORMED,
	STRANGER_LOOK_UP, /* what a gateway did not find: it has the key, whoever named the sandbox to it need not */
	STRANGERS,
};

struct service {
	struct service_spec spec;
	struct http_service http; /* for http_server_new() */
	unsigned in_progress, in_progress_by_key;
	struct random_pool random;
	struct log_limit strangers[STRANGERS];
};

void service_init(struct service *s, const struct service_spec *spec);
void service_done(struct service *s); /* after its HTTP server, before its loop and its plane */

static inline struct service *service_of(const struct request *rq)
{
	return rq->ctx;
}

static inline struct plane *plane_of(const struct request *rq)
{
	return service_of(rq)->spec.plane;
}

/* Binds the body to OUT by FIELDS, leniently. 0: done. 1: it was wrong and the 422 is on its way, so the
 * handler returns 0. -1: E. D keeps the problems, and the keys that were ignored. */
int service_decode(struct request *rq, struct reply *rp, const struct field *fields, void *out,
		   struct decode *d,
		   struct err *e);

/* From a gateway of ours, which has the key and has checked who may come in: what it says about its peer is
 * believed. */
#define HOP_HEADER "OpenSandbox-Gateway"
bool service_is_gateway(const struct request *rq);

/* The path without what nobody is to read in a log: of a signed route what follows the port. */
struct str service_logged_path(const struct request *rq);

/* What a call is about where its path does not say so, for the audit. Kept in the request's arena; empty:
 * nothing. */
void service_note(struct request *rq, const char *subject);
struct str service_noted(const struct request *rq);

/* 422 with the problems of D as "detail", and code and message for clients that look for those. */
int service_reply_problems(struct reply *rp, const struct decode *d, const char *where);

/* ---- for tests ---- */
bool origin_valid(struct str origin);
