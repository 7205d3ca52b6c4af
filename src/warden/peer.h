// SPDX-License-Identifier: Apache-2.0
/* warden/peer.h - connections of clients: requests in, replies out.
 *
 * Only root and the server's user are accepted, according to the kernel's credentials of each connection and
 * each message. A malformed message closes the connection. A peer that does not read its replies is not read
 * from. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "box/wire.h"

struct err;
struct warden;

#define PEERS_MAX 16
#define PEER_PENDING_MAX 4096 /* requests of one peer without an answer; then no more are read */
#define PEER_QUEUE_MAX 65536  /* answers that wait for a peer to read; then it is dropped */

/* Where an answer goes. The peer may be gone by then. */
struct ticket {
	uint64_t peer, serial;
	uint32_t call;
	char id[WIRE_ID_SIZE];
};

int peers_open(struct warden *w, int listener, struct err *e); /* takes the listener */
void peers_done(struct warden *w);

/* The one answer to a request. FAILURE: NULL when all went well. */
void answer(struct warden *w, const struct ticket *t, const struct err *failure);
/* The same with more in it; RP has all but version, call, serial and (unless it has one) id. */
void answer_with(struct warden *w, const struct ticket *t, struct wire_reply *rp, const int *fds,
		 size_t n_fds);
/* A row of a list: the answer is still to come. */
void answer_row(struct warden *w, const struct ticket *t, struct wire_reply *rp);

/* To all of them: WIRE_ENDED. */
void peers_tell_ended(struct warden *w, const char *id, const struct wire_ending *ending);
