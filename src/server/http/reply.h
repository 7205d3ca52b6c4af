// SPDX-License-Identifier: Apache-2.0
/* server/http/reply.h - shared by the handlers of sandboxes: parameters, errors, objects as JSON. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/http/server.h"
#include "server/http/service.h"
#include "server/model/capability.h"
#include "server/model/plane.h"

struct field;
struct json_out;

#define API_BODY_MAX ((uint64_t)1024 * 1024) /* of a lifecycle request */

int reply_fault(struct reply *rp, const struct fault *f);
int reply_no_sandbox(const struct request *rq, struct reply *rp); /* 404 for params[0] */

/* Whether the runtime can do that. False: the answer is on its way. */
bool request_can(const struct request *rq, struct reply *rp, enum capability c);

/* The sandbox of params[0]. NULL: the 404 is on its way. */
struct sandbox *request_sandbox(const struct request *rq, struct reply *rp);

/* Binds the query to OUT by FIELDS; of a repeated key the first counts. Returns as service_decode() does. */
int request_query(struct request *rq, struct reply *rp, const struct field *fields, void *out, struct err *e);

/* The port of params[1]: 422 unless a number, 400 unless 1 to 65535. Returns as service_decode() does. */
int request_port(struct request *rq, struct reply *rp, unsigned *ret_port, struct err *e);

void write_time(struct json_out *o, const char *key, int64_t us);
void write_sandbox(struct json_out *o, const struct sandbox *sb);
void write_created(struct json_out *o, const struct sandbox *sb, const struct string_list *entrypoint);
int reply_sandbox(struct reply *rp, unsigned status, const struct sandbox *sb);
/* The answer to a create: ENTRYPOINT as it was asked for. */
int reply_created(struct request *rq, struct reply *rp, const struct sandbox *sb,
		  const struct string_list *entrypoint);

/* Pages of a list: "page" and "pageSize" of the query, from 1 and 20 on, and what the answer says about
 * them. */
struct paging {
	int64_t page, page_size;
};
#define PAGING_INIT ((struct paging){ .page = 1, .page_size = 20 })
extern const struct field paging_fields[];
bool paging_has(const struct paging *p, size_t at); /* whether the AT-th of all is on the page */
void write_pagination(struct json_out *o, const struct paging *p, size_t total);

/* A held reply that waits for a sandbox_fn. If the request ends before, nothing is sent. */
struct waiting_reply {
	struct request *rq; /* NULL: gone */
	struct reply *rp;
	unsigned status;    /* of success */
	enum { REPLY_SHOWS_EMPTY, REPLY_SHOWS_SANDBOX, REPLY_SHOWS_CREATED, REPLY_SHOWS_EXPIRY } shows;
	const struct string_list *entrypoint; /* of a create, in the request's arena */
};

/* Holds the reply; NULL: E. The caller passes waiting_reply_done and it to what it waits for, or ends it. */
struct waiting_reply *waiting_reply_new(struct request *rq, struct reply *rp, unsigned status, struct err *e);
void waiting_reply_done(struct sandbox *sb, const struct fault *f, void *arg); /* answers */
