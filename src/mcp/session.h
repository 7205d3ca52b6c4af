// SPDX-License-Identifier: Apache-2.0
/* mcp/session.h - one client: the negotiated features, and its requests.
 *
 * A transport passes each message to mcp_session_receive(), with a function for answers. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"
#include "mcp/rpc.h"

struct call;
struct engine;
struct err;
struct json;
struct out;
struct session;

#define SESSION_SERVER_NAME "OpenSandbox Sandbox"

/* A way for messages to the client, a transport's. It must live until `finished`, or until all sessions that
 * use it are gone. */
struct out {
	void (*send)(struct out *o, struct str message); /* one line of JSON */
	bool (*has_room)(const struct out *o);           /* false: what can be left out is left out */
	/* everything that came with it was answered, or never will be */
	void (*finished)(struct out *o);
	size_t max;                                      /* bytes of one message: what is longer gets lost */
	/* bytes of answers altogether: of the rest only errors are told */
	size_t left;
	unsigned pending;                                /* requests; the session's to count */
};

struct session *mcp_session_new(struct engine *en, struct err *e);
void mcp_session_free(struct session *s); /* cancels what it has under way */
DEFINE_AUTO(struct session *, mcp_session_free)

/* One message, or an array of them. */
void mcp_session_receive(struct session *s, const struct json *v, struct out *out);
/* Text that is no JSON: WHY says what is wrong with it. */
void mcp_session_refuse(struct out *out, struct str why);

bool mcp_session_is_open(const struct session *s); /* initialize was answered */
bool mcp_session_knows_version(struct str version);

/* For calls. */
void mcp_session_answer(struct out *out, const struct rpc_id *id, struct buf *message);
void mcp_session_forget(struct out *out); /* a request that is not answered */
void mcp_session_log(struct session *s, struct out *out, const char *level, const char *tool,
		     const char *text);
