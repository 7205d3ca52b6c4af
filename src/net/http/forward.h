// SPDX-License-Identifier: Apache-2.0
/* net/http/forward.h - forwards one request of a server through a client, and its reply back.
 *
 * Bytes are passed on as they arrive, both ways, with back-pressure. Long bodies of known length may pass
 * through a pipe without being copied, which holds CONDUIT_WIDE bytes for each direction. A 101 reply to an
 * upgrade request turns the two connections into a tunnel; any other reply is passed on as usual. The owner
 * decides about headers, and about the reply when the target does not answer. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;
struct forward;
struct http_client;
struct http_head;
struct http_request;
struct reply;
struct request;

/* Callbacks come from the loop. */
struct forward_ops {
	/* Adds the headers of an answer to ours. -1: it is not passed on. */
	int (*headers)(const struct request *rq, struct reply *rp, const struct http_head *head, void *arg,
		       struct err *e);
	/* There is no answer, or one that cannot be passed on: answers RP. ERR_UNAVAILABLE: nobody was
	 * reached. */
	void (*refuse)(struct reply *rp, const struct err *e, void *arg);
	void (*tunnel)(void *arg); /* it has become one; or NULL */
	void (*over)(void *arg);   /* the last one, once, unless it is cancelled */
	bool passes;               /* without copies where that can be */
	bool paces;                /* streams of events, while others are served: see request_pace() */
};

/* For a handler of a ROUTE_STREAM_IN route, which returns 0 then. OUT names everything but the body; the
 * client lives until `over`. NULL: nothing has been answered. */
struct forward *forward_start(struct request *rq, struct reply *rp, struct http_client *client,
			      struct http_request *out,
			      const struct forward_ops *ops, void *arg, struct err *e);
/* bytes of bodies, or of the tunnel that it has become, both ways */
uint64_t forward_moved(const struct forward *f);
/* Ends it at once: what has begun is cut, what has not is answered by `refuse` with WHY. No `over`. NULL is
 * fine. */
void forward_cancel(struct forward *f, const struct err *why);

/* The target behind what a "*" of the route took, byte for byte and with the query: "/" and more. Empty: no
 * memory. */
struct str forward_target(const struct request *rq);
