// SPDX-License-Identifier: Apache-2.0
/* box/egress_wire.h - protocol between the warden and opensandbox-egress: fixed messages over a SEQPACKET
 * socket.
 *
 * The warden announces which sandbox has which address. Egress decides what a sandbox may reach, and sends
 * the warden the addresses to open. One egress is connected at a time. When it disconnects, the rules stay in
 * force and nothing new is opened; the next one gets all sandboxes again, and addresses that were learned
 * before are forgotten.
 *
 * The sockets of HELLO belong to the warden, are bound to the gateway in the host's network, and do not
 * block. Packets of a sandbox to port 53 of any address arrive at the first two, with the sandbox's own
 * source address. Connections to ports 80 and 443 of a sandbox whose default is deny arrive at the third,
 * where SO_ORIGINAL_DST has the original address. RULES ends the flows that the new rules do not allow,
 * except redirected ones: egress ends those itself.
 *
 *     warden                                     egress
 *     HELLO, with the sockets             ->
 *     BIND, for each existing sandbox     ->     RULES ... BOUND
 *     SYNCED                              ->
 *     BIND, for one that is being made    ->     RULES, then BOUND: only then its first program runs
 *     UNBIND                              ->
 *                                         <-     RULES, LEARN, FORGET, CUT: answered by DONE with their serial */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "box/wire.h"

#define EGRESS_WIRE_VERSION 1
#define EGRESS_RULES_MAX 4096 /* networks of one policy */
#define EGRESS_PORTS_MAX 16
#define EGRESS_SECONDS_MAX 86400
#define EGRESS_FDS 3 /* of HELLO: the resolver's datagram socket, its listener, the relay's listener */

enum egress_call {
	EGRESS_HELLO = 1, /* from the warden: with EGRESS_FDS sockets */
	/* from the warden: of one with WIRE_NET_POLICY that is being made, with the sealed text of its
	 * policy */
	EGRESS_BIND,
	EGRESS_SYNCED,    /* from the warden: every sandbox that there is has been told */
	EGRESS_UNBIND,    /* from the warden: the sandbox is gone */
	EGRESS_DONE,      /* from the warden: the answer to what has this serial */
	EGRESS_BOUND,     /* from egress: the answer to a BIND, by its serial */
	EGRESS_RULES,     /* from egress: what holds for this address from now on, all at once */
	/* From egress: lets `address` reach `net` (a host) at `ports` for `seconds`; again: for longer. Never
	 * 80 or 443: those of a box whose default is to deny go to the relay unless a rule is about the
	 * address. ERR_LIMIT: too many are known. */
	EGRESS_LEARN,
	EGRESS_FORGET,    /* from egress: no longer */
	EGRESS_CUT,       /* from egress: the flows from `address` to `net` (prefix 0: any) end now */
};

/* What holds for addresses that no rule is about. */
enum egress_rest {
	EGRESS_REST_DENIED,
	EGRESS_REST_ALLOWED,
	/* likewise, and some name or network is denied: public resolvers (access/resolvers.h) at port 443
	 * are, too */
	EGRESS_REST_NOT_RESOLVERS,
};

struct egress_net { /* IPv4 */
	uint32_t address; /* in network order */
	uint8_t prefix;
	uint8_t is_allowed; /* of a rule: 0 or 1 */
	uint16_t pad;
};

struct egress_message {
	uint32_t version;
	uint32_t call; /* enum egress_call */
	uint64_t serial; /* of what is answered; 0: nothing is */
	char id[WIRE_ID_SIZE]; /* of the sandbox: BIND, UNBIND, BOUND */
	uint32_t address; /* of the sandbox, in network order */
	uint32_t network; /* of BIND: enum wire_network, never WIRE_NET_NONE */
	uint32_t allows;  /* of RULES: enum egress_rest */
	uint32_t seconds; /* of LEARN */
	uint16_t ports[EGRESS_PORTS_MAX]; /* of LEARN and FORGET: TCP, up to the first 0 */
	struct egress_net net; /* of LEARN, FORGET and CUT */
	uint32_t failed; /* of BOUND and DONE: 0 or 1, then `err` gives the reason */
	struct err err;
	uint32_t n_rules; /* of RULES */
	struct egress_net rules[EGRESS_RULES_MAX]; /* only those that there are belong to the message */
};

bool egress_net_has(const struct egress_net *net, uint32_t address);
size_t egress_message_size(const struct egress_message *m);
/* Whether bytes that came are a message that this side may get (IS_WARDEN: the warden). ERR_INVALID. Only the
 * first egress_message_size() bytes of *ret are written. */
int egress_message_check(const void *bytes, size_t n, size_t n_fds, bool is_warden,
			 struct egress_message *ret, struct err *e);
