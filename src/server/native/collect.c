// SPDX-License-Identifier: Apache-2.0
/* The layers of snapshots: which there are, which are needed, and how the others go. A layer stays as long as a reference that
 * the control plane has names it, whatever becomes of the snapshot that it was made for: what is left over is found by marking all
 * that are needed. */
#include <stdlib.h>
#include <string.h>

#include "base/kill_point.h"
#include "base/log.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define SWEEP_MS 100      /* many sandboxes go at a time */
#define SWEEP_AGAIN_MS 1000
#define LOOK_MIN_MS 2000 /* after a start */
#define LOOK_MAX_MS 30000

struct layer { /* that the warden has, or may have */
	struct native *n;
	char name[NATIVE_LAYER_LEN + 1];
	bool is_marked, is_going;
	bool is_stranger; /* nobody referred to it at the start, or its record is no good; it is left alone */
};

int native_collect_note(struct native *n, const char *name)
{
	struct layer *l;

	if (map_get(&n->snapshots.layers, str_of(name)))
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -1;
	l->n = n;
	memcpy(l->name, name, NATIVE_LAYER_LEN);
	if (map_put(&n->snapshots.layers, str_of(l->name), l))
		return 0;
	free(l);
	return -1;
}

bool native_is_stranger(const struct native *n, const char *name)
{
	const struct layer *l = map_get(&n->snapshots.layers, str_of(name));

	return l && l->is_stranger;
}

/* What nobody knows for lack of memory is not swept before the next look, either. */
void native_leave_alone(struct native *n, const char *name)
{
	if (native_collect_note(n, name) == 0)
		((struct layer *)map_get(&n->snapshots.layers, str_of(name)))->is_stranger = true;
}

/* ---- who needs them ---- */

static void mark(const char *reference, void *arg)
{
	struct native *n = arg;
	char name[NATIVE_LAYER_LEN + 1];

	while (native_next_layer(&reference, name)) {
		struct layer *l = map_get(&n->snapshots.layers, str_of(name));

		if (l)
			l->is_marked = true;
	}
}

static void mark_all(struct native *n)
{
	struct layer *l;
	struct str name;

	for (size_t i = 0; (l = map_next(&n->snapshots.layers, &i, &name));)
		l->is_marked = false;
	n->rt.users->each_reference(mark, n, n->rt.users_arg);
}

/* ---- removing the others ---- */

static void on_removed(const struct runtime_failure *failure, void *arg)
{
	struct layer *l = arg;
	struct native *n = l->n;

	l->is_going = false;
	if (failure) { /* a sandbox that is ending still has it, as a rule */
		log_debug("a layer cannot be removed yet", LOG_S("layer", l->name), LOG_ERR(&failure->err));
		if (!n->snapshots.is_sweep_due)
			timer_in(&n->snapshots.sweep, SWEEP_AGAIN_MS);
		return;
	}
	log_info("a layer that nobody needs was removed", LOG_S("layer", l->name));
	(void)map_del(&n->snapshots.layers, str_of(l->name));
	free(l);
}

static void on_sweep(void *arg)
{
	struct native *n = arg;
	struct layer *l;
	struct str name;

	n->snapshots.is_sweep_due = false;
	if (!n->rt.users)
		return;
	mark_all(n);
	for (size_t i = 0; (l = map_next(&n->snapshots.layers, &i, &name));) {
		if (l->is_marked || l->is_going || l->is_stranger)
			continue;
		l->is_going = true;
		native_layer_remove(n, l->name, on_removed, l); /* never completes during the call */
		KILL_POINT("server.snapshot.swept");
	}
}

void native_snapshots_released(struct runtime *rt)
{
	struct native *n = native_of(rt);

	if (!n->snapshots.is_known || n->snapshots.layers.n == 0 || n->snapshots.is_sweep_due)
		return;
	n->snapshots.is_sweep_due = true;
	timer_in(&n->snapshots.sweep, SWEEP_MS);
}

/* What is not noted for lack of memory is found by the next look. */
void native_snapshot_remove(struct runtime *rt, const char *reference, runtime_done_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	struct completion done = completion_done(fn, arg);
	char name[NATIVE_LAYER_LEN + 1];

	while (native_next_layer(&reference, name))
		(void)native_collect_note(n, name);
	native_snapshots_released(rt);
	refuse(&n->refusals, &done, NULL);
}

/* ---- after a start ---- */

struct found {
	struct runtime_snapshots pub;
	struct native *n;
	struct map names; /* of struct layer_found */
	bool failed;
};

static bool has(const struct runtime_snapshots *s, const char *reference)
{
	const struct found *f = (const struct found *)(const void *)s; /* pub is its first member */
	char name[NATIVE_LAYER_LEN + 1];

	while (*reference)
		if (!native_next_layer(&reference, name) || !map_get(&f->names, str_of(name)))
			return false;
	return true;
}

/* Of the uppermost layer, which is what the snapshot adds. */
static bool has_record(const struct runtime_snapshots *s, const char *reference)
{
	const struct found *f = (const struct found *)(const void *)s;
	char name[NATIVE_LAYER_LEN + 1];
	const struct layer_found *l = native_next_layer(&reference, name) ? map_get(&f->names, str_of(name)) : NULL;

	return l && l->has_record;
}

/* All that are referred to: what an earlier server has asked for may still come. */
static void learn(const char *reference, void *arg)
{
	struct found *f = arg;
	char name[NATIVE_LAYER_LEN + 1];

	while (native_next_layer(&reference, name))
		f->failed |= native_collect_note(f->n, name) < 0;
}

static void learn_other(struct found *f, const struct layer_found *l)
{
	struct native *n = f->n;

	f->pub.n_unknown++;
	f->failed |= native_collect_note(n, l->name) < 0;
	if (f->failed || !n->snapshots.leaves_unknown)
		return;
	native_leave_alone(n, l->name);
	log_warn("a layer without a record is left alone", LOG_S("layer", l->name));
}

static int settle(struct found *f, struct adoption *a, struct err *e)
{
	struct native *n = f->n;

	if (n->rt.users)
		n->rt.users->each_reference(learn, f, n->rt.users_arg);
	for (size_t i = 0; i < a->n_found && !f->failed; i++) {
		struct layer_found *l = &a->found[i];

		f->failed = !map_put(&f->names, str_of(l->name), l);
		if (!map_get(&n->snapshots.layers, str_of(l->name)))
			learn_other(f, l);
	}
	return f->failed ? err_no_memory(e) : 0;
}

/* A server that was killed while a layer was made leaves one that its successor has not heard of: it appears after the list was
 * made. Whatever appears without having been asked for by this server, or having a record, is such a one. */
static void look_later(struct native *n)
{
	struct snapshot_set *s = &n->snapshots;

	s->look_ms = MIN(s->look_ms ? s->look_ms * 2 : (uint64_t)LOOK_MIN_MS, (uint64_t)LOOK_MAX_MS);
	timer_in(&s->look, s->look_ms);
}

static void look_done(struct adoption *a)
{
	struct native *n = a->n;

	for (size_t i = 0; !a->failure.code && i < a->n_found; i++) {
		const struct layer_found *l = &a->found[i];

		if (l->has_record || map_get(&n->snapshots.layers, str_of(l->name)))
			continue;
		log_warn("a layer that an earlier server has asked for is removed", LOG_S("layer", l->name));
		(void)native_collect_note(n, l->name); /* or there is a next time */
	}
	native_snapshots_released(&n->rt);
	look_later(n);
}

static void on_looked(const struct runtime_layer_found *layers, size_t n_layers, const struct runtime_failure *failure, void *arg)
{
	struct native *n = arg;

	if (failure || native_adopt(n, layers, n_layers, look_done) < 0)
		look_later(n);
}

static void on_look(void *arg)
{
	native_list_layers(arg, on_looked, arg);
}

static void tell_failure(struct native *n, const struct runtime_failure *failure)
{
	struct completion done = n->snapshots.asked;

	n->snapshots.asked = (struct completion){ 0 };
	completion_fail(&done, failure);
}

static void begun(struct adoption *a)
{
	struct native *n = a->n;
	struct found f = { .pub = { .has = has, .has_record = has_record }, .n = n, .names = MAP_INIT };
	struct completion done = n->snapshots.asked;

	if (a->failure.code) {
		tell_failure(n, &a->failure);
		return;
	}
	if (settle(&f, a, &(struct err){ 0 }) < 0) {
		tell_failure(n, &native_no_memory);
	} else {
		n->snapshots.asked = (struct completion){ 0 };
		n->snapshots.is_known = true;
		done.fn.snapshots(&f.pub, NULL, done.arg);
		native_snapshots_released(&n->rt);
		look_later(n);
	}
	map_done(&f.names);
}

static void on_listed(const struct runtime_layer_found *layers, size_t n_layers, const struct runtime_failure *failure, void *arg)
{
	struct native *n = arg;

	if (failure)
		tell_failure(n, failure);
	else if (native_adopt(n, layers, n_layers, begun) < 0)
		tell_failure(n, &native_no_memory);
}

void native_snapshots(struct runtime *rt, bool leaves_unknown, runtime_snapshots_fn *fn, void *arg)
{
	struct native *n = native_of(rt);

	n->snapshots.asked = completion_snapshots(fn, arg);
	n->snapshots.leaves_unknown = leaves_unknown;
	native_list_layers(n, on_listed, n);
}

/* ---- life ---- */

int native_collect_open(struct native *n, struct err *e)
{
	if (timer_init(&n->snapshots.sweep, n->loop, on_sweep, n, "unused layers", e) < 0)
		return -1;
	return timer_init(&n->snapshots.look, n->loop, on_look, n, "layers of nobody", e);
}

void native_collect_done(struct native *n)
{
	struct layer *l;
	struct str name;

	for (size_t i = 0; (l = map_next(&n->snapshots.layers, &i, &name));)
		free(l);
	map_done(&n->snapshots.layers);
	free(n->snapshots.adoption);
	timer_done(&n->snapshots.sweep);
	timer_done(&n->snapshots.look);
}
