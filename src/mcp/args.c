// SPDX-License-Identifier: Apache-2.0
#include "mcp/args.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "mcp/rpc.h"

#include "base/banned.h"

const char *const args_actions[] = { "allow", "deny", NULL };
const char *const args_diagnostics[] = { "summary", "logs", "events", "network", NULL };

const struct args args_defaults = {
	.timeout_seconds = 600,
	.ready_timeout_seconds = 30,
	.connect_timeout_seconds = 30,
	.health_check_polling_interval_ms = 200,
	.network_policy = { .default_action = 1 },
	.count = 1,
	.depth = 1,
	.encoding = "utf-8",
	.mode = 755,
	.language = "python",
	.scope = "all",
};

static const char *check_mode(const void *value)
{
	int64_t mode = *(const int64_t *)value;

	for (int64_t left = mode; left > 0; left /= 10)
		if (left % 10 > 7)
			return "must have octal digits, like 755 or 644";
	return NULL;
}

/* ---- tables inside others ---- */

#define TEXT(type_, member_, ...) FIELD(type_, member_, FIELD_STRING, #member_, .max = ARGS_PATH_MAX, __VA_ARGS__)
#define MODE(type_, help_) \
	FIELD(type_, mode, FIELD_INT, "mode", .min = 0, .max = 7777, .check = check_mode, .help = help_)

static const struct field rule_fields[] = {
	FIELD(struct args_rule, action, FIELD_ENUM, "action", .names = args_actions, .required = true,
	      .help = "What happens to connections to the target."),
	TEXT(struct args_rule, target, .required = true, .min = 1,
	     .help = "A host name, \"*.name\" for all names below one, an address, or a range (192.0.2.0/24)."),
	{ 0 },
};
static const struct field policy_fields[] = {
	FIELD(struct args_policy, default_action, FIELD_ENUM, "defaultAction", .names = args_actions,
	      .help = "What happens to everything that no rule names."),
	FIELD(struct args_policy, egress, FIELD_OBJECTS, "egress", .fields = rule_fields, .size = sizeof(struct args_rule),
	      .max = ARGS_LIST_MAX, .help = "Rules for single targets; the first that fits counts."),
	{ 0 },
};
static const struct field filter_fields[] = {
	FIELD(struct args_filter, states, FIELD_STRINGS, "states", .max = 16,
	      .help = "Any of these: Pending, Running, Pausing, Paused, Stopping, Terminated, Failed."),
	FIELD(struct args_filter, metadata, FIELD_MAP, "metadata", .max = 64, .help = "All of these pairs."),
	FIELD(struct args_filter, page_size, FIELD_INT, "page_size", .min = 1, .max = 200, .help = "Sandboxes in one answer.",
	      .has = HAS(struct args_filter, has_page_size)),
	FIELD(struct args_filter, page, FIELD_INT, "page", .min = 1, .max = INT32_MAX, .help = "Which page, from 1.",
	      .has = HAS(struct args_filter, has_page)),
	{ 0 },
};
#define ENTRY_FIELDS \
	TEXT(struct args_entry, path, .required = true, .min = 1, .help = "Path in the sandbox."), \
		MODE(struct args_entry, "Rights, as the digits of the octal number: 755."), \
		TEXT(struct args_entry, owner, .help = "Name of the user who is to own it."), \
		TEXT(struct args_entry, group, .help = "Name of its group."), \
	{ \
		0 \
	}
static const struct field directory_fields[] = { ENTRY_FIELDS };
static const struct field permission_fields[] = { ENTRY_FIELDS };
static const struct args_entry entry_defaults = { .mode = 755 };
static const struct field move_fields[] = {
	TEXT(struct args_move, source, .alias = "src", .required = true, .min = 1, .help = "What to move: a file or a folder."),
	TEXT(struct args_move, destination, .alias = "dest", .required = true, .min = 1, .help = "Its new path."),
	{ 0 },
};
static const struct field replace_fields[] = {
	TEXT(struct args_replace, path, .required = true, .min = 1, .help = "The file to change."),
	FIELD(struct args_replace, old_content, FIELD_STRING, "old_content", .required = true, .min = 1, .max = ARGS_COMMAND_MAX,
	      .help = "The exact text to look for; every place where it stands is changed."),
	FIELD(struct args_replace, new_content, FIELD_STRING, "new_content", .required = true, .max = ARGS_COMMAND_MAX,
	      .help = "What is to stand there."),
	{ 0 },
};

const char *args_title(const struct field *fields)
{
	static const struct {
		const struct field *fields;
		const char *title;
	} titles[] = {
		{ rule_fields, "NetworkRule" },           { policy_fields, "NetworkPolicy" },
		{ filter_fields, "SandboxFilter" },       { directory_fields, "DirectoryEntryInput" },
		{ permission_fields, "PermissionEntry" }, { move_fields, "MoveEntry" },
		{ replace_fields, "ContentReplaceEntry" },
	};

	for (size_t i = 0; i < ARRAY_LEN(titles); i++)
		if (titles[i].fields == fields)
			return titles[i].title;
	return NULL;
}

/* ---- one table per tool ---- */

#define STRING(member_, max_, ...) FIELD(struct args, member_, FIELD_STRING, #member_, .max = (max_), __VA_ARGS__)
#define NEEDED(member_, max_, help_) STRING(member_, max_, .required = true, .min = 1, .help = help_)
#define PATH(member_, help_) NEEDED(member_, ARGS_PATH_MAX, help_)
#define SANDBOX NEEDED(sandbox_id, ARGS_ID_MAX, "The sandbox, by the id that sandbox_create gave.")
#define CONNECT \
	FIELD(struct args, connect_if_missing, FIELD_BOOL, "connect_if_missing", \
	      .help = "Connect first if this sandbox was neither made nor connected to by this server.")
#define BOOL(member_, help_) FIELD(struct args, member_, FIELD_BOOL, #member_, .help = help_)
#define SECONDS(member_, ...) \
	FIELD(struct args, member_, FIELD_REAL, #member_, .real_min = 0, .real_max = ARGS_SECONDS_MAX, __VA_ARGS__)
#define MAP(member_, help_) FIELD(struct args, member_, FIELD_MAP, #member_, .max = ARGS_LIST_MAX, .help = help_)
#define ENTRIES(kind_, help_, ...) \
	FIELD(struct args, entries, FIELD_OBJECTS, "entries", .required = true, .min = 1, .max = ARGS_LIST_MAX, .fields = kind_##_fields, \
	      .help = help_, __VA_ARGS__)
#define WAITING \
	FIELD(struct args, health_check_polling_interval_ms, FIELD_INT, "health_check_polling_interval_ms", .min = 1, .max = 60000, \
	      .help = "Pause between two looks whether it answers."), \
		BOOL(skip_health_check, "Do not wait until the sandbox answers.")
#define COMMAND NEEDED(command, ARGS_COMMAND_MAX, "A line for the sandbox's shell: pipes, && and quotes work.")
#define FOLDER STRING(working_directory, ARGS_PATH_MAX, .help = "Folder to run it in; the sandbox's default if null.")
#define TIME_LIMIT SECONDS(command_timeout_seconds, .help = "End it after this time; 0 is no limit.")
#define SETTINGS \
	MAP(env, "Environment variables for everything that runs in it."), \
		MAP(metadata, "Labels, to find it again with sandbox_list."), \
		MAP(resource, "Limits such as {\"cpu\": \"1\", \"memory\": \"2Gi\"}."), \
		FIELD(struct args, network_policy, FIELD_OBJECT, "network_policy", .fields = policy_fields, \
		      .has = HAS(struct args, has_network_policy), \
		      .help = "What it may reach. Without one it is the server's default.")

const struct field args_sandbox[] = { SANDBOX, { 0 } };
const struct field args_sandbox_connected[] = { SANDBOX, CONNECT, { 0 } };
const struct field args_sandbox_create[] = {
	NEEDED(image, 512, "A container image such as \"python:3.12\", or \"host\" for this machine's own programs, which needs no download."),
	STRING(auth_username, 512, .help = "For a private registry, together with auth_password."),
	STRING(auth_password, 4096, .secret = true, .help = "For a private registry."),
	SECONDS(timeout_seconds, .help = "The sandbox ends by itself after this time; see sandbox_renew."),
	SECONDS(ready_timeout_seconds, .help = "How long to wait until it answers."),
	WAITING,
	SETTINGS,
	MAP(extensions, "Settings of the server's own, such as {\"poolRef\": \"warm\"}."),
	FIELD(struct args, entrypoint, FIELD_STRINGS, "entrypoint", .max = ARGS_LIST_MAX,
	      .help = "Program and arguments to run for the sandbox's whole life; by default it just stays."),
	{ 0 },
};
const struct field args_sandbox_connect[] = {
	SANDBOX,
	SECONDS(connect_timeout_seconds, .help = "How long to wait until it answers."),
	WAITING,
	{ 0 },
};
const struct field args_sandbox_list[] = {
	FIELD(struct args, filter, FIELD_OBJECT, "filter", .fields = filter_fields, .help = "Which ones; all if null."),
	{ 0 },
};
const struct field args_sandbox_renew[] = {
	SANDBOX,
	SECONDS(timeout_seconds, .required = true, .help = "It ends this long from now."),
	{ 0 },
};
const struct field args_sandbox_get_endpoint[] = {
	SANDBOX,
	FIELD(struct args, port, FIELD_INT, "port", .required = true, .min = 1, .max = 65535,
	      .help = "Port that a program in the sandbox listens on."),
	CONNECT,
	{ 0 },
};
const struct field args_sandbox_fork[] = {
	SANDBOX,
	FIELD(struct args, count, FIELD_INT, "count", .min = 1, .max = 64, .help = "How many copies."),
	SECONDS(timeout_seconds, .help = "Each copy ends by itself after this time."),
	SETTINGS,
	STRING(name, 256, .help = "Keep the common start as a snapshot of this name, too."),
	{ 0 },
};
const struct field args_sandbox_rollback[] = {
	SANDBOX, NEEDED(snapshot_id, ARGS_ID_MAX, "The snapshot whose files it gets back."), { 0 },
};
const struct field args_sandbox_from_snapshot[] = {
	NEEDED(snapshot_id, ARGS_ID_MAX, "The snapshot that it begins with."),
	SECONDS(timeout_seconds, .help = "The sandbox ends by itself after this time."),
	SECONDS(ready_timeout_seconds, .help = "How long to wait until it answers."),
	SETTINGS,
	{ 0 },
};
const struct field args_sandbox_diagnostics[] = {
	SANDBOX,
	FIELD(struct args, kind, FIELD_ENUM, "kind", .names = args_diagnostics,
	      .help = "summary: everything in short; logs: what its entrypoint wrote; events: what happened to it; network: what it "
		      "tried to reach, and what was denied."),
	STRING(scope, 64, .help = "Of logs: lifecycle, container or all. Of events: lifecycle, runtime or all."),
	{ 0 },
};

const struct field args_command_run[] = {
	SANDBOX,
	COMMAND,
	BOOL(background, "Return at once; see command_status and command_logs."),
	FOLDER,
	CONNECT,
	{ 0 },
};
#define EXECUTION NEEDED(execution_id, ARGS_ID_MAX, "The id of what command_run or code_run started.")
const struct field args_command_interrupt[] = { SANDBOX, EXECUTION, CONNECT, { 0 } };
const struct field args_command_status[] = { SANDBOX, EXECUTION, { 0 } };
const struct field args_command_logs[] = {
	SANDBOX,
	EXECUTION,
	FIELD(struct args, cursor, FIELD_INT, "cursor", .min = 0, .max = INT64_MAX,
	      .help = "Where to go on: the cursor of the last answer; 0 is the beginning."),
	{ 0 },
};
const struct field args_session_create[] = { SANDBOX, FOLDER, { 0 } };
#define SESSION NEEDED(session_id, ARGS_ID_MAX, "The id that session_create gave.")
const struct field args_session_run[] = { SANDBOX, SESSION, COMMAND, FOLDER, TIME_LIMIT, { 0 } };
const struct field args_session_delete[] = { SANDBOX, SESSION, { 0 } };

#define LANGUAGE STRING(language, 64, .min = 1, .help = "python, javascript, typescript, bash, or what kernels of the image offer.")
#define CONTEXT(...) STRING(context_id, ARGS_ID_MAX, __VA_ARGS__)
const struct field args_code_run[] = {
	SANDBOX,
	NEEDED(code, ARGS_COMMAND_MAX, "Source text. The value of a last expression is returned as a result."),
	LANGUAGE,
	CONTEXT(.help = "Where variables live between calls; the language's default one if null."),
	{ 0 },
};
const struct field args_code_context_create[] = {
	SANDBOX, LANGUAGE, STRING(cwd, ARGS_PATH_MAX, .help = "Folder that code begins in."), { 0 },
};
const struct field args_code_context_list[] = { SANDBOX, LANGUAGE, { 0 } };
const struct field args_code_context_delete[] = { SANDBOX, CONTEXT(.required = true, .min = 1, .help = "Which one."), { 0 } };

const struct field args_file_read[] = {
	SANDBOX,
	PATH(path, "File in the sandbox."),
	STRING(encoding, 32, .min = 1, .help = "utf-8, ascii or latin-1; base64 gives the bytes as they are."),
	STRING(range_header, 128, .help = "A part of it, as in HTTP: \"bytes=0-4095\"."),
	CONNECT,
	{ 0 },
};
const struct field args_file_write[] = {
	SANDBOX,
	PATH(path, "File in the sandbox; folders above it are made."),
	FIELD(struct args, content, FIELD_TEXT, "content", .required = true, .help = "All of its new content."),
	STRING(encoding, 32, .min = 1, .help = "utf-8, ascii or latin-1; base64 if the content is bytes in that form."),
	MODE(struct args, "Rights, as the digits of the octal number: 755."),
	STRING(owner, 256, .help = "Name of the user who is to own it."),
	STRING(group, 256, .help = "Name of its group."),
	CONNECT,
	{ 0 },
};
#define PATHS \
	FIELD(struct args, paths, FIELD_STRINGS, "paths", .required = true, .min = 1, .max = ARGS_LIST_MAX, .help = "Paths in the sandbox.")
const struct field args_file_paths[] = { SANDBOX, PATHS, CONNECT, { 0 } };
const struct field args_file_search[] = {
	SANDBOX,
	PATH(path, "Folder to search, with all below it."),
	PATH(pattern, "What names look like: \"*.py\", \"**/test_*\"."),
	CONNECT,
	{ 0 },
};
const struct field args_file_create_directories[] = {
	SANDBOX,
	ENTRIES(directory, "Folders; missing ones above them are made, too.", .size = sizeof(struct args_entry), .defaults = &entry_defaults),
	CONNECT,
	{ 0 },
};
const struct field args_file_move[] = {
	SANDBOX, ENTRIES(move, "What goes where.", .size = sizeof(struct args_move)), CONNECT, { 0 },
};
const struct field args_file_replace_contents[] = {
	SANDBOX, ENTRIES(replace, "What is replaced where.", .size = sizeof(struct args_replace)), CONNECT, { 0 },
};
const struct field args_file_info[] = { SANDBOX, PATHS, { 0 } };
const struct field args_file_list[] = {
	SANDBOX,
	PATH(path, "Folder in the sandbox."),
	FIELD(struct args, depth, FIELD_INT, "depth", .min = 1, .max = 32, .help = "1: what is in it; more: folders inside as well."),
	{ 0 },
};
const struct field args_file_chmod[] = {
	SANDBOX,
	ENTRIES(permission, "What gets which rights.", .size = sizeof(struct args_entry), .defaults = &entry_defaults),
	{ 0 },
};

const struct field args_snapshot_create[] = { SANDBOX, STRING(name, 256, .help = "A name for people."), { 0 } };
const struct field args_snapshot_list[] = {
	STRING(sandbox_id, ARGS_ID_MAX, .help = "Those of this sandbox alone."),
	{ 0 },
};
const struct field args_snapshot_delete[] = { NEEDED(snapshot_id, ARGS_ID_MAX, "Which one."), { 0 } };
const struct field args_egress_patch[] = {
	SANDBOX,
	FIELD(struct args, rules, FIELD_OBJECTS, "rules", .required = true, .min = 1, .max = ARGS_LIST_MAX, .fields = rule_fields,
	      .size = sizeof(struct args_rule), .help = "Rules to put before those that are there."),
	{ 0 },
};

/* ---- decoding ---- */

static const struct field *find(const struct field *fields, struct str key)
{
	for (; fields->name; fields++)
		if (str_is(key, fields->name))
			return fields;
	return NULL;
}

static bool is_compound(const struct field *f)
{
	return f && (f->kind == FIELD_STRINGS || f->kind == FIELD_MAP || f->kind == FIELD_OBJECT || f->kind == FIELD_OBJECTS);
}

/* Models write "[\"a\"]" where ["a"] is meant. */
static const struct json *mend(struct arena *a, const struct json *v, const struct field *f)
{
	const struct json_limits limits = { .depth = RPC_DEPTH_MAX };
	const struct json *inner;

	if (!is_compound(f) || v->type != JSON_STRING)
		return v;
	inner = json_parse(a, v->s, &limits, NULL, &(struct err){ 0 }); /* what is no JSON is refused for what it is */
	return inner && (inner->type == JSON_ARRAY || inner->type == JSON_OBJECT) ? inner : v;
}

static struct json *mend_all(struct arena *a, const struct json *v, const struct field *fields)
{
	struct json *all = arena_alloc(a, sizeof(*all));

	if (!all)
		return NULL;
	all->type = JSON_OBJECT;
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		struct json *copy = arena_alloc(a, sizeof(*copy));

		if (!copy)
			return NULL;
		*copy = *mend(a, kid, find(fields, kid->key));
		copy->key = kid->key;
		copy->next = NULL;
		json_append(all, copy);
	}
	return all;
}

/* Text of any bytes is borrowed from the document, and outlives it here. */
static int keep_content(struct arena *a, struct args *args, struct err *e)
{
	args->content.p = args->content.p ? arena_strndup(a, args->content.p, args->content.n) : "";
	return args->content.p ? 0 : json_no_room(a, args->content.n, e);
}

int args_decode(struct arena *a, const struct json *v, const struct field *fields, struct args *ret, struct err *e)
{
	AUTO(buf_done) struct buf all = BUF_INIT(sizeof(e->msg) - 1);
	struct decode d = { .arena = a };
	const struct json *mended = mend_all(a, v, fields);

	if (!mended)
		return json_no_room(a, sizeof(struct json), e);
	if (decode(&d, mended, fields, ret, e) == 0)
		return keep_content(a, ret, e);
	for (size_t i = 0; i < d.n_problems; i++) {
		const char *path = d.problems[i].path;

		(void)buf_addf(&all, "%s%s: %s", i > 0 ? "; " : "", path[0] == '$' && path[1] == '.' ? path + 2 : path, d.problems[i].msg);
	}
	return d.n_problems > 0 && all.n > 0 ? err_set(e, ERR_INVALID, "%s", buf_z(&all)) : -1;
}
