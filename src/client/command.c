// SPDX-License-Identifier: Apache-2.0
/* Commands, and the sessions that they can be run in. */
#include "base/err.h"
#include "client/model.h"
#include "client/op.h"
#include "client/run.h"
#include "client/sandbox.h"

#include "base/banned.h"

#define CURSOR_HEADER "EXECD-COMMANDS-TAIL-CURSOR"
#define LOGS_MAX ((size_t)128 * 1024 * 1024) /* of one answer */
#define INTERRUPT_MS 60000                   /* it answers when what it ends is over */

/* ---- running ---- */

static void put_number(struct json_out *o, const char *key, bool is_there, int64_t n)
{
	if (is_there)
		json_key(o, key), json_int(o, n);
}

static bool is_right(struct op *op, const struct osb_command *c)
{
	return op_need(op, c->command && *c->command, "the command is missing") && op_need(op, c->timeout_ms >= 0, "the timeout is below 0") &&
	       op_need(op, !c->has_gid || c->has_uid, "a gid without a uid");
}

/* The body of a run up to what sessions do not have; NULL: the operation has failed. */
static struct json_out *open_body(struct op *op, const struct osb_command *command, struct osb_command *ret)
{
	struct json_out *o;

	struct_take(ret, sizeof(*ret), command, command ? command->size : 0, sizeof(*ret));
	if (!is_right(op, ret))
		return NULL;
	o = op_body(op);
	json_open(o, '{');
	body_string(o, "command", ret->command);
	body_string(o, "cwd", ret->working_directory);
	put_number(o, "timeout", ret->timeout_ms > 0, ret->timeout_ms);
	return o;
}

int osb_command_run(struct osb_sandbox *s, const struct osb_command *command, osb_event_fn *events, void *arg,
		    struct osb_execution **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "run command", ret);
	struct osb_command c;
	struct json_out *o;

	if (!op)
		return -1;
	o = open_body(op, command, &c);
	if (!o)
		return op_run(op);
	if (c.background)
		json_key(o, "background"), json_bool(o, true);
	put_number(o, "uid", c.has_uid, c.uid);
	put_number(o, "gid", c.has_gid, c.gid);
	body_map(o, "envs", &c.env);
	json_close(o, '}');
	run_stream(op, &(struct run_spec){ .path = "/command", .is_lines = true, .has_exit = !c.background, .skips = c.skip_accumulation,
					   .events = events, .arg = arg });
	return op_run(op);
}

int osb_command_interrupt(struct osb_sandbox *s, const char *execution_id, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "interrupt command", NULL);

	if (!op)
		return -1;
	if (op_need(op, execution_id && *execution_id, "the execution's id is missing"))
		op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE", .path = op_query(op, "/command", "id", execution_id),
					   .timeout_ms = INTERRUPT_MS });
	return op_run(op);
}

/* ---- what became of one ---- */

static const struct model_field command_status_fields[] = {
	MODEL(struct osb_command_status, id, MODEL_STRING, "id", .required = true),
	MODEL(struct osb_command_status, content, MODEL_STRING, "content"),
	MODEL(struct osb_command_status, running, MODEL_BOOL, "running"),
	MODEL(struct osb_command_status, exit_code, MODEL_INT, "exit_code", .none = -1,
	      .has = MODEL_HAS(struct osb_command_status, has_exit_code)),
	MODEL(struct osb_command_status, error, MODEL_STRING, "error"),
	MODEL(struct osb_command_status, started_at, MODEL_TIME, "started_at"),
	MODEL(struct osb_command_status, finished_at, MODEL_TIME, "finished_at"),
};
static const struct model command_status_model = MODEL_OF(struct osb_command_status, command_status_fields);

int osb_command_status(struct osb_sandbox *s, const char *execution_id, struct osb_command_status **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get command status", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .model = &command_status_model,
				   .path = op_text(op, "/command/status/%s", op_segment(op, execution_id, "execution's id")) });
	return op_run(op);
}

static const struct model_field command_logs_fields[] = {
	MODEL(struct osb_command_logs, content, MODEL_STRING, NULL),
	MODEL(struct osb_command_logs, cursor, MODEL_INT, NULL, .none = -1),
};
static const struct model command_logs_model = MODEL_OF(struct osb_command_logs, command_logs_fields);

struct logs_reading {
	int64_t cursor; /* from the head on, until the body is there, too */
	osb_write_fn *write; /* NULL: the body is collected */
	void *arg;
};

static void on_logs_head(struct op *op, const struct http_head *head)
{
	struct logs_reading *r = op->state;

	if (!str_to_i64(http_value(head, CURSOR_HEADER), 0, INT64_MAX, &r->cursor))
		r->cursor = -1;
}

static void on_logs_data(struct op *op, struct str piece)
{
	const struct logs_reading *r = op->state;

	if (r->write(piece.p, piece.n, r->arg) < 0)
		op_fail(op, OSB_LOCAL, NULL, "writing what came has failed");
}

static void on_logs(struct op *op, const struct op_answer *a)
{
	struct err e = { 0 };
	struct osb_command_logs *logs = result_new(&command_logs_model, &e);

	if (!logs) {
		op_fail_err(op, &e);
		return;
	}
	op_result(op, logs, NULL);
	logs->content = arena_dup(result_arena(logs), a->body); /* of a stream: empty */
	logs->n_content = a->body.n;
	logs->cursor = ((const struct logs_reading *)op->state)->cursor;
	if (logs->content)
		op_done(op);
	else
		op_no_memory(op);
}

static int read_logs(struct op *op, const char *execution_id, int64_t cursor, osb_write_fn *write, void *arg)
{
	struct logs_reading *r = op_alloc(op, sizeof(*r));
	const char *path;

	if (!r)
		return op_run(op);
	*r = (struct logs_reading){ .cursor = -1, .write = write, .arg = arg };
	op->state = r;
	path = op_text(op, "/command/%s/logs", op_segment(op, execution_id, "execution's id"));
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "GET", .accept = "text/plain", .max = LOGS_MAX,
				   .path = op_query(op, path, "cursor", cursor > 0 ? op_text(op, "%lld", (long long)cursor) : NULL),
				   .on_head = on_logs_head, .on_data = write ? on_logs_data : NULL, .on_answer = on_logs });
	return op_run(op);
}

int osb_command_logs(struct osb_sandbox *s, const char *execution_id, int64_t cursor, struct osb_command_logs **ret,
		     struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get command logs", ret);

	return op ? read_logs(op, execution_id, cursor, NULL, NULL) : -1;
}

int osb_command_logs_stream(struct osb_sandbox *s, const char *execution_id, int64_t cursor, osb_write_fn *write, void *arg,
			    struct osb_command_logs **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get command logs", ret);

	if (!op)
		return -1;
	if (!op_need(op, write, "the function for what comes is missing"))
		return op_run(op);
	return read_logs(op, execution_id, cursor, write, arg);
}

/* ---- sessions ---- */

static const struct model_field session_fields[] = {
	{ .wire = "session_id", .name = "session_id", .kind = MODEL_STRING, .required = true, .offset = offsetof(struct osb_session, id) },
};
static const struct model session_model = MODEL_OF(struct osb_session, session_fields);

int osb_session_create(struct osb_sandbox *s, const char *working_directory, struct osb_session **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "create session", ret);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '{');
	body_string(o, "cwd", working_directory);
	json_close(o, '}');
	op_send(op, &(struct ask){ .to = &s->execd, .method = "POST", .path = "/session", .model = &session_model });
	return op_run(op);
}

int osb_session_run(struct osb_sandbox *s, const char *session_id, const struct osb_command *command, osb_event_fn *events,
		    void *arg, struct osb_execution **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "run in session", ret);
	struct osb_command c;
	struct json_out *o;

	if (!op)
		return -1;
	o = open_body(op, command, &c);
	if (!o)
		return op_run(op);
	json_close(o, '}');
	run_stream(op, &(struct run_spec){ .path = op_text(op, "/session/%s/run", op_segment(op, session_id, "session's id")),
					   .is_lines = true, .has_exit = true, .skips = c.skip_accumulation, .events = events, .arg = arg });
	return op_run(op);
}

int osb_session_delete(struct osb_sandbox *s, const char *session_id, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "delete session", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE",
				   .path = op_text(op, "/session/%s", op_segment(op, session_id, "session's id")) });
	return op_run(op);
}
