// SPDX-License-Identifier: Apache-2.0
#include "server/http/service.h"

#include <stdio.h>

#include "access/route_token.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/uuid.h"
#include "net/loop.h"

#include "base/banned.h"

#define ORIGIN_MAX 255
#define ASKED_HEADERS_MAX 2048
#define PROBLEMS_BODY_MAX ((size_t)1024 * 1024)

/* What the service remembers of one request; it lives in the request's arena. */
struct ticket {
	bool is_counted, is_counted_by_key;
	bool is_gateway;
	bool is_asked; /* VERDICT is one */
	enum auth_verdict verdict;
	struct str subject;
	char id[HTTP_REQUEST_ID_MAX + 1];
};

/* ---- request ids ---- */

static void ticket_issue(struct request *rq)
{
	struct service *s = service_of(rq);
	struct str given = str_trim(request_header(rq, "X-Request-ID"));
	struct ticket *t = arena_alloc(rq->arena, sizeof(*t));

	rq->ticket = t;
	if (!t)
		return;
	if (http_is_request_id(given)) {
		memcpy(t->id, given.p, given.n);
		rq->id = (struct str){ t->id, given.n };
	} else if (uuid_hex32(&s->random, t->id, &(struct err){ 0 }) == 0) { /* without one the request goes on */
		rq->id = (struct str){ t->id, UUID_HEX_LEN };
	}
}

/* ---- for the audit ---- */

void service_note(struct request *rq, const char *subject)
{
	struct ticket *t = rq->ticket;
	const char *copy = t ? arena_dup(rq->arena, str_of(subject)) : NULL;

	if (copy)
		t->subject = str_of(copy);
}

struct str service_noted(const struct request *rq)
{
	const struct ticket *t = rq->ticket;

	return t ? t->subject : (struct str){ "", 0 };
}

/* ---- gateways and signed routes ---- */

bool service_is_gateway(const struct request *rq)
{
	const struct ticket *t = rq->ticket;

	return t && t->is_gateway;
}

struct str service_logged_path(const struct request *rq)
{
	struct route_token t;

	if (route_read_path(rq->path, &t, &(struct err){ 0 }) < 0 || !t.is_signed)
		return rq->path;
	return str_first(rq->path, rq->path.n - t.plain_rest.n);
}

static enum auth_verdict check_request(const struct service *s, const struct request *rq, struct ticket *t)
{
	enum auth_verdict v = auth_check(&s->spec.auth, s->spec.routes, rq->head, rq->path, rq->is_secure);

	if (!s->spec.is_proxy_origin)
		return v;
	if ((v == AUTH_MISSING || v == AUTH_INVALID) && auth_is_signed_path(rq->path))
		v = AUTH_EXEMPT;
	t->is_gateway = (v == AUTH_OK || v == AUTH_EXEMPT) && http_find(rq->head, HOP_HEADER) &&
			auth_has_key(&s->spec.auth, rq->head);
	return v;
}

/* ---- CORS ---- */

/* scheme://host[:port] or "null": what may be repeated in an answer. */
bool origin_valid(struct str origin)
{
	for (size_t i = 0; i < origin.n; i++) {
		char c = origin.p[i];
		bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!is_alnum && (c == '\0' || !strchr("+-.:/[]_", c)))
			return false;
	}
	return origin.n > 0 && origin.n <= ORIGIN_MAX;
}

/* A list of header names. */
static bool names_valid(struct str list)
{
	for (size_t i = 0; i < list.n; i++)
		if (list.p[i] != ',' && list.p[i] != ' ' && !http_is_token((struct str){ list.p + i, 1 }))
			return false;
	return list.n > 0 && list.n <= ASKED_HEADERS_MAX;
}

static void allow_origin(struct request *rq, struct reply *rp, bool echo)
{
	struct str origin = request_header(rq, "Origin");

	if (!origin_valid(origin))
		return;
	if (echo) {
		(void)reply_header(rp, "Access-Control-Allow-Origin", origin);
		(void)reply_header(rp, "Vary", STR("Origin"));
	} else {
		(void)reply_header(rp, "Access-Control-Allow-Origin", STR("*"));
	}
	(void)reply_header(rp, "Access-Control-Allow-Credentials", STR("true"));
}

static int reply_preflight(struct request *rq, struct reply *rp)
{
	struct str asked = request_header(rq, "Access-Control-Request-Headers");

	(void)reply_header(rp, "Access-Control-Allow-Methods", STR("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"));
	(void)reply_header(rp, "Access-Control-Max-Age", STR("600"));
	if (names_valid(asked))
		(void)reply_header(rp, "Access-Control-Allow-Headers", asked);
	return reply_bytes(rp, 200, "text/plain; charset=utf-8", STR("OK"));
}

static void service_decorate(struct request *rq, struct reply *rp)
{
	struct service *s = service_of(rq);
	bool is_preflight = auth_is_preflight(rq->head);

	if (!rq->ticket)
		ticket_issue(rq); /* the head was refused before anybody was asked */
	if (rq->id.n > 0)
		(void)reply_header(rp, "X-Request-ID", rq->id);
	if (s->spec.auth.has_key && !service_is_gateway(rq) && http_find(rq->head, "Origin"))
		allow_origin(rq, rp, is_preflight || http_find(rq->head, "Cookie"));
}

/* ---- admission ---- */

static int refuse(struct reply *rp, enum auth_verdict v)
{
	switch (v) {
	case AUTH_MISSING:
		return reply_error(rp, 401, "MISSING_API_KEY", "the header " AUTH_HEADER " is missing");
	case AUTH_INVALID:
		return reply_error(rp, 401, "INVALID_API_KEY", "the API key is not valid");
	case AUTH_HOST:
		return reply_error(rp, 403, "FORBIDDEN_HOST", "without an API key, Host must be a loopback address");
	case AUTH_ORIGIN:
		return reply_error(rp, 403, "FORBIDDEN_ORIGIN", "without an API key, other origins are refused");
	case AUTH_OK:
	case AUTH_EXEMPT:
		break;
	}
	return 0;
}

static int refuse_busy(struct reply *rp, unsigned status, const char *code, const char *why)
{
	(void)reply_header(rp, "Retry-After", STR("1"));
	return reply_error(rp, status, code, "%s", why);
}

static int service_admit(struct request *rq, struct reply *rp, struct err *e)
{
	struct service *s = service_of(rq);
	struct ticket *t;
	enum auth_verdict v;

	ticket_issue(rq);
	t = rq->ticket;
	if (!t)
		return err_no_memory(e);
	v = check_request(s, rq, t);
	t->is_asked = true;
	t->verdict = v;
	if (v != AUTH_OK && v != AUTH_EXEMPT)
		return refuse(rp, v);
	if (s->spec.auth.has_key && !t->is_gateway && auth_is_preflight(rq->head))
		return reply_preflight(rq, rp);
	if (s->spec.requests > 0 && s->in_progress >= s->spec.requests)
		return refuse_busy(rp, 503, "UNAVAILABLE", "too many requests in progress");
	if (v == AUTH_OK && s->in_progress_by_key >= s->spec.requests_per_key)
		return refuse_busy(rp, 429, "TOO_MANY_REQUESTS", "too many requests in progress for this API key");
	t->is_counted = true;
	t->is_counted_by_key = v == AUTH_OK;
	s->in_progress++;
	s->in_progress_by_key += t->is_counted_by_key;
	return 0;
}

static bool has_succeeded(unsigned status)
{
	return status > 0 && status < 400;
}

/* STRANGERS: somebody with the key, or with the address of a sandbox that has answered. */
static enum service_stranger stranger_of(const struct request *rq, unsigned status)
{
	static const enum service_stranger strangers[] = {
		[AUTH_OK] = STRANGERS,             [AUTH_EXEMPT] = STRANGER_OPEN, [AUTH_MISSING] = STRANGER_MISSING,
		[AUTH_INVALID] = STRANGER_INVALID, [AUTH_HOST] = STRANGER_HOST,   [AUTH_ORIGIN] = STRANGER_ORIGIN,
	};
	const struct ticket *t = rq->ticket;

	if (!t || !t->is_asked)
		return STRANGER_MALFORMED;
	if (t->is_gateway || (t->verdict == AUTH_EXEMPT && has_succeeded(status) && rq->route && !(rq->route->flags & ROUTE_PUBLIC)))
		return STRANGERS;
	if (t->verdict == AUTH_OK && rq->route && (rq->route->flags & ROUTE_LOOK_UP) && !has_succeeded(status))
		return STRANGER_LOOK_UP;
	return strangers[t->verdict];
}

static void on_left_out(const char *what, uint64_t n, void *arg)
{
	const struct service *s = arg;

	if (s->spec.audit_left_out)
		s->spec.audit_left_out(s->spec.plane, what, n);
}

static void strangers_init(struct service *s)
{
	static const char *const names[] = {
		[STRANGER_OPEN] = "requests without an API key",
		[STRANGER_MISSING] = "requests that lack the API key",
		[STRANGER_INVALID] = "requests with a wrong API key",
		[STRANGER_HOST] = "requests for another host",
		[STRANGER_ORIGIN] = "requests from other origins",
		[STRANGER_MALFORMED] = "malformed requests",
		[STRANGER_LOOK_UP] = "sandboxes that were looked up in vain",
	};

	for (size_t i = 0; i < STRANGERS; i++)
		s->strangers[i] = (struct log_limit){ .level = LOG_LEVEL_INFO, .what = names[i], .told = on_left_out, .arg = s };
}

static void service_finished(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	struct service *s = service_of(rq);
	const struct ticket *t = rq->ticket;
	/* Health checks come every few seconds and say nothing. */
	bool is_health = status == 200 && str_is(rq->path, "/health");
	enum service_stranger who = is_health ? STRANGERS : stranger_of(rq, status);
	enum log_level level = is_health ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;

	if (t) {
		s->in_progress -= t->is_counted;
		s->in_progress_by_key -= t->is_counted_by_key;
	}
	if (who < STRANGERS && !log_limit_admits(&s->strangers[who], request_loop(rq)))
		return;
	if (s->spec.audit)
		s->spec.audit(rq, status, body_bytes);
	/* Without the query: it may carry secrets. */
	log_at(level, "request", LOG_STR("method", rq->head->method), LOG_STR("path", service_logged_path(rq)), LOG_U("status", status),
	       LOG_MS("took", loop_now_ms(request_loop(rq)) - rq->began_ms), LOG_U("bytes", body_bytes),
	       LOG_STR("request_id", rq->id));
}

/* ---- errors ---- */

/* Some clients know these two by "detail" alone, since that is all that their server's framework says. */
static void write_unrouted(unsigned status, const char *code, const char *message, struct buf *body)
{
	struct json_out o = json_out(body);

	(void)status;
	json_open(&o, '{');
	json_key(&o, "code"), json_cstr(&o, code);
	json_key(&o, "message"), json_cstr(&o, message);
	json_key(&o, "detail"), json_cstr(&o, message);
	json_close(&o, '}');
}

/* The first problem for people: "timeout: Input should be ...", of a rule about the whole "body: exactly one of ...". */
static void write_problem(const struct decode *d, const char *where, char *out, size_t size)
{
	const char *path = d->problems[0].path, *msg = d->problems[0].msg;

	if (str_starts(str_of(msg), STR("Value error, ")))
		msg += sizeof("Value error, ") - 1;
	if (str_starts(str_of(path), STR("$.")))
		path += 2;
	(void)snprintf(out, size, "%s: %s", str_is(str_of(path), "$") ? where : path, msg); /* a long one is cut */
}

int service_reply_problems(struct reply *rp, const struct decode *d, const char *where)
{
	AUTO(buf_done) struct buf body = BUF_INIT(PROBLEMS_BODY_MAX);
	struct json_out o = json_out(&body);
	char message[512] = "the request does not match its schema";

	if (d->n_problems > 0)
		write_problem(d, where, message, sizeof(message));
	json_open(&o, '{');
	json_key(&o, "code"), json_cstr(&o, CODE_INVALID_PARAMETER);
	json_key(&o, "message"), json_cstr(&o, message);
	json_key(&o, "detail"), decode_write_detail(d, where, &o);
	json_close(&o, '}');
	if (body.failed) /* the input that the details repeat is too long */
		return reply_error(rp, 422, CODE_INVALID_PARAMETER, "%s", message);
	return reply_json(rp, 422, &body);
}

/* A body that is no JSON, or none at all, in the same shape. */
static int reply_bad_json(struct reply *rp, const char *type, const char *msg, const size_t *offset, const char *why)
{
	AUTO(buf_done) struct buf body = BUF_INIT(4096);
	struct json_out o = json_out(&body);

	json_open(&o, '{');
	json_key(&o, "code"), json_cstr(&o, CODE_INVALID_PARAMETER);
	json_key(&o, "message"), json_cstr(&o, why);
	json_key(&o, "detail"), json_open(&o, '[');
	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, type);
	json_key(&o, "loc"), json_open(&o, '['), json_cstr(&o, "body");
	if (offset)
		json_uint(&o, *offset);
	json_close(&o, ']');
	json_key(&o, "msg"), json_cstr(&o, msg);
	json_key(&o, "input"), json_null(&o);
	json_close(&o, '}');
	json_close(&o, ']');
	json_close(&o, '}');
	return reply_json(rp, 422, &body);
}

int service_decode(struct request *rq, struct reply *rp, const struct field *fields, void *out, struct decode *d,
		   struct err *e)
{
	const struct json *v;
	size_t offset = 0;
	struct err bad = { 0 };

	*d = (struct decode){ .arena = rq->arena };
	if (str_trim(rq->body).n == 0) {
		(void)reply_bad_json(rp, "missing", "Field required", NULL, "the body is missing");
		return 1;
	}
	v = json_parse(rq->arena, rq->body, NULL, &offset, &bad);
	if (!v && bad.code == ERR_UNAVAILABLE) {
		*e = bad;
		return -1;
	}
	if (!v) {
		(void)reply_bad_json(rp, "json_invalid", "JSON decode error", &offset, bad.msg);
		return 1;
	}
	if (decode(d, v, fields, out, &bad) == 0)
		return 0;
	if (bad.code != ERR_INVALID) {
		*e = bad;
		return -1;
	}
	(void)service_reply_problems(rp, d, "body");
	return 1;
}

static void service_failed(const struct request *rq, const struct err *e)
{
	log_error("request failed", LOG_STR("request_id", rq->id), LOG_STR("path", service_logged_path(rq)), LOG_ERR(e));
}

/* ---- the whole ---- */

void service_init(struct service *s, const struct service_spec *spec)
{
	*s = (struct service){
		.spec = *spec,
		.http = {
			.routes = spec->routes,
			.prefix = "v1",
			.ctx = s,
			.admit = service_admit,
			.decorate = service_decorate,
			.error_code = CODE_UNKNOWN_ERROR,
			.write_unrouted = write_unrouted,
			.failed = service_failed,
			.finished = service_finished,
		},
	};
	strangers_init(s);
}

void service_done(struct service *s)
{
	for (size_t i = 0; i < STRANGERS; i++)
		log_limit_done(&s->strangers[i]);
	random_pool_done(&s->random);
	secret_wipe(&s->spec.auth, sizeof(s->spec.auth));
}
