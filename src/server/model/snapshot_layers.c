// SPDX-License-Identifier: Apache-2.0
/* The layers of the runtime: which there are, which are needed, and how the others go. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/model/snapshot_impl.h"

#include "base/banned.h"

#define SWEEP_MS 100      /* many sandboxes go at a time */
#define SWEEP_AGAIN_MS 1000
#define ASK_AGAIN_MS 200
#define LOOK_MIN_MS 2000 /* after a start */
#define LOOK_MAX_MS 30000

/* ---- names ---- */

void layer_of(const char *id, char out[RUNTIME_LAYER_LEN + 1])
{
	size_t n = 0;

	for (; *id && n < RUNTIME_LAYER_LEN; id++)
		if (*id != '-')
			out[n++] = *id;
	out[n] = '\0';
}

int layer_add(struct snapshots *s, const char *name, struct err *e)
{
	struct layer *l;

	if (map_get(&s->layers, str_of(name)))
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_no_memory(e);
	l->set = s;
	memcpy(l->name, name, RUNTIME_LAYER_LEN);
	if (map_put(&s->layers, str_of(l->name), l))
		return 0;
	free(l);
	return err_no_memory(e);
}

void layers_free(struct snapshots *s)
{
	struct layer *l;
	struct str name;

	for (size_t i = 0; (l = map_next(&s->layers, &i, &name));)
		free(l);
	map_done(&s->layers);
}

/* ---- pins ---- */

int layer_pin(struct snapshots *s, struct layer_pin *p, struct err *e)
{
	struct layer_pin pin = { .set = s, .next = s->pins };

	if (uuid_text(&s->random, pin.id, e) < 0)
		return -1;
	layer_of(pin.id, pin.name);
	if (layer_add(s, pin.name, e) < 0)
		return -1;
	*p = pin;
	if (p->next)
		p->next->prev = p;
	s->pins = p;
	return 0;
}

void layer_unpin(struct layer_pin *p)
{
	if (!p->set)
		return;
	*(p->prev ? &p->prev->next : &p->set->pins) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	snapshots_released(p->set);
	p->set = NULL;
}

/* ---- who needs them ---- */

struct search {
	const char *name;
	bool is_found;
};

static void compare(const char *layer, void *arg)
{
	struct search *q = arg;

	q->is_found |= strcmp(layer, q->name) == 0;
}

bool layer_has_sandbox(const struct snapshots *s, const char *name)
{
	struct search q = { .name = name };

	sandboxes_each_layer(s->sandboxes, compare, &q);
	return q.is_found;
}

static void mark(const char *name, void *arg)
{
	struct snapshots *s = arg;
	struct layer *l = map_get(&s->layers, str_of(name));

	if (l)
		l->is_marked = true;
}

static void mark_all(struct snapshots *s)
{
	struct layer *l;
	struct str name;

	for (size_t i = 0; (l = map_next(&s->layers, &i, &name));)
		l->is_marked = false;
	for (const struct snapshot *sn = s->newest; sn; sn = sn->older)
		for (size_t i = 0; sn->row.state != SNAPSHOT_FAILED && i < sn->row.layers.n; i++)
			mark(sn->row.layers.items[i], s);
	for (const struct layer_pin *p = s->pins; p; p = p->next)
		mark(p->name, s);
	sandboxes_each_layer(s->sandboxes, mark, s);
}

/* ---- removing the others ---- */

static void on_removed(const struct runtime_failure *failure, void *arg)
{
	struct layer *l = arg;
	struct snapshots *s = l->set;

	l->is_going = false;
	if (failure) { /* a sandbox that is ending still has it, as a rule */
		log_debug("a layer cannot be removed yet", LOG_S("layer", l->name), LOG_ERR(&failure->err));
		if (!s->is_sweep_due)
			timer_in(&s->sweep, SWEEP_AGAIN_MS);
		return;
	}
	log_info("a layer that nobody needs was removed", LOG_S("layer", l->name));
	(void)map_del(&s->layers, str_of(l->name));
	free(l);
}

void layers_sweep(void *arg)
{
	struct snapshots *s = arg;
	struct runtime *rt = s->spec.runtime;
	struct layer *l;
	struct str name;

	s->is_sweep_due = false;
	if (!s->sandboxes)
		return;
	mark_all(s);
	for (size_t i = 0; (l = map_next(&s->layers, &i, &name));) {
		if (l->is_marked || l->is_going || l->is_stranger)
			continue;
		l->is_going = true;
		rt->ops->snapshot_remove(rt, l->name, on_removed, l); /* never completes during the call */
		KILL_POINT("server.snapshot.swept");
	}
}

void snapshots_released(struct snapshots *s)
{
	if (!s->sandboxes || s->layers.n == 0 || s->is_sweep_due)
		return;
	s->is_sweep_due = true;
	timer_in(&s->sweep, SWEEP_MS);
}

/* ---- after a start ---- */

/* A database that knows nothing may stand beside the layers of another one: those are not ours to remove. */
static void keep_unknown(struct snapshots *s, size_t n)
{
	struct store_tx *tx;

	if (!s->is_new || n == 0 || s->keeps_unknown)
		return;
	s->keeps_unknown = true;
	log_warn("the database is new, but there are snapshots: they are left alone", LOG_U("layers", n));
	tx = store_tx_new();
	store_tx_meta(tx, STORE_KEEP_LAYERS, STR("1"));
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
}

/* What the records need. */
static int learn_needed(struct snapshots *s, struct err *e)
{
	for (const struct snapshot *sn = s->newest; sn; sn = sn->older)
		for (size_t i = 0; i < sn->row.layers.n; i++)
			if (layer_add(s, sn->row.layers.items[i], e) < 0)
				return -1;
	return 0;
}

/* All the others, and all that may still come: what an earlier server has asked for may not have ended yet. What is left alone
 * now is left alone later. */
static int learn_others(struct snapshots *s, const struct adoption *a, struct err *e)
{
	for (size_t i = 0; i < a->n; i++) {
		struct layer *l;

		if (map_get(&s->layers, str_of(a->at[i].name)))
			continue;
		if (layer_add(s, a->at[i].name, e) < 0)
			return -1;
		l = map_get(&s->layers, str_of(a->at[i].name));
		l->is_stranger = s->keeps_unknown;
		if (l->is_stranger)
			log_warn("a layer without a record is left alone", LOG_S("layer", l->name));
	}
	return 0;
}

static size_t count_unknown(const struct snapshots *s, const struct adoption *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++)
		n += !map_get(&s->layers, str_of(a->at[i].name));
	return n;
}

static int settle(struct snapshots *s, struct adoption *a, struct err *e)
{
	AUTO(map_done) struct map found = MAP_INIT;

	if (learn_needed(s, e) < 0)
		return -1;
	keep_unknown(s, count_unknown(s, a));
	for (size_t i = 0; i < a->n; i++)
		if (!map_put(&found, str_of(a->at[i].name), &a->at[i]))
			return err_no_memory(e);
	if (learn_others(s, a, e) < 0)
		return -1;
	snapshots_settle(s, &found);
	return 0;
}

/* ---- while it runs ---- */

/* A server that was killed while a fork's layer was made leaves a layer that its successor has not heard of: it appears after
 * the list was made. Whatever appears without having been asked for by this server, or having a copy of a record, is such a one. */
static void look_later(struct snapshots *s)
{
	s->look_ms = MIN(s->look_ms ? s->look_ms * 2 : (uint64_t)LOOK_MIN_MS, (uint64_t)LOOK_MAX_MS);
	timer_in(&s->look, s->look_ms);
}

static void look_done(struct adoption *a)
{
	struct snapshots *s = a->set;
	size_t lost = 0;

	for (size_t i = 0; !a->has_failed && i < a->n; i++) {
		if (map_get(&s->layers, str_of(a->at[i].name)) || a->at[i].has_record)
			continue;
		log_warn("a layer that an earlier server has asked for is removed", LOG_S("layer", a->at[i].name));
		if (layer_add(s, a->at[i].name, &(struct err){ 0 }) == 0) /* or there is a next time */
			lost++;
	}
	adoption_free(s);
	if (lost > 0)
		snapshots_released(s);
	look_later(s);
}

static void on_look(const struct runtime_snapshot_found *layers, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct snapshots *s = arg;

	if (failure || !s->sandboxes || adoption_begin(s, layers, n, look_done, &(struct err){ 0 }) < 0)
		look_later(s);
}

void layers_look(void *arg)
{
	struct snapshots *s = arg;

	if (s->sandboxes)
		s->spec.runtime->ops->snapshots(s->spec.runtime, on_look, s);
}

static void begun(struct adoption *a)
{
	struct snapshots *s = a->set;
	struct err e = { 0 };

	if (a->has_failed) {
		timer_in(&s->again, ASK_AGAIN_MS);
		return;
	}
	if (settle(s, a, &e) == 0) {
		snapshots_released(s);
		look_later(s);
	}
	adoption_free(s);
	s->recovered(e.code == ERR_NONE ? NULL : &e, s->recovered_arg);
}

static void on_layers(const struct runtime_snapshot_found *layers, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct snapshots *s = arg;
	struct err e = { 0 };

	if (failure && failure->err.code == ERR_UNAVAILABLE)
		timer_in(&s->again, ASK_AGAIN_MS);
	else if (failure)
		s->recovered(&failure->err, s->recovered_arg);
	else if (adoption_begin(s, layers, n, begun, &e) < 0)
		s->recovered(&e, s->recovered_arg);
}

void layers_ask(void *arg)
{
	struct snapshots *s = arg;

	s->spec.runtime->ops->snapshots(s->spec.runtime, on_layers, s);
}

void snapshots_recover(struct snapshots *s, struct sandboxes *sandboxes, recovered_fn *fn, void *arg)
{
	s->sandboxes = sandboxes;
	s->recovered = fn;
	s->recovered_arg = arg;
	layers_ask(s);
}
