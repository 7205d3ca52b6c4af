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
	bool is_stranger; /* it was there at the start, nobody referred to it, and it is left alone */
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
	struct map names; /* each its own value */
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

/* All that are referred to: what an earlier server has asked for may still come. */
static void learn(const char *reference, void *arg)
{
	struct found *f = arg;
	char name[NATIVE_LAYER_LEN + 1];

	while (native_next_layer(&reference, name))
		f->failed |= native_collect_note(f->n, name) < 0;
}

static int settle(struct found *f, const char *const *names, size_t n_names, bool leaves_unknown, struct err *e)
{
	struct native *n = f->n;

	n->rt.users->each_reference(learn, f, n->rt.users_arg);
	for (size_t i = 0; i < n_names && !f->failed; i++) {
		struct layer *l = map_get(&n->snapshots.layers, str_of(names[i]));
		bool is_unknown = !l;

		f->failed = !map_put(&f->names, str_of(names[i]), n) || native_collect_note(n, names[i]) < 0;
		l = map_get(&n->snapshots.layers, str_of(names[i]));
		f->pub.n_unknown += is_unknown;
		if (l && is_unknown)
			l->is_stranger = leaves_unknown;
	}
	return f->failed ? err_no_memory(e) : 0;
}

/* A server that was killed while a layer was made leaves one that its successor has not heard of: it appears after the list was
 * made. Whatever appears without having been asked for by this server is such a one. */
static void look_later(struct native *n)
{
	struct snapshot_set *s = &n->snapshots;

	s->look_ms = MIN(s->look_ms ? s->look_ms * 2 : (uint64_t)LOOK_MIN_MS, (uint64_t)LOOK_MAX_MS);
	timer_in(&s->look, s->look_ms);
}

static void on_looked(const char *const *names, size_t n_names, const struct runtime_failure *failure, void *arg)
{
	struct native *n = arg;

	for (size_t i = 0; !failure && i < n_names; i++) {
		if (map_get(&n->snapshots.layers, str_of(names[i])))
			continue;
		log_warn("a layer that an earlier server has asked for is removed", LOG_S("layer", names[i]));
		(void)native_collect_note(n, names[i]); /* or there is a next time */
	}
	native_snapshots_released(&n->rt);
	look_later(n);
}

static void on_look(void *arg)
{
	native_list_names(arg, WIRE_SNAPSHOTS, on_looked, arg);
}

static void on_listed(const char *const *names, size_t n_names, const struct runtime_failure *failure, void *arg)
{
	struct native *n = arg;
	struct found f = { .pub.has = has, .n = n, .names = MAP_INIT };
	struct runtime_failure no_memory = native_no_memory;
	struct completion done = n->snapshots.asked;

	n->snapshots.asked = (struct completion){ 0 };
	if (!failure && settle(&f, names, n_names, n->snapshots.leaves_unknown, &no_memory.err) < 0)
		failure = &no_memory;
	if (failure) {
		completion_fail(&done, failure);
	} else {
		n->snapshots.is_known = true;
		done.fn.snapshots(&f.pub, NULL, done.arg);
		native_snapshots_released(&n->rt);
		look_later(n);
	}
	map_done(&f.names);
}

void native_snapshots(struct runtime *rt, bool leaves_unknown, runtime_snapshots_fn *fn, void *arg)
{
	struct native *n = native_of(rt);

	n->snapshots.asked = completion_snapshots(fn, arg);
	n->snapshots.leaves_unknown = leaves_unknown;
	native_list_names(n, WIRE_SNAPSHOTS, on_listed, n);
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
	timer_done(&n->snapshots.sweep);
	timer_done(&n->snapshots.look);
}
