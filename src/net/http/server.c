// SPDX-License-Identifier: Apache-2.0
/* Listening, counting and draining; the connections themselves are in conn.c. */
#include "net/http/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/err.h"
#include "base/http_date.h"
#include "net/http/server_impl.h"

#include "base/banned.h"

#define ACCEPT_BURST 64 /* connections taken in one turn */
#define ACCEPT_REST_MS 100

static void on_drain_deadline(void *arg);
static void forget_seats(struct http_server *s);

/* Nothing that has a name: in a sandbox names are not ours, and opening one could take for ever. */
static int open_spare(void)
{
	return eventfd(0, EFD_CLOEXEC);
}

struct http_server *http_server_new(struct loop *l, const struct http_service *service, const struct http_limits *limits,
				    struct err *e)
{
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->loop = l;
	s->service = service;
	s->limits = *limits;
	s->date_s = -1;
	s->spare_fd = open_spare();
	if (timer_init(&s->drain_timer, l, on_drain_deadline, s, "http drain", e) < 0) {
		http_server_free(s);
		return NULL;
	}
	return s;
}

static void listener_free(struct listener *l)
{
	io_del(&l->io);
	timer_done(&l->again);
	(void)close(l->fd);
	free(l);
}

static void stop_listening(struct http_server *s)
{
	while (s->listeners) {
		struct listener *l = s->listeners;

		s->listeners = l->next;
		listener_free(l);
	}
}

static void kill_all(struct http_server *s)
{
	while (s->conns)
		conn_kill(s->conns);
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	stop_listening(s);
	s->is_draining = false;
	kill_all(s);
	forget_seats(s);
	exchange_spares_free(s);
	map_done(&s->addresses);
	timer_done(&s->drain_timer);
	defer_cancel(&s->drained);
	closep(&s->spare_fd);
	free(s);
}

struct http_counts http_server_counts(const struct http_server *s)
{
	return s->counts;
}

const char *server_date(struct http_server *s)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (now.tv_sec != s->date_s) {
		s->date_s = now.tv_sec;
		http_date_format(now.tv_sec, s->date);
	}
	return s->date;
}

/* ---- counting by address ---- */

/* IPv4 by address, IPv6 by the /64 that a peer can move in at will. False for unix sockets. */
static bool address_key(const struct sockaddr_storage *peer, unsigned char key[16])
{
	const struct in6_addr *v6;

	memset(key, 0, 16);
	if (peer->ss_family == AF_INET) {
		memcpy(key + 8, &((const struct sockaddr_in *)peer)->sin_addr, 4);
		return true;
	}
	if (peer->ss_family != AF_INET6)
		return false;
	v6 = &((const struct sockaddr_in6 *)peer)->sin6_addr;
	if (IN6_IS_ADDR_V4MAPPED(v6)) /* an IPv4 peer of a listener for both */
		memcpy(key + 8, v6->s6_addr + 12, 4);
	else
		memcpy(key, v6, 8);
	return true;
}

static struct str address_str(const unsigned char key[16])
{
	return (struct str){ (const char *)key, 16 };
}

static struct address *address_get(struct http_server *s, const unsigned char key[16])
{
	struct address *a = map_get(&s->addresses, address_str(key));

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	memcpy(a->key, key, sizeof(a->key));
	if (!map_put(&s->addresses, address_str(a->key), a)) {
		free(a);
		return NULL;
	}
	return a;
}

static void address_release(struct http_server *s, struct address *a)
{
	if (a->connections > 0)
		return;
	(void)map_del(&s->addresses, address_str(a->key));
	free(a);
}

static void seat_leave(struct http_server *s, struct seat *seat)
{
	*(seat->prev ? &seat->prev->next : &s->seats) = seat->next;
	if (seat->next)
		seat->next->prev = seat->prev;
	s->counts.connections--;
	if (seat->is_stream)
		s->counts.streams--;
	if (seat->address) {
		seat->address->connections--;
		address_release(s, seat->address);
	}
	seat->s = NULL;
}

static void server_drained(struct http_server *s);

static void seat_free(void *arg)
{
	struct seat *seat = arg;
	struct http_server *s = seat->s;

	if (s)
		seat_leave(s, seat);
	free(seat);
	if (s && s->is_draining && !s->seats)
		server_drained(s);
}

static void forget_seats(struct http_server *s)
{
	while (s->seats)
		seat_leave(s, s->seats);
}

/* NULL when the address has too many connections, or no memory is left. */
static struct seat *seat_new(struct http_server *s, const struct sockaddr_storage *peer)
{
	struct seat *seat = calloc(1, sizeof(*seat));
	unsigned char key[16];

	if (!seat)
		return NULL;
	seat->s = s;
	if (address_key(peer, key)) {
		seat->address = address_get(s, key);
		if (!seat->address || seat->address->connections >= s->limits.per_address) {
			free(seat);
			return NULL;
		}
		seat->address->connections++;
	}
	s->counts.connections++;
	seat->next = s->seats;
	if (seat->next)
		seat->next->prev = seat;
	s->seats = seat;
	return seat;
}

/* ---- accepting ---- */

/* One try, whatever comes of it: this peer gets no more of our time. */
static void refuse_connection(struct http_server *s, int fd)
{
	static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
				     "Content-Length: 66\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
				     "{\"code\":\"UNAVAILABLE\",\"message\":\"too many connections, try later\"}";
	char unread[4096];

	s->counts.refused++;
	(void)send(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	(void)recv(fd, unread, sizeof(unread), MSG_DONTWAIT); /* or the close would destroy the answer on its way */
	(void)close(fd);
}

static void welcome(struct listener *l, int fd, const struct sockaddr_storage *peer)
{
	struct http_server *s = l->s;
	struct err e = { 0 };
	struct seat *seat;
	struct transport *t;
	int on = 1;

	if (s->counts.connections >= s->limits.connections) {
		refuse_connection(s, fd);
		return;
	}
	seat = seat_new(s, peer);
	if (seat && peer->ss_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	t = !seat ? NULL : l->maker.make ? l->maker.make(l->maker.ctx, fd, &e) : transport_plain(fd, &e);
	if (!t) {
		s->counts.refused++;
		(void)close(fd);
		if (seat)
			seat_free(seat);
		return;
	}
	t->on_close = seat_free;
	t->on_close_arg = seat;
	seat->fd = t->fd;
	s->counts.accepted++;
	if (!conn_new(s, t, seat, peer, &e))
		transport_close(t);
}

/* Out of descriptors, an unaccepted connection would keep the listener ready for ever: take and drop it. */
static bool drop_one(struct http_server *s, int listener)
{
	int fd;

	closep(&s->spare_fd);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	closep(&fd);
	s->counts.refused += fd >= 0;
	s->spare_fd = open_spare();
	return fd >= 0;
}

/* Whatever it is that fails, trying again at once would only burn the CPU. */
static void rest(struct listener *l)
{
	io_want(&l->io, 0);
	timer_in(&l->again, ACCEPT_REST_MS);
}

static void on_rested(void *arg)
{
	struct listener *l = arg;

	io_want(&l->io, IO_IN);
}

static void on_accept(unsigned ready, void *arg)
{
	struct listener *l = arg;

	(void)ready;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		struct sockaddr_storage peer = { 0 };
		socklen_t len = sizeof(peer);
		int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome(l, fd, &peer);
		} else if (errno != ECONNABORTED && errno != EINTR) {
			bool is_full = errno == EMFILE || errno == ENFILE;

			if (errno != EAGAIN && !(is_full && drop_one(l->s, l->fd)))
				rest(l);
			return;
		}
	}
}

int http_server_listen(struct http_server *s, int *fd, const struct transport_maker *maker, struct err *e)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return err_no_memory(e);
	l->s = s;
	if (maker)
		l->maker = *maker;
	if (timer_init(&l->again, s->loop, on_rested, l, "http listener", e) < 0 ||
	    io_add(&l->io, s->loop, *fd, IO_IN, on_accept, l, "http listener", e) < 0) {
		timer_done(&l->again);
		free(l);
		return -1;
	}
	l->fd = take_fd(fd);
	l->next = s->listeners;
	s->listeners = l;
	return 0;
}

/* ---- draining ---- */

static void call_drained(void *arg)
{
	struct http_server *s = arg;

	timer_cancel(&s->drain_timer);
	s->is_draining = false;
	s->on_drained(s->on_drained_arg);
}

static void server_drained(struct http_server *s)
{
	defer(&s->drained, s->loop, call_drained, s, "http drained");
}

static void on_drain_deadline(void *arg)
{
	struct http_server *s = arg;

	kill_all(s);
	for (struct seat *seat = s->seats; seat; seat = seat->next)
		(void)shutdown(seat->fd, SHUT_RDWR); /* for its owner to see */
	server_drained(s);
}

void http_server_drain(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg), void *arg)
{
	struct conn *next;

	s->is_draining = true;
	s->on_drained = done;
	s->on_drained_arg = arg;
	stop_listening(s);
	timer_in(&s->drain_timer, deadline_ms);
	for (struct conn *c = s->conns; c; c = next) {
		next = c->next;
		if (!c->x && c->in.n == 0)
			conn_kill(c);
	}
	if (!s->seats)
		server_drained(s);
}
