// SPDX-License-Identifier: Apache-2.0
/* net/ws/ws_conn_impl.h - what the handshakes (ws_conn_open.c) and the connection (ws_conn.c) share. */
#pragma once
#include "base/buf.h"
#include "base/random.h"
#include "net/loop.h"
#include "net/watch.h"
#include "net/ws/ws_conn.h"
#include "net/ws/ws_handshake.h"

#define WS_PROTOCOL_MAX 64
#define WS_REASON_MAX 128

enum ws_state {
	WS_OPENING,
	WS_OPEN,
	WS_CLOSING, /* our close frame is on its way, the peer's is awaited */
	/* both are done or the peer is not worth waiting for: what is left is sent, then it ends */
	WS_LAST,
	WS_OVER,
};

struct ws_conn {
	struct loop *loop;
	struct ws_options options;
	const struct ws_ops *ops;
	void *arg;
	enum ws_role role;
	enum ws_state state;
	struct transport *t;
	struct watch watch;
	struct timer timer;
	struct deferred later;

	/* opening */
	struct reply *reply;    /* a server's answer that has not been sent */
	struct http_call *call; /* a client's request that has not been answered */
	char key[WS_KEY_LEN + 1];
	char protocol[WS_PROTOCOL_MAX + 1];
	bool is_announced; /* on_open has been called */
	bool closes_early; /* to be closed with `code` and `reason` as soon as it is open */

	/* moving */
	struct ws_decoder decoder;
	struct random_pool random; /* masks of a client */
	struct buf in;  /* what was received while paused, or before the start */
	struct buf out; /* out.p[sent..out.n) has not left */
	size_t sent;
	size_t held; /* memory that on_memory has granted */
	bool is_paused, wants_room, is_shut;
	uint64_t read_ms, ping_ms, write_ms, close_ms; /* when the last byte came, the last ping went, ... */
	uint64_t second_ms; /* the second in which control frames are counted */
	unsigned controls;

	/* the end */
	uint16_t code;
	char reason[WS_REASON_MAX];
	size_t reason_n;
	bool is_running;
};

struct ws_conn *ws_new(struct loop *l, enum ws_role role, const struct ws_options *options,
		       const struct ws_ops *ops,
		       void *arg, struct err *e);
void ws_start(struct ws_conn *ws, struct transport *t, struct str early); /* takes T */
void ws_end(struct ws_conn *ws, uint16_t code, struct str reason);        /* at once, with on_close */
