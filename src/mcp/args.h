// SPDX-License-Identifier: Apache-2.0
/* mcp/args.h - the arguments of all tools, as one struct. The arguments of a tool are a table of its fields
 * (base/decode.h), from which both the input schema and the decoder follow. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/str.h"

struct err;

#define ARGS_ID_MAX 256
#define ARGS_PATH_MAX 4096
#define ARGS_COMMAND_MAX (256 * 1024)
#define ARGS_LIST_MAX 256       /* of paths and entries */
#define ARGS_SECONDS_MAX 3.2e8  /* ten years */

struct args_rule {
	int action; /* index of args_actions */
	const char *target;
};
struct args_policy {
	int default_action;
	struct object_list egress; /* struct args_rule */
};
struct args_filter {
	struct string_list states;
	struct string_map metadata;
	int64_t page_size, page;
	bool has_page_size, has_page;
};
struct args_entry { /* of a folder to be made, or of rights to be changed */
	const char *path, *owner, *group;
	int64_t mode;
};
struct args_move {
	const char *source, *destination;
};
struct args_replace {
	const char *path, *old_content, *new_content;
};

struct args {
	const char *sandbox_id;
	bool connect_if_missing;

	const char *image, *auth_username, *auth_password;
	double timeout_seconds, ready_timeout_seconds, connect_timeout_seconds, command_timeout_seconds;
	int64_t health_check_polling_interval_ms;
	bool skip_health_check;
	struct string_map env, metadata, resource, extensions;
	struct args_policy network_policy;
	bool has_network_policy;
	struct string_list entrypoint;
	struct args_filter filter;
	int64_t port, count;

	const char *command, *working_directory, *execution_id, *session_id;
	bool background;
	int64_t cursor;

	const char *path, *pattern, *encoding, *range_header, *owner, *group;
	struct str content;
	int64_t mode, depth;
	struct string_list paths;
	struct object_list entries; /* of what the tool says */

	const char *code, *language, *context_id, *cwd;
	const char *snapshot_id, *name, *scope;
	int kind;
	struct object_list rules; /* struct args_rule */
};

extern const char *const args_actions[];     /* allow, deny */
extern const char *const args_diagnostics[]; /* the kinds of sandbox_diagnostics */
enum { DIAGNOSTICS_SUMMARY, DIAGNOSTICS_LOGS, DIAGNOSTICS_EVENTS, DIAGNOSTICS_NETWORK };

/* what a call holds before it is decoded, and what schemas tell as defaults */
extern const struct args args_defaults;

/* The tables, by the tools that they belong to; see tools.c. */
#define ARGS_TABLES(X) \
	X(sandbox) X(sandbox_connected) X(sandbox_create) X(sandbox_connect) X(sandbox_list) X(sandbox_renew) X(sandbox_get_endpoint) \
	X(sandbox_fork) X(sandbox_rollback) X(sandbox_from_snapshot) X(sandbox_diagnostics) X(command_run) X(command_interrupt) \
	X(command_status) X(command_logs) X(session_create) X(session_run) X(session_delete) X(code_run) X(code_context_create) \
	X(code_context_list) X(code_context_delete) X(file_read) X(file_write) X(file_paths) X(file_search) \
	X(file_create_directories) X(file_move) X(file_replace_contents) X(file_info) X(file_list) X(file_chmod) \
	X(snapshot_create) X(snapshot_list) X(snapshot_delete) X(egress_patch)
#define ARGS_DECLARE(name) extern const struct field args_##name[];
ARGS_TABLES(ARGS_DECLARE)

/* What a table inside another is called in schemas ("NetworkRule"). */
const char *args_title(const struct field *fields);

/* The arguments of a call, V (an object or NULL), into *ret, which holds args_defaults before. Lists and
 * objects that came as text with JSON in it, as some models write them, are taken for what they mean. All
 * problems are in the error. */
int args_decode(struct arena *a, const struct json *v, const struct field *fields, struct args *ret,
		struct err *e);
