// SPDX-License-Identifier: Apache-2.0
/* mcp/http_guard.h - decides which hosts and origins may use an MCP server over HTTP.
 *
 * Every web page that the user opens can reach a server on a loopback address: by a name that resolves to it,
 * or by a request across origins. So the name in Host must be a known one, and the origin must be this
 * server's own or one of the options', with scheme and port, since any program of the machine may serve pages
 * at another port. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;
struct mcp_options;
struct request;

struct http_guard {
	const char *const *hosts; /* of the options; NULL-terminated */
	const char *token;        /* or NULL */
	unsigned port;            /* that is listened on */
};
struct http_refusal {
	unsigned status;
	const char *text;
};

int http_guard_init(struct http_guard *g, const struct mcp_options *options, struct err *e);
bool http_guard_admits(const struct http_guard *g, const struct request *rq, struct http_refusal *ret);
/* Of "name", "name:port", "[::1]:port": whether it is this machine's own, or one of HOSTS. */
bool http_guard_knows_host(const struct http_guard *g, struct str host);
/* "http://name:port", by all three parts */
bool http_guard_knows_origin(const struct http_guard *g, struct str origin);

/* A listening socket. Without a token an address that others can reach is refused. */
int http_guard_listen(const struct mcp_options *options, int backlog, unsigned *ret_port, struct err *e);
