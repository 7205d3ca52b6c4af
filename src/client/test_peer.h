// SPDX-License-Identifier: Apache-2.0
/* client/test_peer.h - for tests: a server in a thread of its own, which answers by a list of rules.
 *
 *     static const struct rule rules[] = {
 *         SAYS("POST /v1/sandboxes ", "202 Accepted", "{\"id\":\"s1\"}"),
 *         SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", "{\"endpoint\":\"127.0.0.1:@PORT@/x\"}"),
 *         HANGS("GET /x/ping"),
 *         { 0 }
 *     };
 *
 * The first rule that matches and is not used up is applied. A request without a rule gets 500. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "net/ws/ws_handshake.h"

#define PEER_CONNS 16
#define PEER_RULES 16
#define PEER_SEEN (64 * 1024 * 1024)

#define SAYS(begins_, status_, body_) { .begins = (begins_), .status = (status_), .body = (body_) }
#define SAYS_RAW(begins_, raw_, does_) { .begins = (begins_), .raw = (raw_), .does = (does_) }
#define HANGS(begins_) { .begins = (begins_), .does = PEER_HANGS }

enum peer_does {
	PEER_ANSWERS,
	PEER_HANGS,  /* says nothing, ever */
	PEER_CLOSES, /* after what it answers */
	PEER_BIG,    /* `answer` is a head; 64 MiB of blanks follow */
	/* to a WebSocket; `raw` are its frames, texts of less than 126 bytes, one behind the other */
	PEER_UPGRADES,
	PEER_RESETS,   /* the same, and then the connection breaks */
};

struct rule {
	const char *begins; /* a request does; NULL ends the list */
	const char *status; /* "200 OK"; NULL: `raw` is all of it */
	const char *body;   /* of an answer with a status */
	const char *raw;
	enum peer_does does;
	unsigned times; /* 0: always */
};

struct peer_conn {
	int fd;
	struct buf in;
};

struct peer {
	unsigned port;
	int listener, stop;
	pthread_t thread;
	pthread_mutex_t lock;
	struct rule rules[PEER_RULES];
	unsigned used[PEER_RULES];
	struct buf seen; /* every request, one after the other; guarded by the lock */
	atomic_uint accepts, requests;
	struct peer_conn conns[PEER_CONNS];
};

static inline void peer_send(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent <= 0)
			return;
		p += sent;
		n -= (size_t)sent;
	}
}

/* @PORT@ becomes the peer's own. */
static inline void peer_expand(const struct peer *p, const char *text, struct buf *out)
{
	const char *at;

	while ((at = strstr(text, "@PORT@"))) {
		buf_add(out, text, (size_t)(at - text));
		buf_addf(out, "%u", p->port);
		text = at + 6;
	}
	buf_addf(out, "%s", text);
}

static inline void peer_answer(struct peer *p, struct peer_conn *c, const struct rule *r)
{
	char blanks[4096];
	AUTO(buf_done) struct buf body = BUF_INIT(1 << 20), all = BUF_INIT(1 << 20);

	peer_expand(p, r->body ? r->body : r->raw ? r->raw : "", &body);
	if (r->status)
		buf_addf(&all, "HTTP/1.1 %s\r\nX-Request-ID: theirs\r\nContent-Length: %zu\r\n\r\n",
			 r->status, body.n);
	buf_add_str(&all, buf_str(&body));
	peer_send(c->fd, all.p, all.n);
	memset(blanks, ' ', sizeof(blanks));
	for (int i = 0; r->does == PEER_BIG && i < 16384; i++)
		peer_send(c->fd, blanks, sizeof(blanks));
}

/* "\0" ends a frame. One that begins with a digit is bytes, and that digit their tag. */
static inline void peer_upgrade(struct peer *p, struct peer_conn *c, const struct rule *r)
{
	AUTO(buf_done) struct buf all = BUF_INIT(1 << 16);
	const char *key = NULL;
	char accept[WS_ACCEPT_LEN + 1];

	for (const char *at = buf_z(&p->seen); (at = strstr(at, "Sec-WebSocket-Key: ")); at++)
		key = at + 19;
	assert_non_null(key);
	ws_accept((struct str){ key, WS_KEY_LEN }, accept);
	buf_addf(&all,
		 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
	for (const char *frame = r->raw; *frame; frame += strlen(frame) + 1) {
		bool is_bytes = *frame >= '0' && *frame <= '9';
		size_t n = strlen(frame);

		buf_add(&all, (char[]){ is_bytes ? (char)0x82 : (char)0x81, (char)n }, 2);
		buf_add_char(&all, is_bytes ? (char)(*frame - '0') : *frame);
		buf_add(&all, frame + 1, n - 1);
	}
	if (r->does == PEER_RESETS)
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
				 sizeof(struct linger));
	peer_send(c->fd, all.p, all.n);
}

static inline const struct rule *peer_rule(struct peer *p, const char *request)
{
	static const struct rule none = { .status = "500 No Rule",
					  .body = "{\"code\":\"NO_RULE\",\"message\":\"no rule\"}" };

	for (size_t i = 0; i < PEER_RULES && p->rules[i].begins; i++) {
		const struct rule *r = &p->rules[i];

		if (strncmp(request, r->begins, strlen(r->begins)) == 0 &&
		    (r->times == 0 || p->used[i] < r->times)) {
			p->used[i]++;
			return r;
		}
	}
	return &none;
}

/* The bytes of the first whole request in it; 0: there is none yet. */
static inline size_t peer_request(const struct buf *in)
{
	const char *end = in->n ? strstr(buf_z(in), "\r\n\r\n") : NULL;
	const char *length = end ? strcasestr(buf_z(in), "\r\nContent-Length: ") : NULL;
	size_t head = end ? (size_t)(end - in->p) + 4 : 0, body = 0;

	if (!end)
		return 0;
	if (strcasestr(buf_z(in), "\r\nTransfer-Encoding: chunked")) {
		const char *last = memmem(in->p + head, in->n - head, "0\r\n\r\n", 5);

		return last ? (size_t)(last - in->p) + 5 : 0;
	}
	if (length && length < end)
		body = strtoul(length + 18, NULL, 10);
	return in->n >= head + body ? head + body : 0;
}

static inline void peer_drop(struct peer_conn *c)
{
	(void)close(c->fd);
	buf_done(&c->in);
	c->fd = -1;
}

static inline void peer_serve(struct peer *p, struct peer_conn *c)
{
	char piece[65536];
	ssize_t n = recv(c->fd, piece, sizeof(piece), 0);
	size_t size;

	if (n <= 0) {
		peer_drop(c);
		return;
	}
	(void)buf_add(&c->in, piece, (size_t)n);
	while (c->fd >= 0 && (size = peer_request(&c->in)) > 0) {
		const struct rule *r = peer_rule(p, c->in.p);

		(void)pthread_mutex_lock(&p->lock);
		(void)buf_add(&p->seen, c->in.p, size);
		(void)pthread_mutex_unlock(&p->lock);
		buf_consume(&c->in, size);
		atomic_fetch_add(&p->requests, 1);
		if (r->does == PEER_UPGRADES || r->does == PEER_RESETS)
			peer_upgrade(p, c, r);
		else if (r->does != PEER_HANGS)
			peer_answer(p, c, r);
		if (r->does == PEER_CLOSES || r->does == PEER_RESETS)
			peer_drop(c);
	}
}

static inline void peer_accept(struct peer *p)
{
	int fd = accept(p->listener, NULL, NULL);

	atomic_fetch_add(&p->accepts, 1);
	for (size_t i = 0; i < PEER_CONNS; i++)
		if (p->conns[i].fd < 0) {
			p->conns[i] = (struct peer_conn){ .fd = fd, .in = BUF_INIT(PEER_SEEN) };
			return;
		}
	(void)close(fd);
}

static inline void *peer_run(void *arg)
{
	struct peer *p = arg;

	for (;;) {
		struct pollfd fds[PEER_CONNS + 2] = { { .fd = p->listener, .events = POLLIN },
						      { .fd = p->stop, .events = POLLIN } };

		for (size_t i = 0; i < PEER_CONNS; i++)
			fds[i + 2] = (struct pollfd){ .fd = p->conns[i].fd, .events = POLLIN };
		if (poll(fds, PEER_CONNS + 2, -1) < 0)
			continue;
		if (fds[1].revents)
			return NULL;
		for (size_t i = 0; i < PEER_CONNS; i++)
			if (fds[i + 2].revents)
				peer_serve(p, &p->conns[i]);
		if (fds[0].revents)
			peer_accept(p);
	}
}

static inline void peer_start_at(struct peer *p, const struct rule *rules, bool is_v6)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *to = is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4;
	socklen_t n = is_v6 ? sizeof(v6) : sizeof(v4);

	*p = (struct peer){ .seen = BUF_INIT(PEER_SEEN) };
	for (size_t i = 0; rules[i].begins; i++)
		p->rules[i] = rules[i];
	for (size_t i = 0; i < PEER_CONNS; i++)
		p->conns[i].fd = -1;
	p->listener = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	p->stop = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(bind(p->listener, to, n), 0);
	assert_int_equal(listen(p->listener, 64), 0);
	assert_int_equal(getsockname(p->listener, to, &n), 0);
	p->port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
	assert_int_equal(pthread_mutex_init(&p->lock, NULL), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, peer_run, p), 0);
}

static inline void peer_start(struct peer *p, const struct rule *rules)
{
	peer_start_at(p, rules, false);
}

static inline void peer_stop(struct peer *p)
{
	(void)eventfd_write(p->stop, 1);
	(void)pthread_join(p->thread, NULL);
	for (size_t i = 0; i < PEER_CONNS; i++)
		if (p->conns[i].fd >= 0)
			peer_drop(&p->conns[i]);
	(void)close(p->listener);
	(void)close(p->stop);
	buf_done(&p->seen);
}

/* How often TEXT was in what it received. */
static inline unsigned peer_saw(struct peer *p, const char *text)
{
	unsigned n = 0;

	(void)pthread_mutex_lock(&p->lock);
	for (const char *at = buf_z(&p->seen); (at = strstr(at, text)); at++)
		n++;
	(void)pthread_mutex_unlock(&p->lock);
	return n;
}

static inline void peer_await(struct peer *p, unsigned requests)
{
	for (int i = 0; i < 5000 && atomic_load(&p->requests) < requests; i++)
		usleep(1000);
	assert_true(atomic_load(&p->requests) >= requests);
}
