// SPDX-License-Identifier: Apache-2.0
/* mcp/call.h - one call of a tool, from its arguments to its answer.
 *
 * A call is a chain of non-blocking library operations: a step begins one and names the next step
 * (mcp_call_then). A cancelled call is not answered; it continues until what it began in the sandbox has
 * ended. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "mcp/args.h"
#include "mcp/cut.h"
#include "mcp/rpc.h"
#include "mcp/tool.h"
#include "net/loop.h"

struct engine;
struct err;
struct json;
struct osb_event;
struct out;
struct session;
struct transcript;

#define CALL_ARENA_MAX (64 * 1024 * 1024) /* of a call's arguments */
#define CALL_RESULT_MAX (32 * 1024 * 1024) /* of an answer, as text and as an object */
#define CALL_INSIDE_LEAST (64 * 1024) /* of what comes from a sandbox, however small the limits are */
#define CALL_PROGRESS_MS 1000
#define CALL_PROGRESS_TEXT 2000 /* bytes of recent output in one message */
#define CALL_INTERRUPT_MS 10000 /* for what was cancelled to end */

typedef enum step mcp_call_step_fn(struct call *c, struct err *e);

struct call {
	struct call *prev, *next; /* of the engine's */
	struct engine *engine;
	struct session *session; /* NULL: nobody wants the answer any more */
	struct out *out;
	const struct tool *tool;
	struct rpc_id id, token; /* the token is of progress; "" if none was asked for */
	struct arena arena;
	struct args args;
	struct handle *handle;
	struct osb_call *op, *second; /* the second one interrupts what the first has begun */
	mcp_call_step_fn *then;
	bool takes_failure; /* the next step looks at osb_call_error(op) itself */
	bool is_cancelled, is_waiting; /* waiting: for the timer */
	/* how what runs is ended: in a session by leaving it */
	enum { RUN_COMMAND, RUN_CODE, RUN_IN_SESSION } run;
	struct timer timer;
	unsigned polls;
	double progress;
	uint64_t progress_ms, progress_events;
	struct transcript *transcript; /* of what runs */
	bool has_exit_code, is_healthy;
	int64_t exit_code;
	struct cut cut; /* of a file that is read */
	struct buf text;
	const char *note; /* one more block of the answer, or NULL */
	/* What the library gave: freed with the call. */
	union {
		void *any;
		struct osb_sandbox_info *info;
		struct osb_sandboxes *sandboxes;
		struct osb_expiry *expiry;
		struct osb_endpoint *endpoint;
		struct osb_metrics *metrics;
		struct osb_execution *execution;
		struct osb_command_status *status;
		struct osb_command_logs *logs;
		struct osb_session *session;
		struct osb_context *context;
		struct osb_contexts *contexts;
		struct osb_files *files;
		struct osb_replacements *replacements;
		struct osb_snapshot *snapshot;
		struct osb_snapshots *snapshots;
		struct osb_policy_status *policy;
		struct osb_diagnostics *diagnostics;
		struct osb_bytes *bytes;
	} result;
	struct osb_sandbox *made; /* a handle that is on its way to the known ones */
	bool made_here;           /* the sandbox itself is new, too: without an asker it is killed */
};

/* Begins: PARAMS are those of tools/call. It is answered in any case, by OUT, unless it is cancelled. */
void mcp_call_begin(struct engine *en, struct session *s, struct out *out, const struct rpc_id *id,
		    const struct json *params);
void mcp_call_cancel(struct call *c);
void mcp_call_free(struct call *c);

/* For steps. */
enum step mcp_call_then(struct call *c, mcp_call_step_fn *then); /* after what was just begun: STEP_WAIT */
enum step mcp_call_later(struct call *c, unsigned ms, mcp_call_step_fn *then);
void mcp_call_drop_result(struct call *c);
/* A progress message, if they are wanted; VALUE grows. */
void mcp_call_progress(struct call *c, double value, double total, const char *message);
/* The events of what runs, with the call as argument. */
void mcp_call_on_event(const struct osb_event *event, void *arg);
/* Registers c->made, as the box that the call works with. */
enum step mcp_call_take_made(struct call *c, struct err *e);
