// SPDX-License-Identifier: Apache-2.0
/* Errors: what an answer, or the lack of one, means to the caller. */
#include <errno.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "client/op.h"
#include "net/utf8.h"

#include "base/banned.h"

#define TREE_MAX ((size_t)4 * 1024 * 1024)
#define LINE_MAX_BYTES 400 /* of an error that is plain text */

static const char *code_of(enum osb_kind kind)
{
	switch (kind) {
	case OSB_OK:
		return "";
	case OSB_INVALID:
		return "INVALID_ARGUMENT";
	case OSB_ANSWER:
		return "UNEXPECTED_RESPONSE";
	case OSB_TIMEOUT:
		return "TIMEOUT";
	case OSB_CANCELLED:
		return "CANCELLED";
	case OSB_NOT_READY:
		return "READY_TIMEOUT";
	case OSB_NETWORK:
	case OSB_POOL:
	case OSB_MEMORY:
	case OSB_LOCAL:
		break;
	}
	return "INTERNAL_UNKNOWN_ERROR";
}

void error_setv(struct osb_error *e, enum osb_kind kind, const char *code, const char *fmt, va_list ap)
{
	e->kind = kind;
	(void)snprintf(e->code, sizeof(e->code), "%s", code ? code : code_of(kind));
	(void)vsnprintf(e->message, sizeof(e->message), fmt, ap); /* a long message is cut */
}

void error_set(struct osb_error *e, enum osb_kind kind, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	error_setv(e, kind, code, fmt, ap);
	va_end(ap);
}

void error_from_err(struct osb_error *e, const struct err *from)
{
	bool is_no_answer = from->code == ERR_LIMIT || from->code == ERR_INVALID || strncmp(from->msg, "bad response", 12) == 0;

	if (from->sys == ENOMEM)
		error_set(e, OSB_MEMORY, NULL, "%s", from->msg);
	else if (from->code == ERR_TIMEOUT)
		error_set(e, OSB_TIMEOUT, NULL, "%s", from->msg);
	else
		error_set(e, OSB_NETWORK, is_no_answer ? "UNEXPECTED_RESPONSE" : NULL, "%s", from->msg);
}

/* ---- bodies of answers ---- */

static struct str text_of(const struct json *object, const char *key)
{
	const struct json *v = object && object->type == JSON_OBJECT ? json_get(object, key) : NULL;

	return v && v->type == JSON_STRING ? v->s : (struct str){ 0 };
}

/* Code and message at the top, or in "error", or in "detail". */
static const struct json *find_holder(const struct json *v)
{
	static const char *const inside[] = { "error", "detail" };

	if (text_of(v, "code").n > 0 || text_of(v, "message").n > 0)
		return v;
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		const struct json *kid = v->type == JSON_OBJECT ? json_get(v, inside[i]) : NULL;

		if (text_of(kid, "code").n > 0 || text_of(kid, "message").n > 0)
			return kid;
	}
	return NULL;
}

/* The first problem of a list, "body.timeout: Input should be ...": what frameworks answer with when a schema is not met. */
static void add_problem(struct buf *b, const struct json *problem)
{
	const struct json *loc = problem->type == JSON_OBJECT ? json_get(problem, "loc") : NULL;
	struct str msg = text_of(problem, "msg");

	for (const struct json *step = json_first(loc); step; step = step->next) {
		const char *dot = step == json_first(loc) ? "" : ".";

		if (step->type == JSON_STRING)
			buf_addf(b, "%s%.*s", dot, STR_ARG(step->s));
		else if (step->type == JSON_INT)
			buf_addf(b, "%s%lld", dot, (long long)step->i);
	}
	if (msg.n > 0)
		buf_addf(b, "%s%.*s", b->n > 0 ? ": " : "", STR_ARG(msg));
}

static void find_message(const struct json *v, struct buf *b)
{
	const struct json *holder = find_holder(v);
	const struct json *detail = v->type == JSON_OBJECT ? json_get(v, "detail") : NULL;
	struct str message = text_of(holder, "message");

	if (message.n == 0 && detail && detail->type == JSON_STRING)
		message = detail->s;
	if (message.n == 0)
		message = text_of(v, "error");
	buf_add_str(b, str_first(message, sizeof(((struct osb_error *)0)->message)));
	if (b->n == 0 && detail && detail->type == JSON_ARRAY && json_first(detail))
		add_problem(b, json_first(detail));
}

/* The first line of a body that is plain text, as the policies of sandboxes have it; "" if it is something else. */
static struct str first_line(struct str body)
{
	struct str line = body;

	(void)str_cut(body, '\n', &line, &body);
	line = str_trim(line);
	if (line.n > LINE_MAX_BYTES || str_starts(line, STR("<")) || utf8_valid_prefix(line) != line.n)
		return (struct str){ "", 0 };
	for (size_t i = 0; i < line.n; i++)
		if ((unsigned char)line.p[i] < 0x20 || line.p[i] == 0x7f)
			return (struct str){ "", 0 };
	return line;
}

void error_from_answer(struct osb_error *e, unsigned status, struct str body)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	AUTO(buf_done) struct buf message = BUF_INIT(8192);
	const struct json *v = json_parse(&a, body, NULL, NULL, &(struct err){ 0 });
	struct str code = v ? text_of(find_holder(v), "code") : (struct str){ 0 };
	struct str line = v ? (struct str){ "", 0 } : first_line(body);

	if (v)
		find_message(v, &message);
	else if (line.n > 0)
		buf_addf(&message, "HTTP %u: %.*s", status, STR_ARG(line));
	e->kind = OSB_ANSWER;
	e->http_status = (int)status;
	(void)snprintf(e->code, sizeof(e->code), "%.*s", (int)MIN(code.n, sizeof(e->code)), code.n ? code.p : "");
	if (!*e->code)
		(void)snprintf(e->code, sizeof(e->code), "%s", code_of(OSB_ANSWER));
	if (message.n > 0)
		(void)snprintf(e->message, sizeof(e->message), "%s", buf_z(&message));
	else if (code.n > 0)
		(void)snprintf(e->message, sizeof(e->message), "%s", e->code);
	else
		(void)snprintf(e->message, sizeof(e->message), "HTTP %u", status);
}
