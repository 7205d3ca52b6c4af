// SPDX-License-Identifier: Apache-2.0
#include "ingress/doorway.h"

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
#define IDLE_MS 4000     /* less than what servers commonly keep theirs for */
#define PROBATION_MS 200 /* what a server needs to close one that it did not mean to keep */
#define CONNECT_MS 10000
#define SEND_MS 180000
#define HEAD_MS 180000
#define BODY_MS 3600000

/* One port of a sandbox, and the connections there. */
struct lane {
	struct doorway *doorway;
	char key[ID_MAX + 8]; /* "ID:PORT" */
	char id[ID_MAX + 1];
	unsigned port, n; /* requests on their way */
	uint64_t left_ms, told_ms;
	struct http_client *client;
};

/* A connection that is waited for. */
struct knock {
	struct knock *prev, *next;
	struct doorway *doorway;
	struct http_dial *d; /* NULL: nobody wants it any more */
	uint64_t serial;     /* 0: not asked for yet */
	char id[ID_MAX + 1];
	unsigned port;
};

struct doorway {
	struct loop *loop;
	const char *path, *key;
	int fd; /* -1: closed */
	bool is_open; /* it has said so */
	struct io io;
	struct timer again, sweep;
	uint64_t serial;
	struct knock *first, *last;
	unsigned asked;
	struct map lanes;
};

/* ---- waiting ---- */

static void knock_free(struct knock *k)
{
	struct doorway *d = k->doorway;

	*(k->prev ? &k->prev->next : &d->first) = k->next;
	*(k->next ? &k->next->prev : &d->last) = k->prev;
	d->asked -= k->serial != 0;
	free(k);
}

static void knock_end(struct knock *k, struct transport *t, const struct err *e)
{
	struct http_dial *dial = k->d;

	knock_free(k);
	if (dial)
		http_dial_done(dial, t, e);
	else
		transport_close(t);
}

static void close_door(struct doorway *d, const char *why)
{
	struct err e = { 0 };

	if (d->is_open)
		log_warn("the door of a server has closed, its sandboxes are reached through its proxy", LOG_S("path", d->path), LOG_S("why", why));
	io_del(&d->io);
	closep(&d->fd);
	d->fd = -1;
	d->is_open = false;
	(void)err_set(&e, ERR_UNAVAILABLE, "the server's door has closed");
	while (d->first)
		knock_end(d->first, NULL, &e);
	timer_in(&d->again, AGAIN_MS);
}

/* ---- asking ---- */

/* 1, 0: no room, -1. */
static int ask(struct doorway *d, enum door_kind kind, uint64_t serial, const char *text, unsigned port, struct err *e)
{
	struct door_ask a = { .version = DOOR_VERSION, .kind = kind, .serial = serial, .port = port };

	(void)snprintf(a.text, sizeof(a.text), "%s", text);
	return passing_send(d->fd, &a, door_ask_size(&a), NULL, 0, e);
}

/* Those that wait, in turn, as many as the door answers at once. */
static void ask_next(struct doorway *d)
{
	struct err e = { 0 };

	for (struct knock *k = d->first; k && d->asked < DOOR_DIALS_MAX; k = k->next) {
		if (k->serial)
			continue;
		if (ask(d, DOOR_DIAL, d->serial + 1, k->id, k->port, &e) != 1) {
			close_door(d, e.msg);
			return;
		}
		k->serial = ++d->serial;
		d->asked++;
	}
}

static struct knock *knock_of(struct doorway *d, uint64_t serial)
{
	struct knock *k = d->first;

	while (k && k->serial != serial)
		k = k->next;
	return k;
}

static void on_answer(struct doorway *d, const struct door_answer *a, struct passed *got)
{
	struct knock *k = a->serial ? knock_of(d, a->serial) : NULL;
	struct transport *t = NULL;
	struct err e = { 0 };

	if (!d->is_open) {
		d->is_open = true;
		log_info("a server's door is open", LOG_S("path", d->path));
		return;
	}
	if (!k)
		return;
	if (a->status == DOOR_OPEN && got->n_fds == 1) {
		t = transport_plain(got->fds[0], &e);
		if (t)
			(void)take_fd(&got->fds[0]);
	} else {
		(void)err_set(&e, ERR_UNAVAILABLE, a->status == DOOR_NOWHERE ? "the sandbox is not running" : "nothing listens there");
	}
	knock_end(k, t, t ? NULL : &e);
}

static void on_door(unsigned ready, void *arg)
{
	struct doorway *d = arg;

	(void)ready;
	while (d->fd >= 0) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct door_answer a = { 0 };
		struct err e = { 0 };
		int rc = passing_recv(d->fd, &a, sizeof(a), 1, &got, &e);

		if (rc == PASSING_NONE)
			break;
		if (rc != PASSING_MESSAGE || got.n != sizeof(a)) {
			close_door(d, rc < 0 ? e.msg : "the server has closed it");
			return;
		}
		on_answer(d, &a, &got);
	}
	if (d->is_open)
		ask_next(d);
}

static void knock_at(void *arg)
{
	struct doorway *d = arg;
	struct err e = { 0 };

	d->fd = passing_connect(d->path, &e);
	if (d->fd < 0 || io_add(&d->io, d->loop, d->fd, IO_IN, on_door, d, "door", &e) < 0 ||
	    ask(d, DOOR_HELLO, 0, d->key, 0, &e) != 1) {
		log_debug("no way to a server's door", LOG_S("path", d->path), LOG_ERR(&e));
		close_door(d, e.msg);
	}
}

/* ---- dialling ---- */

static int dial_begin(struct http_dial *dial, void *arg, struct err *e)
{
	struct lane *l = arg;
	struct doorway *d = l->doorway;
	struct knock *k;

	if (!d->is_open)
		return err_set(e, ERR_UNAVAILABLE, "the server's door is closed");
	k = calloc(1, sizeof(*k));
	if (!k)
		return err_no_memory(e);
	*k = (struct knock){ .doorway = d, .d = dial, .port = l->port, .prev = d->last };
	memcpy(k->id, l->id, sizeof(k->id));
	*(d->last ? &d->last->next : &d->first) = k;
	d->last = k;
	dial->user = k;
	ask_next(d); /* what it fails, it fails by http_dial_done() */
	return 0;
}

static void dial_cancel_later(struct http_dial *dial, void *arg)
{
	struct knock *k = dial->user;

	(void)arg;
	k->d = NULL;
	if (!k->serial)
		knock_free(k);
}

/* ---- lanes ---- */

static void lane_free(struct lane *l)
{
	(void)map_del(&l->doorway->lanes, str_of(l->key));
	http_client_free(l->client);
	free(l);
}

static struct lane *lane_new(struct doorway *d, const char *key, const char *id, unsigned port)
{
	static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_cancel_later };
	struct lane *l = d->lanes.n < DOORWAY_LANES_MAX ? calloc(1, sizeof(*l)) : NULL;
	struct http_client_options o = {
		.dialer = &dialer, .dialer_arg = l, .max_idle = IDLE_MAX, .idle_ms = IDLE_MS, .probation_ms = PROBATION_MS,
		.deadlines = { .connect_ms = CONNECT_MS, .send_ms = SEND_MS, .head_ms = HEAD_MS, .body_ms = BODY_MS },
	};

	if (!l)
		return NULL;
	*l = (struct lane){ .doorway = d, .port = port };
	(void)snprintf(l->key, sizeof(l->key), "%s", key);
	(void)snprintf(l->id, sizeof(l->id), "%s", id);
	l->client = http_client_new(d->loop, &o, &(struct err){ 0 });
	if (l->client && map_put(&d->lanes, str_of(l->key), l))
		return l;
	http_client_free(l->client);
	free(l);
	return NULL;
}

struct lane *doorway_enter(struct doorway *d, const char *id, unsigned port)
{
	char key[ID_MAX + 8];
	struct lane *l;

	if (!d->is_open)
		return NULL;
	(void)snprintf(key, sizeof(key), "%s:%u", id, port);
	l = map_get(&d->lanes, str_of(key));
	if (!l)
		l = lane_new(d, key, id, port);
	if (!l)
		return NULL;
	l->n++;
	lane_used(l);
	return l;
}

struct http_client *lane_client(struct lane *l)
{
	return l->client;
}

void lane_used(struct lane *l)
{
	struct doorway *d = l->doorway;
	uint64_t now = loop_now_ms(d->loop);

	if (!d->is_open || (l->told_ms && now < l->told_ms + TELL_MS))
		return;
	l->told_ms = now;
	(void)ask(d, DOOR_USED, 0, l->id, 0, &(struct err){ 0 }); /* the next time tells it, too */
}

void lane_leave(struct lane *l)
{
	l->n--;
	l->left_ms = loop_now_ms(l->doorway->loop);
}

static void on_sweep(void *arg)
{
	struct doorway *d = arg;
	uint64_t now = loop_now_ms(d->loop);
	struct lane *old[64];
	size_t n = 0;
	struct lane *l;

	for (size_t i = 0; n < ARRAY_LEN(old) && (l = map_next(&d->lanes, &i, NULL));)
		if (l->n == 0 && now >= l->left_ms + SWEEP_MS && http_client_idle(l->client) == 0)
			old[n++] = l;
	for (size_t i = 0; i < n; i++)
		lane_free(old[i]);
	timer_in(&d->sweep, n == ARRAY_LEN(old) ? 1 : SWEEP_MS);
}

/* ---- life ---- */

struct doorway *doorway_new(struct loop *l, const char *path, const char *key, struct err *e)
{
	AUTO(doorway_free) struct doorway *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	*d = (struct doorway){ .loop = l, .path = path, .key = key, .fd = -1, .lanes = MAP_INIT };
	if (timer_init(&d->again, l, knock_at, d, "door", e) < 0 || timer_init(&d->sweep, l, on_sweep, d, "lanes", e) < 0)
		return NULL;
	timer_in(&d->sweep, SWEEP_MS);
	timer_in(&d->again, 0);
	return take_ptr(&d);
}

void doorway_free(struct doorway *d)
{
	struct lane *l;

	if (!d)
		return;
	for (size_t i = 0; (l = map_next(&d->lanes, &i, NULL)); i = 0)
		lane_free(l);
	map_done(&d->lanes);
	while (d->first)
		knock_free(d->first);
	io_del(&d->io);
	closep(&d->fd);
	timer_done(&d->again);
	timer_done(&d->sweep);
	free(d);
}
