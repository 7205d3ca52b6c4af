// SPDX-License-Identifier: Apache-2.0
#include "warden/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/box_impl.h"
#include "warden/layer_dir.h"
#include "warden/layer_pack.h"
#include "warden/snapshot_record.h"
#include "warden/stack.h"
#include "warden/sweep.h"
#include "warden/warden.h"

#include "base/banned.h"

#define THAW_TRIES 10
#define THAW_PAUSE_MS 100

DEFINE_AUTO(DIR *, closedir)

/* ---- names ---- */

static void name_of(const struct wire_request *rq, char ret[SLOT_LAYER_NAME_MAX + 1])
{
	stack_layer_name(&rq->layers[0], ret);
}

/* "snap-" and 32 digits: false for anything else. */
static bool parse_name(const char *name, unsigned char ret[WIRE_SNAPSHOT_SIZE])
{
	struct str s = str_of(name);

	return str_starts(s, STR("snap-")) && s.n == strlen("snap-") + 2 * WIRE_SNAPSHOT_SIZE &&
	       hex_decode(str_skip(s, strlen("snap-")), ret, WIRE_SNAPSHOT_SIZE);
}

/* ---- taking one ---- */

/* Of a box, in memory that it shares with the worker: what came of it is read from here. */
struct snapshot {
	struct ticket ticket;
	char layer[SLOT_LAYER_NAME_MAX + 1];
	bool was_paused;
	uint64_t flush_us, frozen_us;
	struct err failure;
};

static struct snapshot *snapshot_new(const struct box *b, const struct wire_request *rq, const struct ticket *t, struct err *e)
{
	struct snapshot *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED) {
		(void)err_no_memory(e);
		return NULL;
	}
	*s = (struct snapshot){ .ticket = *t, .was_paused = b->is_paused };
	name_of(rq, s->layer);
	return s;
}

static void snapshot_free(struct snapshot *s)
{
	(void)munmap(s, sizeof(*s));
}

void snapshot_forget(struct box *b)
{
	if (b->snapshot)
		snapshot_free(take_ptr(&b->snapshot));
}

static int note_intent(const struct box *b, struct err *e)
{
	AUTO_FD fd = openat(b->slot.dir, SNAPSHOT_INTENT_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, errno, "note that box %u is to be frozen", b->slot.number) : 0;
}

static int forget_intent(const struct slot *s, struct err *e)
{
	if (unlinkat(s->dir, SNAPSHOT_INTENT_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "note that box %u goes on", s->number);
	return 0;
}

/* A freeze that failed half-way is undone as well. */
int snapshot_thaw(const struct box_host *h, const struct slot *s, struct err *e)
{
	for (int i = 0; slot_thaw(h, s, e) < 0; i++) {
		if (i == THAW_TRIES)
			return -1;
		(void)poll(NULL, 0, THAW_PAUSE_MS);
	}
	return forget_intent(s, e);
}

static int clone_frozen(const struct box *b, const char *disk, struct snapshot *s, struct err *e)
{
	const struct box_host *h = &b->w->host;
	uint64_t from = clock_mono_us();
	struct err why = { 0 };
	int r;

	if (note_intent(b, e) < 0)
		return -1;
	KILL_POINT("warden.snapshot.noted");
	r = slot_freeze(h, &b->slot, e);
	KILL_POINT("warden.snapshot.frozen");
	if (r == 0)
		r = box_disk_clone(&h->store, disk, s->layer, e);
	KILL_POINT("warden.snapshot.cloned");
	if (snapshot_thaw(h, &b->slot, &why) < 0) {
		if (r == 0)
			*e = why;
		r = -1;
	}
	s->frozen_us = clock_mono_us() - from;
	KILL_POINT("warden.snapshot.let_go");
	return r;
}

static int take_work(void *arg, struct err *e)
{
	struct box *b = arg;
	struct snapshot *s = b->snapshot;
	const struct box_store *store = &b->w->host.store;
	uint64_t from = clock_mono_us();
	char disk[16];
	int r;

	slot_name(b->slot.number, disk);
	KILL_POINT("warden.snapshot.begun");
	if (box_disk_flush(store, disk, e) < 0)
		return -1;
	s->flush_us = clock_mono_us() - from;
	KILL_POINT("warden.snapshot.flushed");
	r = s->was_paused ? box_disk_clone(store, disk, s->layer, e) : clone_frozen(b, disk, s, e);
	if (r < 0)
		return -1;
	if (box_disk_clone_finish(store, s->layer, e) < 0)
		return -1;
	KILL_POINT("warden.snapshot.finished");
	return 0;
}

static void tell(struct box *b)
{
	struct snapshot *s = take_ptr(&b->snapshot);
	struct wire_reply rp = { .snapshot = { .flush_us = s->flush_us, .frozen_us = s->frozen_us } };

	(void)parse_name(s->layer, rp.snapshot.name);
	if (s->failure.code != ERR_NONE)
		answer(b->w, &s->ticket, &s->failure);
	else
		answer_with(b->w, &s->ticket, &rp, NULL, 0);
	KILL_POINT("warden.snapshot.told");
	snapshot_free(s);
	box_next_work(b);
}

/* A worker that was cut off may have frozen the box and left a part of a layer; a layer that is whole the server removes. */
static void on_taken(const struct err *failure, void *arg)
{
	struct box *b = arg;
	struct snapshot *s = b->snapshot;

	if (!failure) {
		log_info("snapshot taken", LOG_S("id", b->file.id), LOG_S("layer", s->layer), LOG_U("flush_us", s->flush_us),
			 LOG_U("frozen_us", s->frozen_us));
		tell(b);
		return;
	}
	log_warn("a snapshot failed", LOG_S("id", b->file.id), LOG_ERR(failure));
	s->failure = *failure;
	sweep_soon(b->w);
	if (s->was_paused)
		tell(b);
	else
		box_let_go_on(b, tell);
}

static int check_take(const struct box *b, struct err *e)
{
	if (b->w->is_stopping)
		return err_set(e, ERR_UNAVAILABLE, "stopping");
	if (b->file.stage != BOX_RUNNING)
		return err_set(e, ERR_CONFLICT, "sandbox '%s' does not run", b->file.id);
	if (worker_is_busy(&b->worker))
		return err_set(e, ERR_CONFLICT, "sandbox '%s' is being changed", b->file.id);
	return 0;
}

void snapshot_take(struct box *b, const struct wire_request *rq, const struct ticket *t)
{
	struct err e = { 0 };

	if (check_take(b, &e) < 0 || guard_check(b->w, &e) < 0 || !(b->snapshot = snapshot_new(b, rq, t, &e))) {
		answer(b->w, t, &e);
		return;
	}
	worker_start(&b->worker, &b->w->workers, take_work, on_taken, b, -1);
}

/* ---- after a restart ---- */

int snapshot_let_go(const struct box_host *h, const struct slot *s, struct err *e)
{
	if (faccessat(s->dir, SNAPSHOT_INTENT_NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look why box %u is frozen", s->number);
	log_info("a box goes on that was frozen for a snapshot", LOG_U("number", s->number));
	return snapshot_thaw(h, s, e);
}

/* ---- removing one ---- */

struct snapshot_removal {
	struct snapshot_removal *next;
	struct warden *w;
	struct ticket ticket;
	char layer[SLOT_LAYER_NAME_MAX + 1];
	struct worker worker;
};

static int remove_work(void *arg, struct err *e)
{
	struct snapshot_removal *r = arg;
	AUTO_FD layers = layer_dir_open(r->w->host.layers_path, e);

	KILL_POINT("warden.snapshot.removing");
	if (layers < 0 || snapshot_record_remove(layers, r->layer, e) < 0) /* first: a record is one of a layer that is there */
		return -1;
	if (box_layer_remove(&r->w->host.store, r->layer, e) < 0)
		return -1;
	KILL_POINT("warden.snapshot.removed");
	return 0;
}

static void on_removed(const struct err *failure, void *arg)
{
	struct snapshot_removal *r = arg, **at = &r->w->snapshot_removals;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (failure)
		log_warn("a snapshot cannot be removed", LOG_S("layer", r->layer), LOG_ERR(failure));
	answer(r->w, &r->ticket, failure);
	free(r);
}

/* A box whose processes are dead stands on nothing any more, though it may not be cleared away yet. */
static const struct box *user_of(const struct warden *w, const char *layer)
{
	for (const struct box *b = w->boxes; b; b = b->next) {
		if (b->snapshot && strcmp(b->snapshot->layer, layer) == 0)
			return b;
		if (stack_has(&b->stack, layer) && !(b->file.stage == BOX_REMOVING && b->has_ended))
			return b;
	}
	return NULL;
}

bool snapshot_is_going(const struct warden *w, const char *layer)
{
	for (const struct snapshot_removal *r = w->snapshot_removals; r; r = r->next)
		if (strcmp(r->layer, layer) == 0)
			return true;
	return false;
}

static int check_remove(const struct warden *w, const char *layer, struct err *e)
{
	if (w->is_stopping)
		return err_set(e, ERR_UNAVAILABLE, "stopping");
	if (w->has_unknown || user_of(w, layer))
		return err_set(e, ERR_CONFLICT, "a sandbox uses the snapshot");
	if (layer_is_packed(w, layer))
		return err_set(e, ERR_CONFLICT, "the snapshot is being exported");
	if (snapshot_is_going(w, layer))
		return err_set(e, ERR_CONFLICT, "the snapshot is being removed");
	return 0;
}

void snapshot_layer_remove(struct warden *w, const struct wire_request *rq, const struct ticket *t)
{
	struct snapshot_removal *r;
	char layer[SLOT_LAYER_NAME_MAX + 1];
	struct err e = { 0 };

	name_of(rq, layer);
	if (check_remove(w, layer, &e) < 0) {
		answer(w, t, &e);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		(void)err_no_memory(&e);
		answer(w, t, &e);
		return;
	}
	*r = (struct snapshot_removal){ .next = w->snapshot_removals, .w = w, .ticket = *t, .worker = WORKER_INIT };
	memcpy(r->layer, layer, sizeof(layer));
	w->snapshot_removals = r;
	worker_start(&r->worker, &w->workers, remove_work, on_removed, r, -1);
}

void snapshots_done(struct warden *w)
{
	while (w->snapshot_removals) {
		struct snapshot_removal *r = w->snapshot_removals;

		w->snapshot_removals = r->next;
		worker_forget(&r->worker);
		free(r);
	}
}

/* ---- looking ---- */

void snapshots_list(struct warden *w, const struct ticket *t)
{
	AUTO(closedir) DIR *d = opendir(w->host.layers_path);
	const struct dirent *entry;
	struct err e;

	if (!d) {
		(void)err_sys(&e, errno, "read the layers");
		answer(w, t, &e);
		return;
	}
	while ((entry = readdir(d))) {
		struct wire_reply rp = { 0 };

		if (!parse_name(entry->d_name, rp.snapshot.name))
			continue;
		rp.snapshot.has_record = snapshot_has_record(dirfd(d), entry->d_name);
		answer_row(w, t, &rp);
	}
	answer(w, t, NULL);
}
