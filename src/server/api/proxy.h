// SPDX-License-Identifier: Apache-2.0
/* server/api/proxy.h - the endpoint proxy: requests into sandboxes, and WebSockets.
 *
 * The target of a request is a sandbox's record and a port, dialled by the runtime: nothing that a client sends names an
 * address. proxy.c decides, proxy_call.c carries requests, proxy_tunnel.c WebSockets. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "net/client.h"
#include "net/server.h"
#include "server/plane.h"

#define PROXY_STREAMS_MAX 1024 /* in progress, per sandbox */
#define PROXY_IDLE_MAX 8       /* connections to execd that are kept */
#define PROXY_IDLE_MS 15000
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
	struct proxy_call *calls;
	unsigned n; /* calls and tunnels */
	struct proxy_target execd_target;
	struct http_client *execd; /* made with the first call */
};
struct proxy_peer *proxy_peer_of(struct sandbox *sb, struct err *e);
void proxy_gone(struct plane *plane, struct sandbox *sb); /* for sandboxes_spec.gone */
/* The client that calls of execd's own port share. NULL: E. */
struct http_client *proxy_execd_client(struct plane *plane, struct sandbox *sb, struct err *e);

/* A request on its way. The handler's reply waits for it. */
int proxy_call_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e);
void proxy_call_drop(struct proxy_call *x); /* its sandbox goes */

/* What PORT_EGRESS answers for a sandbox without a network. */
int egress_of_none(struct request *rq, struct reply *rp, struct err *e);

/* A WebSocket on its way, or open, or being told why not. */
struct tunnel;
int tunnel_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e);
/* Accepts the handshake only to close it with a code and a reason. */
int tunnel_refuse(struct request *rq, struct reply *rp, unsigned code, const char *reason, struct err *e);
void tunnels_drop(struct plane *p, const struct proxy_peer *peer); /* those of one sandbox; NULL: all */

/* What both need: the request for the sandbox, in the arena of ours. */
int proxy_make_request(struct request *rq, const char *id, unsigned port, struct http_request *ret, struct err *e);
/* The headers of an answer, onto ours. -1: too large (ERR_LIMIT), and nothing has been added. */
int proxy_pass_headers(const struct request *rq, struct reply *rp, const struct http_head *head, struct err *e);
