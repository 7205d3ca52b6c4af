// SPDX-License-Identifier: Apache-2.0
/* net/http/client_impl.h - what the files of the HTTP client share.
 *
 * client.c owns clients, their kept connections and the life of calls; client_call.c moves the bytes of one
 * call; client_request.c writes request heads. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "net/addr.h"
#include "net/conduit.h"
#include "net/dial.h"
#include "net/http/client.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/watch.h"

struct http_client {
	struct loop *loop;
	struct addr to;
	struct transport_maker maker; /* make is NULL: plain */
	const struct http_dialer *dialer;
	void *dialer_arg;
	unsigned max_idle, idle_ms, probation_ms;
	bool trusts_peer;
	size_t in_max, high_water;
	struct http_deadlines deadlines;
	struct http_conn *idle; /* the one used last comes first */
	size_t n_idle;
	struct http_call *calls;
};

/* A connection has a call or is in its client's list of idle ones. */
struct http_conn {
	struct http_client *client;
	struct transport *t;
	struct watch watch;
	struct timer idle;
	struct http_call *call;
	struct http_conn *prev, *next;
	bool was_used;
};

enum call_state {
	CALL_DIAL,
	CALL_HEAD, /* connected, until the response's head is complete */
	CALL_BODY,
	CALL_OVER, /* unlinked, without a connection; freed when it is not running */
};

struct http_call {
	struct http_client *client; /* may be gone when the call is over */
	struct http_call *prev, *next;
	const struct http_call_ops *ops;
	void *arg;
	void (*on_cancel)(void *arg); /* of one that wraps calls and has memory of its own; NULL: none */
	enum call_state state;
	struct http_dial handle;
	struct dial *dial;        /* ours, in progress */
	bool is_dialing;          /* the owner's dialer is at work */
	struct transport *dialed; /* connected, not yet put to use */
	struct http_conn *conn;
	struct http_deadlines deadlines;
	struct timer timer;
	struct deferred later;
	struct err failure; /* to be reported by the next run; ERR_NONE: none */

	/* the request */
	struct buf out; /* out.p[sent..out.n) has not left; kept whole while it may have to be repeated */
	size_t sent, high_water;
	struct conduit conduit; /* behind `out`: bytes that are passed through */
	const struct http_body_source *source;
	uint64_t source_left; /* bytes it still owes */
	bool source_is_open, is_chunked, wants_proceed;
	bool any_sent;        /* on this connection */
	bool is_send_broken;  /* the peer takes no more; it may have answered all the same */
	bool is_head, is_idempotent, is_repeat;
	const char *upgrade;

	/* the response */
	struct buf in; /* in.p[in_at..in.n) has not been looked at */
	size_t in_at;
	struct http_scan scan;
	struct http_chunked chunked;
	enum http_framing framing;
	uint64_t left, received, max_body;
	unsigned informational;
	bool any_received; /* on this connection */
	bool is_eof, keep_alive, is_paused;
	bool copies_body;  /* its owner does not want the rest passed */

	bool is_running; /* its memory stays while a callback may be looking at it */
};

static inline bool call_request_is_sent(const struct http_call *call)
{
	return call->sent == call->out.n && call->conduit.held == 0 && !call->source_is_open &&
		!call->is_send_broken;
}

/* client_request.c */
int call_write_head(struct http_call *call, const struct http_request *rq, bool closes, struct err *e);

/* client.c */
int call_connect(struct http_call *call, struct err *e);        /* a kept connection, or begins to dial */
int call_adopt(struct http_call *call, struct err *e);          /* puts call->dialed to use */
void call_over(struct http_call *call);                         /* unlinks; its connection must be gone */
void call_free(struct http_call *call);
void client_conn_close(struct http_conn *c);
void client_conn_keep(struct http_conn *c);
void call_run_later(struct http_call *call);

/* client_call.c */
void call_run(struct http_call *call, unsigned ready); /* may free the call */
void call_attached(struct http_call *call);
void call_on_timer(void *arg);
