// SPDX-License-Identifier: Apache-2.0
/* mcp/mcp.h - an MCP server: sandboxes for models, over stdin and stdout or over HTTP.
 *
 * It is a client of an OpenSandbox server and has only the rights of its key. Input from models and sandboxes
 * is bounded by struct mcp_limits and treated as data only. */
#pragma once
#include <stdbool.h>

#include "mcp/engine.h"

struct err;
struct osb_options;

#define MCP_HOSTS_MAX 16
#define MCP_TOKEN_MIN 16

struct mcp_options {
	const struct osb_options *connection;
	bool is_http;
	/* Of HTTP. Without a token only a loopback address will do: whoever reaches the server may run
	 * anything that the key allows. */
	const char *host, *path; /* an address; "/mcp" */
	unsigned port;
	const char *token;       /* asked for as "Authorization: Bearer TOKEN"; NULL: none */
	/* for Host and Origin, beside the loopback names; NULL ends the list */
	const char *allowed_hosts[MCP_HOSTS_MAX];
	struct mcp_limits limits;
	void (*listening)(unsigned port, void *arg); /* of HTTP; or NULL */
	void *arg;
};

/* Until stdin ends, or a SIGTERM or SIGINT comes. Calls that are under way then are cancelled, in the
 * sandboxes, too; at the end of stdin they are answered first. */
int mcp_serve(const struct mcp_options *options, struct err *e);
