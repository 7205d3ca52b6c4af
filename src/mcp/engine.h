// SPDX-License-Identifier: Apache-2.0
/* mcp/engine.h - what all sessions of an MCP server share: the loop, the library client that it drives, the
 * known sandboxes, and the calls in progress. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/handles.h"
#include "net/loop.h"

struct call;
struct err;
struct osb_client;

struct mcp_limits {
	size_t message;  /* bytes of one message that comes in */
	size_t output;   /* bytes of output in one result; more is cut in the middle */
	size_t file;     /* bytes of a file in one result */
	unsigned calls;  /* tools at work at a time, in one session */
	unsigned sessions;
	unsigned session_idle_ms; /* of HTTP: it ends when nobody has asked anything for this long */
};
#define MCP_LIMITS \
	((struct mcp_limits){ \
		.message = 16 * 1024 * 1024, .output = 100 * 1000, .file = 256 * 1024, .calls = 32, .sessions = 64, \
		.session_idle_ms = 3600 * 1000, \
	})
#define MCP_CALLS_MAX 1024 /* in all sessions, with those that are being cancelled */

struct engine {
	struct loop *loop;
	struct osb_client *client;
	struct mcp_limits limits;
	struct handles handles;
	struct call *calls; /* under way, in any order */
	unsigned n_calls;
	bool is_leaving; /* no call begins any more */
	struct io io;
	struct timer timer;
	struct deferred pump;
	void (*idle)(void *arg); /* the last call is over; or NULL */
	void *idle_arg;
};

int engine_init(struct engine *en, struct loop *l, struct osb_client *client, const struct mcp_limits *limits,
		struct err *e);
void engine_done(struct engine *en); /* no call is under way any more */
void engine_pump(struct engine *en); /* an operation was begun: look after the client soon */
/* The end: no call begins any more, and those that are under way are cancelled. */
void engine_leave(struct engine *en);
#define ENGINE_LEAVING_TEXT "the server is ending"
