// SPDX-License-Identifier: Apache-2.0
/* POST /code, POST /code/context, GET and DELETE /code/contexts and /code/contexts/{id}. DELETE /code is DELETE /command.
 *
 * A run names a context, or a language whose context then is the one that all such runs share. "command" and "background-command"
 * are languages, too, and so is none at all: a shell command. A context has a `cwd`, which is made if it is missing, `envs` on top of the
 * environment of commands, and a `kernel` if one is asked for by its name. */
#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/own.h"
#include "execd/code/code.h"
#include "execd/execd.h"
#include "execd/io/body.h"
#include "net/http/url.h"
#include "sys/path.h"

#include "base/banned.h"

#define LANGUAGE_MAX 64
#define LIST_MAX ((size_t)512 * 1024)

struct context_request {
	const char *id, *language, *cwd, *kernel;
	struct string_map envs;
};

static const struct field context_fields[] = {
	FIELD(struct context_request, id, FIELD_STRING, "id", .min = 0, .max = 128),
	FIELD(struct context_request, language, FIELD_STRING, "language", .min = 0, .max = LANGUAGE_MAX),
	FIELD(struct context_request, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	FIELD(struct context_request, kernel, FIELD_STRING, "kernel", .min = 0, .max = LANGUAGE_MAX),
	FIELD(struct context_request, envs, FIELD_MAP, "envs", .min = 0, .max = COMMAND_ENVS_MAX, .secret = true, .check = check_envs),
	{ 0 },
};

struct code_request {
	struct str code;
	struct context_request context;
};

static const struct field code_fields[] = {
	FIELD(struct code_request, code, FIELD_TEXT, "code", .required = true, .min = 1, .max = 0),
	FIELD(struct code_request, context, FIELD_OBJECT, "context", .fields = context_fields),
	{ 0 },
};

/* ---- contexts ---- */

static int make_env(struct execd *x, const struct context_request *cr, struct arena *a, struct env *ret, struct err *e)
{
	if (execd_env(x->config, a, ret, e) < 0)
		return -1;
	for (size_t i = 0; i < cr->envs.n; i++)
		if (env_set(ret, a, str_of(cr->envs.items[i].key), str_of(cr->envs.items[i].value), e) < 0)
			return -1;
	return 0;
}

/* 0 with a context in *ret, 1 after having answered, or -1. */
static int make_context(struct execd *x, const struct context_request *cr, bool is_default, struct arena *a, struct reply *rp,
			struct code_context **ret, struct err *e)
{
	struct env env = { 0 };
	struct code_spec sp = { .language = cr->language, .kernel = cr->kernel && *cr->kernel ? cr->kernel : NULL, .env = &env,
				.as = x->config->has_identity ? &x->config->as : NULL };
	const char *bad = bad_env_name(&cr->envs);
	struct err why = { 0 };
	int r = bad ? refuse_env_name(rp, "envs", bad) : execd_make_cwd(x, cr->cwd, a, rp, &sp.cwd, e);

	if (r != 0)
		return r;
	if (make_env(x, cr, a, &env, e) < 0)
		return -1;
	*ret = code_context_new(&x->codes, &sp, is_default, &why);
	if (*ret)
		return 0;
	if (why.code == ERR_LIMIT && !why.sys)
		(void)reply_too_many(rp, "contexts");
	else if (why.code == ERR_NOT_FOUND)
		(void)reply_error(rp, 400, CODE_INVALID_BODY, "%s", why.msg);
	else {
		*e = why;
		return -1;
	}
	return 1;
}

static int on_context(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct context_request cr = { 0 };
	struct code_context *c;
	int r = body_decode(rp, body, &a, context_fields, &cr, e);

	if (r == 0 && (!cr.language || !*cr.language))
		return reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: $.language: missing");
	if (r == 0)
		r = make_context(execd_of(rq), &cr, false, &a, rp, &c, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	return code_context_answer(c, rp, e);
}

int code_context_post(struct request *rq, struct reply *rp, struct err *e)
{
	return body_read(rq, rp, &execd_of(rq)->budget, on_context, e);
}

/* The value of `language`; empty when there is none. */
static int query_language(struct request *rq, struct str *ret, struct err *e)
{
	const struct query_pair *pair;
	struct query q;

	if (query_parse(rq->query, rq->arena, &q, e) < 0)
		return -1;
	pair = query_get(&q, "language");
	*ret = pair ? pair->value : STR("");
	return 0;
}

int code_contexts_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(LIST_MAX);
	struct json_out o = json_out(&json);
	struct str language;

	if (query_language(rq, &language, e) < 0)
		return -1;
	code_contexts_write(&execd_of(rq)->codes, language, &o);
	return json.failed ? err_no_memory(e) : reply_json(rp, 200, &json);
}

int code_contexts_delete_route(struct request *rq, struct reply *rp, struct err *e)
{
	struct str language;

	if (query_language(rq, &language, e) < 0)
		return -1;
	if (language.n == 0)
		return reply_error(rp, 400, CODE_MISSING_QUERY, "missing query parameter 'language'");
	code_contexts_delete(&execd_of(rq)->codes, language);
	return reply_empty(rp, 200);
}

static int no_context(struct reply *rp, struct str id)
{
	return reply_error(rp, 404, CODE_NO_CONTEXT, "context '%.*s' not found", STR_ARG(str_first(id, 64)));
}

int code_context_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(LIST_MAX);
	struct json_out o = json_out(&json);
	const struct code_context *c = code_context_find(&execd_of(rq)->codes, rq->params[0]);

	if (!c)
		return no_context(rp, rq->params[0]);
	code_context_write(c, &o);
	return json.failed ? err_no_memory(e) : reply_json(rp, 200, &json);
}

int code_context_delete_route(struct request *rq, struct reply *rp, struct err *e)
{
	struct code_context *c = code_context_find(&execd_of(rq)->codes, rq->params[0]);

	(void)e;
	if (!c)
		return no_context(rp, rq->params[0]);
	code_context_delete(c);
	return reply_empty(rp, 200);
}

/* ---- runs ---- */

static bool is_command(const struct context_request *cr, bool *ret_background)
{
	struct str language = str_of(cr->language);

	*ret_background = str_eq(language, STR("background-command"));
	return language.n == 0 || *ret_background || str_eq(language, STR("command"));
}

/* The context that is named, or its language's own. 1 after having answered. */
static int find_context(struct execd *x, const struct context_request *cr, struct arena *a, struct reply *rp, struct code_context **ret,
			struct err *e)
{
	if (cr->id && *cr->id) {
		*ret = code_context_find(&x->codes, str_of(cr->id));
		if (*ret)
			return 0;
		(void)no_context(rp, str_of(cr->id));
		return 1;
	}
	*ret = code_context_default(&x->codes, cr->language, cr->kernel);
	return *ret ? 0 : make_context(x, cr, true, a, rp, ret, e);
}

static int run_command(struct execd *x, struct str text, bool is_background, struct arena *a, struct reply *rp, struct err *e)
{
	const char *copy = memchr(text.p, '\0', text.n) ? NULL : arena_dup(a, text);

	if (!copy)
		return reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: $.code: a command has no NUL");
	return command_run_text(x, copy, is_background, a, rp, e);
}

static int on_code(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct execd *x = execd_of(rq);
	struct code_request cr = { 0 };
	struct code_context *c = NULL;
	bool is_background;
	int r = body_decode(rp, body, &a, code_fields, &cr, e);

	if (r == 0 && cr.code.n > CODE_TEXT_MAX)
		return reply_error(rp, 413, CODE_TOO_LARGE, "$.code: longer than %zu bytes", CODE_TEXT_MAX);
	if (r == 0 && !(cr.context.id && *cr.context.id) && is_command(&cr.context, &is_background))
		return run_command(x, cr.code, is_background, &a, rp, e);
	if (r == 0)
		r = find_context(x, &cr.context, &a, rp, &c, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (code_context_run(c, cr.code, rp, e) == 0)
		return 0;
	return e->code == ERR_LIMIT && !e->sys ? reply_too_many(rp, "runs of this context (session is busy)") : -1;
}

int code_post(struct request *rq, struct reply *rp, struct err *e)
{
	return body_read(rq, rp, &execd_of(rq)->budget, on_code, e);
}
