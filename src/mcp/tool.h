// SPDX-License-Identifier: Apache-2.0
/* mcp/tool.h - the tools, as one table: name, description for a model, arguments, result, and function. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct call;
struct err;
struct field;
struct json_out;

enum {
	TOOL_INSIDE = 1,   /* works in a sandbox: call->handle is there when it begins */
	TOOL_CONNECTS = 2, /* of these: connects by itself to one that is not known yet */
	TOOL_LIST = 4,     /* its result is a list */
	TOOL_READS = 8,    /* changes nothing */
	TOOL_DESTROYS = 16,
};

/* What a step leads to. */
enum step { STEP_FAILED = -1, STEP_DONE, STEP_WAIT };

struct tool {
	const char *name, *title, *description;
	const struct field *fields; /* mcp/args.h */
	const char *output;         /* mcp/schema.h */
	unsigned flags;
	/* Begins an operation of the library (call->op has the call for it) and returns STEP_WAIT, or does
	 * without one. */
	enum step (*begin)(struct call *c, struct err *e);
	/* Writes the result. NULL: {"status": STATUS}, or what the library makes of it. */
	int (*finish)(struct call *c, struct json_out *o, struct err *e);
	const char *status;
};

const struct tool *tool_find(struct str name); /* or NULL */
void tool_list_write(struct json_out *o);      /* the array of tools/list */

/* What tools do, by file. */
#define TOOL_BEGIN(name) enum step name##_begin(struct call *c, struct err *e);
#define TOOL_FINISH(name) int name##_finish(struct call *c, struct json_out *o, struct err *e);
#define TOOL_BOTH(name) TOOL_BEGIN(name) TOOL_FINISH(name)
/* tool_sandbox.c */
TOOL_BOTH(sandbox_create) TOOL_BEGIN(sandbox_connect) TOOL_BEGIN(sandbox_kill) TOOL_BEGIN(sandbox_get_info)
TOOL_BOTH(sandbox_list) TOOL_BEGIN(sandbox_renew) TOOL_BEGIN(sandbox_get_metrics) TOOL_BOTH(sandbox_healthcheck)
TOOL_BEGIN(sandbox_get_endpoint) TOOL_BEGIN(sandbox_pause) TOOL_BEGIN(sandbox_resume)
/* tool_keep.c */
TOOL_BEGIN(sandbox_from_snapshot) TOOL_BOTH(sandbox_fork) TOOL_BEGIN(sandbox_rollback) TOOL_BEGIN(snapshot_create)
TOOL_BOTH(snapshot_list) TOOL_BEGIN(snapshot_delete)
/* tool_look.c */
TOOL_BOTH(egress_get) TOOL_BEGIN(egress_patch) TOOL_BOTH(sandbox_diagnostics)
/* tool_run.c */
TOOL_BOTH(command_run) TOOL_BEGIN(command_interrupt) TOOL_BEGIN(command_status) TOOL_BOTH(command_logs)
TOOL_BOTH(session_create) TOOL_BEGIN(session_run) TOOL_BEGIN(session_delete) TOOL_BEGIN(code_run) TOOL_BEGIN(code_context_create)
TOOL_BOTH(code_context_list) TOOL_BEGIN(code_context_delete)
/* tool_file.c */
TOOL_BOTH(file_read) TOOL_BEGIN(file_write) TOOL_BEGIN(file_delete) TOOL_BOTH(file_search) TOOL_BEGIN(file_create_directories)
TOOL_BEGIN(file_delete_directories) TOOL_BEGIN(file_move) TOOL_BOTH(file_replace_contents) TOOL_BEGIN(file_info)
TOOL_BEGIN(file_list) TOOL_BEGIN(file_chmod)
