// SPDX-License-Identifier: Apache-2.0
/* server/proxy/proxy.h - the endpoint proxy: HTTP requests and WebSockets to ports of sandboxes.
 *
 * The target of a request is a sandbox's record and a port, dialled by the runtime; a client never names an
 * address. proxy.c decides, proxy_call.c forwards requests, proxy_tunnel.c WebSockets. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/list.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "server/http/service.h"
#include "server/model/plane.h"

#define PROXY_STREAMS_MAX 1024 /* in progress, per sandbox */
#define PROXY_PORTS_MAX 8      /* of a sandbox whose connections are kept */
#define PROXY_IDLE_MAX 64      /* of these, per port */
#define PROXY_IDLE_MS 4000     /* less than what servers commonly keep theirs for */
#define PROXY_PROBATION_MS 200 /* what a server needs to close one that it did not mean to keep */
#define PROXY_LOOK_MS 5000     /* how often long streams are looked at, for the lives that they extend */
#define PROXY_HOST_MAX 24

/* Ports that answer to whoever has their token, which the server checks before anything is sent on. */
struct guarded_port {
	unsigned port;
	const char *purpose; /* for sandbox_token() */
	const char *header;
};
const struct guarded_port *guarded_port_find(unsigned port); /* or NULL */

/* How a client reaches its port. */
struct proxy_target {
	struct plane *plane;
	char id[ID_MAX + 1];
	unsigned port;
};
struct http_client *proxy_client_new(struct proxy_target *t, unsigned max_idle, struct err *e);

/* What the proxy has of one sandbox; its user data. */
struct proxy_peer {
	struct list calls;
	unsigned n; /* calls and tunnels */
	bool has_moved; /* tunnels of it have, since they were looked at */
	struct proxy_port *ports[PROXY_PORTS_MAX]; /* made with the first call of each */
};

/* One port of it, and the connections there. */
struct proxy_port {
	struct proxy_target target;
	struct http_client *client;
	unsigned n;       /* calls */
	uint64_t used_ms; /* when one began */
};
struct proxy_peer *proxy_peer_of(struct sandbox *sb, struct err *e);
void proxy_gone(struct plane *plane, struct sandbox *sb); /* for sandboxes_spec.gone */
/* The port whose connections calls share; its place is that of the one that has been without calls for
 * longest. NULL: E, or (ERR_LIMIT) all places are taken by ports that are in use. */
struct proxy_port *proxy_port_of(struct plane *plane, struct sandbox *sb, unsigned port, struct err *e);
/* For the timer of a plane that renews: bytes that streams have moved count like requests. */
void proxy_look_at_streams(struct plane *plane);

/* A request on its way. The handler's reply waits for it. */
/* UPGRADE: the protocol that it asks for, and a refusal is passed on like every answer; NULL: none. */
int proxy_call_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, const char *upgrade, struct err *e);
void proxy_calls_drop(struct proxy_peer *peer); /* its sandbox goes */
bool proxy_calls_moved(struct proxy_peer *peer); /* any bytes since it was last asked */

/* What PORT_EGRESS answers for a sandbox without a network. */
int egress_of_none(struct request *rq, struct reply *rp, struct err *e);

/* A WebSocket on its way, or open, or being told why not. */
struct tunnel;
int tunnel_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e);
/* Accepts the handshake only to close it with a code and a reason. */
int tunnel_refuse(struct request *rq, struct reply *rp, unsigned code, const char *reason, struct err *e);
void tunnels_drop(struct plane *p, const struct proxy_peer *peer); /* those of one sandbox; NULL: all */
/* sets proxy_peer.has_moved where bytes went through since it was last called */
void tunnels_mark(struct plane *p);

/* What both need: the request for the sandbox, in the arena of ours. */
int proxy_make_request(struct request *rq, const char *id, unsigned port, struct http_request *ret,
		       struct err *e);
/* The headers of an answer, onto ours. -1: too large (ERR_LIMIT), and nothing has been added. */
int proxy_pass_headers(const struct request *rq, struct reply *rp, const struct http_head *head,
		       struct err *e);

handler_fn proxy_any;
handler_fn proxy_signed; /* by a signed route */
