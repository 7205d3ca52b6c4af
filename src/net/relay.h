// SPDX-License-Identifier: Apache-2.0
/* net/relay.h - moves bytes between two transports, both ways, until both sides have ended.
 *
 * Each direction holds at most one piece (RELAY_PIECE, or what a pipe takes) and reads nothing more before
 * that has left: a side that does not read stalls the direction towards it and no other. The end of one side
 * is passed on as a half-close behind its last byte; the other direction goes on. A relay that has nothing to
 * move holds no buffer. Between plain transports a direction that has moved RELAY_SPLICE_AFTER bytes goes
 * through a pipe without being copied; that needs SIGPIPE ignored or blocked, otherwise the copies stay. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct err;
struct loop;
struct relay;
struct transport;

#define RELAY_PIECE (32 * 1024)
#define RELAY_EARLY_MAX (128 * 1024)
#define RELAY_SPLICE_AFTER (64 * 1024)
#define RELAY_IDLE_MS 3600000
#define RELAY_LINGER_MS 300000

enum relay_side {
	RELAY_A,
	RELAY_B,
};

enum relay_end {
	RELAY_ENDED,   /* both sides ended in good order */
	RELAY_FAILED,  /* side `by` broke: `sys` says how */
	RELAY_TIMEOUT, /* nothing moved for too long */
};

struct relay_result {
	enum relay_end end;
	enum relay_side by; /* the side that ended or failed first; for a timeout without one: RELAY_A */
	int sys;            /* errno of a failure */
	uint64_t from_a, from_b; /* bytes that the other side has taken */
};

/* Both transports are closed, the relay is gone. */
typedef void relay_fn(const struct relay_result *result, void *arg);

struct relay_spec {
	struct transport *a, *b;       /* taken on success */
	struct str early_a, early_b;   /* received from that side already (copied), for the other */
	unsigned idle_ms;              /* no byte either way: RELAY_IDLE_MS when 0 */
	size_t pipe;                   /* that a long direction's pipe may grow to: CONDUIT_NARROW when 0 */
	unsigned linger_ms;            /* the same once one side has ended: RELAY_LINGER_MS when 0 */
	relay_fn *done;                /* called from the loop, once; may be NULL */
	void *arg;
};

struct relay *relay_start(struct loop *l, const struct relay_spec *spec, struct err *e);
uint64_t relay_moved(const struct relay *r); /* bytes so far, both ways together */
void relay_cancel(struct relay *r); /* closes both, without calling `done`; NULL is fine */
DEFINE_AUTO(struct relay *, relay_cancel)
