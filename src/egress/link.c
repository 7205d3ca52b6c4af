// SPDX-License-Identifier: Apache-2.0
#include "egress/link.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "net/loop.h"
#include "sys/message_queue.h"
#include "sys/passing.h"

#include "base/banned.h"

#define QUEUE_MAX ((size_t)16 * 1024 * 1024) /* bytes that wait for the warden to read */

struct pending {
	uint64_t serial;
	uint64_t due_ms;
	link_done_fn *done;
	void *arg;
	struct pending *prev, *next; /* in the order in which they were asked, which is that of due_ms */
};

struct link {
	struct loop *loop;
	const char *path; /* NULL: there is the one connection that was given */
	int given;        /* that, until it is used */
	link_told_fn *told;
	void *arg;
	int fd; /* -1: not connected */
	struct io io;
	struct timer again, late;
	uint64_t serial; /* of the last one */
	struct map by_serial;
	struct pending *first, *last;
	size_t n_pending;
	struct message_queue unsent;
	struct egress_message in; /* too large for the stack, as are its bytes */
	unsigned char bytes[sizeof(struct egress_message)];
	bool has_said; /* that it cannot connect */
	bool is_greeted; /* by a HELLO: before that there is a socket and maybe nobody */
};

static void link_lose(struct link *l, const struct err *why);
static void on_io(unsigned ready, void *arg);

/* ---- what was asked ---- */

static void pending_drop(struct link *l, struct pending *p)
{
	(void)map_del(&l->by_serial, (struct str){ (const char *)&p->serial, sizeof(p->serial) });
	*(p->prev ? &p->prev->next : &l->first) = p->next;
	*(p->next ? &p->next->prev : &l->last) = p->prev;
	l->n_pending--;
	free(p);
}

static void pending_end(struct link *l, struct pending *p, const struct err *e)
{
	link_done_fn *done = p->done;
	void *arg = p->arg;

	pending_drop(l, p);
	if (done)
		done(e, arg);
}

static struct pending *pending_add(struct link *l, link_done_fn *done, void *arg, struct err *e)
{
	struct pending *p;

	if (l->n_pending >= LINK_PENDING_MAX) {
		(void)err_set(e, ERR_LIMIT, "too much is asked of the warden");
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (p)
		*p = (struct pending){ .serial = ++l->serial, .due_ms = loop_now_ms(l->loop) + LINK_ANSWER_MS, .done = done, .arg = arg,
				       .prev = l->last };
	if (!p || !map_put(&l->by_serial, (struct str){ (const char *)&p->serial, sizeof(p->serial) }, p)) {
		free(p);
		(void)err_no_memory(e);
		return NULL;
	}
	*(l->last ? &l->last->next : &l->first) = p;
	l->last = p;
	if (l->n_pending++ == 0)
		timer_set(&l->late, p->due_ms);
	return p;
}

/* A warden that does not answer is as good as none. */
static void on_late(void *arg)
{
	struct link *l = arg;
	const struct err e = { .code = ERR_TIMEOUT, .msg = "the warden does not answer" };

	if (l->first && l->first->due_ms <= loop_now_ms(l->loop))
		link_lose(l, &e);
	else if (l->first)
		timer_set(&l->late, l->first->due_ms);
}

void link_forget(struct link *l, void *arg)
{
	for (struct pending *p = l->first; p; p = p->next)
		if (p->arg == arg)
			p->done = NULL;
}

/* ---- the socket ---- */

static void link_lose(struct link *l, const struct err *why)
{
	if (l->fd < 0)
		return;
	log_warn(l->path ? "the warden is gone" : "the keeper is gone", LOG_ERR(why));
	io_del(&l->io);
	closep(&l->fd);
	l->fd = -1;
	l->is_greeted = false;
	message_queue_done(&l->unsent);
	if (l->path)
		timer_in(&l->again, LINK_AGAIN_MS);
	else
		loop_stop(l->loop);
	while (l->first)
		pending_end(l, l->first, why);
}

static int send_or_queue(struct link *l, const struct egress_message *m, struct err *e)
{
	size_t n = egress_message_size(m);

	if (!l->is_greeted)
		return err_set(e, ERR_UNAVAILABLE, "the warden is not connected");
	if (l->unsent.bytes + n > QUEUE_MAX)
		return err_set(e, ERR_LIMIT, "too much is asked of the warden");
	if (message_queue_send(&l->unsent, l->fd, m, n, NULL, 0, e) < 0)
		return -1;
	if (!message_queue_is_empty(&l->unsent))
		io_want(&l->io, IO_IN | IO_OUT);
	return 0;
}

static void flush(struct link *l)
{
	struct err e = { 0 };

	if (message_queue_flush(&l->unsent, l->fd, &e) < 0)
		link_lose(l, &e);
	else if (message_queue_is_empty(&l->unsent))
		io_want(&l->io, IO_IN);
}

static void on_message(struct link *l, const struct egress_message *m, struct passed *p)
{
	struct pending *asked;

	l->is_greeted |= m->call == EGRESS_HELLO;
	if (m->call != EGRESS_DONE) {
		l->told(m, p->fds, p->n_fds, l->arg);
		return;
	}
	asked = map_get(&l->by_serial, (struct str){ (const char *)&m->serial, sizeof(m->serial) });
	if (asked)
		pending_end(l, asked, m->failed ? &m->err : NULL);
}

/* One message: false, when there is none or the connection is lost. */
static bool receive(struct link *l)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	struct err e = { 0 };
	int k = passing_recv(l->fd, l->bytes, sizeof(l->bytes), EGRESS_FDS, &p, &e);

	if (k == PASSING_NONE)
		return false;
	if (k == PASSING_END)
		(void)err_set(&e, ERR_UNAVAILABLE, "it has closed the connection");
	if (k != PASSING_MESSAGE || egress_message_check(l->bytes, p.n, p.n_fds, false, &l->in, &e) < 0) {
		link_lose(l, &e);
		return false;
	}
	on_message(l, &l->in, &p);
	return l->fd >= 0;
}

static void on_io(unsigned ready, void *arg)
{
	struct link *l = arg;
	unsigned budget = 256; /* others wait, too */

	if (ready & IO_OUT)
		flush(l);
	while (l->fd >= 0 && budget-- > 0 && receive(l))
		;
}

static void on_again(void *arg)
{
	struct link *l = arg;
	struct err e = { 0 };

	if (l->fd >= 0)
		return;
	l->fd = l->path ? passing_connect(l->path, &e) : take_fd(&l->given);
	if (l->fd >= 0 && io_add(&l->io, l->loop, l->fd, IO_IN, on_io, l, "warden", &e) < 0) {
		closep(&l->fd);
		l->fd = -1;
	}
	if (l->fd < 0 && !l->path) {
		log_error("cannot read from the keeper", LOG_ERR(&e));
		loop_stop(l->loop);
		return;
	}
	if (l->fd < 0) {
		if (!l->has_said)
			log_warn("cannot reach the warden, trying again", LOG_S("path", l->path), LOG_ERR(&e));
		l->has_said = true;
		timer_in(&l->again, LINK_AGAIN_MS);
		return;
	}
	l->has_said = false;
	log_info(l->path ? "connected to the warden" : "connected to the keeper");
}

/* ---- life ---- */

static struct link *make(struct loop *loop, const char *path, link_told_fn *told, void *arg, struct err *e)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l) {
		(void)err_no_memory(e);
		return NULL;
	}
	*l = (struct link){ .loop = loop, .path = path, .told = told, .arg = arg, .fd = -1, .given = -1 };
	if (timer_init(&l->again, loop, on_again, l, "warden again", e) < 0 ||
	    timer_init(&l->late, loop, on_late, l, "warden late", e) < 0) {
		link_free(l);
		return NULL;
	}
	timer_in(&l->again, 0);
	return l;
}

struct link *link_new(struct loop *loop, const char *path, link_told_fn *told, void *arg, struct err *e)
{
	return make(loop, path, told, arg, e);
}

struct link *link_new_fd(struct loop *loop, int *fd, link_told_fn *told, void *arg, struct err *e)
{
	struct link *l = make(loop, NULL, told, arg, e);

	if (l)
		l->given = take_fd(fd);
	return l;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	io_del(&l->io);
	closep(&l->fd);
	closep(&l->given);
	timer_done(&l->again);
	timer_done(&l->late);
	while (l->first)
		pending_drop(l, l->first);
	map_done(&l->by_serial);
	message_queue_done(&l->unsent);
	free(l);
}

void link_renew(struct link *l, const struct err *why)
{
	link_lose(l, why);
}

bool link_is_up(const struct link *l)
{
	return l->is_greeted;
}

int link_tell(struct link *l, struct egress_message *m, struct err *e)
{
	m->version = EGRESS_WIRE_VERSION;
	return send_or_queue(l, m, e);
}

int link_ask(struct link *l, struct egress_message *m, link_done_fn *done, void *arg, struct err *e)
{
	struct pending *p;

	if (!l->is_greeted)
		return err_set(e, ERR_UNAVAILABLE, "the warden is not connected");
	p = pending_add(l, done, arg, e);
	if (!p)
		return -1;
	m->version = EGRESS_WIRE_VERSION;
	m->serial = p->serial;
	if (send_or_queue(l, m, e) < 0) {
		pending_drop(l, p);
		return -1;
	}
	return 0;
}
