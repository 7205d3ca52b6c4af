// SPDX-License-Identifier: Apache-2.0
/* GET /command/status/{id}, GET /command/{id}/logs, DELETE /command?id= (and DELETE /code?id=): what runs, by the id that its
 * first event told. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/execd.h"
#include "net/http/url.h"

#include "base/banned.h"

#define STATUS_MAX ((size_t)32 * 1024)
#define CURSOR_HEADER "EXECD-COMMANDS-TAIL-CURSOR"
#define START_HEADER "EXECD-COMMANDS-LOG-START" /* where the answer begins, when what was asked for is gone */
#define LOG_PIECE ((size_t)16 * 1024)

static struct command_record *find(struct execd *x, struct str id)
{
	return history_find(&x->commands.history, id, loop_now_ms(x->loop));
}

int command_status(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf json = BUF_INIT(STATUS_MAX);
	const struct command_record *p = find(execd_of(rq), rq->params[0]);

	(void)e;
	if (!p)
		return reply_error(rp, 404, CODE_INVALID_BODY, "command '%.*s' not found", STR_ARG(str_first(rq->params[0], 64)));
	command_record_write(p, &json);
	return json.failed ? err_no_memory(e) : reply_json(rp, 200, &json);
}

/* ---- output ---- */

/* An answer on its way. The record may go meanwhile, so it is looked up again for each piece. */
struct reading {
	struct execd *x;
	struct reply *rp;
	char id[UUID_HEX_LEN + 1];
	uint64_t at, end;
};

static void on_stop(void *arg)
{
	free(arg);
}

static void on_proceed(void *arg)
{
	struct reading *r = arg;
	const struct command_record *p = find(r->x, str_of(r->id));
	char piece[LOG_PIECE];
	size_t n = 1;

	while (r->at < r->end && n > 0 && reply_room(r->rp) > 0) {
		n = p ? tail_file_read(&p->output, r->at, piece, (size_t)MIN((uint64_t)sizeof(piece),
									     r->end - r->at)) : 0;
		reply_write(r->rp, (struct str){ piece, n });
		r->at += n;
	}
	if (n > 0 && r->at < r->end)
		return;
	if (r->at == r->end)
		reply_end(r->rp);
	else
		reply_abort(r->rp); /* newer output took its place: a short answer must not look whole */
	free(r);
}

/* The value of the first KEY; empty when there is none. */
static int query_value(struct request *rq, const char *key, struct str *ret, struct err *e)
{
	const struct query_pair *pair;
	struct query q;

	*ret = (struct str){ 0 };
	if (query_parse(rq->query, rq->arena, &q, e) < 0)
		return -1;
	pair = query_get(&q, key);
	if (pair)
		*ret = pair->value;
	return 0;
}

/* Absent, negative or no number: from the start. */
static int read_cursor(struct request *rq, uint64_t *ret, struct err *e)
{
	struct str text = { 0 };

	*ret = 0;
	if (query_value(rq, "cursor", &text, e) < 0)
		return -1;
	if (!str_to_u64(text, 0, INT64_MAX, ret))
		*ret = 0;
	return 0;
}

static int add_offset(struct reply *rp, const char *name, uint64_t offset)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)offset);
	return reply_header(rp, name, str_of(text));
}

int command_logs(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_stop };
	const struct command_record *p = find(execd_of(rq), rq->params[0]);
	struct reading *r;
	uint64_t cursor, end;

	if (!p)
		return reply_error(rp, 404, CODE_INVALID_BODY, "command '%.*s' not found", STR_ARG(str_first(rq->params[0], 64)));
	if (read_cursor(rq, &cursor, e) < 0)
		return -1;
	end = MAX(p->output.end, cursor); /* beyond the end: the same again */
	if (cursor < p->output.start && add_offset(rp, START_HEADER, p->output.start) < 0)
		return -1;
	if (add_offset(rp, CURSOR_HEADER, end) < 0)
		return -1;
	cursor = MAX(cursor, p->output.start);
	if (cursor >= end)
		return reply_bytes(rp, 200, "text/plain; charset=utf-8", STR(""));
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_no_memory(e);
	*r = (struct reading){ .x = execd_of(rq), .rp = rp, .at = cursor, .end = end };
	(void)snprintf(r->id, sizeof(r->id), "%s", p->id);
	if (reply_stream(rp, 200, "text/plain; charset=utf-8", end - cursor, &source, r, e) < 0) {
		free(r);
		return -1;
	}
	return 0;
}

/* ---- the end ---- */

int command_delete(struct request *rq, struct reply *rp, struct err *e)
{
	struct err why = { 0 };
	struct str id = { 0 };
	struct code_context *context;
	struct session *session;

	if (query_value(rq, "id", &id, e) < 0)
		return -1;
	if (id.n == 0)
		return reply_error(rp, 400, CODE_MISSING_QUERY, "missing query parameter 'id'");
	context = code_context_find(&execd_of(rq)->codes, id);
	if (context) {
		code_context_interrupt(context);
		return reply_empty(rp, 200);
	}
	if (command_interrupt(&execd_of(rq)->commands, id, rp, &why) == 0)
		return 0;
	session = why.code == ERR_NOT_FOUND ? session_find(&execd_of(rq)->sessions, id) : NULL;
	if (session) {
		session_delete(session);
		return reply_empty(rp, 200);
	}
	if (why.code == ERR_NOT_FOUND)
		return reply_error(rp, 404, CODE_RUNTIME, "command '%.*s' not found", STR_ARG(str_first(id, 64)));
	if (why.code == ERR_CONFLICT)
		return reply_error(rp, 409, CODE_RUNTIME, "command '%.*s' is not running", STR_ARG(str_first(id, 64)));
	if (why.code == ERR_LIMIT)
		return reply_too_many(rp, "interrupts of this command");
	*e = why;
	return -1;
}
