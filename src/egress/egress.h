// SPDX-License-Identifier: Apache-2.0
/* egress/egress.h - the resolver, the policies and the relay of all sandboxes of a host, in one unprivileged
 * process.
 *
 * The warden announces which sandbox has which address (link.h). What a sandbox may reach is decided here, by
 * its policy and the operator's lists (operator_rules.h): for names when it resolves them (resolver.h), and
 * again when it connects (flow.h). Addresses to open are sent to the warden, which alone can open them.
 * Everything that is unknown, late or incomplete is denied. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "access/policy.h"
#include "base/map.h"
#include "base/random.h"
#include "egress/denials.h"
#include "egress/link.h"
#include "egress/operator_rules.h"
#include "egress/state.h"
#include "net/addr.h"
#include "net/http/server.h"
#include "net/loop.h"
#include "net/pulse.h"
#include "net/reserved.h"

struct cache;
struct err;
struct flows;
struct resolver;
struct sockets;
struct upstream;
struct webhook;

#define UPSTREAMS_MAX 10
#define OPENED_MAX 64
#define SANDBOXES_MAX 65536
#define EGRESS_ONLY htonl(INADDR_LOOPBACK)

struct egress_options {
	const char *warden;    /* the path of its socket; NULL: */
	int warden_fd;         /* a connection to who is in its place */
	int sockets_fd;        /* one for sockets that rules let by (sockets.h); -1: any socket does */
	bool is_sidecar;       /* one sandbox, whose address is EGRESS_ONLY wherever it sends from */
	const char *token;     /* of a sidecar: needed for changes; NULL or empty: no changes */
	const char *rules_dir; /* of the operator's lists; NULL: none */
	const char *webhook;   /* URL; NULL: none */
	size_t max_rules;      /* of one policy */
	struct addr upstreams[UPSTREAMS_MAX];
	size_t n_upstreams;
	bool follows_resolv_conf; /* they are those of resolv.conf, which is read again now and then */
	struct policy_rule opened[OPENED_MAX]; /* networks of W4 that the operator has opened */
	size_t n_opened;
	int api;   /* listens */
	int pulse; /* where signs of life go (net/pulse.h); -1: nowhere */
	struct state state; /* where policies are; its folder is taken */
	/* Where a connection that was bent to us was going; NULL: as the kernel has it. For tests. */
	int (*original)(int fd, struct sockaddr_in *ret);
};

/* Of the process, since its start. */
struct egress_counts {
	uint64_t queries, denied, throttled, failed; /* of names */
	uint64_t learned, forgotten, rules;           /* that the warden has put in force */
	uint64_t flows, flows_denied, flows_cut;
	uint64_t strangers; /* packets and connections from addresses that no sandbox has */
	uint64_t webhook_sent, webhook_lost;
};

struct egress {
	struct loop *loop;
	struct egress_options options;
	struct link *link;
	struct operator_rules operator_rules;
	struct own_addresses own;
	struct sockets *sockets; /* or NULL */
	struct upstream *upstream;
	struct cache *cache;
	struct resolver *resolver;
	struct flows *flows;
	struct webhook *webhook; /* or NULL */
	struct http_server *api;
	struct http_service service;
	struct map by_id, by_address; /* struct sandbox */
	struct random_pool random;
	struct egress_message out; /* the one that is being made: too large for the stack */
	struct egress_counts counts;
	struct denials denials;
	struct timer tick; /* what is looked at now and then */
	struct pulse pulse;
	unsigned ticks;
	bool is_synced; /* the warden has announced every sandbox once */
	bool is_told_all; /* since the last HELLO */
	int held[EGRESS_FDS]; /* the sockets of the last HELLO that are not read yet, or -1 */
	size_t n_awaited; /* sandboxes whose first policy is on its way to the kernel */
};

/* OPTIONS is copied; its descriptors are taken on success. */
struct egress *egress_new(struct loop *l, const struct egress_options *options, struct err *e);
void egress_free(struct egress *g); /* NULL is fine */
DEFINE_AUTO(struct egress *, egress_free)

void egress_reload(struct egress *g); /* the operator's lists, now */
/* Begins to read the sockets of the last HELLO, once every sandbox that was told of has its policy (W9): a
 * query that is read before that could only be refused, in the socket it waits. Called whenever one of these
 * may have come true. */
void egress_listen(struct egress *g);

void egress_mark_open(const struct egress *g, struct policy *p); /* marks in P what the operator has opened */
/* Whether an address may be given to a sandbox at all: neither W4's, unless it was opened, nor this host's
 * own. */
bool egress_is_public(const struct egress *g, uint32_t address);
