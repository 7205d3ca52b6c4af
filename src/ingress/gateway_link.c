// SPDX-License-Identifier: Apache-2.0
#include "ingress/gateway_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/gateway_socket.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "net/http/client.h"
#include "net/loop.h"
#include "net/transport.h"
#include "sys/passing.h"

#include "base/banned.h"

#define AGAIN_MS 1000
#define SWEEP_MS 5000
#define TELL_MS 1000
#define IDLE_MAX 64
#define IDLE_MS 4000     /* shorter than the keep-alive time of common servers */
#define PROBATION_MS 200 /* time for a server to close a connection that it does not keep alive */
#define CONNECT_MS 10000
#define SEND_MS 180000
#define HEAD_MS 180000
#define BODY_MS 3600000

/* One port of a sandbox, with its pool of connections. */
struct sandbox_port {
	struct gateway_link *link;
	char key[ID_MAX + 8]; /* "ID:PORT" */
	char id[ID_MAX + 1];
	unsigned port, n; /* requests in progress */
	uint64_t left_ms, told_ms;
	struct http_client *client;
};

/* A connection that a request waits for. */
struct dial {
	struct dial *prev, *next;
	struct gateway_link *link;
	struct http_dial *dial; /* NULL: cancelled */
	uint64_t serial;     /* 0: not sent yet */
	char id[ID_MAX + 1];
	unsigned port;
};

struct gateway_link {
	struct loop *loop;
	const char *path, *key;
	int fd; /* -1: closed */
	bool is_open; /* the server has accepted our key */
	struct io io;
	struct timer again, sweep;
	uint64_t serial;
	struct dial *first, *last;
	unsigned asked;
	struct map ports;
};

/* ---- open requests ---- */

static void dial_free(struct dial *dl)
{
	struct gateway_link *g = dl->link;

	*(dl->prev ? &dl->prev->next : &g->first) = dl->next;
	*(dl->next ? &dl->next->prev : &g->last) = dl->prev;
	g->asked -= dl->serial != 0;
	free(dl);
}

static void dial_end(struct dial *dl, struct transport *t, const struct err *e)
{
	struct http_dial *dial = dl->dial;

	dial_free(dl);
	if (dial)
		http_dial_done(dial, t, e);
	else
		transport_close(t);
}

static void link_close(struct gateway_link *g, const char *why)
{
	struct err e = { 0 };

	if (g->is_open)
		log_warn("gateway socket closed, using the proxy of the server", LOG_S("path", g->path),
			 LOG_S("why", why));
	io_del(&g->io);
	closep(&g->fd);
	g->fd = -1;
	g->is_open = false;
	(void)err_set(&e, ERR_UNAVAILABLE, "the gateway socket has closed");
	while (g->first)
		dial_end(g->first, NULL, &e);
	timer_in(&g->again, AGAIN_MS);
}

/* ---- requests ---- */

/* 1 sent, 0 the socket is full, -1. */
static int send_request(struct gateway_link *g, enum gateway_request_kind kind, uint64_t serial,
			const char *text,
			unsigned port, struct err *e)
{
	struct gateway_request a = { .version = GATEWAY_VERSION, .kind = kind, .serial = serial,
				     .port = port };

	(void)snprintf(a.text, sizeof(a.text), "%s", text);
	return passing_send(g->fd, &a, gateway_request_size(&a), NULL, 0, e);
}

/* Sends waiting dials in order, up to the limit of open requests. */
static void send_next(struct gateway_link *g)
{
	struct err e = { 0 };

	for (struct dial *dl = g->first; dl && g->asked < GATEWAY_DIALS_MAX; dl = dl->next) {
		if (dl->serial)
			continue;
		if (send_request(g, GATEWAY_DIAL, g->serial + 1, dl->id, dl->port, &e) != 1) {
			link_close(g, e.msg);
			return;
		}
		dl->serial = ++g->serial;
		g->asked++;
	}
}

static struct dial *dial_find(struct gateway_link *g, uint64_t serial)
{
	struct dial *dl = g->first;

	while (dl && dl->serial != serial)
		dl = dl->next;
	return dl;
}

static void handle_reply(struct gateway_link *g, const struct gateway_reply *a, struct passed *got)
{
	struct dial *dl = a->serial ? dial_find(g, a->serial) : NULL;
	struct transport *t = NULL;
	struct err e = { 0 };

	if (!g->is_open) {
		g->is_open = true;
		log_info("gateway socket connected", LOG_S("path", g->path));
		return;
	}
	if (!dl)
		return;
	if (a->status == GATEWAY_OK && got->n_fds == 1) {
		t = transport_plain(got->fds[0], &e);
		if (t)
			(void)take_fd(&got->fds[0]);
	} else {
		(void)err_set(&e, ERR_UNAVAILABLE,
			      a->status == GATEWAY_NO_SANDBOX ?
				      "the sandbox is not running" : "nothing listens there");
	}
	dial_end(dl, t, t ? NULL : &e);
}

static void on_reply(unsigned ready, void *arg)
{
	struct gateway_link *g = arg;

	(void)ready;
	while (g->fd >= 0) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct gateway_reply a = { 0 };
		struct err e = { 0 };
		int rc = passing_recv(g->fd, &a, sizeof(a), 1, &got, &e);

		if (rc == PASSING_NONE)
			break;
		if (rc != PASSING_MESSAGE || got.n != sizeof(a)) {
			link_close(g, rc < 0 ? e.msg : "closed by the server");
			return;
		}
		handle_reply(g, &a, &got);
	}
	if (g->is_open)
		send_next(g);
}

static void link_connect(void *arg)
{
	struct gateway_link *g = arg;
	struct err e = { 0 };

	g->fd = passing_connect(g->path, &e);
	if (g->fd < 0 || io_add(&g->io, g->loop, g->fd, IO_IN, on_reply, g, "gateway socket", &e) < 0 ||
	    send_request(g, GATEWAY_HELLO, 0, g->key, 0, &e) != 1) {
		log_debug("cannot connect to a gateway socket", LOG_S("path", g->path), LOG_ERR(&e));
		link_close(g, e.msg);
	}
}

/* ---- dialling ---- */

static int dial_begin(struct http_dial *dial, void *arg, struct err *e)
{
	struct sandbox_port *l = arg;
	struct gateway_link *g = l->link;
	struct dial *dl;

	if (!g->is_open)
		return err_set(e, ERR_UNAVAILABLE, "the gateway socket is closed");
	dl = calloc(1, sizeof(*dl));
	if (!dl)
		return err_no_memory(e);
	*dl = (struct dial){ .link = g, .dial = dial, .port = l->port, .prev = g->last };
	memcpy(dl->id, l->id, sizeof(dl->id));
	*(g->last ? &g->last->next : &g->first) = dl;
	g->last = dl;
	dial->user = dl;
	send_next(g); /* failures are reported by http_dial_done() */
	return 0;
}

static void dial_cancel_later(struct http_dial *dial, void *arg)
{
	struct dial *dl = dial->user;

	(void)arg;
	dl->dial = NULL;
	if (!dl->serial)
		dial_free(dl);
}

/* ---- ports ---- */

static void port_free(struct sandbox_port *l)
{
	(void)map_del(&l->link->ports, str_of(l->key));
	http_client_free(l->client);
	free(l);
}

static struct sandbox_port *port_new(struct gateway_link *g, const char *key, const char *id, unsigned port)
{
	static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_cancel_later };
	struct sandbox_port *l = g->ports.n < GATEWAY_LINK_PORTS_MAX ? calloc(1, sizeof(*l)) : NULL;
	struct http_client_options o = {
		.dialer = &dialer, .dialer_arg = l, .max_idle = IDLE_MAX, .idle_ms = IDLE_MS,
			.probation_ms = PROBATION_MS,
		.deadlines = { .connect_ms = CONNECT_MS, .send_ms = SEND_MS, .head_ms = HEAD_MS,
			       .body_ms = BODY_MS },
	};

	if (!l)
		return NULL;
	*l = (struct sandbox_port){ .link = g, .port = port };
	(void)snprintf(l->key, sizeof(l->key), "%s", key);
	(void)snprintf(l->id, sizeof(l->id), "%s", id);
	l->client = http_client_new(g->loop, &o, &(struct err){ 0 });
	if (l->client && map_put(&g->ports, str_of(l->key), l))
		return l;
	http_client_free(l->client);
	free(l);
	return NULL;
}

struct sandbox_port *gateway_link_port(struct gateway_link *g, const char *id, unsigned port)
{
	char key[ID_MAX + 8];
	struct sandbox_port *l;

	if (!g->is_open)
		return NULL;
	(void)snprintf(key, sizeof(key), "%s:%u", id, port);
	l = map_get(&g->ports, str_of(key));
	if (!l)
		l = port_new(g, key, id, port);
	if (!l)
		return NULL;
	l->n++;
	sandbox_port_used(l);
	return l;
}

struct http_client *sandbox_port_client(struct sandbox_port *l)
{
	return l->client;
}

void sandbox_port_used(struct sandbox_port *l)
{
	struct gateway_link *g = l->link;
	uint64_t now = loop_now_ms(g->loop);

	if (!g->is_open || (l->told_ms && now < l->told_ms + TELL_MS))
		return;
	l->told_ms = now;
	/* lost: the next use sends another */
	(void)send_request(g, GATEWAY_USED, 0, l->id, 0, &(struct err){ 0 });
}

void sandbox_port_release(struct sandbox_port *l)
{
	l->n--;
	l->left_ms = loop_now_ms(l->link->loop);
}

static void on_sweep(void *arg)
{
	struct gateway_link *g = arg;
	uint64_t now = loop_now_ms(g->loop);
	struct sandbox_port *old[64];
	size_t n = 0;
	struct sandbox_port *l;

	for (size_t i = 0; n < ARRAY_LEN(old) && (l = map_next(&g->ports, &i, NULL));)
		if (l->n == 0 && now >= l->left_ms + SWEEP_MS && http_client_idle(l->client) == 0)
			old[n++] = l;
	for (size_t i = 0; i < n; i++)
		port_free(old[i]);
	timer_in(&g->sweep, n == ARRAY_LEN(old) ? 1 : SWEEP_MS);
}

/* ---- life ---- */

struct gateway_link *gateway_link_new(struct loop *l, const char *path, const char *key, struct err *e)
{
	AUTO(gateway_link_free) struct gateway_link *g = calloc(1, sizeof(*g));

	if (!g) {
		(void)err_no_memory(e);
		return NULL;
	}
	*g = (struct gateway_link){ .loop = l, .path = path, .key = key, .fd = -1, .ports = MAP_INIT };
	if (timer_init(&g->again, l, link_connect, g, "gateway socket", e) < 0 ||
	    timer_init(&g->sweep, l, on_sweep, g, "ports", e) < 0)
		return NULL;
	timer_in(&g->sweep, SWEEP_MS);
	timer_in(&g->again, 0);
	return take_ptr(&g);
}

void gateway_link_free(struct gateway_link *g)
{
	struct sandbox_port *l;

	if (!g)
		return;
	for (size_t i = 0; (l = map_next(&g->ports, &i, NULL)); i = 0)
		port_free(l);
	map_done(&g->ports);
	while (g->first)
		dial_free(g->first);
	io_del(&g->io);
	closep(&g->fd);
	timer_done(&g->again);
	timer_done(&g->sweep);
	free(g);
}
