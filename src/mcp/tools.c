// SPDX-License-Identifier: Apache-2.0
#include "mcp/tool.h"

#include "base/decode.h"
#include "base/json_out.h"
#include "base/own.h"
#include "mcp/args.h"
#include "mcp/schema.h"

#include "base/banned.h"

#define INSIDE TOOL_INSIDE
#define CONNECTS (TOOL_INSIDE | TOOL_CONNECTS)

static const struct tool tools[] = {
	/* ---- sandboxes ---- */
	{
		"sandbox_create", "Create a sandbox",
		"Make a new isolated sandbox and wait until it answers. Keep the sandbox_id of the result: the other tools need it. The image "
		"\"host\" has this machine's programs and starts at once; others are pulled from a registry the first time. It ends by itself "
		"after timeout_seconds.",
		args_sandbox_create, "SandboxInfoResponse", 0, sandbox_create_begin, sandbox_create_finish, NULL,
	},
	{
		"sandbox_connect", "Connect to a sandbox",
		"Connect to a sandbox that exists already, for example one that another conversation has left, so that the other tools can use it.",
		args_sandbox_connect, "SandboxInfoResponse", TOOL_READS, sandbox_connect_begin, sandbox_create_finish, NULL,
	},
	{
		"sandbox_kill", "End a sandbox",
		"End a sandbox for good: its processes stop and its files are gone. Take a snapshot first if they are still needed.",
		args_sandbox, "StatusResponse", TOOL_DESTROYS, sandbox_kill_begin, NULL, "killed",
	},
	{
		"sandbox_get_info", "Look at a sandbox",
		"State, image, times and labels of one sandbox. Its status says why one failed or is not running yet.",
		args_sandbox, "SandboxInfo", TOOL_READS, sandbox_get_info_begin, NULL, NULL,
	},
	{
		"sandbox_list", "List sandboxes",
		"Sandboxes on the server, page by page; filter by states or metadata. Also finds those that this conversation has not made.",
		args_sandbox_list, "PagedSandboxInfos", TOOL_READS, sandbox_list_begin, sandbox_list_finish, NULL,
	},
	{
		"sandbox_renew", "Give a sandbox more time",
		"Let a sandbox live for timeout_seconds from now. Call it before a long task, or the sandbox may end in the middle.",
		args_sandbox_renew, "SandboxRenewResponse", 0, sandbox_renew_begin, NULL, NULL,
	},
	{
		"sandbox_get_metrics", "Measure a sandbox",
		"CPU and memory usage of a sandbox, and its limits.",
		args_sandbox_connected, "SandboxMetrics", INSIDE | TOOL_READS, sandbox_get_metrics_begin, NULL, NULL,
	},
	{
		"sandbox_healthcheck", "Ask whether a sandbox answers",
		"Whether a sandbox answers. Not healthy is a result, not an error.",
		args_sandbox_connected, "SandboxHealthResponse", INSIDE | TOOL_READS, sandbox_healthcheck_begin, sandbox_healthcheck_finish, NULL,
	},
	{
		"sandbox_get_endpoint", "Get the address of a port",
		"Where a program that listens on a port inside of the sandbox can be reached from outside: host:port/path without a scheme, "
		"and headers that each request must carry.",
		args_sandbox_get_endpoint, "SandboxEndpoint", INSIDE | TOOL_READS, sandbox_get_endpoint_begin, NULL, NULL,
	},
	{
		"sandbox_pause", "Pause a sandbox",
		"Stop all of a sandbox's processes where they are; memory and files stay. sandbox_resume lets them go on.",
		args_sandbox, "StatusResponse", 0, sandbox_pause_begin, NULL, "paused",
	},
	{
		"sandbox_resume", "Resume a sandbox",
		"Let a paused sandbox go on, and wait until it answers.",
		args_sandbox, "SandboxInfoResponse", 0, sandbox_resume_begin, sandbox_create_finish, NULL,
	},
	/* ---- snapshots and copies ---- */
	{
		"sandbox_create_from_snapshot", "Create a sandbox from a snapshot",
		"Make a new sandbox that begins with the files of a snapshot.",
		args_sandbox_from_snapshot, "SandboxInfoResponse", 0, sandbox_from_snapshot_begin, sandbox_create_finish, NULL,
	},
	{
		"sandbox_fork", "Copy a sandbox",
		"Make one or more new sandboxes that begin with the files a running sandbox has now, to try several ways at once. The "
		"original goes on undisturbed. Processes are not copied.",
		args_sandbox_fork, "Forks", 0, sandbox_fork_begin, sandbox_fork_finish, NULL,
	},
	{
		"sandbox_rollback", "Take a sandbox back",
		"Give a sandbox the files of a snapshot back. What was changed since is lost, and everything that runs in it ends.",
		args_sandbox_rollback, "SandboxInfo", TOOL_DESTROYS, sandbox_rollback_begin, NULL, NULL,
	},
	{
		"snapshot_create", "Take a snapshot",
		"Keep the files of a sandbox as they are now, in milliseconds, and return when the snapshot can be used.",
		args_snapshot_create, "Snapshot", 0, snapshot_create_begin, NULL, NULL,
	},
	{
		"snapshot_list", "List snapshots",
		"Snapshots on the server, of one sandbox or of all.",
		args_snapshot_list, "PagedSnapshots", TOOL_READS, snapshot_list_begin, snapshot_list_finish, NULL,
	},
	{
		"snapshot_delete", "Delete a snapshot",
		"Remove a snapshot. Sandboxes that were made from it are not touched.",
		args_snapshot_delete, "StatusResponse", TOOL_DESTROYS, snapshot_delete_begin, NULL, "deleted",
	},
	/* ---- commands ---- */
	{
		"command_run", "Run a command",
		"Run a shell command and wait for its end; stdout, stderr and exit_code are in the result. A command that fails is a result "
		"too. Each call has a shell of its own, so cd and variables do not stay: see session_run. For servers and anything long, set "
		"background and use command_status, command_logs and command_interrupt with the id of the result.",
		args_command_run, "Execution", INSIDE, command_run_begin, command_run_finish, NULL,
	},
	{
		"command_interrupt", "Stop a command",
		"End a command that is running, with everything that it has started.",
		args_command_interrupt, "StatusResponse", INSIDE | TOOL_DESTROYS, command_interrupt_begin, NULL, "interrupted",
	},
	{
		"command_status", "Ask how a command is doing",
		"Whether a background command still runs, and its exit code if it does not.",
		args_command_status, "CommandStatus", CONNECTS | TOOL_READS, command_status_begin, NULL, NULL,
	},
	{
		"command_logs", "Read a command's output",
		"What a background command has written, both streams in order. Give the cursor of the last answer to get only what is new.",
		args_command_logs, "CommandLogs", CONNECTS | TOOL_READS, command_logs_begin, command_logs_finish, NULL,
	},
	{
		"session_create", "Open a shell session",
		"Open a shell that stays: variables, functions and the folder of one session_run are there for the next.",
		args_session_create, "Session", CONNECTS, session_create_begin, session_create_finish, NULL,
	},
	{
		"session_run", "Run a command in a session",
		"Run a command in a shell of session_create and wait for its end.",
		args_session_run, "Execution", CONNECTS, session_run_begin, command_run_finish, NULL,
	},
	{
		"session_delete", "Close a shell session",
		"Close a shell session, with everything that runs in it.",
		args_session_delete, "StatusResponse", CONNECTS | TOOL_DESTROYS, session_delete_begin, NULL, "deleted",
	},
	/* ---- code ---- */
	{
		"code_run", "Run code",
		"Run source code in a context whose variables stay from call to call, like a notebook. Printed text is in logs, the value of "
		"the last expression in result, an exception in error; pictures come back as images.",
		args_code_run, "Execution", CONNECTS, code_run_begin, command_run_finish, NULL,
	},
	{
		"code_context_create", "Create a code context",
		"Make a separate context for code_run, with variables of its own.",
		args_code_context_create, "CodeContext", CONNECTS, code_context_create_begin, NULL, NULL,
	},
	{
		"code_context_list", "List code contexts",
		"The contexts of one language in a sandbox.",
		args_code_context_list, "CodeContext[]", CONNECTS | TOOL_LIST | TOOL_READS, code_context_list_begin, code_context_list_finish, NULL,
	},
	{
		"code_context_delete", "Delete a code context",
		"End a context; its variables are gone.",
		args_code_context_delete, "StatusResponse", CONNECTS | TOOL_DESTROYS, code_context_delete_begin, NULL, "deleted",
	},
	/* ---- files ---- */
	{
		"file_read", "Read a file",
		"Read a file of a sandbox as text. What is no text comes as base64, and of a long file both ends; a note says so. "
		"range_header reads a part.",
		args_file_read, "FileReadResponse", INSIDE | TOOL_READS, file_read_begin, file_read_finish, NULL,
	},
	{
		"file_write", "Write a file",
		"Write a file of a sandbox; what was in it is replaced. For small changes file_replace_contents is safer.",
		args_file_write, "StatusResponse", INSIDE, file_write_begin, NULL, "written",
	},
	{
		"file_delete", "Delete files",
		"Delete files, not folders.",
		args_file_paths, "StatusResponse", INSIDE | TOOL_DESTROYS, file_delete_begin, NULL, "deleted",
	},
	{
		"file_search", "Find files",
		"Find files below a folder by the pattern of their names.",
		args_file_search, "EntryInfo[]", INSIDE | TOOL_LIST | TOOL_READS, file_search_begin, file_search_finish, NULL,
	},
	{
		"file_create_directories", "Make folders",
		"Make folders, with those above them.",
		args_file_create_directories, "StatusResponse", INSIDE, file_create_directories_begin, NULL, "created",
	},
	{
		"file_delete_directories", "Delete folders",
		"Delete folders with everything in them.",
		args_file_paths, "StatusResponse", INSIDE | TOOL_DESTROYS, file_delete_directories_begin, NULL, "deleted",
	},
	{
		"file_move", "Move files",
		"Move or rename files and folders.",
		args_file_move, "StatusResponse", INSIDE, file_move_begin, NULL, "moved",
	},
	{
		"file_replace_contents", "Replace text in files",
		"Replace an exact text in files by another one. The result says how often it was found: 0 means that nothing was changed.",
		args_file_replace_contents, "ReplaceResult[]", INSIDE | TOOL_LIST, file_replace_contents_begin, file_replace_contents_finish, NULL,
	},
	{
		"file_info", "Look at files",
		"Size, rights, owner and times of files and folders.",
		args_file_info, "EntryInfo[]", CONNECTS | TOOL_LIST | TOOL_READS, file_info_begin, file_search_finish, NULL,
	},
	{
		"file_list", "List a folder",
		"What is in a folder, with sizes and types.",
		args_file_list, "EntryInfo[]", CONNECTS | TOOL_LIST | TOOL_READS, file_list_begin, file_search_finish, NULL,
	},
	{
		"file_chmod", "Change rights of files",
		"Change the rights, and if wanted the owner and group, of files and folders.",
		args_file_chmod, "StatusResponse", CONNECTS, file_chmod_begin, NULL, "changed",
	},
	/* ---- network and diagnostics ---- */
	{
		"egress_get", "Look at the network policy",
		"What the sandbox may reach: its rules and what happens to everything else.",
		args_sandbox, "NetworkPolicyInfo", CONNECTS | TOOL_READS, egress_get_begin, egress_get_finish, NULL,
	},
	{
		"egress_patch", "Change the network policy",
		"Allow or deny single targets while the sandbox runs; returns the policy that is in force then.",
		args_egress_patch, "NetworkPolicyInfo", CONNECTS, egress_patch_begin, egress_get_finish, NULL,
	},
	{
		"sandbox_diagnostics", "Find out what is wrong",
		"What happened to a sandbox and what its entrypoint wrote, also when the sandbox itself does not answer. Begin with the "
		"summary; network shows what was denied.",
		args_sandbox_diagnostics, "Diagnostics", TOOL_READS, sandbox_diagnostics_begin, sandbox_diagnostics_finish, NULL,
	},
};

const struct tool *tool_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (str_is(name, tools[i].name))
			return &tools[i];
	return NULL;
}

static void tool_write(const struct tool *t, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, t->name);
	json_key(o, "title"), json_cstr(o, t->title);
	json_key(o, "description"), json_cstr(o, t->description);
	json_key(o, "inputSchema"), schema_input(t->name, t->fields, o);
	json_key(o, "outputSchema"), schema_output(t->name, t->output, o);
	json_key(o, "annotations"), json_open(o, '{');
	json_key(o, "readOnlyHint"), json_bool(o, t->flags & TOOL_READS);
	json_key(o, "destructiveHint"), json_bool(o, t->flags & TOOL_DESTROYS);
	json_close(o, '}');
	json_close(o, '}');
}

void tool_list_write(struct json_out *o)
{
	json_open(o, '[');
	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		tool_write(&tools[i], o);
	json_close(o, ']');
}
