// SPDX-License-Identifier: Apache-2.0
/* ingress/doorway.h - connections into the sandboxes of a server on this host, got at its door (access/gateway_socket.h).
 *
 * A door that closes is knocked at again. While it is closed, and for ports that have none, requests go through the server's proxy. */
#pragma once
#include <stdbool.h>

#include "base/own.h"

struct doorway;
struct err;
struct http_client;
struct lane;
struct loop;

#define DOORWAY_LANES_MAX 4096 /* ports of sandboxes whose connections are kept */

/* PATH and KEY stay the caller's; the key is read whenever the door is knocked at. */
struct doorway *doorway_new(struct loop *l, const char *path, const char *key, struct err *e);
void doorway_free(struct doorway *d); /* nothing may be on its way; NULL is fine */
DEFINE_AUTO(struct doorway *, doorway_free)

/* The way to PORT of the sandbox ID, until lane_leave(). NULL: not by the door. */
struct lane *doorway_enter(struct doorway *d, const char *id, unsigned port);
struct http_client *lane_client(struct lane *l);
void lane_used(struct lane *l); /* tells the server that the sandbox is used, once in a while */
void lane_leave(struct lane *l);
