// SPDX-License-Identifier: Apache-2.0
#include "egress/guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "access/policy.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "net/http/http1.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/ws/ws_handshake.h"

#include "base/banned.h"

enum state {
	GUARD_HEAD,    /* of a request is to come */
	GUARD_LENGTH,  /* `left` bytes of a body */
	GUARD_CHUNKS,
	GUARD_UPGRADE, /* nothing passes before the server has answered */
	GUARD_OPAQUE,  /* it has agreed to a WebSocket */
	GUARD_OVER,    /* it has agreed to something else */
};

struct guard {
	struct transport base; /* first: it is what others see */
	struct transport *inner;
	guard_fn *may_pass;
	void *arg;
	enum state state;
	struct buf in;   /* received, and not given out */
	size_t checked;  /* bytes at its front that may be */
	bool has_ended;  /* the client has */
	unsigned requests;
	uint64_t left;
	struct http_scan scan;
	struct http_chunked chunked;
	char key[WS_KEY_LEN + 1]; /* of the WebSocket that was asked for; "": another protocol was */
	struct buf answer;        /* what the server has said to an upgrade, up to the end of its head */
	struct http_scan answer_scan;
};

static struct guard *guard_of(const struct transport *t)
{
	return (struct guard *)(uintptr_t)t;
}

/* ---- understanding ---- */

static int fail(int sys)
{
	errno = sys;
	return -1;
}

/* The client learns at once that this was the end. */
static int refuse(const struct guard *g, int sys)
{
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(g->base.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* or it learns a little later */
	return fail(sys);
}

/* Of a request that an answer with 101 makes a WebSocket (RFC 6455 section 4). Nothing is joined here: a header that is repeated is
 * read by its first value, and what then does not fit ends the connection. */
static void note_upgrade(struct guard *g, const struct http_head *h)
{
	const struct ws_request rq = { .connection = STR("Upgrade"), .upgrade = http_value(h, "Upgrade"),
				       .version = http_value(h, "Sec-WebSocket-Version"), .key = http_value(h, "Sec-WebSocket-Key") };

	g->key[0] = '\0';
	if (str_is(h->method, "GET") && ws_handshake_check(&rq) == WS_HANDSHAKE_OK)
		(void)snprintf(g->key, sizeof(g->key), "%.*s", STR_ARG(rq.key)); /* it was measured */
}

static enum state after_head(const struct http_head *h)
{
	if (h->has_upgrade)
		return GUARD_UPGRADE;
	if (h->framing == HTTP_CHUNKED)
		return GUARD_CHUNKS;
	return h->framing == HTTP_LENGTH && h->length > 0 ? GUARD_LENGTH : GUARD_HEAD;
}

/* 1: a head more is checked; 0: it is not there yet; -1. */
static int check_head(struct guard *g, struct str in)
{
	struct http_fault fault;
	struct http_head h;
	int k = http_request_head(&g->scan, in, &h, &fault);

	if (k < 0 || (k == 0 && in.n >= GUARD_HELD_MAX))
		return refuse(g, EPROTO);
	if (k == 0)
		return 0;
	if (!g->may_pass(h.host, g->arg))
		return refuse(g, EACCES);
	g->requests++;
	if (h.has_upgrade && (g->requests > 1 || h.framing != HTTP_NO_BODY))
		return refuse(g, EPROTO); /* nobody could tell which answer belongs to it */
	if (h.has_upgrade)
		note_upgrade(g, &h);
	g->state = after_head(&h);
	g->left = h.length;
	g->scan = (struct http_scan){ 0 };
	g->chunked = (struct http_chunked){ 0 };
	g->checked += h.size;
	return 1;
}

/* The framing is checked where the bytes lie; they go on as they came. */
static int check_chunks(struct guard *g, struct str in)
{
	struct str rest = in, data;
	const char *why;
	enum http_chunk k;

	do
		k = http_chunk_next(&g->chunked, &rest, &data, &why);
	while (k == HTTP_CHUNK_DATA);
	if (k == HTTP_CHUNK_BAD)
		return refuse(g, EPROTO);
	g->checked += in.n - rest.n;
	if (k == HTTP_CHUNK_END)
		g->state = GUARD_HEAD;
	return k == HTTP_CHUNK_END;
}

/* 1: go on; 0: more is needed; -1. */
static int check_some(struct guard *g, struct str in)
{
	uint64_t n;

	switch (g->state) {
	case GUARD_HEAD:
		return check_head(g, in);
	case GUARD_LENGTH:
		n = MIN(g->left, (uint64_t)in.n);
		g->left -= n;
		g->checked += (size_t)n;
		if (g->left == 0)
			g->state = GUARD_HEAD;
		return 1;
	case GUARD_CHUNKS:
		return check_chunks(g, in);
	case GUARD_UPGRADE:
		return in.n >= GUARD_HELD_MAX ? refuse(g, EPROTO) : 0;
	case GUARD_OPAQUE:
		g->checked = g->in.n;
		return 0;
	case GUARD_OVER:
		return refuse(g, EPROTO);
	}
	return 0;
}

static int check(struct guard *g)
{
	int k = 1;

	while (k == 1 && g->checked < g->in.n)
		k = check_some(g, str_skip(buf_str(&g->in), g->checked));
	return k < 0 ? -1 : 0;
}

/* ---- as a transport ---- */

static ssize_t fill(struct guard *g)
{
	size_t want = GUARD_HELD_MAX - g->in.n;
	char *room = want > 0 ? buf_reserve(&g->in, want) : NULL;
	ssize_t n;

	if (!room)
		return refuse(g, want > 0 ? ENOMEM : EPROTO);
	n = g->inner->ops->recv(g->inner, room, want);
	if (n > 0)
		buf_commit(&g->in, (size_t)n);
	if (n == 0)
		g->has_ended = true;
	return n;
}

static ssize_t guard_recv(struct transport *t, void *p, size_t n)
{
	struct guard *g = guard_of(t);
	size_t out;

	if (g->state == GUARD_OVER)
		return fail(EPROTO);
	if (g->checked == 0 && g->in.n > 0 && check(g) < 0)
		return -1;
	if (g->checked == 0) {
		ssize_t k = g->has_ended ? 0 : fill(g);

		if (k <= 0)
			return k == 0 && g->in.n > 0 ? refuse(g, EPROTO) : k; /* it ends in the middle of something */
		if (check(g) < 0)
			return -1;
	}
	if (g->checked == 0)
		return fail(EAGAIN);
	out = MIN(n, g->checked);
	memcpy(p, g->in.p, out);
	buf_consume(&g->in, out);
	g->checked -= out;
	if (g->in.n == 0)
		buf_done(&g->in);
	return (ssize_t)out;
}

/* Only a WebSocket is let be: its frames are masked, so that nothing between here and the server reads them as requests. After any
 * other protocol there would be no telling whom the client speaks with. */
static bool is_websocket(const struct guard *g, const struct http_head *h)
{
	return g->key[0] && h->has_upgrade && str_eq_nocase(http_value(h, "Upgrade"), STR("websocket")) &&
	       ws_accept_matches(str_of(g->key), http_value(h, "Sec-WebSocket-Accept"));
}

/* Both directions end: who reads next is told so, too. */
static int give_up(struct guard *g)
{
	g->state = GUARD_OVER;
	g->checked = 0;
	return refuse(g, EPROTO);
}

/* What the server answers to an upgrade decides what the client's bytes are. 0, or -1: this is the end. */
static int watch_answer(struct guard *g, struct str said)
{
	struct http_fault fault;
	struct http_head h;
	int k = 1;

	buf_add_str(&g->answer, said);
	if (g->answer.failed)
		return give_up(g);
	while (k == 1 && g->state == GUARD_UPGRADE) {
		k = http_response_head(&g->answer_scan, buf_str(&g->answer), false, &h, &fault);
		if (k < 0 || (k == 1 && h.status == 101 && !is_websocket(g, &h)))
			return give_up(g);
		if (k == 0)
			return 0;
		if (h.status == 101 || h.status >= 200)
			g->state = h.status == 101 ? GUARD_OPAQUE : GUARD_HEAD;
		buf_consume(&g->answer, h.size); /* an interim answer: the one that counts is behind it */
		g->answer_scan = (struct http_scan){ 0 };
	}
	buf_done(&g->answer);
	return 0;
}

static ssize_t guard_send(struct transport *t, const struct iovec *iov, int n, bool more)
{
	struct guard *g = guard_of(t);
	struct iovec first = n > 0 ? iov[0] : (struct iovec){ 0 };
	ssize_t sent;

	if (g->state != GUARD_UPGRADE)
		return g->inner->ops->send(g->inner, iov, n, more);
	sent = g->inner->ops->send(g->inner, &first, 1, more);
	if (sent > 0 && watch_answer(g, (struct str){ first.iov_base, (size_t)sent }) < 0)
		return -1;
	return sent;
}

static ssize_t guard_send_file(struct transport *t, int fd, off_t *offset, size_t n)
{
	return guard_of(t)->inner->ops->send_file(guard_of(t)->inner, fd, offset, n);
}

static void guard_shut(struct transport *t)
{
	guard_of(t)->inner->ops->shut(guard_of(t)->inner);
}

static void guard_close(struct transport *t)
{
	struct guard *g = guard_of(t);

	transport_close(g->inner);
	buf_done(&g->in);
	buf_done(&g->answer);
	free(g);
}

static unsigned guard_interest(const struct transport *t, unsigned want)
{
	return guard_of(t)->inner->ops->interest(guard_of(t)->inner, want);
}

static unsigned guard_readiness(const struct transport *t, unsigned ready)
{
	return guard_of(t)->inner->ops->readiness(guard_of(t)->inner, ready);
}

static bool guard_has_pending(const struct transport *t)
{
	const struct guard *g = guard_of(t);

	return g->checked > 0 || g->state == GUARD_OVER || (g->in.n > 0 && g->state != GUARD_UPGRADE && (g->state != GUARD_HEAD || g->scan.at < g->in.n));
}

static const struct transport_ops guard_ops = {
	.name = "guard", .recv = guard_recv, .send = guard_send, .send_file = guard_send_file, .shut = guard_shut,
	.close = guard_close, .interest = guard_interest, .readiness = guard_readiness, .has_pending = guard_has_pending,
};

struct transport *guard_new(struct transport *inner, struct str early, guard_fn *may_pass, void *arg, struct err *e)
{
	struct guard *g = calloc(1, sizeof(*g));

	if (g) {
		g->in = BUF_INIT(GUARD_HELD_MAX);
		g->answer = BUF_INIT(GUARD_HELD_MAX);
		buf_add_str(&g->in, early);
	}
	if (!g || g->in.failed) {
		if (g)
			buf_done(&g->in);
		free(g);
		(void)err_no_memory(e);
		return NULL;
	}
	g->base = (struct transport){ .ops = &guard_ops, .fd = inner->fd, .is_plain = inner->is_plain, .is_filtered = true };
	g->inner = inner;
	g->may_pass = may_pass;
	g->arg = arg;
	return &g->base;
}

bool guard_host(struct str host, unsigned port, char *out)
{
	struct str name, digits;
	uint64_t v;

	if (str_cut(host, ':', &name, &digits) && (!str_to_u64(digits, 1, UINT16_MAX, &v) || v != port))
		return false;
	return host_name(name, out, &(struct err){ 0 }) == 0;
}
