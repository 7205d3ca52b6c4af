// SPDX-License-Identifier: Apache-2.0
#include "egress/resolver.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "egress/egress.h"
#include "egress/listener.h"
#include "egress/question.h"
#include "egress/sandbox.h"
#include "net/dns.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PER_TURN 64 /* datagrams, before others have their turn */

struct resolver {
	struct egress *egress;
	int udp; /* -1: none yet */
	struct io udp_io;
	struct listener tcp;
	size_t n_clients;
	struct datagram *waiting;
	unsigned char in[DNS_QUERY_MAX + 1];
};

/* Where an answer goes. It lives until there is one. */
struct datagram {
	struct datagram *prev, *next;
	struct resolver *resolver;
	struct sandbox *sandbox;
	struct sockaddr_in from;
	struct in_addr local; /* that it was sent to: the answer comes from there */
};

/* ---- UDP ---- */

static void datagram_free(struct datagram *d)
{
	*(d->prev ? &d->prev->next : &d->resolver->waiting) = d->next;
	if (d->next)
		d->next->prev = d->prev;
	free(d);
}

static void datagram_answer(struct str reply, void *who)
{
	struct datagram *d = who;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)reply.p, reply.n };
	struct msghdr m = { .msg_name = &d->from, .msg_namelen = sizeof(d->from), .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = &control, .msg_controllen = sizeof(control) };
	const struct in_pktinfo info = { .ipi_spec_dst = d->local };

	control.head = (struct cmsghdr){ .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO, .cmsg_len = CMSG_LEN(sizeof(info)) };
	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	if (reply.n > 0 && d->resolver->udp >= 0)
		(void)sendmsg(d->resolver->udp, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* it may get lost on its way, too */
	datagram_free(d);
}

static struct in_addr local_of(struct msghdr *m)
{
	struct in_addr local = { 0 };

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct in_pktinfo info;

		if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(c), sizeof(info));
		local = info.ipi_spec_dst;
	}
	return local;
}

static void on_datagram(struct resolver *r, const struct sockaddr_in *from, struct in_addr local, struct str bytes)
{
	struct sandbox *s = sandbox_by_address(r->egress, from->sin_addr.s_addr);
	struct datagram *d = s ? calloc(1, sizeof(*d)) : NULL;

	if (!d) {
		r->egress->counts.strangers += !s;
		return;
	}
	*d = (struct datagram){ .resolver = r, .sandbox = s, .from = *from, .local = local, .next = r->waiting };
	if (d->next)
		d->next->prev = d;
	r->waiting = d;
	question_ask(s, bytes, &(struct asker){ .answer = datagram_answer, .who = d });
}

static void on_udp(unsigned ready, void *arg)
{
	struct resolver *r = arg;

	(void)ready;
	for (unsigned i = 0; i < PER_TURN && r->udp >= 0; i++) {
		union {
			struct cmsghdr head;
			char bytes[CMSG_SPACE(sizeof(struct in_pktinfo)) + 64];
		} control;
		struct sockaddr_in from = { 0 };
		struct iovec iov = { r->in, sizeof(r->in) };
		struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1,
				    .msg_control = &control, .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(r->udp, &m, MSG_DONTWAIT);

		if (n < 0)
			return; /* nothing there, or what an earlier answer has met */
		if (from.sin_family == AF_INET && !(m.msg_flags & MSG_TRUNC))
			on_datagram(r, &from, local_of(&m), (struct str){ (char *)r->in, (size_t)n });
	}
}

/* ---- TCP ---- */

struct tcp_client {
	struct tcp_client *prev, *next; /* of the sandbox */
	struct resolver *resolver;
	struct sandbox *sandbox;
	int fd;
	struct io io;
	struct timer idle;
	struct deferred resume;
	struct buf in, out; /* each message with its length before it */
	bool is_asking;
};

static void client_free(struct tcp_client *c)
{
	struct sandbox *s = c->sandbox;

	if (c->is_asking)
		question_drop_who(s, c);
	*(c->prev ? &c->prev->next : &s->clients) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_clients--;
	c->resolver->n_clients--;
	io_del(&c->io);
	timer_done(&c->idle);
	defer_cancel(&c->resume);
	closep(&c->fd);
	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

static void client_run(struct tcp_client *c);

static void on_resume(void *arg)
{
	client_run(arg);
}

static void client_answer(struct str reply, void *who)
{
	struct tcp_client *c = who;
	const unsigned char length[2] = { (unsigned char)(reply.n >> 8), (unsigned char)reply.n };

	c->is_asking = false;
	if (reply.n > 0) {
		buf_add(&c->out, length, 2);
		buf_add_str(&c->out, reply);
	}
	if (reply.n == 0)
		c->out.failed = true; /* the connection ends: a client over TCP would wait for good */
	defer(&c->resume, c->resolver->egress->loop, on_resume, c, "resolver tcp");
}

/* The next query, if there is one and none is being asked; false: the client breaks the rules. */
static bool client_ask(struct tcp_client *c)
{
	size_t n;

	if (c->is_asking || c->out.n > 0 || c->in.n < 2)
		return true;
	n = (size_t)(unsigned char)c->in.p[0] << 8 | (unsigned char)c->in.p[1];
	if (n > DNS_QUERY_MAX || n < DNS_HEADER_SIZE)
		return false;
	if (c->in.n < 2 + n)
		return true;
	memcpy(c->resolver->in, c->in.p + 2, n);
	buf_consume(&c->in, 2 + n);
	c->is_asking = true;
	question_ask(c->sandbox, (struct str){ (char *)c->resolver->in, n }, &(struct asker){ .answer = client_answer, .who = c,
		     .is_tcp = true });
	return true;
}

static bool client_flush(struct tcp_client *c)
{
	ssize_t n = c->out.n > 0 ? send(c->fd, c->out.p, c->out.n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
	return true;
}

static void client_run(struct tcp_client *c)
{
	if (c->out.failed || !client_flush(c) || !client_ask(c)) {
		client_free(c);
		return;
	}
	io_want(&c->io, (c->out.n > 0 ? IO_OUT : 0U) | (!c->is_asking && c->out.n == 0 ? IO_IN : 0U));
	timer_in(&c->idle, TCP_CLIENT_IDLE_MS);
}

static void on_client(unsigned ready, void *arg)
{
	struct tcp_client *c = arg;
	char *room = (ready & IO_IN) ? buf_reserve(&c->in, 2 + DNS_QUERY_MAX - c->in.n) : NULL;
	ssize_t n = room ? recv(c->fd, room, 2 + DNS_QUERY_MAX - c->in.n, MSG_DONTWAIT) : -1;

	if ((ready & IO_ERR) || (room && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))) {
		client_free(c);
		return;
	}
	if (n > 0)
		buf_commit(&c->in, (size_t)n);
	client_run(c);
}

static void on_idle(void *arg)
{
	client_free(arg);
}

static int client_new(struct resolver *r, struct sandbox *s, int *fd, struct err *e)
{
	struct tcp_client *c = calloc(1, sizeof(*c));

	if (!c)
		return err_no_memory(e);
	*c = (struct tcp_client){ .resolver = r, .sandbox = s, .fd = *fd, .next = s->clients, .in = BUF_INIT(2 + DNS_QUERY_MAX),
				  .out = BUF_INIT(2 + DNS_MESSAGE_MAX) };
	if (c->next)
		c->next->prev = c;
	s->clients = c;
	s->n_clients++;
	r->n_clients++;
	if (timer_init(&c->idle, r->egress->loop, on_idle, c, "resolver tcp idle", e) < 0 ||
	    io_add(&c->io, r->egress->loop, c->fd, IO_IN, on_client, c, "resolver tcp", e) < 0) {
		c->fd = -1;
		client_free(c);
		return -1;
	}
	*fd = -1;
	timer_in(&c->idle, TCP_CLIENT_IDLE_MS);
	return 0;
}

static void on_tcp(int *fd, const struct sockaddr_in *from, void *arg)
{
	struct resolver *r = arg;
	struct sandbox *s = sandbox_by_address(r->egress, from->sin_addr.s_addr);
	struct err e = { 0 };

	r->egress->counts.strangers += !s;
	if (!s || s->n_clients >= TCP_CLIENTS_MAX || r->n_clients >= TCP_CLIENTS_ALL)
		return;
	if (client_new(r, s, fd, &e) < 0)
		log_warn("a connection to the resolver is refused", LOG_ERR(&e));
}

/* ---- life ---- */

struct resolver *resolver_new(struct egress *g, struct err *e)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->egress = g;
	r->udp = -1;
	if (listener_init(&r->tcp, g->loop, on_tcp, r, "resolver tcp", e) < 0) {
		free(r);
		return NULL;
	}
	return r;
}

int resolver_listen(struct resolver *r, int *udp, int *tcp, struct err *e)
{
	static const int on = 1;

	if (setsockopt(*udp, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "prepare the socket of the resolver");
	if (fd_set_nonblock(*udp, true, e) < 0 || listener_take(&r->tcp, tcp, e) < 0)
		return -1;
	io_del(&r->udp_io);
	closep(&r->udp);
	r->udp = -1;
	if (io_add(&r->udp_io, r->egress->loop, *udp, IO_IN, on_udp, r, "resolver udp", e) < 0)
		return -1;
	r->udp = take_fd(udp);
	return 0;
}

bool resolver_is_listening(const struct resolver *r)
{
	return r->udp >= 0 && r->tcp.fd >= 0;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	io_del(&r->udp_io);
	closep(&r->udp);
	listener_done(&r->tcp);
	while (r->waiting)
		datagram_free(r->waiting);
	free(r);
}

void resolver_drop(struct sandbox *s)
{
	struct resolver *r = s->egress->resolver;
	struct datagram *next;

	while (s->clients)
		client_free(s->clients);
	questions_drop(s);
	for (struct datagram *d = r ? r->waiting : NULL; d; d = next) {
		next = d->next;
		if (d->sandbox == s)
			datagram_free(d);
	}
}
