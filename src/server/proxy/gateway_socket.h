// SPDX-License-Identifier: Apache-2.0
/* server/proxy/gateway_socket.h - connections into sandboxes for gateways of this host.
 *
 * A gateway that sends its requests through the server's proxy pays for two proxies. One on the same host may ask for the
 * connections themselves (access/gateway_socket.h), if it has the key and the operator has made the socket (ingress.door). */
#pragma once
#include "base/own.h"

struct auth;
struct door;
struct err;
struct plane;

#define DOOR_PEERS_MAX 16
#define DOOR_HELLO_MS 5000

/* The socket that gateways connect to. What is left of an earlier start is replaced; anything else at PATH is not touched. */
int door_listen(const char *path, struct err *e);

/* *listener is taken on success. */
struct door *door_new(struct plane *p, const struct auth *auth, int *listener, struct err *e);
void door_free(struct door *d); /* before the plane closes; NULL is fine */
DEFINE_AUTO(struct door *, door_free)
