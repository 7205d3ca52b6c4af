// SPDX-License-Identifier: Apache-2.0
/* ingress/gateway_link.h - connections into sandboxes of a server on this host, by its gateway socket.
 *
 * The protocol is access/gateway_socket.h. A lost connection to the socket is retried. Meanwhile, and for
 * ports that the socket refuses, requests go through the proxy of the server. */
#pragma once
#include <stdbool.h>

#include "base/own.h"

struct gateway_link;
struct err;
struct http_client;
struct sandbox_port;
struct loop;

#define GATEWAY_LINK_PORTS_MAX 4096 /* ports with a pool of connections */

/* PATH and KEY stay the caller's; the key is read at every connect. */
struct gateway_link *gateway_link_new(struct loop *l, const char *path, const char *key, struct err *e);
void gateway_link_free(struct gateway_link *g); /* no request may be in progress; NULL is fine */
DEFINE_AUTO(struct gateway_link *, gateway_link_free)

/* PORT of the sandbox ID, until sandbox_port_release(). NULL: use the proxy. */
struct sandbox_port *gateway_link_port(struct gateway_link *g, const char *id, unsigned port);
struct http_client *sandbox_port_client(struct sandbox_port *l);
void sandbox_port_used(struct sandbox_port *l); /* reports use to the server, at most once a second */
void sandbox_port_release(struct sandbox_port *l);
