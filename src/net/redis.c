// SPDX-License-Identifier: Apache-2.0
#include "net/redis.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/watch.h"

#include "base/banned.h"

#define CONNECT_MS 5000
#define HELLO_MS 5000
#define LINE_MAX_BYTES 4096

/* ---- replies ---- */

/* The line at the front of IN, without its end; false: it is not complete. */
static bool take_line(struct str in, struct str *ret_line, size_t *ret_size)
{
	const char *end = in.n > 0 ? memchr(in.p, '\r', MIN(in.n, (size_t)LINE_MAX_BYTES)) : NULL;

	if (!end || end + 1 == in.p + in.n)
		return false;
	*ret_line = (struct str){ in.p, (size_t)(end - in.p) };
	*ret_size = ret_line->n + 2;
	return true;
}

/* Bulk strings: "$3\r\nabc\r\n", "$-1\r\n". As redis_reply_parse(); *ret_text without a place: nil. */
static int take_bulk(struct str in, struct str *ret_text, size_t *ret_size)
{
	struct str line;
	size_t at;
	int64_t n;

	if (!take_line(in, &line, &at))
		return in.n < LINE_MAX_BYTES ? 0 : -1;
	if (line.n < 2 || line.p[0] != '$' || in.p[at - 1] != '\n' || !str_to_i64(str_skip(line, 1), -1, REDIS_REPLY_MAX, &n))
		return -1;
	if (n < 0) {
		*ret_text = (struct str){ NULL, 0 };
		*ret_size = at;
		return 1;
	}
	if (in.n - at < (size_t)n + 2)
		return 0;
	if (memcmp(in.p + at + n, "\r\n", 2) != 0)
		return -1;
	*ret_text = (struct str){ in.p + at, (size_t)n };
	*ret_size = at + (size_t)n + 2;
	return 1;
}

static int take_array(struct str in, int64_t n, size_t at, struct redis_reply *r, size_t *ret_size)
{
	if (n < 0) {
		r->kind = REDIS_NIL;
		*ret_size = at;
		return 1;
	}
	r->kind = REDIS_ARRAY;
	for (r->n = 0; r->n < (size_t)n; r->n++) {
		size_t size = 0;
		int rc = take_bulk(str_skip(in, at), &r->items[r->n], &size);

		if (rc <= 0)
			return rc;
		at += size;
	}
	*ret_size = at;
	return 1;
}

static int parse_line(struct str in, struct str line, size_t at, struct redis_reply *r, size_t *ret_size)
{
	struct str text = str_skip(line, 1);
	int64_t n;

	*ret_size = at;
	switch (line.p[0]) {
	case '+':
	case '-':
		r->kind = line.p[0] == '+' ? REDIS_STATUS : REDIS_ERROR;
		r->text = text;
		return 1;
	case ':':
		r->kind = REDIS_INTEGER;
		return str_to_i64(text, INT64_MIN, INT64_MAX, &r->integer) ? 1 : -1;
	case '*':
		return str_to_i64(text, -1, REDIS_ITEMS_MAX, &n) ? take_array(in, n, at, r, ret_size) : -1;
	default:
		return -1;
	}
}

int redis_reply_parse(struct str in, struct redis_reply *ret, size_t *ret_size)
{
	struct redis_reply r = { 0 };
	struct str line;
	size_t at;
	int rc;

	if (in.n > 0 && in.p[0] == '$') {
		rc = take_bulk(in, &r.text, ret_size);
		r.kind = r.text.p ? REDIS_BULK : REDIS_NIL;
	} else if (!take_line(in, &line, &at)) {
		return in.n < LINE_MAX_BYTES ? 0 : -1;
	} else if (line.n == 0 || in.p[at - 1] != '\n') {
		return -1;
	} else {
		rc = parse_line(in, line, at, &r, ret_size);
	}
	if (rc == 0 && in.n >= REDIS_REPLY_MAX)
		return -1;
	if (rc > 0)
		*ret = r;
	return rc;
}

/* ---- the client ---- */

struct pending {
	redis_fn *fn; /* NULL: a greeting of ours */
	void *arg;
	uint64_t due_ms;
};

struct redis {
	struct loop *loop;
	struct redis_dsn dsn;
	struct transport_maker maker; /* .make NULL: plain */
	struct dial *dial;
	struct transport *t; /* NULL: not connected */
	struct watch watch;
	struct timer timer;  /* the first of pending is due */
	uint64_t again_ms;   /* nothing is tried before */
	struct buf in, out;
	struct pending pending[REDIS_PENDING_MAX];
	size_t first, n;
	bool is_calling, is_dead; /* freed from a callback: it goes when that returns */
};

struct redis *redis_new(struct loop *l, const struct redis_dsn *dsn, const struct transport_maker *maker, struct err *e)
{
	AUTO(redis_free) struct redis *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->loop = l;
	r->dsn = *dsn;
	r->in = BUF_INIT(REDIS_REPLY_MAX + 65536);
	r->out = BUF_INIT(REDIS_OUT_MAX);
	if (maker)
		r->maker = *maker;
	if (dsn->is_tls && !maker) {
		(void)err_set(e, ERR_INTERNAL, "Redis: TLS without a maker");
		return NULL;
	}
	return take_ptr(&r);
}

static void disconnect(struct redis *r)
{
	dial_cancel(take_ptr(&r->dial));
	watch_stop(&r->watch);
	transport_close(take_ptr(&r->t));
	timer_cancel(&r->timer);
	buf_clear(&r->in);
	buf_clear(&r->out);
}

void redis_free(struct redis *r)
{
	if (!r)
		return;
	r->is_dead = true;
	if (r->is_calling)
		return;
	disconnect(r);
	timer_done(&r->timer);
	buf_done(&r->in);
	buf_done(&r->out);
	secret_wipe(r->dsn.password, sizeof(r->dsn.password));
	free(r);
}

static void arm(struct redis *r)
{
	if (r->n > 0)
		timer_set(&r->timer, r->pending[r->first].due_ms);
	else
		timer_cancel(&r->timer);
}

/* Calls whoever waits for the next reply. False: the client is gone. */
static bool tell_next(struct redis *r, const struct redis_reply *reply, const struct err *e)
{
	struct pending p = r->pending[r->first];

	r->first = (r->first + 1) % REDIS_PENDING_MAX;
	r->n--;
	if (!p.fn)
		return true;
	r->is_calling = true;
	p.fn(reply, e, p.arg);
	r->is_calling = false;
	if (!r->is_dead)
		return true;
	redis_free(r);
	return false;
}

/* Those that wait now: what a callback sends in turn is for the next connection. */
static void fail(struct redis *r, const struct err *e)
{
	size_t n = r->n;

	disconnect(r);
	r->again_ms = loop_now_ms(r->loop) + REDIS_AGAIN_MS;
	while (n-- > 0)
		if (!tell_next(r, NULL, e))
			return;
}

static void fail_with(struct redis *r, enum err_code code, const char *what)
{
	struct err e = { 0 };

	(void)err_set(&e, code, "Redis: %s", what);
	fail(r, &e);
}

static void on_timer(void *arg)
{
	fail_with(arg, ERR_TIMEOUT, "no reply in time");
}

/* ---- moving bytes ---- */

static int flush(struct redis *r)
{
	while (r->out.n > 0) {
		struct iovec iov = { r->out.p, r->out.n };
		ssize_t n = r->t->ops->send(r->t, &iov, 1, false);

		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		buf_consume(&r->out, (size_t)n);
	}
	return 0;
}

static int fill(struct redis *r)
{
	char piece[16384];
	ssize_t n = r->t->ops->recv(r->t, piece, sizeof(piece));

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	return n > 0 && buf_add(&r->in, piece, (size_t)n) ? 0 : -1;
}

/* A greeting that is refused is the end of the connection; whoever waits hears why. */
static bool is_refused_greeting(struct redis *r, const struct redis_reply *reply)
{
	struct err e = { 0 };

	if (r->pending[r->first].fn || reply->kind != REDIS_ERROR)
		return false;
	(void)err_set(&e, ERR_DENIED, "Redis: %.*s", (int)MIN(reply->text.n, (size_t)200), reply->text.p);
	fail(r, &e);
	return true;
}

/* -1: the connection, or all of it, has gone. */
static int take_replies(struct redis *r)
{
	struct redis_reply reply;
	struct err e = { 0 };
	size_t size;
	int rc;

	while ((rc = redis_reply_parse(buf_str(&r->in), &reply, &size)) > 0) {
		if (r->n == 0)
			break;
		if (is_refused_greeting(r, &reply))
			return -1;
		if (reply.kind == REDIS_ERROR)
			(void)err_set(&e, ERR_IO, "Redis: %.*s", (int)MIN(reply.text.n, (size_t)200), reply.text.p);
		if (!tell_next(r, reply.kind == REDIS_ERROR ? NULL : &reply, reply.kind == REDIS_ERROR ? &e : NULL))
			return -1;
		if (!r->t)
			return -1;
		buf_consume(&r->in, size);
	}
	if (rc == 0)
		return 0;
	fail_with(r, ERR_IO, "malformed reply");
	return -1;
}

static void on_io(unsigned ready, void *arg)
{
	struct redis *r = arg;

	if (((ready & (IO_IN | IO_ERR)) && fill(r) < 0) || flush(r) < 0) {
		fail_with(r, ERR_UNAVAILABLE, "the connection was lost");
		return;
	}
	if (take_replies(r) < 0)
		return;
	if (flush(r) < 0) {
		fail_with(r, ERR_UNAVAILABLE, "the connection was lost");
		return;
	}
	arm(r);
	watch_want(&r->watch, r->out.n > 0 ? IO_IN | IO_OUT : IO_IN);
}

/* ---- connecting ---- */

static void on_dialled(struct transport *t, const struct err *e, void *arg)
{
	struct redis *r = arg;
	struct err own = { 0 };

	r->dial = NULL;
	if (!t) {
		fail(r, e);
		return;
	}
	r->t = t;
	if (watch_start(&r->watch, r->loop, t, on_io, r, "redis", &own) < 0) {
		fail(r, &own);
		return;
	}
	arm(r);
	watch_want(&r->watch, IO_IN | IO_OUT);
}

static void write_command(struct redis *r, const struct str *words, size_t n)
{
	buf_addf(&r->out, "*%zu\r\n", n);
	for (size_t i = 0; i < n; i++) {
		buf_addf(&r->out, "$%zu\r\n", words[i].n);
		buf_add_str(&r->out, words[i]);
		buf_add(&r->out, "\r\n", 2);
	}
}

static void queue(struct redis *r, unsigned timeout_ms, redis_fn *fn, void *arg)
{
	r->pending[(r->first + r->n++) % REDIS_PENDING_MAX] = (struct pending){ fn, arg, loop_now_ms(r->loop) + timeout_ms };
}

static void greet(struct redis *r)
{
	struct str user = str_of(r->dsn.user), password = str_of(r->dsn.password);
	struct str named[] = { STR("AUTH"), user, password }, plain[] = { STR("AUTH"), password };
	char db[16];

	if (password.n > 0) {
		write_command(r, user.n > 0 ? named : plain, user.n > 0 ? 3 : 2);
		queue(r, HELLO_MS, NULL, NULL);
	}
	if (r->dsn.db > 0) {
		(void)snprintf(db, sizeof(db), "%u", r->dsn.db);
		write_command(r, (struct str[]){ STR("SELECT"), str_of(db) }, 2);
		queue(r, HELLO_MS, NULL, NULL);
	}
}

static int connect_now(struct redis *r, struct err *e)
{
	struct dial_spec spec = { .fd = -1, .to = &r->dsn.to.sa, .to_len = r->dsn.to.len, .timeout_ms = CONNECT_MS };

	if (r->dsn.to.len == 0)
		return err_set(e, ERR_UNAVAILABLE, "Redis: '%s' has no address", r->dsn.host);
	if (!r->timer.loop && timer_init(&r->timer, r->loop, on_timer, r, "redis", e) < 0)
		return -1;
	if (loop_now_ms(r->loop) < r->again_ms)
		return err_set(e, ERR_UNAVAILABLE, "Redis is not there");
	if (r->dsn.is_tls)
		spec.maker = &r->maker;
	r->dial = dial_start(r->loop, &spec, on_dialled, r, e);
	if (!r->dial)
		return -1;
	greet(r);
	return 0;
}

int redis_send(struct redis *r, const struct str *words, size_t n, unsigned timeout_ms, redis_fn *fn, void *arg, struct err *e)
{
	size_t before = r->out.n;

	if (r->is_dead)
		return err_set(e, ERR_UNAVAILABLE, "the Redis client is closed");
	if (r->n >= REDIS_PENDING_MAX - 2) /* room for greetings */
		return err_set(e, ERR_LIMIT, "Redis: too many commands without a reply");
	if (!r->t && !r->dial && connect_now(r, e) < 0)
		return -1;
	before = r->out.n;
	write_command(r, words, n);
	if (r->out.failed) {
		r->out.failed = false;
		r->out.n = before;
		return err_set(e, ERR_LIMIT, "Redis: too much waits to be sent");
	}
	queue(r, timeout_ms, fn, arg);
	if (r->t && !r->is_calling) {
		arm(r);
		watch_want(&r->watch, IO_IN | IO_OUT);
	}
	return 0;
}
