// SPDX-License-Identifier: Apache-2.0
#include "warden/volumes.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/volume.h"
#include "sys/passing.h"
#include "sys/userns.h"
#include "warden/box.h"
#include "warden/peer.h"
#include "warden/sweep.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include "base/banned.h"

_Static_assert(SLOT_VOLUMES_MAX == WIRE_VOLUMES_MAX && SLOT_MOUNT_PATH_MAX + 1 == WIRE_PATH_SIZE, "what is asked for fits");
_Static_assert(VOLUME_ID_BASE >= SLOT_ID_BASE + (UINT64_C(1) * SLOT_NUMBER_MAX + IMAGES_MAX) * USERNS_IDS &&
		       VOLUME_ID_BASE <= USERNS_BASE_MAX,
	       "the ids of volumes are unused otherwise");
_Static_assert(SLOT_VOLUMES_MAX <= PASSING_FDS_MAX, "the mounts come in one message");

DEFINE_AUTO(DIR *, closedir)

#define WORKERS_MAX 8
#define CALLS_MAX 1024 /* in progress */

struct volume_call {
	struct volume_call *next;
	struct warden *w;
	struct wire_request rq;
	struct ticket ticket;
	struct worker worker;
};

/* It may outlive the box that it was begun for. */
struct opening {
	struct opening *next;
	struct warden *w;
	struct box *b; /* NULL: nobody waits any more */
	box_volumes_fn *fn;
	struct wire_volumes asked;
	uint64_t id_base;
	int ours, theirs; /* the mounts come this way */
	struct worker worker;
};

struct volumes {
	struct volumes_spec spec;
	struct workers pool, host_pool;
	struct opening *openings;
	struct worker looker;
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
	bool is_removal = c->rq.call == WIRE_VOLUME_REMOVE;
	struct err why;

	if (failure) {
		log_warn("a volume cannot be made or removed", LOG_S("id", c->rq.id), LOG_ERR(failure));
		sweep_soon(w);
	}
	call_free(c);
	if (failure && is_removal) { /* nothing that a client did, and in words of the store's own: those are for the log */
		(void)err_set(&why, ERR_UNAVAILABLE, "the volume cannot be removed at the moment");
		failure = &why;
	}
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
	else if (rq->call != WIRE_VOLUME_MAKE || guard_check(w, &e) == 0)
		c = calloc(1, sizeof(*c)), (void)(c || err_no_memory(&e));
	if (!c) {
		answer(w, t, &e);
		return;
	}
	*c = (struct volume_call){ .next = all->calls, .w = w, .rq = *rq, .ticket = *t, .worker = WORKER_INIT };
	all->calls = c;
	all->n_calls++;
	worker_start(&c->worker, &all->pool, call_work, on_called, c, -1);
}

void volumes_list(struct warden *w, const struct ticket *t)
{
	AUTO(closedir) DIR *d = opendir(w->host.store.disks_path);
	const struct dirent *entry;
	struct err e;

	if (!d) {
		(void)err_sys(&e, errno, "read the disks");
		answer(w, t, &e);
		return;
	}
	while ((entry = readdir(d))) {
		const char *id = volume_id_of(entry->d_name);
		struct wire_reply rp = { 0 };

		if (!id)
			continue;
		(void)snprintf(rp.id, sizeof(rp.id), "%s", id);
		answer_row(w, t, &rp);
	}
	answer(w, t, NULL);
}

/* ---- of one box ---- */

int box_volumes_keep(struct box *b, const struct wire_volumes *volumes, struct err *e)
{
	if (volumes->n == 0)
		return 0;
	for (size_t i = 0; i < volumes->n; i++)
		if (volumes->at[i].kind == WIRE_VOLUME_HOST && volumes->at[i].prefix >= b->w->volumes->spec.n)
			return err_set(e, ERR_INVALID, "a volume in a folder that is not listed");
	b->volumes = calloc(1, sizeof(*b->volumes));
	if (!b->volumes)
		return err_no_memory(e);
	b->volumes->asked = *volumes;
	return 0;
}

/* In the worker: the mounts go back in one message, in their order. */
static int open_work(void *arg, struct err *e)
{
	const struct opening *o = arg;
	const struct volumes_spec *all = &o->w->volumes->spec;
	int mounts[SLOT_VOLUMES_MAX];

	for (size_t i = 0; i < o->asked.n; i++) {
		const struct wire_volume *v = &o->asked.at[i];
		const struct volume_spec spec = {
			.volume = v, .prefix = v->kind == WIRE_VOLUME_HOST ? all->prefixes[v->prefix] : NULL,
			.store = &o->w->host.store, .state_dir = all->state_dir, .id_base = o->id_base,
		};

		mounts[i] = volume_open(&spec, e);
		if (mounts[i] < 0)
			return -1;
	}
	if (passing_send(o->theirs, "v", 1, mounts, o->asked.n, e) != 1)
		return err_wrap(e, "hand over volumes");
	return 0;
}

static void opening_free(struct opening *o)
{
	struct opening **at = &o->w->volumes->openings;

	for (; *at != o; at = &(*at)->next)
		;
	*at = o->next;
	if (o->b)
		o->b->volumes->opening = NULL;
	worker_forget(&o->worker);
	closep(&o->ours);
	closep(&o->theirs);
	free(o);
}

static int take_mounts(const struct opening *o, struct box_volumes *v, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	char byte;

	if (passing_recv(o->ours, &byte, 1, SLOT_VOLUMES_MAX, &got, e) != PASSING_MESSAGE || got.n_fds != v->asked.n)
		return err_set(e, ERR_INTERNAL, "volumes were opened and did not come");
	for (size_t i = 0; i < v->asked.n; i++)
		v->list[i] = (struct slot_volume){ take_fd(&got.fds[i]), v->asked.at[i].mount_path };
	v->is_open = true;
	return 0;
}

static void on_opened(const struct err *failure, void *arg)
{
	struct opening *o = arg;
	struct box *b = o->b;
	box_volumes_fn *fn = o->fn;
	struct err e;

	if (failure)
		e = *failure; /* the worker's, which goes with the opening */
	if (b && !failure && take_mounts(o, b->volumes, &e) < 0)
		failure = &e;
	opening_free(o);
	if (b)
		fn(b, failure ? &e : NULL);
}

static bool has_host(const struct wire_volumes *asked)
{
	for (size_t i = 0; i < asked->n; i++)
		if (asked->at[i].kind == WIRE_VOLUME_HOST)
			return true;
	return false;
}

int box_volumes_open(struct box *b, box_volumes_fn *fn, struct err *e)
{
	struct volumes *all = b->w->volumes;
	struct opening *o = malloc(sizeof(*o));
	int pair[2];

	if (!o)
		return err_no_memory(e);
	if (passing_pair(pair, e) < 0) {
		free(o);
		return -1;
	}
	*o = (struct opening){ .next = all->openings, .w = b->w, .b = b, .fn = fn, .asked = b->volumes->asked,
			       .id_base = b->slot.id_base, .ours = pair[0], .theirs = pair[1], .worker = WORKER_INIT };
	all->openings = o;
	b->volumes->opening = o;
	timer_in(&b->timer, VOLUMES_OPEN_MS);
	worker_start(&o->worker, has_host(&o->asked) ? &all->host_pool : &all->pool, open_work, on_opened, o, -1);
	return 0;
}

/* One that has a process goes on, and is collected when that ends, if it ever does. */
static void abandon(struct opening *o)
{
	o->b->volumes->opening = NULL;
	o->b = NULL;
	if (worker_pidfd(&o->worker) < 0)
		opening_free(o);
}

void box_volumes_free(struct box *b)
{
	struct box_volumes *v = b->volumes;

	if (!v)
		return;
	if (v->opening)
		abandon(v->opening);
	for (size_t i = 0; v->is_open && i < v->asked.n; i++)
		closep(&v->list[i].mount);
	free(take_ptr(&b->volumes));
}

/* ---- all of them ---- */

/* P6: the owner's set-uid files, which a sandbox can make as well, work on the host where this is not so. It may take as long
 * as a file server that does not answer. */
static void warn_loose(const struct volumes_spec *spec)
{
	struct statvfs sv;

	for (size_t i = 0; i < spec->n; i++)
		if (statvfs(spec->prefixes[i], &sv) == 0 && !(sv.f_flag & ST_NOSUID))
			log_warn("a folder for volumes should be on a nosuid mount", LOG_S("path", spec->prefixes[i]));
}

static int look_work(void *arg, struct err *e)
{
	const struct warden *w = arg;

	(void)e;
	warn_loose(&w->volumes->spec);
	return 0;
}

static void on_looked(const struct err *failure, void *arg)
{
	(void)arg;
	if (failure)
		log_warn("folders for volumes cannot be looked at, ignoring", LOG_ERR(failure));
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
	w->volumes->pool = w->volumes->host_pool = (struct workers){ .loop = w->loop, .max = WORKERS_MAX };
	w->volumes->looker = WORKER_INIT;
	worker_start(&w->volumes->looker, &w->volumes->host_pool, look_work, on_looked, w, -1);
	return 0;
}

int64_t volumes_begun_us(const struct warden *w)
{
	return workers_begun_us(&w->volumes->pool); /* those of the host's folders only look, and may hang */
}

bool volumes_are_busy(const struct warden *w)
{
	return w->volumes && (w->volumes->pool.running > 0 || w->volumes->host_pool.running > 0);
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
	while (all->openings)
		opening_free(all->openings);
	worker_forget(&all->looker);
	free(take_ptr(&w->volumes));
}
