// SPDX-License-Identifier: Apache-2.0
/* net/http/test_forward.h - for tests: a server whose only route sends everything on to the test's own end of
 * a connection. */
#pragma once
#include "net/http/forward.h"

#include "net/http/test_server.h"

#include "net/http/client.h"
#include "net/transport.h"

#define MIB ((size_t)1024 * 1024)

enum manner { PASSED, COPIED, NOT_PLAIN, MANNERS };

struct stage {
	struct rig rig;
	struct http_client *client;
	struct forward_ops ops;
	enum manner manner;
	bool holds_dials;
	struct http_dial *held;
	int far; /* the sandbox's end of the latest connection */
	int dials, overs, refusals;
	struct err why; /* of the latest refusal */
};

/* ---- the stage ---- */

static inline void give_line(struct stage *s, struct http_dial *d)
{
	struct err e = { 0 };
	struct transport *t;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	t = transport_plain(ends[0], &e);
	assert_non_null(t);
	t->is_plain = s->manner != NOT_PLAIN;
	closep(&s->far);
	s->far = ends[1];
	s->dials++;
	http_dial_done(d, t, NULL);
}

static inline int dial_begin(struct http_dial *d, void *arg, struct err *e)
{
	struct stage *s = arg;

	(void)e;
	if (s->holds_dials)
		s->held = d;
	else
		give_line(s, d);
	return 0;
}

static inline void dial_cancel_(struct http_dial *d, void *arg)
{
	struct stage *s = arg;

	assert_ptr_equal(d, s->held);
	s->held = NULL;
}

static inline int on_headers(const struct request *rq, struct reply *rp, const struct http_head *head,
			     void *arg, struct err *e)
{
	(void)rq, (void)rp, (void)head, (void)arg, (void)e;
	return 0;
}

static inline void on_refuse(struct reply *rp, const struct err *e, void *arg)
{
	struct stage *s = arg;

	s->refusals++;
	s->why = *e;
	(void)reply_error(rp, 502, "REFUSED", "%s", e->msg);
}

static inline void on_over(void *arg)
{
	((struct stage *)arg)->overs++;
}

static inline int send_on(struct request *rq, struct reply *rp, struct err *e)
{
	struct stage *s = rq->ctx;
	struct http_request out = { .method = rq->head->method, .target = rq->head->target,
				    .host = STR("inside") };

	return forward_start(rq, rp, s->client, &out, &s->ops, s, e) ? 0 : -1;
}

static inline void stage_open(struct stage *s, enum manner manner)
{
	static const struct route routes[] = { { "*", "/*", send_on, ROUTE_STREAM_IN, 1ULL << 40 }, { 0 } };
	static const struct http_dialer dialer = { dial_begin, dial_cancel_ };
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct err e = { 0 };

	*s = (struct stage){ .manner = manner, .far = -1 };
	s->ops = (struct forward_ops){ .headers = on_headers, .refuse = on_refuse, .over = on_over, .passes = manner != COPIED, .paces = true };
	s->rig.service.ctx = s;
	rig_start(&s->rig, routes, NULL);
	options.dialer = &dialer;
	options.dialer_arg = s;
	s->client = http_client_new(s->rig.loop, &options, &e);
	assert_non_null(s->client);
}

static inline void stage_close(struct stage *s)
{
	http_server_free(take_ptr(&s->rig.server));
	http_client_free(s->client);
	closep(&s->far);
	loop_free(s->rig.loop);
}

/* ---- bytes ---- */

static inline char pattern(size_t i)
{
	return (char)(i * 31 + i / 4096 * 7);
}

static inline void add_pattern(struct buf *b, size_t n)
{
	char *p = buf_reserve(b, n);

	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(i);
	buf_commit(b, n);
}

/* Sends what FROM takes of *REST, receives what TO has into GOT. True while something moves. */
static inline bool carry(struct stage *s, int from, struct str *rest, int to, struct buf *got)
{
	static char piece[65536];
	ssize_t put = rest->n > 0 ? send(from, rest->p, MIN(rest->n, MIB), MSG_NOSIGNAL) : -1;
	ssize_t n = to >= 0 ? recv(to, piece, sizeof(piece), 0) : -1;

	if (put > 0)
		*rest = str_skip(*rest, (size_t)put);
	if (n > 0)
		assert_true(buf_add(got, piece, (size_t)n));
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_turn(s->rig.loop, 0, &(struct err){ 0 }), 0);
	return put > 0 || n > 0;
}

static inline void carry_all(struct stage *s, int from, struct str all, int to, struct buf *got)
{
	for (int idle = 0; idle < 3;)
		idle = carry(s, from, &all, to, got) ? 0 : idle + 1;
	assert_int_equal(all.n, 0);
}

static inline void hear(struct stage *s, int fd, struct buf *got)
{
	carry_all(s, -1, (struct str){ 0 }, fd, got);
}
