// SPDX-License-Identifier: Apache-2.0
#include "egress/flow.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/guard.h"
#include "egress/listener.h"
#include "egress/sandbox.h"
#include "egress/sockets.h"
#include "net/conduit.h"
#include "net/dial.h"
#include "net/http/http1.h"
#include "net/relay.h"
#include "net/tls_hello.h"
#include "net/transport.h"
#include "sys/fd.h"

#include "base/banned.h"

#define FDS_SPARE 512 /* for everything else */
#define PORT_HTTP 80
#define PORT_TLS 443
#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST, whose header does not go together with netinet/in.h */

struct flows {
	struct egress *egress;
	struct listener listener;
	size_t n, max;
};

struct flow {
	struct flow *prev, *next; /* of the sandbox */
	struct flows *flows;
	struct sandbox *sandbox;
	int fd; /* the sandbox's side, until it is a transport */
	struct io io;
	struct timer late;
	struct buf in; /* what it has said so far */
	struct sockaddr_in to;
	char name[HOST_NAME_LEN_MAX + 1]; /* the last one that it wanted */
	char first[HOST_NAME_LEN_MAX + 1]; /* the one that it was let through for; "" before */
	struct http_scan scan;
	struct transport *client;
	struct dial *dial;
	struct relay *relay;
	int relay_fd; /* its descriptor on the sandbox's side */
};

/* ---- the end ---- */

static struct learned_pair *pair_of(const struct flow *f)
{
	return f->first[0] ? learned_find(&f->sandbox->learned, f->first, f->to.sin_addr.s_addr) : NULL;
}

static void reset_on_close(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* or its peer learns of the end a little later */
}

static void flow_free(struct flow *f)
{
	struct sandbox *s = f->sandbox;
	struct learned_pair *p = pair_of(f);

	if (p && p->flows > 0)
		p->flows--;
	*(f->prev ? &f->prev->next : &s->flows) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	s->n_flows--;
	f->flows->n--;
	io_del(&f->io);
	timer_done(&f->late);
	dial_cancel(f->dial);
	relay_cancel(f->relay);
	transport_close(f->client);
	closep(&f->fd);
	buf_done(&f->in);
	free(f);
}

/* Nothing of it has gone on, or nothing more does: the sandbox is told at once. */
static void flow_reset(struct flow *f)
{
	if (f->relay)
		reset_on_close(f->relay_fd);
	if (f->client)
		reset_on_close(f->client->fd);
	if (f->fd >= 0)
		reset_on_close(f->fd);
	flow_free(f);
}

static void note(struct flow *f, bool is_allowed, const char *why)
{
	struct sandbox *s = f->sandbox;

	if (!is_allowed) {
		s->counts.flows_denied++;
		s->egress->counts.flows_denied++;
	}
	sandbox_log(s, &(struct activity_event){ .kind = ACTIVITY_TCP, .is_allowed = is_allowed, .target = f->name,
						 .address = f->to.sin_addr.s_addr, .port = ntohs(f->to.sin_port), .why = why });
}

static void flow_deny(struct flow *f, const char *why)
{
	note(f, false, why);
	flow_reset(f);
}

/* ---- the relay ---- */

static void on_relayed(const struct relay_result *result, void *arg)
{
	struct flow *f = arg;

	f->relay = NULL;
	f->sandbox->counts.sent_bytes += result->from_a;
	f->sandbox->counts.received_bytes += result->from_b;
	flow_free(f);
}

/* Each further request of a connection to port 80. */
static bool may_pass(struct str host, void *arg)
{
	struct flow *f = arg;
	const char *why = "no name in Host";
	char name[HOST_NAME_LEN_MAX + 1];

	if (guard_host(host, PORT_HTTP, name)) {
		memcpy(f->name, name, sizeof(name));
		if (sandbox_may_reach(f->sandbox, f->name, f->to.sin_addr.s_addr, PORT_HTTP, &why))
			return true;
	}
	note(f, false, why);
	return false;
}

/* What the relay has on the sandbox's side; the flow's own is taken. */
static struct transport *client_side(struct flow *f, struct err *e)
{
	struct transport *t;

	if (ntohs(f->to.sin_port) == PORT_TLS)
		return take_ptr(&f->client);
	t = guard_new(f->client, buf_str(&f->in), may_pass, f, e);
	if (t)
		f->client = NULL;
	return t;
}

/* Between it and us there is nothing but memory, whose bandwidth is not worth probing: a host that has BBR for the Internet would
 * pace what goes to its own sandboxes. Everybody may ask for Reno, which sends what the window allows. */
static void send_unpaced(int fd)
{
	static const char plain[] = "reno";

	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1) < 0)
		log_debug("a flow may be paced", LOG_S("reason", strerror(errno)));
}

static int relay_begin(struct flow *f, struct transport *server, struct err *e)
{
	struct relay_spec spec = { .b = server, .idle_ms = FLOW_IDLE_MS, .done = on_relayed, .arg = f };

	/* A wake-up for each 64 KiB would cost more than moving them does. */
	spec.pipe = f->flows->n <= FLOWS_HUGE ? CONDUIT_HUGE : 0;
	f->relay_fd = f->client->fd;
	send_unpaced(f->relay_fd);
	spec.a = client_side(f, e);
	if (!spec.a)
		return -1;
	if (ntohs(f->to.sin_port) == PORT_TLS)
		spec.early_a = buf_str(&f->in);
	f->relay = relay_start(f->flows->egress->loop, &spec, e);
	if (!f->relay) {
		transport_close(spec.a);
		return -1;
	}
	buf_done(&f->in);
	return 0;
}

static void on_dialled(struct transport *t, const struct err *e, void *arg)
{
	struct flow *f = arg;
	struct err mine = { 0 };

	f->dial = NULL;
	if (!t) {
		log_debug("a server is not reached", LOG_S("sandbox_id", f->sandbox->id), LOG_S("name", f->name), LOG_ERR(e));
		flow_reset(f);
		return;
	}
	if (relay_begin(f, t, &mine) == 0)
		return;
	log_warn("a flow cannot go on", LOG_S("sandbox_id", f->sandbox->id), LOG_ERR(&mine));
	transport_close(t);
	flow_reset(f);
}

/* F->name is known. */
static void flow_decide(struct flow *f)
{
	const char *why = NULL;
	struct learned_pair *p;
	struct err e = { 0 };

	if (!sandbox_may_reach(f->sandbox, f->name, f->to.sin_addr.s_addr, ntohs(f->to.sin_port), &why)) {
		flow_deny(f, why);
		return;
	}
	io_del(&f->io);
	timer_cancel(&f->late);
	memcpy(f->first, f->name, sizeof(f->first));
	p = pair_of(f);
	if (p)
		p->flows++;
	note(f, true, NULL);
	f->client = transport_plain(f->fd, &e);
	if (f->client) {
		f->fd = -1;
		f->dial = sockets_dial(f->flows->egress->sockets, f->flows->egress->loop, (struct sockaddr *)&f->to, sizeof(f->to),
				       FLOW_DIAL_MS, on_dialled, f, &e);
	}
	if (f->dial)
		return;
	log_warn("a server cannot be reached", LOG_S("sandbox_id", f->sandbox->id), LOG_ERR(&e));
	flow_reset(f);
}

/* ---- whom it wants ---- */

/* 1: f->name is it; 0: more is needed; -1: *ret_why. */
static int read_name(struct flow *f, const char **ret_why)
{
	struct tls_hello hello;
	struct http_fault fault;
	struct http_head head;
	int k;

	if (ntohs(f->to.sin_port) == PORT_TLS) {
		k = tls_hello_parse(buf_str(&f->in), &hello, ret_why);
		if (k == 1 && !hello.has_name)
			return *ret_why = "a hello without a name", -1;
		if (k == 1)
			memcpy(f->name, hello.name, sizeof(f->name));
		return k;
	}
	k = http_request_head(&f->scan, buf_str(&f->in), &head, &fault);
	if (k < 0)
		return *ret_why = "no HTTP", -1;
	if (k == 1 && !guard_host(head.host, PORT_HTTP, f->name))
		return *ret_why = "no name in Host", -1;
	return k;
}

static void on_said(unsigned ready, void *arg)
{
	struct flow *f = arg;
	const char *why = NULL;
	char *room = buf_reserve(&f->in, FLOW_HELLO_MAX - f->in.n);
	ssize_t n = room ? recv(f->fd, room, FLOW_HELLO_MAX - f->in.n, MSG_DONTWAIT) : 0;
	int k;

	(void)ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		flow_reset(f); /* it has ended, or says too much */
		return;
	}
	buf_commit(&f->in, (size_t)n);
	k = read_name(f, &why);
	if (k == 0 && f->in.n >= FLOW_HELLO_MAX)
		k = -1, why = "too much before a name";
	if (k < 0)
		flow_deny(f, why);
	else if (k == 1)
		flow_decide(f);
}

static void on_late(void *arg)
{
	flow_deny(arg, "no name in time");
}

/* ---- accepting ---- */

static int original_of(int fd, struct sockaddr_in *ret)
{
	socklen_t len = sizeof(*ret);

	return getsockopt(fd, SOL_IP, ORIGINAL_DST, ret, &len);
}

static int flow_new(struct flows *fs, struct sandbox *s, int *fd, const struct sockaddr_in *to, struct err *e)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f)
		return err_no_memory(e);
	*f = (struct flow){ .flows = fs, .sandbox = s, .fd = *fd, .to = *to, .next = s->flows, .in = BUF_INIT(FLOW_HELLO_MAX) };
	if (f->next)
		f->next->prev = f;
	s->flows = f;
	s->n_flows++;
	fs->n++;
	if (timer_init(&f->late, fs->egress->loop, on_late, f, "flow", e) < 0 ||
	    io_add(&f->io, fs->egress->loop, f->fd, IO_IN, on_said, f, "flow", e) < 0) {
		f->fd = -1;
		flow_free(f);
		return -1;
	}
	*fd = -1;
	s->counts.flows++;
	fs->egress->counts.flows++;
	timer_in(&f->late, FLOW_HELLO_MS);
	return 0;
}

/* What is left of all is the most that one may have: one that takes what it gets leaves half, two of them a third, and so on. */
static bool has_room(const struct flows *fs, const struct sandbox *s)
{
	return fs->n < fs->max && s->n_flows < MIN((size_t)FLOWS_MAX, fs->max - fs->n);
}

static void on_accepted(int *fd, const struct sockaddr_in *from, void *arg)
{
	struct flows *fs = arg;
	int (*original)(int, struct sockaddr_in *) = fs->egress->options.original ? fs->egress->options.original : original_of;
	struct sandbox *s = sandbox_by_address(fs->egress, from->sin_addr.s_addr);
	struct sockaddr_in to = { 0 };
	struct err e = { 0 };

	if (!s || original(*fd, &to) < 0 || to.sin_family != AF_INET ||
	    (ntohs(to.sin_port) != PORT_HTTP && ntohs(to.sin_port) != PORT_TLS)) {
		fs->egress->counts.strangers++;
		reset_on_close(*fd);
		return;
	}
	if (!has_room(fs, s)) {
		s->counts.flows_denied++;
		reset_on_close(*fd);
		return;
	}
	if (flow_new(fs, s, fd, &to, &e) < 0)
		log_warn("a flow is refused", LOG_S("sandbox_id", s->id), LOG_ERR(&e));
}

/* ---- life ---- */

struct flows *flows_new(struct egress *g, struct err *e)
{
	struct flows *f = calloc(1, sizeof(*f));
	uint64_t fds = fd_limit();

	if (!f) {
		(void)err_no_memory(e);
		return NULL;
	}
	f->egress = g;
	f->max = (size_t)MIN((uint64_t)FLOWS_ALL_MAX, fds > 2 * FDS_SPARE ? (fds - FDS_SPARE) / FLOW_FDS : FDS_SPARE / FLOW_FDS);
	if (listener_init(&f->listener, g->loop, on_accepted, f, "flows", e) < 0) {
		free(f);
		return NULL;
	}
	return f;
}

void flows_free(struct flows *f)
{
	if (!f)
		return;
	listener_done(&f->listener);
	free(f);
}

int flows_listen(struct flows *f, int *fd, struct err *e)
{
	return listener_take(&f->listener, fd, e);
}

size_t flows_now(const struct flows *f)
{
	return f->n;
}

void flows_review(struct sandbox *s)
{
	struct flow *next;

	for (struct flow *f = s->flows; f; f = next) {
		const char *why = NULL;

		next = f->next;
		if (!f->first[0] || sandbox_may_reach(s, f->name, f->to.sin_addr.s_addr, ntohs(f->to.sin_port), &why))
			continue;
		s->counts.flows_cut++;
		s->egress->counts.flows_cut++;
		note(f, false, why);
		flow_reset(f);
	}
}

void flows_drop(struct sandbox *s)
{
	while (s->flows)
		flow_reset(s->flows);
}
