// SPDX-License-Identifier: Apache-2.0
/* net/http/server_impl.h - what server.c, conn.c, reply.c and route.c share. Nothing else includes it.
 *
 * A connection (struct conn) reads and writes; an exchange (request and reply) exists from the end of a head
 * to the last byte of its answer. Handlers and other callbacks only change state: bytes move, and connections
 * die, in conn_run() alone, which callbacks from outside reach through conn_kick(). */
#pragma once
#include "base/map.h"
#include "net/conduit.h"
#include "net/http/http1.h"
#include "net/http/server.h"
#include "net/loop.h"
#include "net/transport.h"

enum read_state {
	READ_HEAD,   /* between requests, or inside a head */
	READ_BODY,   /* a body is wanted */
	READ_DRAIN,  /* the rest of a body is not wanted, but short enough to be skipped */
	READ_DONE,   /* the request is complete; nothing is read until its answer is out */
	READ_LINGER, /* the answer ends the connection; what comes is dropped until the peer closes */
};

enum reply_phase { REPLY_OPEN, REPLY_HELD, REPLY_STREAM, REPLY_UPGRADE, REPLY_ENDED };

struct reply {
	struct conn *c;
	enum reply_phase phase;
	unsigned status;        /* 0 until the head is written */
	bool is_chunked;
	bool drops_body;        /* HEAD, 204, 304: the body is counted, not sent */
	bool wants_proceed;     /* the producer stopped for lack of room, or has not been called yet */
	bool is_counted_stream;
	uint64_t left;          /* of a sized stream */
	uint64_t body_bytes;
	struct buf headers;     /* added by handlers and hooks, as they will be sent */
	const struct reply_source *source;
	const struct upgrade *upgrade;
	void (*hangup)(void *arg);
	void *arg; /* of source, upgrade or hangup */
};

struct exchange {
	struct exchange *next; /* in the free list */
	struct request rq;
	struct reply rp;
	struct http_head head;
	struct buf head_bytes; /* what the head's views point into */
	struct buf body;
	struct arena arena;
	uint64_t max_body;
	const struct body_sink *sink;
	void *sink_arg;
};

/* One peer address and how many connections it has. */
struct address {
	unsigned char key[16];
	unsigned connections;
};

/* A place among the connections; lives until the transport closes, which may be after the conn is gone. */
struct seat {
	struct seat *prev, *next;
	struct http_server *s;   /* NULL: the server is gone */
	struct address *address; /* NULL: unix socket */
	int fd;                  /* the transport's */
	bool is_stream;
};

struct conn {
	struct http_server *s;
	struct conn *prev, *next;
	struct transport *t;
	struct seat *seat;
	struct io io;
	struct timer timer;
	struct deferred kick;
	struct sockaddr_storage peer;

	enum read_state reading;
	struct buf in;
	struct http_scan scan;
	struct http_chunked chunked;
	uint64_t body_left; /* of HTTP_LENGTH */
	uint64_t body_seen;
	uint64_t in_ms, out_ms; /* when bytes last came and went */
	uint64_t head_ms;       /* when the head began, or the connection */
	uint64_t paused_ms;
	uint64_t window_ms;
	size_t window_bytes;

	struct exchange *x; /* NULL between requests */
	struct buf out;
	size_t out_at;   /* sent of it */
	struct buf tail; /* a whole body behind `out`, taken from its maker */
	size_t tail_at;
	int file; /* a file behind `out`, or -1 */
	off_t file_at;
	uint64_t file_left;
	int narrow; /* the size of the socket's buffer, while it is a larger one for a file; or 0 */
	struct conduit conduit; /* of a sized stream, behind `out`: bytes that are passed through */

	bool is_paused;       /* by the taker of a body */
	bool copies_body;     /* its taker does not want the rest passed */
	bool closes;          /* after the answer in progress */
	bool peer_closed;     /* it ended its side, or said so and what came before is still to be read */
	bool is_dead;         /* conn_run() will take it down */
	size_t budget;        /* bytes that may still be sent in this run */
	bool is_killed;       /* being taken down: nothing may be queued for it any more */
	bool is_fresh;        /* no request yet */
	bool owes_continue;   /* the client waits for 100 before it sends its body */
};

struct listener {
	struct listener *next;
	struct http_server *s;
	struct io io;
	struct timer again; /* accepting failed for a reason that time may mend */
	int fd;
	struct transport_maker maker;
};

struct http_server {
	struct loop *loop;
	const struct http_service *service;
	struct http_limits limits;
	struct listener *listeners;
	struct conn *conns;
	struct seat *seats;
	struct map addresses;
	struct exchange *spare; /* finished ones, for the next requests */
	unsigned n_spare;
	struct buf spare_in;
	struct http_counts counts;
	unsigned wide; /* connections whose buffer is larger */
	struct http_pace pace; /* of all streams together */
	int spare_fd;           /* given up for a moment to refuse a connection when descriptors run out */
	char date[32];
	int64_t date_s;         /* the second that `date` shows */
	bool is_draining;
	struct timer drain_timer;
	struct deferred drained;
	void (*on_drained)(void *arg);
	void *on_drained_arg;
};

/* conn.c */
struct conn *conn_new(struct http_server *s, struct transport *t, struct seat *seat,
		      const struct sockaddr_storage *peer,
		      struct err *e); /* on failure the transport stays the caller's */
void conn_kick(struct conn *c);
void conn_kill(struct conn *c); /* at once; not from inside its own callbacks */
size_t conn_pending(const struct conn *c); /* bytes of `out` and `tail` not sent yet */
void conn_out(struct conn *c, struct str bytes);
void conn_widen(struct conn *c); /* for the file that it is to send */
ssize_t conn_pass(struct conn *c, int from, uint64_t n); /* like reply_pass() */
void conn_continue(struct conn *c); /* sends 100 Continue to a client that waits for it */
bool conn_can_skip_body(const struct conn *c); /* what is left of the request is complete or short */

/* exchange.c */
struct exchange *exchange_new(struct conn *c, struct err *e);
void exchange_free(struct http_server *s, struct exchange *x); /* to the free list, or for good */
void exchange_spares_free(struct http_server *s);
/* head complete: admit, route, and the handler if it need not wait */
void exchange_dispatch(struct exchange *x);
void exchange_handle(struct exchange *x);   /* body complete */
void exchange_refuse(struct exchange *x, unsigned status, const char *why); /* framing faults and limits */
/* answers an error, if it still can */
void exchange_fail(struct exchange *x, struct err *e);
void exchange_unanswered(struct exchange *x); /* its handler neither answered nor holds: a defect of ours */

/* reply.c */
void reply_end_quietly(struct reply *rp); /* whatever was promised */
void reply_unrouted(struct reply *rp, unsigned status, const char *code, const char *message);

/* server.c */
const char *server_date(struct http_server *s);

/* route.c */
enum route_result { ROUTE_FOUND, ROUTE_NONE, ROUTE_METHOD, ROUTE_SLASH, ROUTE_BAD };
/* Fills rq->route, params and rest. ROUTE_METHOD: *allow lists what would do. ROUTE_BAD: E gives the
 * reason. */
enum route_result route_find(const struct http_service *service, struct request *rq, struct buf *allow,
			     struct err *e);
