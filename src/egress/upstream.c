// SPDX-License-Identifier: Apache-2.0
#include "egress/upstream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/random.h"
#include "egress/sockets.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/transport.h"

#include "base/banned.h"

#define TO_MAX 10

struct target {
	struct addr to;
	uint64_t sick_until_ms; /* 0: it answers */
};

struct upstream {
	struct loop *loop;
	struct random_pool *random;
	struct sockets *sockets;
	struct target targets[TO_MAX];
	size_t n;
	struct upstream_counts counts;
};

/* One question to one target. */
struct attempt {
	struct lookup *lookup;
	struct target *target;
	uint16_t id;
	int fd; /* UDP */
	struct io io;
	struct dial *dial;
	struct transport *tcp;
	struct buf in; /* over TCP: with its length before it */
};

struct lookup {
	struct upstream *up;
	char name[HOST_NAME_LEN_MAX + 1];
	uint16_t type;
	lookup_fn *fn;
	void *arg;
	struct timer next, total;
	uint64_t began_us;
	size_t n;
	struct attempt attempts[UPSTREAM_TRIES_MAX];
	struct err last; /* why the last one failed */
	struct dns_answer answer;
};

/* ---- the end of things ---- */

static void attempt_end(struct attempt *a)
{
	io_del(&a->io);
	closep(&a->fd);
	a->fd = -1;
	dial_cancel(take_ptr(&a->dial));
	transport_close(take_ptr(&a->tcp));
	buf_done(&a->in);
}

static bool is_over(const struct attempt *a)
{
	return a->fd < 0 && !a->dial && !a->tcp;
}

void upstream_cancel(struct lookup *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n; i++)
		attempt_end(&q->attempts[i]);
	timer_done(&q->next);
	timer_done(&q->total);
	q->up->counts.waiting--;
	free(q);
}

static void lookup_end(struct lookup *q, const struct dns_answer *answer, const struct err *e)
{
	struct upstream_counts *c = &q->up->counts;

	if (answer) {
		c->answered++;
		c->total_us += clock_mono_us() - q->began_us;
	} else {
		c->failed++;
	}
	for (size_t i = 0; i < q->n; i++)
		attempt_end(&q->attempts[i]);
	timer_cancel(&q->next);
	timer_cancel(&q->total);
	q->fn(answer, e, q->arg);
	upstream_cancel(q);
}

static void target_set(struct upstream *u, struct target *t, bool answers)
{
	char text[ADDR_TEXT_MAX];
	bool was_sick = t->sick_until_ms > 0;

	t->sick_until_ms = answers ? 0 : loop_now_ms(u->loop) + UPSTREAM_SICK_MS;
	if (was_sick != !answers)
		log_warn(answers ? "an upstream resolver answers again" : "an upstream resolver does not answer",
			 LOG_S("address", sockaddr_format(&t->to.sa, t->to.len, text)));
}

static void lookup_try(struct lookup *q);

static void attempt_fail(struct attempt *a, const struct err *e)
{
	struct lookup *q = a->lookup;

	q->last = *e;
	attempt_end(a);
	for (size_t i = 0; i < q->n; i++)
		if (!is_over(&q->attempts[i]))
			return; /* another one may still bring it */
	lookup_try(q);
}

/* ---- answers ---- */

static int begin_tcp(struct attempt *a, struct err *e);

/* False: nothing of this message counts. Otherwise A may be gone. */
static bool take_answer(struct attempt *a, struct str bytes, bool is_tcp)
{
	AUTO(arena_done) struct arena memory = ARENA_INIT(UPSTREAM_ANSWER_MAX);
	struct lookup *q = a->lookup;
	struct err e = { 0 };

	if (dns_answer_parse(bytes, a->id, q->name, q->type, &memory, &q->answer, &e) < 0) {
		if (e.code == ERR_INVALID && !is_tcp)
			return false; /* anybody can send us anything */
		attempt_fail(a, &e);
		return true;
	}
	target_set(q->up, a->target, true);
	if (q->answer.is_truncated && !is_tcp) {
		if (begin_tcp(a, &e) < 0)
			attempt_fail(a, &e);
		return true;
	}
	if (q->answer.is_truncated || (q->answer.rcode != DNS_NOERROR && q->answer.rcode != DNS_NXDOMAIN)) {
		(void)err_set(&e, ERR_UNAVAILABLE, "an upstream answers with code %u", q->answer.rcode);
		attempt_fail(a, &e);
		return true;
	}
	lookup_end(q, &q->answer, NULL);
	return true;
}

static void on_udp(unsigned ready, void *arg)
{
	unsigned char bytes[DNS_UDP_MAX + 1];
	struct attempt *a = arg;
	struct err e = { 0 };
	ssize_t n;

	(void)ready;
	for (unsigned i = 0; i < 16; i++) {
		n = recv(a->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* nobody listens there */
			target_set(a->lookup->up, a->target, false);
			(void)err_sys(&e, errno, "ask an upstream");
			attempt_fail(a, &e);
			return;
		}
		if ((size_t)n <= DNS_UDP_MAX && take_answer(a, (struct str){ (char *)bytes, (size_t)n }, false))
			return;
	}
}

/* ---- TCP ---- */

static void on_tcp_io(unsigned ready, void *arg)
{
	struct attempt *a = arg;
	struct err e = { 0 };
	size_t want;
	ssize_t n;
	char *room;

	(void)ready;
	for (;;) {
		want = a->in.n < 2 ? 2 : 2 + ((size_t)(unsigned char)a->in.p[0] << 8 | (unsigned char)a->in.p[1]);
		if (a->in.n >= 2 && a->in.n == want)
			break;
		room = buf_reserve(&a->in, want - a->in.n);
		n = room ? a->tcp->ops->recv(a->tcp, room, want - a->in.n) : -1;
		if (room && n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			(void)err_set(&e, ERR_UNAVAILABLE, "an upstream ends a connection");
			attempt_fail(a, &e);
			return;
		}
		buf_commit(&a->in, (size_t)n);
	}
	(void)take_answer(a, str_skip(buf_str(&a->in), 2), true);
}

static int send_tcp(struct attempt *a, struct err *e)
{
	unsigned char bytes[2 + DNS_QUESTION_MAX];
	size_t n = dns_query_write(a->id, a->lookup->name, a->lookup->type, bytes + 2);
	struct iovec iov = { bytes, n + 2 };

	bytes[0] = (unsigned char)(n >> 8);
	bytes[1] = (unsigned char)n;
	if (a->tcp->ops->send(a->tcp, &iov, 1, false) != (ssize_t)(n + 2)) /* a new connection has room for it */
		return err_set(e, ERR_UNAVAILABLE, "an upstream does not take a question");
	return io_add(&a->io, a->lookup->up->loop, a->tcp->fd, IO_IN, on_tcp_io, a, "upstream tcp", e);
}

static void on_dialled(struct transport *t, const struct err *e, void *arg)
{
	struct attempt *a = arg;
	struct err mine = { 0 };

	a->dial = NULL;
	a->tcp = t;
	if (!t)
		attempt_fail(a, e);
	else if (send_tcp(a, &mine) < 0)
		attempt_fail(a, &mine);
}

static int begin_tcp(struct attempt *a, struct err *e)
{
	struct upstream *u = a->lookup->up;

	u->counts.over_tcp++;
	attempt_end(a);
	a->in = BUF_INIT(2 + DNS_MESSAGE_MAX);
	if (random_pool_take(u->random, &a->id, sizeof(a->id), e) < 0)
		return -1;
	a->dial = sockets_dial(u->sockets, u->loop, &a->target->to.sa, a->target->to.len, UPSTREAM_TOTAL_MS, on_dialled, a, e);
	return a->dial ? 0 : -1;
}

/* ---- tries ---- */

static int send_udp(struct attempt *a, struct err *e)
{
	struct upstream *u = a->lookup->up;
	unsigned char bytes[DNS_QUESTION_MAX];
	size_t n;

	if (random_pool_take(u->random, &a->id, sizeof(a->id), e) < 0)
		return -1;
	a->fd = sockets_make(u->sockets, a->target->to.sa.sa_family, SOCK_DGRAM, e);
	if (a->fd < 0)
		return -1;
	/* Connected: the kernel chooses a port, takes datagrams from there alone and tells when nobody listens. */
	if (connect(a->fd, &a->target->to.sa, a->target->to.len) < 0)
		return err_sys(e, errno, "reach an upstream");
	n = dns_query_write(a->id, a->lookup->name, a->lookup->type, bytes);
	if (send(a->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n)
		return err_sys(e, errno, "ask an upstream");
	return io_add(&a->io, u->loop, a->fd, IO_IN, on_udp, a, "upstream udp", e);
}

/* 0: it was asked; -1. */
static int ask(struct lookup *q, struct target *t, struct err *e)
{
	struct attempt *a = &q->attempts[q->n++];

	*a = (struct attempt){ .lookup = q, .target = t, .fd = -1, .in = BUF_INIT(2 + DNS_MESSAGE_MAX) };
	if (send_udp(a, e) == 0)
		return 0;
	attempt_end(a);
	return -1;
}

static size_t times_asked(const struct lookup *q, const struct target *t)
{
	size_t n = 0;

	for (size_t i = 0; i < q->n; i++)
		n += q->attempts[i].target == t;
	return n;
}

/* Those that answer before the others, those that were asked less often before those, and all in the operator's order. */
static struct target *choose(const struct lookup *q)
{
	struct target *best = NULL;
	size_t rank = SIZE_MAX;

	for (size_t i = 0; i < q->up->n; i++) {
		struct target *t = &q->up->targets[i];
		size_t asked = times_asked(q, t);
		size_t own = (t->sick_until_ms > 0 ? 2 : 0) + asked;

		if (asked >= 2 || own >= rank)
			continue;
		best = t;
		rank = own;
	}
	return best;
}

/* One that has not answered is asked beside the one that is counted on, once in a while. */
static void ask_sick(struct lookup *q)
{
	uint64_t now = loop_now_ms(q->up->loop);

	for (size_t i = 0; i < q->up->n && q->n < UPSTREAM_TRIES_MAX; i++) {
		struct target *t = &q->up->targets[i];

		if (t->sick_until_ms == 0 || t->sick_until_ms > now || times_asked(q, t) > 0)
			continue;
		t->sick_until_ms = now + UPSTREAM_SICK_MS;
		(void)ask(q, t, &(struct err){ 0 });
	}
}

/* The next one; false: there is none. */
static bool ask_next(struct lookup *q)
{
	struct target *t;

	while (q->n < UPSTREAM_TRIES_MAX && (t = choose(q))) {
		if (ask(q, t, &q->last) < 0) {
			target_set(q->up, t, false);
			continue;
		}
		ask_sick(q);
		timer_in(&q->next, UPSTREAM_TRY_MS);
		return true;
	}
	return false;
}

/* When none is left, what was asked before has its time; when that has failed, too, it is over. */
static void lookup_try(struct lookup *q)
{
	bool is_waiting = ask_next(q);

	for (size_t i = 0; i < q->n; i++)
		is_waiting |= !is_over(&q->attempts[i]);
	if (!is_waiting)
		lookup_end(q, NULL, &q->last);
}

static void on_next(void *arg)
{
	struct lookup *q = arg;

	for (size_t i = 0; i < q->n; i++)
		if (q->attempts[i].fd >= 0)
			target_set(q->up, q->attempts[i].target, false);
	lookup_try(q);
}

static void on_total(void *arg)
{
	struct lookup *q = arg;
	const struct err e = { .code = ERR_TIMEOUT, .msg = "no upstream answers" };

	lookup_end(q, NULL, &e);
}

struct lookup *lookup_start(struct upstream *u, const char *name, uint16_t type, lookup_fn *fn, void *arg, struct err *e)
{
	struct lookup *q;

	if (u->counts.waiting >= UPSTREAM_LOOKUPS_MAX) {
		(void)err_set(e, ERR_LIMIT, "too many questions at once");
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		(void)err_no_memory(e);
		return NULL;
	}
	q->up = u;
	q->type = type;
	q->fn = fn;
	q->arg = arg;
	q->began_us = clock_mono_us();
	memcpy(q->name, name, MIN(strlen(name), sizeof(q->name) - 1));
	(void)err_set(&q->last, ERR_UNAVAILABLE, "no upstream resolver");
	u->counts.waiting++;
	u->counts.asked++;
	if (timer_init(&q->next, u->loop, on_next, q, "upstream next", e) < 0 ||
	    timer_init(&q->total, u->loop, on_total, q, "upstream total", e) < 0) {
		upstream_cancel(q);
		return NULL;
	}
	timer_in(&q->total, UPSTREAM_TOTAL_MS);
	if (!ask_next(q))
		timer_in(&q->next, 0); /* it ends as others do: not during this call */
	return q;
}

/* ---- life ---- */

struct upstream *upstream_new(struct loop *l, const struct addr *to, size_t n, struct random_pool *random, struct sockets *sockets,
			      struct err *e)
{
	struct upstream *u = calloc(1, sizeof(*u));

	if (!u) {
		(void)err_no_memory(e);
		return NULL;
	}
	u->loop = l;
	u->random = random;
	u->sockets = sockets;
	(void)upstream_set(u, to, n);
	return u;
}

bool upstream_set(struct upstream *u, const struct addr *to, size_t n)
{
	bool is_other = n != u->n;

	n = MIN(n, (size_t)TO_MAX);
	for (size_t i = 0; i < n; i++) {
		struct target *t = &u->targets[i];

		if (t->to.len == to[i].len && memcmp(&t->to.sa, &to[i].sa, to[i].len) == 0)
			continue;
		*t = (struct target){ .to = to[i] };
		is_other = true;
	}
	u->n = n;
	return is_other;
}

void upstream_free(struct upstream *u)
{
	free(u);
}

struct upstream_counts upstream_counts(const struct upstream *u)
{
	struct upstream_counts c = u->counts;

	c.known = u->n;
	for (size_t i = 0; i < u->n; i++)
		c.healthy += u->targets[i].sick_until_ms == 0;
	return c;
}
