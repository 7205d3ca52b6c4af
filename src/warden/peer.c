// SPDX-License-Identifier: Apache-2.0
#include "warden/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/message_queue.h"
#include "sys/passing.h"
#include "warden/calls.h"
#include "warden/warden.h"

#include "base/banned.h"

#define TURN_MESSAGES 32      /* of one peer before others have their turn */
#define ACCEPT_PAUSE_MS 100   /* when there are no descriptors left */

struct peer {
	struct warden *w;
	struct peer *next;
	uint64_t id;
	int fd;
	struct io io;
	struct message_queue unsent;
	size_t n_pending;
	bool is_dead;
	struct deferred bury;
};

/* ---- the end of one ---- */

static void peer_free(struct peer *p)
{
	struct peer **at = &p->w->peers;

	for (; *at != p; at = &(*at)->next)
		;
	*at = p->next;
	p->w->n_peers--;
	message_queue_done(&p->unsent);
	defer_cancel(&p->bury);
	io_del(&p->io);
	(void)close(p->fd);
	free(p);
}

static void on_bury(void *arg)
{
	peer_free(arg);
}

/* Nothing more is read or sent; it goes at the end of the turn, when nobody is walking over it. */
static void peer_end(struct peer *p)
{
	if (p->is_dead)
		return;
	p->is_dead = true;
	io_del(&p->io);
	defer(&p->bury, p->w->loop, on_bury, p, "peer that ended");
}

/* ---- sending ---- */

static void update(struct peer *p)
{
	unsigned want = 0;

	if (p->is_dead)
		return;
	if (!message_queue_is_empty(&p->unsent))
		want = IO_OUT;
	else if (p->n_pending < PEER_PENDING_MAX)
		want = IO_IN;
	io_want(&p->io, want);
}

static void flush(struct peer *p)
{
	struct err e;

	if (p->is_dead || message_queue_flush(&p->unsent, p->fd, &e) == 0)
		return;
	log_warn("a client disconnected", LOG_ERR(&e));
	peer_end(p);
}

/* Memory or descriptors that run out end the peer: an answer that never comes would be worse. */
static void peer_send(struct peer *p, const struct wire_reply *rp, const int *fds, size_t n_fds)
{
	struct err e = { 0 };

	if (p->is_dead)
		return;
	if (p->unsent.messages.n >= PEER_QUEUE_MAX)
		(void)err_set(&e, ERR_LIMIT, "it does not read its answers");
	else if (message_queue_send(&p->unsent, p->fd, rp, sizeof(*rp), fds, n_fds, &e) == 0) {
		update(p);
		return;
	}
	log_warn("an answer cannot be sent, dropping the peer", LOG_U("queued", p->unsent.messages.n), LOG_ERR(&e));
	peer_end(p);
}

static struct peer *find_peer(const struct warden *w, uint64_t id)
{
	struct peer *p = w->peers;

	for (; p && p->id != id; p = p->next)
		;
	return p;
}

static void send_to(struct warden *w, const struct ticket *t, struct wire_reply *rp, const int *fds, size_t n_fds)
{
	struct peer *p = find_peer(w, t->peer);

	rp->version = WIRE_VERSION;
	rp->call = t->call;
	rp->serial = t->serial;
	if (p)
		peer_send(p, rp, fds, n_fds);
}

void answer_row(struct warden *w, const struct ticket *t, struct wire_reply *rp)
{
	send_to(w, t, rp, NULL, 0);
}

void answer_with(struct warden *w, const struct ticket *t, struct wire_reply *rp, const int *fds, size_t n_fds)
{
	struct peer *p = find_peer(w, t->peer);

	memcpy(rp->id, t->id, sizeof(rp->id));
	send_to(w, t, rp, fds, n_fds);
	if (p) {
		p->n_pending--;
		update(p);
	}
	w->pending--;
	warden_answered(w);
}

void answer(struct warden *w, const struct ticket *t, const struct err *failure)
{
	struct wire_reply rp = { .failed = failure != NULL };

	if (failure)
		rp.err = *failure;
	answer_with(w, t, &rp, NULL, 0);
}

void peers_tell_ended(struct warden *w, const char *id, const struct wire_ending *ending)
{
	struct wire_reply rp = { .version = WIRE_VERSION, .call = WIRE_ENDED, .state = WIRE_OVER, .ending = *ending };

	(void)snprintf(rp.id, sizeof(rp.id), "%s", id); /* an id of ours fits */
	for (struct peer *p = w->peers; p; p = p->next)
		peer_send(p, &rp, NULL, 0);
}

/* ---- receiving ---- */

static bool is_allowed(const struct warden *w, uid_t uid)
{
	return uid == 0 || (w->server_uid >= 0 && uid == (uid_t)w->server_uid);
}

static struct ticket take_ticket(struct peer *p, const struct wire_request *rq)
{
	struct ticket t = { .peer = p->id, .serial = rq->serial, .call = rq->call };

	if (memchr(rq->id, '\0', sizeof(rq->id)) && wire_is_about_one(rq->call))
		memcpy(t.id, rq->id, sizeof(t.id));
	p->n_pending++;
	p->w->pending++;
	return t;
}

/* A message whose head is right gets an answer even when the rest is wrong. */
static int refuse(struct peer *p, const struct wire_request *rq, const struct passed *got, const struct err *why)
{
	size_t size = rq->n_layers > WIRE_LAYERS_MAX ? SIZE_MAX : wire_request_size(rq);
	struct ticket t;

	if (got->n < size || (got->n > size && rq->call != WIRE_CREATE) || rq->version != WIRE_VERSION || rq->serial == 0 ||
	    rq->call < WIRE_CREATE || rq->call >= WIRE_ENDED)
		return -1;
	t = take_ticket(p, rq);
	t.id[0] = '\0';
	answer(p->w, &t, why);
	return 0;
}

static int take_message(struct peer *p, const struct wire_create *bytes, struct passed *got, struct err *e)
{
	struct wire_volumes volumes;
	struct wire_request rq;
	struct ticket t;

	if (!got->has_sender || !is_allowed(p->w, got->sender.uid))
		return err_set(e, ERR_DENIED, "a message of a foreign user");
	if (wire_check_request(bytes, got->n, got->n_fds, &rq, e) < 0 || wire_check_volumes(bytes, got->n, &rq, &volumes, e) < 0)
		return refuse(p, &bytes->rq, got, e);
	t = take_ticket(p, &rq);
	calls_handle(p->w, &rq, &volumes, &t, got);
	return 0;
}

/* 1: there may be more, 0: not now. */
static int receive_one(struct peer *p, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_create bytes;
	int r;

	memset(&bytes, 0, offsetof(struct wire_request, layers)); /* a message may be shorter than what is looked at */
	r = passing_recv(p->fd, &bytes, sizeof(bytes), WIRE_FDS_MAX, &got, e);
	if (r == PASSING_END)
		peer_end(p);
	if (r != PASSING_MESSAGE)
		return r < 0 ? -1 : 0;
	return take_message(p, &bytes, &got, e) < 0 ? -1 : 1;
}

static void on_peer(unsigned ready, void *arg)
{
	struct peer *p = arg;
	struct err e = { 0 };
	int r = 1;

	/* Who is gone may have a successor that has seen what there is: nothing is begun any more that it does not know of. */
	if (ready & IO_ERR) {
		peer_end(p);
		return;
	}
	if (ready & IO_OUT)
		flush(p);
	for (int i = 0; r > 0 && i < TURN_MESSAGES && !p->is_dead && message_queue_is_empty(&p->unsent) && p->n_pending < PEER_PENDING_MAX; i++)
		r = receive_one(p, &e);
	if (r < 0) {
		log_warn("a peer is dropped", LOG_ERR(&e));
		peer_end(p);
	}
	update(p);
}

/* ---- connections ---- */

static int check_peer(const struct warden *w, int fd, struct err *e)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return err_sys(e, errno, "ask who connects");
	if (!is_allowed(w, who.uid))
		return err_set(e, ERR_DENIED, "user %u may not ask", (unsigned)who.uid);
	if (w->n_peers >= PEERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d connections", PEERS_MAX);
	return passing_want_sender(fd, e);
}

static int add_peer(struct warden *w, int fd, struct err *e)
{
	struct peer *p;

	if (check_peer(w, fd, e) < 0)
		return -1;
	p = calloc(1, sizeof(*p));
	if (!p)
		return err_no_memory(e);
	*p = (struct peer){ .w = w, .id = ++w->last_peer, .fd = fd };
	if (io_add(&p->io, w->loop, fd, IO_IN, on_peer, p, "peer", e) < 0) {
		free(p);
		return -1;
	}
	p->next = w->peers;
	w->peers = p;
	w->n_peers++;
	return 0;
}

static void on_accept(unsigned ready, void *arg)
{
	struct warden *w = arg;
	AUTO_FD fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct err e;

	(void)ready;
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			io_want(&w->accept, 0);
			timer_in(&w->accept_again, ACCEPT_PAUSE_MS);
		}
		return;
	}
	if (add_peer(w, fd, &e) < 0)
		log_warn("a connection is refused", LOG_ERR(&e));
	else
		(void)take_fd(&fd);
}

static void on_accept_again(void *arg)
{
	struct warden *w = arg;

	if (w->accept.loop)
		io_want(&w->accept, IO_IN);
}

int peers_open(struct warden *w, int listener, struct err *e)
{
	w->listener = listener;
	if (fd_set_cloexec(listener, true, e) < 0 || fd_set_nonblock(listener, true, e) < 0 ||
	    passing_want_sender(listener, e) < 0 || /* so that what is accepted has it from its first message on */
	    timer_init(&w->accept_again, w->loop, on_accept_again, w, "accept again", e) < 0)
		return -1;
	return io_add(&w->accept, w->loop, listener, IO_IN, on_accept, w, "listener", e);
}

void peers_done(struct warden *w)
{
	while (w->peers)
		peer_free(w->peers);
	io_del(&w->accept);
	timer_done(&w->accept_again);
	closep(&w->listener);
	w->listener = -1;
}
