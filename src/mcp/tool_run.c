// SPDX-License-Identifier: Apache-2.0
/* Commands, sessions and code. */
#include <inttypes.h>

#include "base/err.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/transcript.h"

#include "base/banned.h"

#define LOGS_SCAN_MAX (128 * 1024 * 1024) /* bytes of output that are read for their two ends */
#define LOGS_MS 60000                     /* for all of them */

static int begin_transcript(struct call *c, struct err *e)
{
	c->transcript = transcript_new(c->engine->limits.output);
	return c->transcript ? 0 : err_no_memory(e);
}

static enum step ran(struct call *c, struct err *e)
{
	(void)e;
	c->has_exit_code = c->result.execution && c->result.execution->has_exit_code;
	c->exit_code = c->has_exit_code ? c->result.execution->exit_code : -1;
	return STEP_DONE;
}

int command_run_finish(struct call *c, struct json_out *o, struct err *e)
{
	(void)e;
	transcript_write(c->transcript, c->has_exit_code, c->exit_code, o);
	return 0;
}

/* ---- commands ---- */

enum step command_run_begin(struct call *c, struct err *e)
{
	const struct osb_command command = {
		.size = sizeof(command),
		.command = c->args.command,
		.working_directory = c->args.working_directory,
		.background = c->args.background,
		.skip_accumulation = true, /* the transcript has a limit, and the library has none */
	};

	if (begin_transcript(c, e) < 0)
		return STEP_FAILED;
	(void)osb_command_run(c->handle->sandbox, &command, mcp_call_on_event, c, &c->result.execution,
			      c->op);
	return mcp_call_then(c, ran);
}

enum step command_interrupt_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_command_interrupt(c->handle->sandbox, c->args.execution_id, c->op);
	return mcp_call_then(c, NULL);
}

enum step command_status_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_command_status(c->handle->sandbox, c->args.execution_id, &c->result.status, c->op);
	return mcp_call_then(c, NULL);
}

/* Only the two ends are kept, however much a sandbox sends. */
static int on_logs(const char *data, size_t n, void *arg)
{
	struct call *c = arg;

	return c->is_cancelled || c->cut.total + n > LOGS_SCAN_MAX || !cut_feed(&c->cut, data, n) ? -1 : 0;
}

static enum step logs_read(struct call *c, struct err *e)
{
	const struct osb_error *why = osb_call_error(c->op);

	if (why->kind == OSB_LOCAL)
		return (enum step)err_set(e, ERR_LIMIT, "the output is larger than %d bytes: read from a cursor on", LOGS_SCAN_MAX);
	return why->kind == OSB_OK ? STEP_DONE : (enum step)err_set(e, ERR_IO, "%s", why->message);
}

enum step command_logs_begin(struct call *c, struct err *e)
{
	(void)e;
	cut_init(&c->cut, c->engine->limits.output);
	c->takes_failure = true;
	osb_call_set_deadline(c->op, LOGS_MS);
	(void)osb_command_logs_stream(c->handle->sandbox, c->args.execution_id, c->args.cursor, on_logs, c,
				      &c->result.logs, c->op);
	return mcp_call_then(c, logs_read);
}

int command_logs_finish(struct call *c, struct json_out *o, struct err *e)
{
	AUTO(buf_done) struct buf between = BUF_INIT(CUT_NOTE_MAX);
	const struct osb_command_logs *logs = c->result.logs;
	bool is_whole = cut_is_whole(&c->cut);

	if (!is_whole)
		(void)buf_addf(&between, "[... %" PRIu64 " bytes left out ...]", c->cut.total - c->cut.limit);
	if (!cut_finish(&c->cut, buf_str(&between), &c->text))
		return err_set(e, ERR_LIMIT, "the output is too large");
	json_open(o, '{');
	json_key(o, "content"), json_str(o, buf_str(&c->text));
	json_key(o, "cursor"), logs->cursor >= 0 ? json_int(o, logs->cursor) : json_null(o);
	json_key(o, "note"), json_cstr(o, is_whole ? NULL : "cut in the middle: it was too long");
	json_close(o, '}');
	return 0;
}

/* ---- sessions ---- */

enum step session_create_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_session_create(c->handle->sandbox, c->args.working_directory, &c->result.session, c->op);
	return mcp_call_then(c, NULL);
}

int session_create_finish(struct call *c, struct json_out *o, struct err *e)
{
	(void)e;
	json_open(o, '{');
	json_key(o, "session_id"), json_cstr(o, c->result.session->id);
	json_close(o, '}');
	return 0;
}

enum step session_run_begin(struct call *c, struct err *e)
{
	const struct osb_command command = {
		.size = sizeof(command),
		.command = c->args.command,
		.working_directory = c->args.working_directory,
		.timeout_ms = (int64_t)(c->args.command_timeout_seconds * 1000),
		.skip_accumulation = true,
	};

	if (begin_transcript(c, e) < 0)
		return STEP_FAILED;
	c->run = RUN_IN_SESSION;
	(void)osb_session_run(c->handle->sandbox, c->args.session_id, &command, mcp_call_on_event, c,
			      &c->result.execution, c->op);
	return mcp_call_then(c, ran);
}

enum step session_delete_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_session_delete(c->handle->sandbox, c->args.session_id, c->op);
	return mcp_call_then(c, NULL);
}

/* ---- code ---- */

enum step code_run_begin(struct call *c, struct err *e)
{
	const struct osb_code code = {
		.size = sizeof(code),
		.code = c->args.code,
		.language = c->args.language,
		.context_id = c->args.context_id,
		.skip_accumulation = true,
	};

	if (begin_transcript(c, e) < 0)
		return STEP_FAILED;
	c->run = RUN_CODE;
	(void)osb_code_run(c->handle->sandbox, &code, mcp_call_on_event, c, &c->result.execution, c->op);
	return mcp_call_then(c, ran);
}

enum step code_context_create_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_context_create(c->handle->sandbox, c->args.language, c->args.cwd, &c->result.context,
				 c->op);
	return mcp_call_then(c, NULL);
}

enum step code_context_list_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_context_list(c->handle->sandbox, c->args.language, &c->result.contexts, c->op);
	return mcp_call_then(c, NULL);
}

int code_context_list_finish(struct call *c, struct json_out *o, struct err *e)
{
	const struct osb_contexts *all = c->result.contexts;

	(void)e;
	json_open(o, '[');
	for (size_t i = 0; i < all->n; i++) {
		json_open(o, '{');
		json_key(o, "id"), json_cstr(o, all->items[i].id);
		json_key(o, "language"), json_cstr(o, all->items[i].language);
		json_key(o, "cwd"), json_cstr(o, all->items[i].cwd);
		json_close(o, '}');
	}
	json_close(o, ']');
	return 0;
}

enum step code_context_delete_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_context_delete(c->handle->sandbox, c->args.context_id, c->op);
	return mcp_call_then(c, NULL);
}
