// SPDX-License-Identifier: Apache-2.0
/* One request and its answer: dispatch, and turning errors into answers. */
#include "base/err.h"
#include "base/json.h"
#include "net/http/server_impl.h"

#include "base/banned.h"

#define SPARES_MAX 64
#define SPARE_ARENA_MAX (64 * 1024)
/* A 4 MiB body is a tree of at most JSON_VALUES_MAX nodes (4 MiB) and of its strings, unescaped (10 MiB at worst, a
 * part of that lost at the ends of blocks); a table that it is bound to may copy them all once more. */
#define ARENA_MAX (32 * 1024 * 1024)
#define HEADERS_MAX (16 * 1024)

struct exchange *exchange_new(struct conn *c, struct err *e)
{
	struct http_server *s = c->s;
	struct exchange *x = s->spare;

	if (x) {
		s->spare = x->next;
		s->n_spare--;
	} else {
		x = calloc(1, sizeof(*x));
		if (!x) {
			(void)err_no_memory(e);
			return NULL;
		}
		x->arena = ARENA_INIT(ARENA_MAX);
		x->rp.headers = BUF_INIT(HEADERS_MAX);
	}
	x->next = NULL;
	x->rq = (struct request){
		.head = &x->head,
		.arena = &x->arena,
		.peer = (const struct sockaddr *)&c->peer,
		.is_secure = !c->t->is_plain,
		.began_ms = loop_now_ms(s->loop),
		.ctx = s->service->ctx,
	};
	x->rp = (struct reply){ .c = c, .headers = x->rp.headers };
	x->sink = NULL;
	x->max_body = 0;
	s->counts.requests++;
	s->counts.busy++;
	return x;
}

void exchange_free(struct http_server *s, struct exchange *x)
{
	s->counts.busy--;
	if (x->rp.is_counted_stream)
		s->counts.streams--;
	buf_clear(&x->rp.headers);
	if (!s->spare_in.p && x->head_bytes.cap <= HTTP_HEAD_MAX) {
		s->spare_in = x->head_bytes;
		buf_clear(&s->spare_in);
		x->head_bytes = (struct buf){ 0 };
	}
	buf_done(&x->head_bytes);
	buf_done(&x->body);
	if (x->arena.used > SPARE_ARENA_MAX)
		arena_done(&x->arena);
	if (s->n_spare < SPARES_MAX) {
		arena_reset(&x->arena);
		x->next = s->spare;
		s->spare = x;
		s->n_spare++;
		return;
	}
	arena_done(&x->arena);
	buf_done(&x->rp.headers);
	free(x);
}

void exchange_spares_free(struct http_server *s)
{
	while (s->spare) {
		struct exchange *x = s->spare;

		s->spare = x->next;
		arena_done(&x->arena);
		buf_done(&x->rp.headers);
		free(x);
	}
	s->n_spare = 0;
	buf_done(&s->spare_in);
}

/* ---- errors as answers ---- */

unsigned http_status_of(const struct err *e)
{
	switch (e->code) {
	case ERR_INVALID:
		return 400;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_CONFLICT:
		return 409;
	case ERR_DENIED:
		return 403;
	case ERR_LIMIT:
		if (err_is_disk_full(e))
			return 507;
		return e->sys ? 503 : 429; /* ours to refuse, or the host's lack */
	case ERR_TIMEOUT:
		return 504;
	case ERR_UNAVAILABLE:
		return 503;
	case ERR_NONE:
	case ERR_IO:
	case ERR_INTERNAL:
		break;
	}
	return 500;
}

static const char *code_of(unsigned status)
{
	switch (status) {
	case 400:
		return "BAD_REQUEST";
	case 404:
		return "NOT_FOUND";
	case 405:
		return "METHOD_NOT_ALLOWED";
	case 408:
		return "REQUEST_TIMEOUT";
	case 413:
		return "CONTENT_TOO_LARGE";
	case 414:
		return "URI_TOO_LONG";
	case 417:
		return "EXPECTATION_FAILED";
	case 429:
		return "TOO_MANY_REQUESTS";
	case 431:
		return "HEADERS_TOO_LARGE";
	case 503:
		return "UNAVAILABLE";
	case 505:
		return "VERSION_NOT_SUPPORTED";
	case 507:
		return "INSUFFICIENT_STORAGE";
	default:
		return status < 500 ? "REFUSED" : "INTERNAL_ERROR";
	}
}

void exchange_fail(struct exchange *x, struct err *e)
{
	const struct http_service *service = x->rp.c->s->service;
	struct reply *rp = &x->rp;
	unsigned status = http_status_of(e);

	if (status >= 500 && service->failed)
		service->failed(&x->rq, e);
	if (rp->phase == REPLY_STREAM || rp->phase == REPLY_UPGRADE) {
		reply_abort(rp);
		return;
	}
	if (rp->phase == REPLY_ENDED)
		return;
	rp->phase = REPLY_OPEN; /* a held reply is answered here and now */
	/* What went wrong inside is for the log, not for the peer: messages may name files or addresses. */
	(void)reply_error(rp, status, service->error_code && status != 507 ? service->error_code : code_of(status), "%s",
			  status >= 500 ? http_reason(status) : e->msg);
}

void exchange_unanswered(struct exchange *x)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_INTERNAL, "no answer from the handler of '%s'", x->rq.route->path);
	exchange_fail(x, &e);
}

void exchange_refuse(struct exchange *x, unsigned status, const char *why)
{
	if (x->rp.phase != REPLY_OPEN) { /* somebody else answers, or has answered: the connection says it all */
		x->rp.c->is_dead = true;
		return;
	}
	if (x->sink)
		take_ptr(&x->sink)->stop(x->sink_arg);
	x->rp.c->closes = true;
	(void)reply_error(&x->rp, status, code_of(status), "%s", why);
}

/* ---- dispatch ---- */

static void answer_unrouted(struct exchange *x, enum route_result r, struct str allow, struct err *e)
{
	struct reply *rp = &x->rp;

	if (r == ROUTE_METHOD) {
		(void)reply_header(rp, "Allow", allow);
		reply_unrouted(rp, 405, code_of(405), "Method Not Allowed");
	} else if (r == ROUTE_SLASH) {
		struct str path = str_first(x->rq.path, x->rq.path.n - 1);
		const char *mark = x->rq.query.n > 0 ? "?" : "";
		char *to = arena_printf(x->rq.arena, "%.*s%s%.*s", STR_ARG(path), mark, STR_ARG(x->rq.query));

		(void)reply_header(rp, "Location", str_of(to));
		(void)reply_empty(rp, 307);
	} else if (r == ROUTE_BAD) {
		exchange_fail(x, e);
	} else {
		reply_unrouted(rp, 404, code_of(404), "Not Found");
	}
}

/* True when the request may go on to its handler. */
static bool find_route(struct exchange *x)
{
	AUTO(buf_done) struct buf allow = BUF_INIT(256);
	struct err e = { 0 };
	enum route_result r = route_find(x->rp.c->s->service, &x->rq, &allow, &e);

	if (r != ROUTE_FOUND) {
		answer_unrouted(x, r, buf_str(&allow), &e);
		return false;
	}
	x->max_body = x->rq.route->max_body > 0 ? x->rq.route->max_body : HTTP_IGNORED_BODY_MAX;
	if (x->head.framing == HTTP_LENGTH && x->head.length > x->max_body) {
		exchange_refuse(x, 413, "the body is larger than this route takes");
		return false;
	}
	return true;
}

void exchange_handle(struct exchange *x)
{
	struct reply *rp = &x->rp;
	struct err e = { 0 };

	if (x->rq.route->max_body > 0)
		x->rq.body = buf_str(&x->body);
	if (x->rq.route->fn(&x->rq, rp, &e) < 0)
		exchange_fail(x, &e);
	else if (rp->phase == REPLY_OPEN && !x->sink) /* a handler that forgot to answer is a defect of ours */
		exchange_unanswered(x);
}

static void split_target(struct exchange *x)
{
	(void)str_cut(x->head.target, '?', &x->rq.path, &x->rq.query);
}

void exchange_dispatch(struct exchange *x)
{
	const struct http_service *service = x->rp.c->s->service;
	struct err e = { 0 };

	split_target(x);
	if (service->admit && service->admit(&x->rq, &x->rp, &e) < 0) {
		exchange_fail(x, &e);
		return;
	}
	if (x->rp.phase != REPLY_OPEN || !find_route(x))
		return;
	if (x->rq.route->flags & ROUTE_STREAM_IN || x->head.framing == HTTP_NO_BODY)
		exchange_handle(x);
}

const struct json *request_json(struct request *rq, struct err *e)
{
	struct json_limits limits = { .depth = JSON_DEPTH_MAX };

	return json_parse(rq->arena, rq->body, &limits, NULL, e);
}
