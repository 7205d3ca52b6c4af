// SPDX-License-Identifier: Apache-2.0
#include "mcp/rpc.h"

#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

/* ---- reading ---- */

bool rpc_id_read(const struct json *v, struct rpc_id *ret)
{
	AUTO(buf_done) struct buf b = BUF_INIT(RPC_ID_MAX);
	struct json_out o = json_out(&b);

	if (!v || (v->type != JSON_STRING && v->type != JSON_INT && v->type != JSON_UINT))
		return false;
	json_tree(&o, v);
	if (b.failed)
		return false;
	memcpy(ret->text, b.p, b.n + 1);
	return true;
}

static int read_call(const struct json *v, const struct json *id, struct rpc_message *ret, struct err *e)
{
	const struct json *method = json_get(v, "method"), *params = json_get(v, "params");

	if (method->type != JSON_STRING || method->s.n == 0 || method->s.n > RPC_METHOD_MAX)
		return err_set(e, ERR_INVALID, "'method' is not the name of a method");
	if (params && params->type == JSON_ARRAY && params->kids.n == 0)
		params = NULL;
	if (params && params->type != JSON_OBJECT && params->type != JSON_NULL)
		return err_set(e, ERR_INVALID, "'params' is not an object");
	ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	ret->method = method->s;
	ret->params = params && params->type == JSON_OBJECT ? params : NULL;
	return 0;
}

int rpc_read(const struct json *v, struct rpc_message *ret, struct err *e)
{
	const struct json *id = json_get(v, "id"), *version = json_get(v, "jsonrpc");

	*ret = (struct rpc_message){ 0 };
	if (!v || v->type != JSON_OBJECT)
		return err_set(e, ERR_INVALID, "a message is an object");
	if (id && !rpc_id_read(id, &ret->id) && !(id->type == JSON_NULL && json_get(v, "error")))
		return err_set(e, ERR_INVALID, "'id' is neither a string nor an integer, or longer than %d bytes", RPC_ID_MAX);
	if (!version || version->type != JSON_STRING || !str_is(version->s, "2.0"))
		return err_set(e, ERR_INVALID, "'jsonrpc' is not \"2.0\"");
	if (json_get(v, "method"))
		return read_call(v, id, ret, e);
	if (!id || (!json_get(v, "result") && !json_get(v, "error")))
		return err_set(e, ERR_INVALID, "the message has no method, and is no answer");
	ret->kind = RPC_RESPONSE;
	return 0;
}

/* ---- writing ---- */

static struct json_out message_open(struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "jsonrpc"), json_str(&o, STR("2.0"));
	return o;
}

static void write_id(struct json_out *o, const struct rpc_id *id)
{
	json_key(o, "id");
	if (id->text[0])
		json_raw(o, str_of(id->text));
	else
		json_null(o);
}

struct json_out rpc_result_open(struct buf *b, const struct rpc_id *id)
{
	struct json_out o = message_open(b);

	write_id(&o, id);
	json_key(&o, "result");
	return o;
}

void rpc_result_close(struct json_out *o)
{
	json_close(o, '}');
}

struct json_out rpc_notify_open(struct buf *b, const char *method)
{
	struct json_out o = message_open(b);

	json_key(&o, "method"), json_cstr(&o, method);
	json_key(&o, "params");
	return o;
}

void rpc_error(struct buf *b, const struct rpc_id *id, enum rpc_code code, struct str message)
{
	struct json_out o = message_open(b);

	write_id(&o, id);
	json_key(&o, "error"), json_open(&o, '{');
	json_key(&o, "code"), json_int(&o, code);
	json_key(&o, "message"), json_str(&o, message);
	json_close(&o, '}');
	json_close(&o, '}');
}

/* ---- lines ---- */

static void tell(struct rpc_lines *l, struct str line, rpc_line_fn *fn, void *arg)
{
	if (l->is_dropping)
		fn((struct str){ "", 0 }, true, arg);
	else if (str_trim(line).n > 0)
		fn(str_trim(line), false, arg);
	l->is_dropping = false;
}

void rpc_lines_feed(struct rpc_lines *l, struct str piece, rpc_line_fn *fn, void *arg)
{
	while (piece.n > 0) {
		const char *end = memchr(piece.p, '\n', piece.n);
		struct str part = str_first(piece, end ? (size_t)(end - piece.p) : piece.n);

		piece = str_skip(piece, part.n + (end ? 1 : 0));
		if (end && l->held.n == 0 && part.n <= l->held.max) {
			tell(l, part, fn, arg); /* the whole line is in this piece: it needs no copy */
			continue;
		}
		if (!l->is_dropping && !buf_add_str(&l->held, part)) {
			l->is_dropping = true;
			buf_done(&l->held);
			l->held.failed = false;
		}
		if (end) {
			tell(l, buf_str(&l->held), fn, arg);
			buf_clear(&l->held);
		}
	}
}

void rpc_lines_end(struct rpc_lines *l, rpc_line_fn *fn, void *arg)
{
	if (l->held.n > 0 || l->is_dropping)
		tell(l, buf_str(&l->held), fn, arg);
	buf_done(&l->held);
}
