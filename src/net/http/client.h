// SPDX-License-Identifier: Apache-2.0
/* net/http/client.h - an HTTP/1.1 client on the loop, for one target, with connections that are kept for
 * reuse.
 *
 * A call ends with exactly one of on_end, on_upgrade and on_error, or by http_call_cancel() and then with
 * none of them. Callbacks come from the loop, never from the functions below; any of these may be called from
 * any of them, http_client_free() included. A call is gone when its last callback returns.
 *
 * A kept connection may turn out to have been closed by the other side. A request that met that before a
 * single byte of an answer is repeated once, on a new connection, if nothing of it was sent or if its method
 * is idempotent and its body is not a stream. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "net/http/http1.h"

struct err;
struct http_call;
struct http_client;
struct http_fetch;
struct loop;
struct transport;
struct transport_maker;

/* ---- the client ---- */

struct http_deadlines {
	unsigned connect_ms;
	unsigned send_ms; /* no byte of the request leaves or comes from its source */
	unsigned head_ms; /* from the end of the request to the end of the response's head */
	unsigned body_ms; /* no byte of the response arrives, pauses not counted */
};

/* Connects in the owner's own way. `begin` leads to exactly one http_dial_done(), during the call or later,
 * unless it fails itself or `cancel` is called first. */
struct http_dial {
	void *user; /* the dialer's own */
};
struct http_dialer {
	int (*begin)(struct http_dial *d, void *arg, struct err *e);
	void (*cancel)(struct http_dial *d, void *arg);
};
/* takes T; NULL: E gives the reason */
void http_dial_done(struct http_dial *d, struct transport *t, const struct err *e);

struct http_client_options { /* defaults in HTTP_CLIENT_OPTIONS */
	const struct sockaddr *to; /* copied */
	socklen_t to_len;
	const struct transport_maker *maker; /* copied; for TLS */
	const struct http_dialer *dialer;    /* instead of the three above; lives as long as the client */
	void *dialer_arg;
	unsigned max_idle; /* connections kept; 0: each request has its own and says so */
	unsigned idle_ms;  /* for this long */
	/* Servers that nobody vouches for close a connection right after an answer and say nothing of it: one
	 * that has been kept for less than this is not for requests that cannot be repeated: it is closed for
	 * the new one that they get, because a server that has one connection at a time would make that wait.
	 * 0: it is for all. */
	unsigned probation_ms;
	/* a kept connection is not looked at before it is used again: the other side is one of ours */
	bool trusts_peer;
	/* received and not handed on: a response's head fits in it; 0: HTTP_CLIENT_IN_MAX */
	size_t in_max;
	size_t high_water; /* of a source's bytes waiting for the peer; 0: HTTP_CLIENT_HIGH_WATER */
	struct http_deadlines deadlines;
};

#define HTTP_CLIENT_IN_MAX (HTTP_HEAD_MAX + 32 * 1024)

#define HTTP_CLIENT_OPTIONS \
	((struct http_client_options){ \
		.max_idle = 16, .idle_ms = 60000, \
		.deadlines = { .connect_ms = 5000, .send_ms = 30000, .head_ms = 30000, .body_ms = 30000 }, \
	})

struct http_client *http_client_new(struct loop *l, const struct http_client_options *options, struct err *e);
void http_client_free(struct http_client *c); /* cancels its calls and fetches; NULL is fine */
DEFINE_AUTO(struct http_client *, http_client_free)
void http_client_drop_idle(struct http_client *c); /* closes the connections that are kept */
size_t http_client_idle(const struct http_client *c);

/* ---- calls ---- */

/* A request body that is produced piece by piece. `proceed` is called when the connection stands, and again
 * whenever bytes have left and there is room; between calls the producer may write too, as long as
 * http_call_room() says so. `stop` is told when no more is wanted: the peer has answered without
 * waiting, or the call has failed (then before on_error). */
struct http_body_source {
	void (*proceed)(struct http_call *call, void *arg);
	void (*stop)(void *arg);
};

#define HTTP_UNSIZED UINT64_MAX
#define HTTP_CLIENT_BODY_MAX (16 * 1024 * 1024) /* a body of bytes; more is for a source */
#define HTTP_CLIENT_HIGH_WATER (64 * 1024)      /* of bytes waiting for the peer, by default */
#define HTTP_INFORMATIONAL_MAX 16               /* 1xx answers before the answer */

/* Everything is copied but the source and the numbers behind `deadlines`. */
struct http_request {
	struct str method, target; /* the target in origin form */
	struct str host;
	const char *upgrade; /* asks for this protocol; needs on_upgrade */
	const struct http_header *headers; /* none that frame the message or belong to the connection */
	size_t n_headers;
	struct str body;
	const struct http_body_source *source; /* instead of body */
	uint64_t length;                       /* of what the source gives; HTTP_UNSIZED: chunked */
	uint64_t max_body;                     /* of the response; 0: no ceiling */
	const struct http_deadlines *deadlines; /* NULL: the client's */
};

struct http_call_ops {
	/* The response's head, without 1xx; its views are valid during the call. May be NULL, like
	 * on_data. */
	void (*on_head)(struct http_call *call, const struct http_head *head, void *arg);
	void (*on_data)(struct http_call *call, struct str piece, void *arg);
	void (*on_end)(void *arg);
	void (*on_error)(const struct err *e, void *arg);
	/* 101: the connection is the callee's; EARLY are bytes of the new protocol, valid during the call. */
	void (*on_upgrade)(struct transport *t, const struct http_head *head, struct str early, void *arg);
	/* Or NULL. Instead of on_data, for a body of known length on a plain connection, behind what was
	 * received with the head: moves at most LEFT bytes out of FD, and answers like read(2); EAGAIN: FD
	 * has none, or pauses the call. ENOTSUP: the rest comes by on_data. It does not end the call. */
	ssize_t (*on_pass)(struct http_call *call, int fd, uint64_t left, void *arg);
};

struct http_call *http_call_start(struct http_client *c, const struct http_request *rq,
				  const struct http_call_ops *ops,
				  void *arg, struct err *e);
void http_call_cancel(struct http_call *call); /* no callback after this; NULL is fine */
DEFINE_AUTO(struct http_call *, http_call_cancel)

void http_call_pause(struct http_call *call); /* no on_data and no on_end until resumed */
void http_call_resume(struct http_call *call);

size_t http_call_room(const struct http_call *call);
void http_call_write(struct http_call *call, struct str bytes);
/* Moves at most N bytes of the body from FD, a socket, to the peer without copying them; answers like
 * read(2). What the peer does not take at once waits (CONDUIT_WIDE bytes at most), and until it has left
 * http_call_room() is 0 and nothing may be written. EAGAIN: FD has none. EBUSY: the call has no room.
 * ENOTSUP: only plain connections and bodies with a length can do that. */
ssize_t http_call_pass(struct http_call *call, int fd, uint64_t n);
/* The body is complete. Fewer bytes than were announced, or more, fail the call. */
void http_call_end(struct http_call *call);

/* ---- whole answers ---- */

#define HTTP_FETCH_MAX (1024 * 1024) /* of the body, unless the request says otherwise */

struct http_answer {
	const struct http_head *head;
	struct str body;
};

/* The answer is valid during the call; or it is NULL and E gives the reason. */
typedef void http_fetch_fn(const struct http_answer *answer, const struct err *e, void *arg);

struct http_fetch *http_fetch(struct http_client *c, const struct http_request *rq, http_fetch_fn *fn,
			      void *arg,
			      struct err *e);
void http_fetch_cancel(struct http_fetch *f); /* its callback ends it, and comes no more; NULL is fine */
