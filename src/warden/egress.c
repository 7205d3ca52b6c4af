// SPDX-License-Identifier: Apache-2.0
/* The connection of opensandbox-egress. It is one of the server's kind in all that matters: a process without rights whose every
 * message is checked, and which is dropped for the first that is wrong. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/message_queue.h"
#include "sys/passing.h"
#include "warden/box.h"
#include "warden/network.h"
#include "warden/warden.h"

#include "base/banned.h"

#define TURN_MESSAGES 64
#define QUEUE_MAX 65536 /* messages that wait for egress to read; then it is dropped */

struct egress {
	struct warden *w;
	int fd;
	struct io io;
	struct message_queue unsent;
	bool is_busy; /* a change that it asked for is being made: what it says next holds after that */
	bool is_dead;
	struct deferred bury;
	struct egress_message got;
	char bytes[sizeof(struct egress_message)];
};

/* ---- the end of one ---- */

static void egress_free(struct egress *g)
{
	message_queue_done(&g->unsent);
	defer_cancel(&g->bury);
	io_del(&g->io);
	(void)close(g->fd);
	free(g);
}

static void on_bury(void *arg)
{
	egress_free(arg);
}

/* What it was asked and has not answered is asked of the next one. */
static void end(struct egress *g)
{
	if (g->is_dead)
		return;
	g->is_dead = true;
	if (g->w->network.egress == g)
		g->w->network.egress = NULL;
	io_del(&g->io);
	defer(&g->bury, g->w->loop, on_bury, g, "egress that ended");
}

/* ---- sending ---- */

static void update(struct egress *g)
{
	if (!g->is_dead)
		/* who does not read is not read from */
		io_want(&g->io, !message_queue_is_empty(&g->unsent) ? IO_OUT : g->is_busy ? 0 : IO_IN);
}

static void flush(struct egress *g)
{
	struct err e;

	if (g->is_dead || message_queue_flush(&g->unsent, g->fd, &e) == 0)
		return;
	log_warn("egress is gone", LOG_ERR(&e));
	end(g);
}

/* A message that cannot be kept ends it: the next one is told everything. */
static void send_message(struct egress *g, struct egress_message *m, const int *fds, size_t n_fds)
{
	struct err e = { 0 };

	if (!g || g->is_dead)
		return;
	m->version = EGRESS_WIRE_VERSION;
	if (g->unsent.messages.n >= QUEUE_MAX)
		(void)err_set(&e, ERR_LIMIT, "it does not read its messages");
	else if (message_queue_send(&g->unsent, g->fd, m, egress_message_size(m), fds, n_fds, &e) == 0) {
		update(g);
		return;
	}
	log_warn("a message cannot be sent, dropping egress", LOG_U("queued", g->unsent.messages.n), LOG_ERR(&e));
	end(g);
}

static void set_id(struct egress_message *m, const struct box *b)
{
	memcpy(m->id, b->file.id, sizeof(m->id));
	m->address = b->net->address;
}

void egress_bind(struct warden *w, struct box *b)
{
	struct egress_message m = { .call = EGRESS_BIND, .serial = b->net->serial, .network = b->net->kind };

	set_id(&m, b);
	send_message(w->network.egress, &m, &b->net->policy, b->net->policy >= 0);
}

void egress_unbind(struct warden *w, const struct box *b)
{
	struct egress_message m = { .call = EGRESS_UNBIND };

	set_id(&m, b);
	send_message(w->network.egress, &m, NULL, 0);
}

void egress_answer(struct warden *w, uint64_t serial, const struct err *failure)
{
	struct egress_message m = { .call = EGRESS_DONE, .serial = serial, .failed = failure != NULL };

	if (failure)
		m.err = *failure;
	send_message(w->network.egress, &m, NULL, 0);
}

void egress_go_on(struct warden *w, uint64_t egress)
{
	if (!w->network.egress || w->network.n_egress != egress)
		return;
	w->network.egress->is_busy = false;
	update(w->network.egress);
}

/* ---- receiving ---- */

static void bound(struct egress *g, const struct egress_message *m)
{
	struct box *b = map_get(&g->w->by_id, str_of(m->id));

	if (!b || !b->net || b->net->serial != m->serial)
		return; /* it was removed meanwhile */
	b->net->serial = 0;
	if (m->failed && b->file.stage != BOX_STARTING) { /* what held for it holds on */
		log_error("egress cannot watch over a sandbox", LOG_S("id", b->file.id), LOG_ERR(&m->err));
		return;
	}
	closep(&b->net->policy);
	b->net->policy = -1;
	b->net->is_bound = !m->failed;
	KILL_POINT("warden.bind.bound");
	if (b->file.stage == BOX_STARTING)
		box_bound(b, m->failed ? &m->err : NULL);
}

static int act(struct box *b, const struct egress_message *m, struct err *e)
{
	switch ((enum egress_call)m->call) {
	case EGRESS_RULES: return box_net_set_rules(b, m, e);
	case EGRESS_LEARN: return box_net_learn(b, m, e);
	case EGRESS_FORGET: return box_net_forget(b, m, e);
	case EGRESS_CUT: return box_net_cut(b, m, e);
	case EGRESS_HELLO:
	case EGRESS_BIND:
	case EGRESS_SYNCED:
	case EGRESS_UNBIND:
	case EGRESS_DONE:
	case EGRESS_BOUND: break; /* not from egress, or done */
	}
	return err_set(e, ERR_INVALID, "no such call");
}

static void take_message(struct egress *g, const struct egress_message *m)
{
	struct err e = { 0 };
	struct box *b;
	int r;

	if (m->call == EGRESS_BOUND) {
		bound(g, m);
		return;
	}
	b = network_box(g->w, m->address);
	r = b ? act(b, m, &e) : err_set(&e, ERR_NOT_FOUND, "no sandbox has this address");
	if (r < 0 && b)
		log_warn("cannot do what egress asks for", LOG_S("id", b->file.id), LOG_U("call", m->call), LOG_ERR(&e));
	g->is_busy = r == BOX_NET_CHANGES;
	if (m->serial > 0 && (r < 0 || r == 0))
		egress_answer(g->w, m->serial, r < 0 ? &e : NULL);
}

static bool is_allowed(const struct warden *w, uid_t uid)
{
	return uid == 0 || (w->network.egress_uid >= 0 && uid == (uid_t)w->network.egress_uid);
}

/* What it asked for before it gave us up is not done: it has told its clients so, and tells us anew what holds. */
static bool has_given_up(const struct egress *g)
{
	struct pollfd p = { .fd = g->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* 1: there may be more, 0: not now. */
static int receive_one(struct egress *g, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	int r = has_given_up(g) ? PASSING_END : passing_recv(g->fd, g->bytes, sizeof(g->bytes), 0, &got, e);

	if (r == PASSING_END) {
		log_warn("egress has ended");
		end(g);
	}
	if (r != PASSING_MESSAGE)
		return r < 0 ? -1 : 0;
	if (!got.has_sender || !is_allowed(g->w, got.sender.uid))
		return err_set(e, ERR_DENIED, "a message of a foreign user");
	if (egress_message_check(g->bytes, got.n, got.n_fds, true, &g->got, e) < 0)
		return -1;
	take_message(g, &g->got);
	return 1;
}

static void on_egress(unsigned ready, void *arg)
{
	struct egress *g = arg;
	struct err e = { 0 };
	int r = 1;

	if (ready & IO_OUT)
		flush(g);
	if ((ready & IO_ERR) && g->is_busy) {
		log_warn("egress has ended");
		end(g);
	}
	for (int i = 0; r > 0 && i < TURN_MESSAGES && !g->is_dead && message_queue_is_empty(&g->unsent) && !g->is_busy; i++)
		r = receive_one(g, &e);
	if (r < 0) {
		log_warn("egress is dropped", LOG_ERR(&e));
		end(g);
	}
	update(g);
}

/* ---- connections ---- */

/* Everything from the start: the sockets, then every box that there is, those that wait for it included. */
static void greet(struct egress *g)
{
	struct network *n = &g->w->network;
	struct egress_message hello = { .call = EGRESS_HELLO }, synced = { .call = EGRESS_SYNCED };

	send_message(g, &hello, n->sockets, EGRESS_FDS);
	for (struct box *b = g->w->boxes; b; b = b->next) {
		if (!b->net || !b->net->address || b->file.stage == BOX_REMOVING || b->file.stage == BOX_OVER)
			continue;
		b->net->serial = ++n->last_serial;
		box_net_forget_all(b); /* this one may not know of what another has learned, and then could not take it back */
		egress_bind(g->w, b);
	}
	send_message(g, &synced, NULL, 0);
}

static int check_peer(const struct warden *w, int fd, struct err *e)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return err_sys(e, errno, "ask who connects");
	return is_allowed(w, who.uid) ? passing_want_sender(fd, e) : err_set(e, ERR_DENIED, "user %u may not ask", (unsigned)who.uid);
}

/* The newer one is right: the older may be a process that does not know yet that it is dead. */
static int add(struct warden *w, int fd, struct err *e)
{
	struct egress *g;

	if (check_peer(w, fd, e) < 0)
		return -1;
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_no_memory(e);
	g->w = w;
	g->fd = fd;
	if (io_add(&g->io, w->loop, fd, IO_IN, on_egress, g, "egress", e) < 0) {
		free(g);
		return -1;
	}
	if (w->network.egress)
		end(w->network.egress);
	w->network.egress = g;
	w->network.n_egress++;
	log_info("egress is there");
	greet(g);
	return 0;
}

static void on_accept(unsigned ready, void *arg)
{
	struct warden *w = arg;
	AUTO_FD fd = accept4(w->network.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct err e;

	(void)ready;
	if (fd < 0)
		return;
	if (add(w, fd, &e) < 0)
		log_warn("a connection is refused", LOG_ERR(&e));
	else
		(void)take_fd(&fd);
}

int egress_open(struct warden *w, struct err *e)
{
	struct network *n = &w->network;

	if (fd_set_cloexec(n->listener, true, e) < 0 || fd_set_nonblock(n->listener, true, e) < 0 ||
	    passing_want_sender(n->listener, e) < 0)
		return -1;
	return io_add(&n->accept, w->loop, n->listener, IO_IN, on_accept, w, "egress listener", e);
}

void egress_done(struct warden *w)
{
	if (w->network.egress) {
		struct egress *g = take_ptr(&w->network.egress);

		egress_free(g);
	}
	io_del(&w->network.accept);
}
