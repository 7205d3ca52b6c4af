// SPDX-License-Identifier: Apache-2.0
/* Snapshots, as the warden makes them. */
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "image/manifest.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

_Static_assert(RUNTIME_LAYER_LEN == 2 * WIRE_SNAPSHOT_SIZE, "names are these bytes");
_Static_assert(WIRE_ID_SIZE > RUNTIME_LAYER_LEN, "a name fits where an id does");
_Static_assert(RUNTIME_LAYERS_MAX + MANIFEST_LAYERS_MAX <= WIRE_LAYERS_MAX, "any stack above any image fits into a message");

int native_add_layers(struct wire_request *rq, const struct string_list *layers, struct err *e)
{
	for (size_t i = 0; i < layers->n; i++) {
		struct wire_layer *l = &rq->layers[rq->n_layers];

		if (rq->n_layers == WIRE_LAYERS_MAX)
			return err_set(e, ERR_INVALID, "the sandbox would stand on more than %d layers", WIRE_LAYERS_MAX);
		*l = (struct wire_layer){ .kind = WIRE_LAYER_SNAPSHOT };
		if (!hex_decode(str_of(layers->items[i]), l->name, WIRE_SNAPSHOT_SIZE))
			return err_set(e, ERR_INTERNAL, "'%s' is no name of a layer", layers->items[i]);
		rq->n_layers++;
	}
	return 0;
}

static void ask(struct call *c, const char *id, const char *layer)
{
	const char *const names[] = { layer };
	struct wire_request rq = { 0 };

	if (native_add_layers(&rq, &(struct string_list){ (const char **)(uintptr_t)names, 1 }, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_call_send(c, id, &rq, -1);
}

void native_snapshot(struct runtime *rt, const char *id, const char *layer, runtime_snapshot_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_SNAPSHOT, arg);

	if (!c) {
		fn(NULL, &native_no_memory, arg);
		return;
	}
	c->fn.snapshot = fn;
	ask(c, id, layer);
}

void native_snapshot_remove(struct runtime *rt, const char *layer, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_SNAPSHOT_REMOVE, arg);

	if (!c) {
		fn(&native_no_memory, arg);
		return;
	}
	c->fn.done = fn;
	ask(c, "", layer);
}

void native_snapshots(struct runtime *rt, runtime_snapshots_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_SNAPSHOTS, arg);
	struct wire_request rq = { 0 };

	if (!c) {
		fn(NULL, 0, &native_no_memory, arg);
		return;
	}
	c->fn.snapshots = fn;
	native_call_send(c, "", &rq, -1);
}

void native_volumes(struct runtime *rt, runtime_layers_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_VOLUMES, arg);
	struct wire_request rq = { 0 };

	if (!c) {
		fn(NULL, 0, &native_no_memory, arg);
		return;
	}
	c->fn.layers = fn;
	native_call_send(c, "", &rq, -1);
}

void native_answer_snapshot(struct call *c, const struct wire_snapshot *w)
{
	struct runtime_snapshot made = { .flush_us = w->flush_us, .frozen_us = w->frozen_us };
	runtime_snapshot_fn *fn = c->fn.snapshot;
	void *arg = c->arg;

	native_call_free(c);
	fn(&made, NULL, arg);
}

static void complete_snapshots(struct call *c)
{
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	AUTO(free) char(*names)[RUNTIME_LAYER_LEN + 1] = calloc(c->n_rows + 1, sizeof(*names));
	AUTO(free) struct runtime_snapshot_found *found = calloc(c->n_rows + 1, sizeof(*found));
	runtime_snapshots_fn *fn = c->fn.snapshots;
	size_t n = c->n_rows;
	void *arg = c->arg;
	struct err e = { 0 };

	if (!names || !found) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		hex_encode(names[i], rows[i].snapshot.name, WIRE_SNAPSHOT_SIZE);
		found[i] = (struct runtime_snapshot_found){ names[i], rows[i].snapshot.has_record };
	}
	native_call_free(c);
	fn(found, n, NULL, arg);
}

static void complete_volumes(struct call *c)
{
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	AUTO(free) const char **ids = calloc(c->n_rows + 1, sizeof(*ids));
	runtime_layers_fn *fn = c->fn.layers;
	size_t n = c->n_rows;
	void *arg = c->arg;
	struct err e = { 0 };

	if (!ids) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = rows[i].id; /* which was checked */
	native_call_free(c);
	fn(ids, n, NULL, arg);
}

void native_answer_snapshots(struct call *c, const struct wire_reply *rp)
{
	static const unsigned char nothing[WIRE_SNAPSHOT_SIZE];
	struct err e = { 0 };

	if (c->kind == WIRE_VOLUMES ? !rp->id[0] : memcmp(rp->snapshot.name, nothing, sizeof(nothing)) == 0) {
		(c->kind == WIRE_VOLUMES ? complete_volumes : complete_snapshots)(c);
		return;
	}
	if (c->n_rows == c->cap_rows && !native_more_rows(c)) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	c->rows[c->n_rows++] = *rp;
}
