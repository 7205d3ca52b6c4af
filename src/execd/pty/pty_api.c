// SPDX-License-Identifier: Apache-2.0
/* POST /pty, GET and DELETE /pty/{id}, GET /pty/{id}/ws. */
#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/io/body.h"
#include "net/http/url.h"
#include "sys/path.h"

#include "base/banned.h"

struct pty_request {
	const char *cwd, *command;
};

static const struct field fields[] = {
	FIELD(struct pty_request, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	FIELD(struct pty_request, command, FIELD_STRING, "command", .min = 0, .max = 0),
	{ 0 },
};

/* ---- a new one ---- */

static int answer_new(struct execd *x, const struct pty_request *pr, struct arena *a, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(256);
	struct json_out o = json_out(&json);
	const struct pty *p;
	const char *cwd;
	int r = execd_make_cwd(x, pr->cwd, a, rp, &cwd, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	p = pty_new(&x->ptys, cwd, pr->command && *pr->command ? pr->command : NULL, e);
	if (!p)
		return e->code == ERR_LIMIT && !e->sys ? reply_too_many(rp, "terminals") : -1;
	json_open(&o, '{');
	json_key(&o, "session_id"), json_cstr(&o, pty_id(p));
	json_close(&o, '}');
	return reply_json(rp, 201, &json);
}

static int on_new(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct pty_request pr = { 0 };
	int r = str_trim(body).n == 0 ? 0 : body_decode(rp, body, &a, fields, &pr, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (pr.command && strlen(pr.command) > COMMAND_TEXT_MAX)
		return reply_error(rp, 413, CODE_TOO_LARGE, "$.command: longer than %d bytes", COMMAND_TEXT_MAX);
	return answer_new(execd_of(rq), &pr, &a, rp, e);
}

int pty_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct execd *x = execd_of(rq);

	if (!pty_has_room(&x->ptys))
		return reply_too_many(rp, "terminals");
	return body_read(rq, rp, &x->budget, on_new, e);
}

/* ---- one that there is ---- */

static int reply_no_pty(const struct request *rq, struct reply *rp)
{
	return reply_error(rp, 404, CODE_NO_CONTEXT, "pty session '%.*s' not found", STR_ARG(str_first(rq->params[0], 64)));
}

int pty_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(512);
	struct json_out o = json_out(&json);
	const struct pty *p = pty_find(&execd_of(rq)->ptys, rq->params[0]);

	(void)e;
	if (!p)
		return reply_no_pty(rq, rp);
	json_open(&o, '{');
	json_key(&o, "session_id"), json_cstr(&o, pty_id(p));
	json_key(&o, "running"), json_bool(&o, pty_is_running(p));
	json_key(&o, "output_offset"), json_uint(&o, pty_offset(p));
	json_close(&o, '}');
	return reply_json(rp, 200, &json);
}

int pty_delete_route(struct request *rq, struct reply *rp, struct err *e)
{
	struct pty *p = pty_find(&execd_of(rq)->ptys, rq->params[0]);

	(void)e;
	if (!p)
		return reply_no_pty(rq, rp);
	pty_delete(p);
	return reply_empty(rp, 200);
}

/* ---- its client ---- */

static bool take_flag(const struct query *q, const char *key, bool *ret)
{
	const struct query_pair *pair = query_get(q, key);

	return !pair || pair->value.n == 0 || url_parse_bool(pair->value, ret);
}

/* NULL, or the parameter that makes no sense. */
static const char *read_query(const struct query *q, struct pty_attach *how)
{
	const struct query_pair *since = query_get(q, "since");
	bool has_terminal = true;

	if (!take_flag(q, "pty", &has_terminal))
		return "pty";
	if (!take_flag(q, "takeover", &how->takes_over))
		return "takeover";
	if (since && since->value.n > 0 && !str_to_u64(since->value, 0, UINT64_MAX, &how->since))
		return "since";
	how->is_pipe = !has_terminal;
	return NULL;
}

int pty_ws(struct request *rq, struct reply *rp, struct err *e)
{
	struct pty *p = pty_find(&execd_of(rq)->ptys, rq->params[0]);
	struct pty_attach how = { 0 };
	struct err why = { 0 };
	struct query q;
	const char *bad;

	if (!p)
		return reply_no_pty(rq, rp);
	if (query_parse(rq->query, rq->arena, &q, &why) < 0)
		return reply_error(rp, 400, CODE_INVALID_BODY, "invalid query: %s", why.msg);
	bad = read_query(&q, &how);
	if (bad)
		return reply_error(rp, 400, CODE_INVALID_BODY, "invalid query: %s: not a value for it", bad);
	if (pty_is_held(p) && !(how.takes_over && rq->head->has_upgrade))
		return reply_error(rp, 409, CODE_ALREADY_CONNECTED, "another client is connected to this session");
	return pty_attach(p, &how, rq, rp, e);
}
