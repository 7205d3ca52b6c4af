// SPDX-License-Identifier: Apache-2.0
/* server/proxy/host_ports.h - ports of this host that lead directly to ports of sandboxes, from a range that
 * the operator has configured.
 *
 * A create requests them (extension ports.publish). Each gets a port of the range for the life of the
 * sandbox, with the same number after a restart. Connections are copied byte for byte, without
 * authentication: neither the API key nor tokens protect such a port. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"
#include "server/store/row.h"

struct err;
struct fault;
struct host_ports;
struct plane;
struct sandbox;

#define HOST_PORTS_KEY "ports.publish"
#define HOST_PORT_STREAMS_MAX 1024  /* connections of one port at once */
#define HOST_PORTS_STREAMS_MAX 4096 /* of all; less where descriptors are few */

struct host_ports *host_ports_new(struct plane *p, const char *host, const char *range, struct err *e);
void host_ports_free(struct host_ports *h); /* cuts what is open; NULL is fine */
DEFINE_AUTO(struct host_ports *, host_ports_free)

/* Opens one for each of PORTS that are asked for, and says which. They belong to nobody until they are
 * claimed; those that are not when the loop turns are closed. -1: F. */
int host_ports_open(struct host_ports *h, struct row_port *ports, size_t n, struct fault *f);
void host_ports_claim(struct host_ports *h, const struct sandbox *sb);
void host_ports_adopt(struct host_ports *h, const struct sandbox *sb); /* of an earlier start */
void host_ports_gone(struct host_ports *h, const struct sandbox *sb);  /* fine for one that has none */
/* The port of the host for PORT of the sandbox; 0: there is none. */
unsigned host_port_of(const struct sandbox *sb, unsigned port);
