// SPDX-License-Identifier: Apache-2.0
/* net/zmtp/zmtp_conn.h - one ZeroMQ connection on the loop, as a DEALER or SUB that connects to a peer which
 * binds.
 *
 * A DEALER sends and receives messages as they are; a SUB receives all that is published. Callbacks come from
 * the loop, never from the functions below, and any of these may be called from any of them. on_close is the
 * last one and comes exactly once, whether the connection ever stood or not, unless it is cancelled. Nothing
 * is dialled again here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "net/zmtp/zmtp.h"

struct err;
struct loop;
struct zmtp_conn;

enum zmtp_type { ZMTP_DEALER, ZMTP_SUB };

#define ZMTP_HANDSHAKE_MS 10000 /* from the connection to the peer's READY */

struct zmtp_ops {
	void (*on_ready)(struct zmtp_conn *z, void *arg);
	/* A piece of a message. Who pauses or cancels here gets no more; pieces that are on their way come
	 * after resuming. */
	void (*on_bytes)(struct zmtp_conn *z, const struct zmtp_event *ev, void *arg);
	void (*on_close)(const struct err *why, void *arg);
};

struct zmtp_spec {
	enum zmtp_type type;
	const struct sockaddr *to; /* copied */
	socklen_t to_len;
	uint64_t message_max; /* of one message to us */
	size_t send_max;      /* bytes that may wait for the peer */
};

struct zmtp_conn *zmtp_connect(struct loop *l, const struct zmtp_spec *sp, const struct zmtp_ops *ops,
			       void *arg, struct err *e);

/* Queues one message. False, and nothing is sent: it is not ready, or too much waits. */
bool zmtp_send(struct zmtp_conn *z, const struct str *frames, size_t n);

void zmtp_pause(struct zmtp_conn *z); /* the peer is not read from until resumed */
void zmtp_resume(struct zmtp_conn *z);

void zmtp_cancel(struct zmtp_conn *z); /* no callback after this; NULL is fine */
DEFINE_AUTO(struct zmtp_conn *, zmtp_cancel)
