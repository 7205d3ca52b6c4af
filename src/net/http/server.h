// SPDX-License-Identifier: Apache-2.0
/* net/http/server.h - an HTTP/1.1 server on the loop: routes as a table, bodies and replies as streams.
 *
 * A handler decodes, acts and answers: it calls one reply_*() function and returns 0, or returns -1 with an
 * error that the server turns into status and body. A handler that cannot answer yet calls reply_hold() and
 * one of the others later. Requests of one connection are handled one after the other, in order. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"
#include "net/http/http1.h"

struct err;
struct http_server;
struct json;
struct loop;
struct reply;
struct request;
struct transport;
struct transport_maker;

/* ---- the service: what is served ---- */

typedef int handler_fn(struct request *rq, struct reply *rp, struct err *e);

enum {
	/* the handler is called before the body arrives and takes it with request_read() */
	ROUTE_STREAM_IN = 1,
	ROUTE_ROOT = 2,      /* not repeated below the service's prefix */
	ROUTE_PUBLIC = 4,    /* for `admit`: open to everybody, by exactly this path. The server itself does not look at it */
	ROUTE_LOOK_UP = 8,   /* for `finished`: gateways call it with a key for whatever id a stranger names. Likewise */
};

#define ROUTE_PARAMS_MAX 4
#define HTTP_IGNORED_BODY_MAX (64 * 1024) /* a body that its route has no use for is read and dropped up to this */

struct route {
	const char *method; /* "GET" (serves HEAD too), "*" (any), ...; NULL ends the table */
	/* "/sandboxes/:id/files"; a last segment "*" takes the rest as raw bytes, or nothing */
	const char *path;
	handler_fn *fn;
	unsigned flags;
	uint64_t max_body; /* bytes; beyond: 413. 0: the route takes no body */
};

struct http_service {
	const struct route *routes; /* the first that matches is taken */
	const char *prefix;         /* "v1": every route without ROUTE_ROOT also answers below /v1; or NULL */
	void *ctx;                  /* for handlers and hooks: rq->ctx */
	/* After the head, before routing and body: 0 to go on, -1 to refuse with E, or 0 after having
	 * answered. */
	int (*admit)(struct request *rq, struct reply *rp, struct err *e);
	/* Adds headers to any answer, framing errors included (then the head is empty). */
	void (*decorate)(struct request *rq, struct reply *rp);
	const char *error_code; /* for errors that a handler returns; NULL: one made from the status */
	const char *error_type; /* the content type of error answers; NULL: application/json */
	/* Writes the body of an error answer; NULL: {"code","message"}. */
	void (*write_error)(unsigned status, const char *code, const char *message, struct buf *body);
	/* The same for the two errors that no handler makes, an unknown path (404) and a wrong method (405);
	 * NULL: write_error. */
	void (*write_unrouted)(unsigned status, const char *code, const char *message, struct buf *body);
	/* An error whose text the peer does not get (5xx): for the log. */
	void (*failed)(const struct request *rq, const struct err *e);
	/* The exchange is over, answered or not (status 0: the peer went away first). */
	void (*finished)(const struct request *rq, unsigned status, uint64_t body_bytes);
};

/* ---- the server ---- */

struct http_limits { /* defaults in HTTP_LIMITS; the table in docs/threat-model.md */
	unsigned connections;     /* total; one more is answered 503 and closed */
	unsigned per_address;     /* one more is closed */
	unsigned streams;         /* event streams and upgrades; one more is answered 503 */
	/* from its first byte (or the connection's start) to the end of the head: 408 */
	unsigned head_ms;
	unsigned body_idle_ms;    /* no byte of a body: 408 */
	unsigned body_window_ms;  /* over each of these, a body brings body_window_bytes or is cut */
	unsigned body_window_bytes;
	unsigned keep_alive_ms;   /* between requests */
	unsigned reader_ms;       /* bytes wait for the peer and none is taken */
	unsigned silent_ms;       /* a reply that was held, or a stream that has begun, says nothing */
	unsigned linger_ms;       /* after an answer that ends the connection, for the peer to read it */
	size_t high_water;        /* bytes waiting for a peer before a stream's producer is stopped */
	unsigned send_buffer;     /* of each socket, as the kernel counts it; 0: what it gives */
	/* long files at once whose sockets may hold HTTP_WIDE bytes of them, in the kernel's pages */
	unsigned wide_files;
};

#define HTTP_WIDE (1024 * 1024)

#define HTTP_LIMITS \
	((struct http_limits){ \
		.connections = 20000, .per_address = 12000, .streams = 16384, .head_ms = 10000, \
		.body_idle_ms = 30000, .body_window_ms = 30000, .body_window_bytes = 30 * 1024, \
		.keep_alive_ms = 120000, .reader_ms = 60000, .silent_ms = 3600000, .linger_ms = 2000, \
		.high_water = 32 * 1024, \
	})

struct http_server *http_server_new(struct loop *l, const struct http_service *service,
				    const struct http_limits *limits,
				    struct err *e);
/* Closes every connection except upgraded ones, which belong to their new owners. */
void http_server_free(struct http_server *s);
DEFINE_AUTO(struct http_server *, http_server_free)

/* Takes a listening socket (TCP or unix). MAKER (copied) wraps what is accepted; NULL: plain. */
int http_server_listen(struct http_server *s, int *fd, const struct transport_maker *maker, struct err *e);

/* Stops listening, lets requests in progress end, and calls DONE when no connection is left or after
 * DEADLINE_MS. */
void http_server_drain(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg), void *arg);

struct http_counts {
	uint64_t accepted, refused, requests;
	unsigned connections, streams, busy; /* now; busy: with a request in progress */
};
struct http_counts http_server_counts(const struct http_server *s);

/* ---- the request ---- */

struct request {
	const struct http_head *head; /* never NULL; its views live as long as the request */
	struct str path, query;       /* raw, from the target; the query without '?' */
	struct str params[ROUTE_PARAMS_MAX]; /* what ':name' segments matched, decoded, in order */
	struct str rest;              /* what '*' matched, raw, without a leading '/' */
	struct str body;              /* whole, unless ROUTE_STREAM_IN */
	const struct route *route;    /* NULL before routing */
	struct arena *arena;          /* for this request */
	const struct sockaddr *peer;  /* AF_UNIX for unix sockets */
	struct str id;                /* the service's name for it, for logs; empty until set */
	void *ticket;                 /* the service's own, for its hooks */
	bool is_secure;               /* came over TLS */
	uint64_t began_ms;            /* loop time */
	void *ctx;                    /* the service's */
	void *user;                   /* the handler's */
};

static inline struct str request_header(const struct request *rq, const char *name)
{
	return http_value(rq->head, name);
}

/* the body, parsed; NULL and ERR_INVALID */
const struct json *request_json(struct request *rq, struct err *e);
struct loop *request_loop(const struct request *rq);

/* A streamed body. Each piece must be taken whole; to make the peer wait, pause. `stop` comes instead of
 * `end` when the peer goes away or misbehaves; neither comes after an answer. An error from `data` or `end`
 * is answered like a handler's. Of a handler that reads a body and holds, streams or upgrades its answer,
 * only the latter's callback is told of the end, unless it has none. */
struct body_sink {
	int (*data)(struct str piece, void *arg, struct err *e);
	int (*end)(void *arg, struct err *e);
	void (*stop)(void *arg);
	/* Or NULL. Instead of `data`, for a body of known length on a plain connection, behind what was
	 * received with the head: moves at most LEFT bytes out of FD, and returns like read(2); EAGAIN: FD
	 * has none, or pauses the request. ENOTSUP: the rest comes by `data`. It does not answer. */
	ssize_t (*pass)(int fd, uint64_t left, void *arg);
};
void request_read(struct request *rq, const struct body_sink *sink, void *arg);
void request_pause(struct request *rq);
void request_resume(struct request *rq);

/* ---- pace ----
 *
 * What moves many small pieces keeps the CPUs busy in the kernel, where nobody else gets a turn. All streams
 * that report what they move share HTTP_PACE_BYTES in HTTP_PACE_MS as long as the server has other requests
 * as well; those that move little are not held up by it. */

#define HTTP_PACE_MS 4
#define HTTP_PACE_BYTES (192 * 1024)
#define HTTP_PACE_LITTLE (32 * 1024)

struct http_pace {
	uint64_t began_ms, bytes;
};

/* The stream of RQ has moved N bytes. OWN is its own, zeroed in the beginning. Returns for how many
 * milliseconds it is to rest; 0: it may go on. */
unsigned request_pace(struct request *rq, struct http_pace *own, size_t n);

/* ---- the reply ---- */

/* Headers of the reply to come. A value that could not stand in a header is refused: it must be encoded
 * before. */
int reply_header(struct reply *rp, const char *name, struct str value);

/* Whole answers. They return 0 (a peer that went away is no error of the handler's). TYPE: content type or
 * NULL. */
int reply_empty(struct reply *rp, unsigned status); /* with Content-Length: 0 where the status can have one */
int reply_bytes(struct reply *rp, unsigned status, const char *type, struct str body); /* copied */
int reply_buf(struct reply *rp, unsigned status, const char *type, struct buf *body);  /* taken */
int reply_json(struct reply *rp, unsigned status, struct buf *json);                   /* taken */
int reply_error(struct reply *rp, unsigned status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int reply_file(struct reply *rp, unsigned status, const char *type, int *fd, uint64_t offset,
	       uint64_t length);

/* Answers later. `hangup` (or NULL) is told when the peer goes away first; RP and its request are gone after
 * it. Whoever holds one may hand it on: the last call counts. */
int reply_hold(struct reply *rp, void (*hangup)(void *arg), void *arg);

/* A streamed answer. `proceed` is called when there is room and the producer may write; between calls it may
 * write too, as long as reply_room() says so. `stop` is told when the peer goes away before reply_end(), and
 * for a HEAD. */
struct reply_source {
	void (*proceed)(void *arg);
	void (*stop)(void *arg);
};
#define REPLY_UNSIZED UINT64_MAX
int reply_stream(struct reply *rp, unsigned status, const char *type, uint64_t length,
		 const struct reply_source *source, void *arg, struct err *e); /* -1: too many streams */
int reply_event_stream(struct reply *rp, const struct reply_source *source, void *arg, struct err *e);
size_t reply_room(const struct reply *rp); /* bytes until the high-water mark */
void reply_write(struct reply *rp, struct str bytes);
/* Moves at most N bytes from FD, a socket, to the peer without copying them; answers like read(2). What the
 * peer does not take at once waits (CONDUIT_WIDE bytes at most), and until it has left reply_room() is 0 and
 * nothing may be written. EAGAIN: FD has none. EBUSY: there is no room. ENOTSUP: only plain connections and
 * streams with a length can do that. */
ssize_t reply_pass(struct reply *rp, int fd, uint64_t n);
void reply_end(struct reply *rp);
/* Cuts the connection, so that the peer does not take the body for whole. Neither `stop` nor `gone`
 * follows. */
void reply_abort(struct reply *rp);

/* 101 with PROTOCOL as Upgrade (and the headers added before). When it has been sent, TAKE owns the
 * connection; EARLY are bytes that the peer sent after its request, valid during the call. `gone` instead, if
 * it went away. */
struct upgrade {
	void (*take)(struct transport *t, struct str early, void *arg);
	void (*gone)(void *arg);
};
int reply_upgrade(struct reply *rp, const char *protocol, const struct upgrade *up, void *arg, struct err *e);

/* The status that answers an error of this code. */
unsigned http_status_of(const struct err *e);
