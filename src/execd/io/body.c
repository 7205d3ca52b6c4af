// SPDX-License-Identifier: Apache-2.0
#include "execd/io/body.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "execd/execd.h"

#include "base/banned.h"

#define STEP ((size_t)16 * 1024) /* what a body takes of the budget at a time */
#define VALUES_MAX 4096

struct body {
	struct request *rq;
	struct reply *rp;
	struct budget *budget;
	struct buf bytes;
	size_t granted;
	body_fn *fn;
};

static void body_free(struct body *b)
{
	budget_give(b->budget, b->granted);
	buf_done(&b->bytes);
	free(b);
}
DEFINE_AUTO(struct body *, body_free)

/* The buffer may double when it grows: twice the bytes are paid for. */
static bool body_pay(struct body *b, size_t n)
{
	size_t need = 2 * (b->bytes.n + n), more;

	if (need <= b->granted)
		return true;
	more = (need - b->granted + STEP - 1) / STEP * STEP;
	if (!budget_take(b->budget, more))
		return false;
	b->granted += more;
	return true;
}

static int on_data(struct str piece, void *arg, struct err *e)
{
	struct body *b = arg;

	if (body_pay(b, piece.n) && buf_add_str(&b->bytes, piece))
		return 0;
	body_free(b);
	return err_set(e, ERR_UNAVAILABLE, "no room for the body");
}

static int on_end(void *arg, struct err *e)
{
	AUTO(body_free) struct body *b = arg;

	return b->fn(b->rq, b->rp, buf_str(&b->bytes), e);
}

static void on_stop(void *arg)
{
	body_free(arg);
}

int body_read(struct request *rq, struct reply *rp, struct budget *budget, body_fn *fn, struct err *e)
{
	static const struct body_sink sink = { .data = on_data, .end = on_end, .stop = on_stop };
	struct body *b = calloc(1, sizeof(*b));

	if (!b)
		return err_no_memory(e);
	*b = (struct body){ rq, rp, budget, BUF_INIT(rq->route->max_body), 0, fn };
	request_read(rq, &sink, b);
	return 0;
}

/* ---- JSON ---- */

void body_fold_names(struct json *object, const struct field *fields)
{
	if (object->type != JSON_OBJECT)
		return;
	for (struct json *v = object->kids.first; v; v = v->next)
		for (const struct field *f = fields; f->name; f++)
			if (str_eq_nocase(v->key, str_of(f->name)))
				v->key = str_of(f->name);
}

/* ERR_LIMIT is the document's own size here, anything else ours. */
static int refuse(struct reply *rp, const struct err *why, struct err *e)
{
	if (why->code == ERR_INVALID)
		(void)reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: %s", why->msg);
	else if (why->code == ERR_LIMIT)
		(void)reply_error(rp, 413, CODE_TOO_LARGE, "request body too large: %s", why->msg);
	else
		*e = *why;
	return why->code == ERR_INVALID || why->code == ERR_LIMIT ? 1 : -1;
}

int body_decode(struct reply *rp, struct str body, struct arena *a, const struct field *fields, void *out,
		struct err *e)
{
	const struct json_limits limits = { .values = VALUES_MAX };
	struct decode d = { .arena = a, .strict = true };
	struct err why = { 0 };
	struct json *v;

	if (str_trim(body).n == 0) {
		(void)err_set(&why, ERR_INVALID, "the body is empty");
		return refuse(rp, &why, e);
	}
	v = json_parse(a, body, &limits, NULL, &why);
	if (!v)
		return refuse(rp, &why, e);
	body_fold_names(v, fields);
	return decode(&d, v, fields, out, &why) < 0 ? refuse(rp, &why, e) : 0;
}
