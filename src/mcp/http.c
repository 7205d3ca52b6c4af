// SPDX-License-Identifier: Apache-2.0
#include "mcp/http.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/uuid.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/http_guard.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "net/addr.h"
#include "net/http/server.h"
#include "net/http/sse.h"

#include "base/banned.h"

#define SESSION_HEADER "Mcp-Session-Id"
#define VERSION_HEADER "MCP-Protocol-Version"
/* Of the answers to one POST. A connection takes 8 MiB at once, and breaks at more; errors and notes have the rest. */
#define MESSAGE_MAX (7 * 1024 * 1024)
#define STREAM_EVENT_MAX (MESSAGE_MAX + 1024)
#define TICK_MS 10000 /* signs of life, and a look for sessions that nobody uses */
#define ROOM_IDLE_MS 60000 /* of a session that may make room for another */
#define BACKLOG 64

struct mcp_http {
	struct engine *engine;
	struct http_guard guard;
	struct http_service service;
	struct route routes[4];
	struct http_server *server;
	struct map sessions; /* struct member, by id */
	struct post *posts;
	struct timer sweep;
	unsigned port;
};

/* A session, and the stream of its GET. */
struct member {
	struct mcp_http *http;
	char id[UUID_HEX_LEN + 1];
	struct session *session;
	struct reply *listener; /* or NULL */
	unsigned posts;         /* that are being answered */
	uint64_t used_ms;
};

/* A POST that is being answered. The connection may go before the answers come. */
struct post {
	struct out out; /* first: what the session knows of it */
	struct mcp_http *http;
	char id[UUID_HEX_LEN + 1]; /* of the session, which may be gone by then */
	struct reply *rp;          /* NULL: the peer went away */
	bool is_stream;            /* the head is out */
	struct post *prev, *next;  /* of the server's, for signs of life */
};

/* ---- sessions ---- */

static void member_free(struct member *m)
{
	(void)map_del(&m->http->sessions, str_of(m->id));
	if (m->listener)
		reply_end(m->listener);
	mcp_session_free(m->session);
	free(m);
}

/* Clients that died without a word leave sessions behind: the one that was used longest ago makes room, if nobody has used it
 * for a while. */
static void make_room(struct mcp_http *h)
{
	uint64_t now = loop_now_ms(h->engine->loop);
	struct member *m, *oldest = NULL;

	for (size_t i = 0; (m = map_next(&h->sessions, &i, NULL));)
		if (m->posts == 0 && !m->listener && now - m->used_ms > ROOM_IDLE_MS && (!oldest || m->used_ms < oldest->used_ms))
			oldest = m;
	if (oldest)
		member_free(oldest);
}

static struct member *member_new(struct mcp_http *h, struct err *e)
{
	struct member *m;

	if (h->sessions.n >= h->engine->limits.sessions)
		make_room(h);
	if (h->sessions.n >= h->engine->limits.sessions) {
		(void)err_set(e, ERR_UNAVAILABLE, "too many sessions");
		return NULL;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		(void)err_no_memory(e);
		return NULL;
	}
	m->http = h;
	m->used_ms = loop_now_ms(h->engine->loop);
	if (uuid_hex32(NULL, m->id, e) < 0 || !(m->session = mcp_session_new(h->engine, e))) {
		free(m);
		return NULL;
	}
	if (!map_put(&h->sessions, str_of(m->id), m)) {
		mcp_session_free(m->session);
		free(m);
		(void)err_no_memory(e);
		return NULL;
	}
	return m;
}

static struct member *member_of(struct request *rq)
{
	struct mcp_http *h = rq->ctx;
	struct member *m = map_get(&h->sessions, request_header(rq, SESSION_HEADER));

	if (m)
		m->used_ms = loop_now_ms(h->engine->loop);
	return m;
}

/* Sessions that nobody has used for long go, unless something is still being done for them. */
static void sweep(struct mcp_http *h)
{
	uint64_t now = loop_now_ms(h->engine->loop);
	struct member *m;
	bool again;

	do {
		again = false;
		for (size_t i = 0; !again && (m = map_next(&h->sessions, &i, NULL));) {
			if (m->posts == 0 && !m->listener && now - m->used_ms > h->engine->limits.session_idle_ms) {
				member_free(m);
				again = true; /* the map has changed under the walk */
			}
		}
	} while (again);
}

/* ---- answers of a POST ---- */

static void post_gone(void *arg)
{
	struct post *p = arg;

	p->rp = NULL;
}

static void proceed(void *arg)
{
	(void)arg; /* answers are written when they are there, and progress only where there is room */
}

static const struct reply_source post_source = { .proceed = proceed, .stop = post_gone };

static void write_event(struct reply *rp, struct str message)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STREAM_EVENT_MAX);

	if (sse_event(&b, &(struct sse_event){ .event = STR("message"), .data = message }))
		reply_write(rp, buf_str(&b));
}

/* The head goes out with the first message, or when it takes longer. */
static void open_stream(struct post *p)
{
	struct err e = { 0 };

	if (!p->rp || p->is_stream)
		return;
	(void)reply_header(p->rp, SESSION_HEADER, str_of(p->id));
	if (reply_event_stream(p->rp, &post_source, p, &e) == 0) {
		p->is_stream = true;
		return;
	}
	(void)reply_error(p->rp, 503, "TOO_MANY_STREAMS", "%s", e.msg);
	p->rp = NULL;
}

static void post_send(struct out *o, struct str message)
{
	struct post *p = (struct post *)o;

	open_stream(p);
	if (p->rp)
		write_event(p->rp, message);
}

static bool post_has_room(const struct out *o)
{
	const struct post *p = (const struct post *)o;

	return p->rp && (!p->is_stream || reply_room(p->rp) > 0);
}

/* Everything was answered. A POST of notifications alone has no answer but that it came. */
static void post_finished(struct out *o)
{
	struct post *p = (struct post *)o;
	struct member *m = map_get(&p->http->sessions, str_of(p->id));

	if (m) {
		m->posts--;
		m->used_ms = loop_now_ms(p->http->engine->loop);
	}
	if (p->rp && p->is_stream)
		reply_end(p->rp);
	else if (p->rp)
		(void)reply_empty(p->rp, 202);
	if (p->prev)
		p->prev->next = p->next;
	else
		p->http->posts = p->next;
	if (p->next)
		p->next->prev = p->prev;
	free(p);
}

/* ---- handlers ---- */

static int refuse(struct reply *rp, unsigned status, enum rpc_code code, const char *why)
{
	AUTO(buf_done) struct buf b = BUF_INIT(2048);

	rpc_error(&b, &(struct rpc_id){ "" }, code, str_of(why));
	return reply_bytes(rp, status, "application/json", buf_str(&b));
}

static bool is_initialize(const struct json *v)
{
	return str_is(json_text(v, "method"), "initialize");
}

static struct post *post_new(struct mcp_http *h, const struct member *m, struct reply *rp, struct err *e)
{
	struct post *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->out = (struct out){
		.send = post_send, .has_room = post_has_room, .finished = post_finished, .max = MESSAGE_MAX, .left = MESSAGE_MAX,
	};
	p->http = h;
	p->rp = rp;
	memcpy(p->id, m->id, sizeof(p->id));
	p->next = h->posts;
	if (p->next)
		p->next->prev = p;
	h->posts = p;
	return p;
}

/* Whose message it is: *ret_member, or an answer has been given (1). */
static int find_session(struct request *rq, struct reply *rp, const struct json *v, struct member **ret_member, struct err *e)
{
	struct str version = request_header(rq, VERSION_HEADER);

	if (is_initialize(v) && request_header(rq, SESSION_HEADER).n == 0) {
		*ret_member = member_new(rq->ctx, e);
		return *ret_member ? 0 : -1;
	}
	if (request_header(rq, SESSION_HEADER).n == 0)
		return refuse(rp, 400, RPC_INVALID_REQUEST, "the header Mcp-Session-Id is missing: begin with initialize"), 1;
	*ret_member = member_of(rq);
	if (!*ret_member)
		return refuse(rp, 404, RPC_INVALID_REQUEST, "there is no such session: begin again with initialize"), 1;
	if (version.n > 0 && !mcp_session_knows_version(version))
		return refuse(rp, 400, RPC_INVALID_REQUEST, "the version in MCP-Protocol-Version is not supported"), 1;
	return 0;
}

static int handle_post(struct request *rq, struct reply *rp, struct err *e)
{
	const struct json_limits limits = { .depth = RPC_DEPTH_MAX };
	AUTO(arena_done) struct arena a = ARENA_INIT(CALL_ARENA_MAX);
	struct err why = { 0 };
	const struct json *v = json_parse(&a, rq->body, &limits, NULL, &why);
	struct member *m = NULL;
	struct post *p;
	int r;

	if (((const struct mcp_http *)rq->ctx)->engine->is_leaving) /* it was admitted before, and its body came later */
		return refuse(rp, 503, RPC_BUSY, ENGINE_LEAVING_TEXT);
	if (!v)
		return refuse(rp, 400, RPC_PARSE_ERROR, why.msg);
	r = find_session(rq, rp, v, &m, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	p = post_new(rq->ctx, m, rp, e);
	if (!p)
		return -1;
	m->posts++;
	(void)reply_hold(rp, post_gone, p);
	p->out.pending++; /* it lives until we are through with it */
	mcp_session_receive(m->session, v, &p->out);
	if (p->out.pending > 1)
		open_stream(p);
	if (!mcp_session_is_open(m->session))
		member_free(m); /* what began it was refused */
	mcp_session_forget(&p->out);
	return 0;
}

static void listener_gone(void *arg)
{
	((struct member *)arg)->listener = NULL;
}

static const struct reply_source listener_source = { .proceed = proceed, .stop = listener_gone };

static int handle_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct member *m = member_of(rq);

	if (request_header(rq, SESSION_HEADER).n == 0)
		return refuse(rp, 400, RPC_INVALID_REQUEST, "the header Mcp-Session-Id is missing");
	if (!m)
		return refuse(rp, 404, RPC_INVALID_REQUEST, "there is no such session");
	if (m->listener)
		return refuse(rp, 409, RPC_INVALID_REQUEST, "the session has a stream of this kind already");
	(void)reply_header(rp, SESSION_HEADER, str_of(m->id));
	if (reply_event_stream(rp, &listener_source, m, e) < 0)
		return -1;
	m->listener = rp;
	return 0;
}

static int handle_delete(struct request *rq, struct reply *rp, struct err *e)
{
	struct member *m = member_of(rq);

	(void)e;
	if (request_header(rq, SESSION_HEADER).n == 0)
		return refuse(rp, 400, RPC_INVALID_REQUEST, "the header Mcp-Session-Id is missing");
	if (!m)
		return refuse(rp, 404, RPC_INVALID_REQUEST, "there is no such session");
	member_free(m);
	return reply_empty(rp, 200);
}

/* Before a body is read: who may ask at all. */
static int admit(struct request *rq, struct reply *rp, struct err *e)
{
	const struct mcp_http *h = rq->ctx;
	struct http_refusal why;

	(void)e;
	if (http_guard_admits(&h->guard, rq, &why))
		return h->engine->is_leaving ? refuse(rp, 503, RPC_BUSY, ENGINE_LEAVING_TEXT) : 0;
	if (why.status == 401)
		(void)reply_header(rp, "WWW-Authenticate", STR("Bearer"));
	return refuse(rp, why.status, RPC_INVALID_REQUEST, why.text);
}

static void write_error(unsigned status, const char *code, const char *message, struct buf *body)
{
	(void)status, (void)code;
	rpc_error(body, &(struct rpc_id){ "" }, status >= 500 ? RPC_INTERNAL : RPC_INVALID_REQUEST, str_of(message));
}

/* ---- life ---- */

static void write_keep_alives(struct mcp_http *h)
{
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct member *m;

	(void)sse_comment(&b, STR("ping"));
	for (size_t i = 0; (m = map_next(&h->sessions, &i, NULL));)
		if (m->listener && reply_room(m->listener) > 0)
			reply_write(m->listener, buf_str(&b));
	for (struct post *p = h->posts; p; p = p->next)
		if (p->is_stream && post_has_room(&p->out))
			reply_write(p->rp, buf_str(&b));
}

static void on_tick(void *arg)
{
	struct mcp_http *h = arg;

	write_keep_alives(h);
	sweep(h);
	timer_in(&h->sweep, TICK_MS);
}

static int serve(struct mcp_http *h, const struct mcp_options *o, struct err *e)
{
	AUTO_FD fd = -1;

	h->routes[0] = (struct route){ "POST", o->path, handle_post, 0, h->engine->limits.message };
	h->routes[1] = (struct route){ "GET", o->path, handle_get, 0, 0 };
	h->routes[2] = (struct route){ "DELETE", o->path, handle_delete, 0, 0 };
	h->service = (struct http_service){
		.routes = h->routes, .ctx = h, .admit = admit, .write_error = write_error,
	};
	h->server = http_server_new(h->engine->loop, &h->service, &HTTP_LIMITS, e);
	if (!h->server || timer_init(&h->sweep, h->engine->loop, on_tick, h, "mcp sessions", e) < 0)
		return -1;
	timer_in(&h->sweep, TICK_MS);
	fd = http_guard_listen(o, BACKLOG, &h->port, e);
	h->guard.port = h->port;
	if (fd < 0)
		return -1;
	return http_server_listen(h->server, &fd, NULL, e);
}

struct mcp_http *mcp_http_new(struct engine *en, const struct mcp_options *options, struct err *e)
{
	AUTO(mcp_http_free) struct mcp_http *h = calloc(1, sizeof(*h));

	if (!h) {
		(void)err_no_memory(e);
		return NULL;
	}
	h->engine = en;
	if (http_guard_init(&h->guard, options, e) < 0 || serve(h, options, e) < 0)
		return NULL;
	return take_ptr(&h);
}

void mcp_http_free(struct mcp_http *h)
{
	struct member *m;

	if (!h)
		return;
	for (size_t i = 0; (m = map_next(&h->sessions, &i, NULL)); i = 0)
		member_free(m);
	map_done(&h->sessions);
	timer_done(&h->sweep);
	http_server_free(h->server);
	free(h);
}

static void drained(void *arg)
{
	(void)arg; /* the calls say when it is over, not the connections */
}

void mcp_http_leave(struct mcp_http *h, unsigned deadline_ms)
{
	http_server_drain(h->server, deadline_ms, drained, h);
}

unsigned mcp_http_port(const struct mcp_http *h)
{
	return h->port;
}
