// SPDX-License-Identifier: Apache-2.0
/* POST /session, POST /session/{id}/run, DELETE /session/{id}. */
#include <fcntl.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/io/body.h"
#include "sys/path.h"

#include "base/banned.h"

#define TIMEOUT_MAX_MS (INT64_C(1) << 53)

struct session_request {
	const char *cwd;
};

static const struct field new_fields[] = {
	FIELD(struct session_request, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	{ 0 },
};

struct run_request {
	const char *command, *cwd;
	int64_t timeout_ms;
};

static const struct field run_fields[] = {
	FIELD(struct run_request, command, FIELD_STRING, "command", .required = true, .min = 1, .max = 0),
	FIELD(struct run_request, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	FIELD(struct run_request, timeout_ms, FIELD_INT, "timeout", .min = 0, .max = TIMEOUT_MAX_MS),
	{ 0 },
};

/* ---- a new one ---- */

int execd_make_cwd(struct execd *x, const char *cwd, struct arena *a, struct reply *rp, const char **ret, struct err *e)
{
	AUTO_FD fd = -1;
	struct err why = { 0 };
	bool is_theirs;

	*ret = launch_cwd_path(&x->config->env, str_of(cwd && *cwd ? cwd : "."), a, &why);
	if (*ret)
		fd = launch_open_made(*ret, &why);
	if (fd >= 0)
		return 0;
	if (why.sys == ENOMEM) {
		*e = why;
		return -1;
	}
	if (err_is_disk_full(&why)) {
		(void)reply_error(rp, 507, CODE_DISK_FULL, "$.cwd: the disk is full: %s", why.msg);
		return 1;
	}
	is_theirs = launch_is_about_path(&why);
	(void)reply_error(rp, is_theirs ? 400 : 500, is_theirs ? CODE_INVALID_BODY : CODE_RUNTIME, "$.cwd: %s", why.msg);
	return 1;
}

static int answer_new(struct execd *x, const char *cwd, struct arena *a, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(256);
	struct json_out o = json_out(&json);
	struct session_spec sp = { .shell = launch_shell(&x->config->env, a), .env = &x->config->env,
				   .as = x->config->has_identity ? &x->config->as : NULL };
	const struct session *s;
	int r = execd_make_cwd(x, cwd, a, rp, &sp.cwd, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	s = session_new(&x->sessions, &sp, e);
	if (!s && err_is_disk_full(e)) /* for its script and its variables */
		return reply_error(rp, 507, CODE_DISK_FULL, "the disk is full: %s", e->msg);
	if (!s)
		return -1;
	json_open(&o, '{');
	json_key(&o, "session_id"), json_cstr(&o, session_id(s));
	json_close(&o, '}');
	return reply_json(rp, 200, &json);
}

static int on_new(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct session_request sr = { 0 };
	int r = str_trim(body).n == 0 ? 0 : body_decode(rp, body, &a, new_fields, &sr, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	return answer_new(execd_of(rq), sr.cwd, &a, rp, e);
}

int session_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct execd *x = execd_of(rq);

	if (x->sessions.n >= SESSIONS_MAX)
		return reply_too_many(rp, "sessions");
	return body_read(rq, rp, &x->budget, on_new, e);
}

/* ---- a run ---- */

/* The directory of a run must be there. 1 after having answered. */
static int find_cwd(struct execd *x, const char *cwd, struct arena *a, struct reply *rp, const char **ret, struct err *e)
{
	struct err why = { 0 };
	int fd;

	*ret = NULL;
	if (!cwd || !*cwd)
		return 0;
	fd = launch_open_cwd(&x->config->env, str_of(cwd), &why);
	closep(&fd);
	if (fd >= 0)
		*ret = launch_cwd_path(&x->config->env, str_of(cwd), a, &why);
	if (*ret)
		return 0;
	if (why.code != ERR_INVALID) {
		*e = why;
		return -1;
	}
	(void)reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: $.cwd: %s", why.msg);
	return 1;
}

static int on_run(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct execd *x = execd_of(rq);
	struct run_request rr = { 0 };
	struct session_command cmd = { 0 };
	struct session *s;
	int r = body_decode(rp, body, &a, run_fields, &rr, e);

	if (r == 0 && strlen(rr.command) > COMMAND_TEXT_MAX)
		return reply_error(rp, 413, CODE_TOO_LARGE, "$.command: longer than %d bytes", COMMAND_TEXT_MAX);
	if (r == 0)
		r = find_cwd(x, rr.cwd, &a, rp, &cmd.cwd, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	s = session_find(&x->sessions, rq->params[0]);
	if (!s)
		return reply_error(rp, 404, CODE_NO_CONTEXT, "session '%.*s' not found", STR_ARG(str_first(rq->params[0], 64)));
	cmd.text = str_of(rr.command);
	cmd.timeout_ms = (uint64_t)rr.timeout_ms;
	if (session_run(s, &cmd, rp, e) == 0)
		return 0;
	return e->code == ERR_LIMIT && !e->sys ? reply_too_many(rp, "runs of this session") : -1;
}

int session_run_post(struct request *rq, struct reply *rp, struct err *e)
{
	return body_read(rq, rp, &execd_of(rq)->budget, on_run, e);
}

int session_delete_route(struct request *rq, struct reply *rp, struct err *e)
{
	struct session *s = session_find(&execd_of(rq)->sessions, rq->params[0]);

	(void)e;
	if (!s)
		return reply_error(rp, 404, CODE_NO_CONTEXT, "session '%.*s' not found", STR_ARG(str_first(rq->params[0], 64)));
	session_delete(s);
	return reply_empty(rp, 200);
}
