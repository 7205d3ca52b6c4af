// SPDX-License-Identifier: Apache-2.0
/* client/sandbox.h - the handle of a sandbox: its id and its endpoints. */
#pragma once
#include <stdbool.h>

#include "client/remote.h"

struct op;
struct osb_client;
struct osb_sandbox;

#define PORT_EXECD 44772
#define PORT_EGRESS 18080

struct osb_sandbox {
	struct osb_client *client;
	struct osb_sandbox *prev, *next; /* in the client's list */
	char *id;
	struct endpoint execd, egress; /* both stand in every handle that a user has */
	bool is_closing; /* its operations get no connection any more */
};

/* NULL: no memory; osb_sandbox_free() */
struct osb_sandbox *sandbox_new(struct osb_client *c, const char *id);
const char *sandbox_endpoint_path(struct op *op, const char *id, unsigned port);
