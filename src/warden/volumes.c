// SPDX-License-Identifier: Apache-2.0
#include "warden/volumes.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/volume.h"
#include "sys/passing.h"
#include "sys/userns.h"
#include "warden/box.h"
#include "warden/peer.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include "base/banned.h"

_Static_assert(SLOT_VOLUMES_MAX == WIRE_VOLUMES_MAX && SLOT_MOUNT_PATH_MAX + 1 == WIRE_PATH_SIZE, "what is asked for fits");
_Static_assert(VOLUME_ID_BASE >= SLOT_ID_BASE + (UINT64_C(1) * SLOT_NUMBER_MAX + IMAGES_MAX) * USERNS_IDS &&
		       VOLUME_ID_BASE <= USERNS_BASE_MAX,
	       "the ids of volumes are nobody else's");
_Static_assert(SLOT_VOLUMES_MAX <= PASSING_FDS_MAX, "the mounts come in one message");

#define WORKERS_MAX 8
#define CALLS_MAX 1024 /* in progress */

struct volume_call {
	struct volume_call *next;
	struct warden *w;
	struct wire_request rq;
	struct ticket ticket;
	struct worker worker;
};

struct volumes {
	struct volumes_spec spec;
	struct workers pool;
	struct worker sweeper;
	struct volume_call *calls;
	size_t n_calls;
};

/* ---- named ones ---- */

static int call_work(void *arg, struct err *e)
{
	const struct volume_call *c = arg;
	const struct box_store *s = &c->w->host.store;

	if (c->rq.call == WIRE_VOLUME_MAKE)
		return volume_make(s, c->rq.id, c->rq.limits.disk_bytes, e);
	return volume_remove(s, c->rq.id, e);
}

static void call_free(struct volume_call *c)
{
	struct volume_call **at = &c->w->volumes->calls;

	for (; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	c->w->volumes->n_calls--;
	free(c);
}

static void on_called(const struct err *failure, void *arg)
{
	struct volume_call *c = arg;
	struct warden *w = c->w;
	struct ticket t = c->ticket;

	if (failure)
		log_warn("a volume cannot be made or removed", LOG_S("id", c->rq.id), LOG_ERR(failure));
	call_free(c);
	answer(w, &t, failure);
}

void volume_call(struct warden *w, const struct wire_request *rq, const struct ticket *t)
{
	struct volumes *all = w->volumes;
	struct volume_call *c = NULL;
	struct err e;

	if (w->is_stopping)
		(void)err_set(&e, ERR_UNAVAILABLE, "stopping");
	else if (all->n_calls >= CALLS_MAX)
		(void)err_set(&e, ERR_LIMIT, "more than %d volumes are being made or removed", CALLS_MAX);
	else if (!(c = calloc(1, sizeof(*c))))
		(void)err_no_memory(&e);
	if (!c) {
		answer(w, t, &e);
		return;
	}
	*c = (struct volume_call){ .next = all->calls, .w = w, .rq = *rq, .ticket = *t, .worker = WORKER_INIT };
	all->calls = c;
	all->n_calls++;
	worker_start(&c->worker, &all->pool, call_work, on_called, c, -1);
}

/* ---- of one box ---- */

int box_volumes_keep(struct box *b, const struct wire_volumes *volumes, struct err *e)
{
	if (volumes->n == 0)
		return 0;
	for (size_t i = 0; i < volumes->n; i++)
		if (volumes->at[i].kind == WIRE_VOLUME_HOST && volumes->at[i].prefix >= b->w->volumes->spec.n)
			return err_set(e, ERR_INVALID, "a volume in a folder that nobody has listed");
	b->volumes = calloc(1, sizeof(*b->volumes));
	if (!b->volumes)
		return err_no_memory(e);
	b->volumes->asked = *volumes;
	b->volumes->socket = b->volumes->theirs = -1;
	return 0;
}

/* In the worker: the mounts go back in one message, in their order. */
static int open_work(void *arg, struct err *e)
{
	const struct box *b = arg;
	const struct volumes *all = b->w->volumes;
	const struct wire_volumes *asked = &b->volumes->asked;
	int mounts[SLOT_VOLUMES_MAX];

	for (size_t i = 0; i < asked->n; i++) {
		const struct volume_spec spec = {
			.volume = &asked->at[i], .prefix = asked->at[i].kind == WIRE_VOLUME_HOST ?
				all->spec.prefixes[asked->at[i].prefix] : NULL,
			.store = &b->w->host.store, .state_dir = all->spec.state_dir, .id_base = b->slot.id_base,
		};

		mounts[i] = volume_open(&spec, e);
		if (mounts[i] < 0)
			return -1;
	}
	if (passing_send(b->volumes->theirs, "v", 1, mounts, asked->n, e) != 1)
		return err_wrap(e, "hand over volumes");
	return 0;
}

int box_volumes_open(struct box *b, void (*fn)(const struct err *failure, void *arg), struct err *e)
{
	int pair[2];

	if (passing_pair(pair, e) < 0)
		return -1;
	b->volumes->socket = pair[0];
	b->volumes->theirs = pair[1];
	timer_in(&b->timer, VOLUMES_OPEN_MS);
	worker_start(&b->worker, &b->w->volumes->pool, open_work, fn, b, -1);
	return 0;
}

int box_volumes_take(struct box *b, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct box_volumes *v = b->volumes;
	char byte;

	if (passing_recv(v->socket, &byte, 1, SLOT_VOLUMES_MAX, &got, e) != PASSING_MESSAGE || got.n_fds != v->asked.n)
		return err_set(e, ERR_INTERNAL, "volumes were opened and did not come");
	for (size_t i = 0; i < v->asked.n; i++)
		v->list[i] = (struct slot_volume){ take_fd(&got.fds[i]), v->asked.at[i].mount_path };
	v->is_open = true;
	return 0;
}

void box_volumes_free(struct box *b)
{
	struct box_volumes *v = take_ptr(&b->volumes);

	if (!v)
		return;
	for (size_t i = 0; v->is_open && i < v->asked.n; i++)
		closep(&v->list[i].mount);
	closep(&v->socket);
	closep(&v->theirs);
	free(v);
}

/* ---- all of them ---- */

static int sweep_work(void *arg, struct err *e)
{
	const struct warden *w = arg;

	return volumes_sweep(&w->host.store, e);
}

static void on_swept(const struct err *failure, void *arg)
{
	(void)arg;
	if (failure)
		log_warn("what is left of volumes cannot be removed, ignoring", LOG_ERR(failure));
}

int volumes_open(struct warden *w, const struct volumes_spec *spec, struct err *e)
{
	if (spec->n > VOLUME_PREFIXES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d folders for volumes", VOLUME_PREFIXES_MAX);
	for (size_t i = 0; i < spec->n; i++)
		if (spec->prefixes[i][0] != '/')
			return err_set(e, ERR_INVALID, "--volume-prefix needs an absolute path");
	w->volumes = calloc(1, sizeof(*w->volumes));
	if (!w->volumes)
		return err_no_memory(e);
	w->volumes->spec = *spec;
	w->volumes->pool = (struct workers){ .loop = w->loop, .max = WORKERS_MAX };
	w->volumes->sweeper = WORKER_INIT;
	worker_start(&w->volumes->sweeper, &w->volumes->pool, sweep_work, on_swept, w, -1);
	return 0;
}

bool volumes_are_busy(const struct warden *w)
{
	return w->volumes && w->volumes->pool.running > 0;
}

void volumes_done(struct warden *w)
{
	struct volumes *all = w->volumes;

	if (!all)
		return;
	while (all->calls) {
		worker_forget(&all->calls->worker);
		call_free(all->calls);
	}
	worker_forget(&all->sweeper);
	free(take_ptr(&w->volumes));
}
