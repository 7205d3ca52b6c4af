// SPDX-License-Identifier: Apache-2.0
/* server/proxy/gateway_socket.h - connections into sandboxes for gateways of this host.
 *
 * A request through a gateway normally passes two proxies: the gateway and the server. A gateway on the same
 * host can instead request the connections themselves (protocol: access/gateway_socket.h), if the operator
 * has configured the socket (ingress.gateway_socket) and the gateway has the API key. */
#pragma once
#include "base/own.h"

struct auth;
struct gateway_socket;
struct err;
struct plane;

#define GATEWAY_CONNECTIONS_MAX 16
#define GATEWAY_HELLO_MS 5000

/* Creates the listening socket. A socket at PATH is replaced; any other file there is an error. */
int gateway_socket_listen(const char *path, struct err *e);

/* *listener is taken on success. */
struct gateway_socket *gateway_socket_new(struct plane *p, const struct auth *auth, int *listener,
					  struct err *e);
void gateway_socket_free(struct gateway_socket *d); /* before the plane closes; NULL is fine */
DEFINE_AUTO(struct gateway_socket *, gateway_socket_free)
