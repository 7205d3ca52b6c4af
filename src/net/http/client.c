// SPDX-License-Identifier: Apache-2.0
#include "net/http/client.h"

#include <assert.h>

#include "net/http/client_impl.h"

#include "base/banned.h"

/* ---- clients ---- */

struct http_client *http_client_new(struct loop *l, const struct http_client_options *options, struct err *e)
{
	struct http_client *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->loop = l;
	c->dialer = options->dialer;
	c->dialer_arg = options->dialer_arg;
	c->max_idle = options->max_idle;
	c->in_max = options->in_max ? options->in_max : HTTP_CLIENT_IN_MAX;
	c->high_water = options->high_water ? options->high_water : HTTP_CLIENT_HIGH_WATER;
	c->idle_ms = options->idle_ms;
	c->probation_ms = options->probation_ms;
	c->trusts_peer = options->trusts_peer;
	c->deadlines = options->deadlines;
	if (options->maker)
		c->maker = *options->maker;
	if (!c->dialer) {
		if (options->to_len < sizeof(sa_family_t) || options->to_len > sizeof(struct sockaddr_un)) {
			(void)err_set(e, ERR_INVALID, "an address of %u bytes", options->to_len);
			free(c);
			return NULL;
		}
		memcpy(&c->to.sa, options->to, options->to_len);
		c->to.len = options->to_len;
	}
	return c;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	while (c->calls)
		http_call_cancel(c->calls);
	http_client_drop_idle(c);
	free(c);
}

void http_client_drop_idle(struct http_client *c)
{
	while (c->idle)
		client_conn_close(c->idle);
}

size_t http_client_idle(const struct http_client *c)
{
	return c->n_idle;
}

/* ---- connections ---- */

static void idle_unlink(struct http_conn *c)
{
	struct http_client *cl = c->client;

	*(c->prev ? &c->prev->next : &cl->idle) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->prev = c->next = NULL;
	cl->n_idle--;
}

void client_conn_close(struct http_conn *c)
{
	if (c->call)
		c->call->conn = NULL;
	else
		idle_unlink(c);
	timer_done(&c->idle);
	watch_stop(&c->watch);
	transport_close(c->t);
	free(c);
}

static void on_idle_end(void *arg)
{
	client_conn_close(arg);
}

/* An idle connection has nothing to say: whatever comes, its end included, ends it. */
static void on_conn(unsigned ready, void *arg)
{
	struct http_conn *c = arg;

	if (c->call)
		call_run(c->call, ready);
	else
		client_conn_close(c);
}

void client_conn_keep(struct http_conn *c)
{
	struct http_client *cl = c->client;

	c->call->conn = NULL;
	c->call = NULL;
	c->was_used = true;
	c->prev = NULL;
	c->next = cl->idle;
	if (c->next)
		c->next->prev = c;
	cl->idle = c;
	cl->n_idle++;
	timer_in(&c->idle, cl->idle_ms);
	watch_want(&c->watch, IO_IN);
	if (cl->n_idle > cl->max_idle) {
		struct http_conn *oldest = cl->idle;

		while (oldest->next)
			oldest = oldest->next;
		client_conn_close(oldest);
	}
}

static void conn_attach(struct http_conn *c, struct http_call *call)
{
	c->call = call;
	call->conn = c;
	call_attached(call);
}

/* ---- how a call gets its connection ---- */

static void dial_ended(struct http_call *call, struct transport *t, const struct err *e)
{
	call->dialed = t;
	if (!t)
		call->failure = *e;
	call_run_later(call);
}

static void on_dialed(struct transport *t, const struct err *e, void *arg)
{
	struct http_call *call = arg;

	call->dial = NULL;
	dial_ended(call, t, e);
}

void http_dial_done(struct http_dial *d, struct transport *t, const struct err *e)
{
	struct http_call *call = container_of(d, struct http_call, handle);

	call->is_dialing = false;
	dial_ended(call, t, e);
}

static int call_dial(struct http_call *call, struct err *e)
{
	struct http_client *c = call->client;
	struct dial_spec spec = { .fd = -1, .to = &c->to.sa, .to_len = c->to.len,
				  .timeout_ms = call->deadlines.connect_ms };

	call->state = CALL_DIAL;
	timer_in(&call->timer, call->deadlines.connect_ms);
	if (!c->dialer) {
		spec.maker = c->maker.make ? &c->maker : NULL;
		call->dial = dial_start(c->loop, &spec, on_dialed, call, e);
		return call->dial ? 0 : -1;
	}
	call->is_dialing = true;
	call->handle.user = NULL;
	if (c->dialer->begin(&call->handle, c->dialer_arg, e) < 0) {
		call->is_dialing = false;
		return -1;
	}
	return 0;
}

/* Whatever a kept connection has to say now cannot be the answer to a request that has not been sent. */
static bool is_quiet(struct http_conn *c)
{
	char byte;

	return c->t->ops->recv(c->t, &byte, 1) < 0 && errno == EAGAIN;
}

/* The kept connection that was used last and may be used for this call; or NULL. */
static struct http_conn *first_fit(const struct http_call *call)
{
	const struct http_client *cl = call->client;
	bool can_repeat = call->is_idempotent && !call->source;
	struct http_conn *c = cl->idle;

	while (c && !can_repeat && c->idle.due_ms - cl->idle_ms + cl->probation_ms > loop_now_ms(cl->loop))
		c = c->next;
	return c;
}

int call_connect(struct http_call *call, struct err *e)
{
	struct http_conn *c = NULL;

	while (!call->is_repeat && (c = first_fit(call)) && !call->client->trusts_peer && !is_quiet(c))
		client_conn_close(c);
	if (!c) {
		if (!call->is_repeat && call->client->idle)
			client_conn_close(call->client->idle); /* on probation */
		return call_dial(call, e);
	}
	idle_unlink(c);
	timer_cancel(&c->idle);
	conn_attach(c, call);
	call_run_later(call);
	return 0;
}

int call_adopt(struct http_call *call, struct err *e)
{
	struct http_client *cl = call->client;
	struct http_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return err_no_memory(e);
	c->client = cl;
	if (timer_init(&c->idle, cl->loop, on_idle_end, c, "http client idle", e) < 0 ||
	    watch_start(&c->watch, cl->loop, call->dialed, on_conn, c, "http client", e) < 0) {
		timer_done(&c->idle);
		free(c);
		return -1;
	}
	c->t = take_ptr(&call->dialed);
	conn_attach(c, call);
	return 0;
}

/* ---- calls ---- */

static void on_later(void *arg)
{
	call_run(arg, 0);
}

void call_run_later(struct http_call *call)
{
	if (call->state != CALL_OVER)
		defer(&call->later, call->client->loop, on_later, call, "http call");
}

static void call_link(struct http_call *call)
{
	struct http_client *c = call->client;

	call->next = c->calls;
	if (call->next)
		call->next->prev = call;
	c->calls = call;
}

void call_free(struct http_call *call)
{
	buf_done(&call->in);
	buf_done(&call->out);
	conduit_close(&call->conduit);
	free(call);
}

void call_over(struct http_call *call)
{
	struct http_client *c = call->client;

	assert(!call->conn && call->state != CALL_OVER);
	call->state = CALL_OVER;
	if (call->is_dialing)
		c->dialer->cancel(&call->handle, c->dialer_arg);
	dial_cancel(call->dial);
	transport_close(take_ptr(&call->dialed));
	defer_cancel(&call->later);
	timer_done(&call->timer);
	*(call->prev ? &call->prev->next : &c->calls) = call->next;
	if (call->next)
		call->next->prev = call->prev;
	if (!call->is_running)
		call_free(call);
}

void http_call_cancel(struct http_call *call)
{
	void (*on_cancel)(void *) = call ? call->on_cancel : NULL;
	void *arg = call ? call->arg : NULL;

	if (!call || call->state == CALL_OVER)
		return;
	if (call->conn)
		client_conn_close(call->conn);
	call_over(call);
	if (on_cancel)
		on_cancel(arg);
}

static void call_init(struct http_call *call, struct http_client *c, const struct http_request *rq)
{
	call->client = c;
	call->deadlines = rq->deadlines ? *rq->deadlines : c->deadlines;
	call->out = BUF_INIT(HTTP_HEAD_MAX + HTTP_CLIENT_BODY_MAX);
	call->in = BUF_INIT(c->in_max);
	call->high_water = c->high_water;
	call->conduit = CONDUIT_INIT;
	call->source = rq->source;
	call->source_is_open = rq->source;
	call->is_chunked = rq->length == HTTP_UNSIZED;
	call->source_left = rq->length;
	call->max_body = rq->max_body ? rq->max_body : UINT64_MAX;
	call->upgrade = rq->upgrade;
}

struct http_call *http_call_start(struct http_client *c, const struct http_request *rq, const struct http_call_ops *ops,
				  void *arg, struct err *e)
{
	struct http_call *call = calloc(1, sizeof(*call));

	assert(!rq->upgrade || ops->on_upgrade);
	if (!call) {
		(void)err_no_memory(e);
		return NULL;
	}
	call_init(call, c, rq);
	call->ops = ops;
	call->arg = arg;
	if (call_write_head(call, rq, c->max_idle == 0, e) < 0 ||
	    timer_init(&call->timer, c->loop, call_on_timer, call, "http call timer", e) < 0) {
		call_free(call);
		return NULL;
	}
	call_link(call);
	if (call_connect(call, e) < 0) {
		call_over(call);
		return NULL;
	}
	return call;
}
