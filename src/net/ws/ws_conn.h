// SPDX-License-Identifier: Apache-2.0
/* net/ws/ws_conn.h - a WebSocket connection on the loop, as a server or as a client.
 *
 * Pings are answered, silence is probed, a peer that breaks the protocol is told so and dropped. Callbacks
 * come from the loop, never from the functions below, and any of these may be called from any of them.
 * on_close is the last one and comes exactly once, whether the connection ever opened or not, unless it is
 * cancelled. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"
#include "net/http/http1.h"
#include "net/ws/websocket.h"

struct err;
struct http_client;
struct loop;
struct reply;
struct request;
struct ws_conn;

#define WS_CLOSE_ABNORMAL 1006 /* never on the wire: it ended without a close frame, or did not begin */
#define WS_CLOSE_POLICY 1008
#define WS_SEND_MAX WS_MESSAGE_MAX /* of one message that we send */
#define WS_MEMORY_FREE ((size_t)64 * 1024)

struct ws_options { /* defaults in WS_OPTIONS */
	size_t message_max;   /* of one message to us; beyond: 1009 */
	size_t high_water;    /* bytes waiting for the peer before ws_conn_send() refuses */
	unsigned ping_ms;     /* between pings */
	unsigned deadline_ms; /* no byte from the peer: it is gone */
	unsigned write_ms;    /* bytes wait for the peer and none is taken: it is gone */
	unsigned close_ms;    /* for the peer to do its part of closing */
	unsigned controls_per_s; /* control frames from the peer; beyond: 1008 */
	const char *const *protocols; /* NULL-terminated, in order of preference; NULL: none */
};

#define WS_OPTIONS \
	((struct ws_options){ \
		.message_max = WS_MESSAGE_MAX, .high_water = 64 * 1024, .ping_ms = 30000, .deadline_ms = 60000, \
		.write_ms = 10000, .close_ms = 5000, .controls_per_s = 50, \
	})

struct ws_ops { /* all but on_message and on_close may be NULL */
	/* the protocol that was agreed on, or "" */
	void (*on_open)(struct ws_conn *ws, struct str protocol, void *arg);
	/* Who pauses here may go on using DATA until it resumes or closes. */
	void (*on_message)(struct ws_conn *ws, bool is_text, struct str data, void *arg);
	void (*on_drained)(struct ws_conn *ws, void *arg); /* room again, after a refusal */
	void (*on_close)(uint16_t code, struct str reason, void *arg);
	/* Messages from the peer may take this much memory from now on, in place of what was said before;
	 * false closes with 1009. Less is always granted. Up to WS_MEMORY_FREE is not asked for, and on_close
	 * gives back what is left. */
	bool (*on_memory)(struct ws_conn *ws, size_t bytes, void *arg);
};

/* Answers a request in its handler, and returns what the handler returns. *ret_ws is NULL unless the
 * handshake is good: then the answer is 400 or 426, and no callback comes. */
int ws_conn_accept(struct request *rq, struct reply *rp, const struct ws_options *options,
		   const struct ws_ops *ops,
		   void *arg, struct ws_conn **ret_ws, struct err *e);

struct ws_target {
	struct str target, host;
	const struct http_header *headers;
	size_t n_headers;
};
/* The client must live until on_open or on_close. */
struct ws_conn *ws_conn_connect(struct http_client *client, struct loop *l, const struct ws_target *target,
				const struct ws_options *options, const struct ws_ops *ops, void *arg,
					struct err *e);

/* Queues one message. False: it is not open, or too much is waiting; then on_drained will tell when to try
 * again. A message above WS_SEND_MAX is a mistake of the caller's and closes with 1011. Text must be valid
 * UTF-8. */
bool ws_conn_send(struct ws_conn *ws, bool is_text, struct str data);
/* Bytes until it would be refused; 0 counts as a refusal. */
size_t ws_conn_room(struct ws_conn *ws);

void ws_conn_pause(struct ws_conn *ws); /* no on_message until resumed; the peer is not read from */
void ws_conn_resume(struct ws_conn *ws);

/* Begins to close; what was queued before is sent first. Ignored when it is closing already. */
void ws_conn_close(struct ws_conn *ws, uint16_t code, struct str reason);

void ws_conn_cancel(struct ws_conn *ws); /* drops the connection; no callback after this; NULL is fine */
DEFINE_AUTO(struct ws_conn *, ws_conn_cancel)
