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
	struct call *c = native_call_new(rt, WIRE_SNAPSHOT, completion_snapshot(fn, arg));

	if (!c)
		return;
	ask(c, id, layer);
}

void native_snapshot_remove(struct runtime *rt, const char *layer, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_SNAPSHOT_REMOVE, completion_done(fn, arg));

	if (!c)
		return;
	ask(c, "", layer);
}

static void list(struct runtime *rt, enum wire_call kind, runtime_layers_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, kind, completion_layers(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	native_call_send(c, "", &rq, -1);
}

void native_snapshots(struct runtime *rt, runtime_layers_fn *fn, void *arg)
{
	list(rt, WIRE_SNAPSHOTS, fn, arg);
}

void native_volumes(struct runtime *rt, runtime_layers_fn *fn, void *arg)
{
	list(rt, WIRE_VOLUMES, fn, arg);
}

void native_answer_snapshot(struct call *c, const struct wire_snapshot *w)
{
	struct runtime_snapshot made = { .flush_us = w->flush_us, .frozen_us = w->frozen_us };
	runtime_snapshot_fn *fn = c->done.fn.snapshot;
	void *arg = c->done.arg;

	native_call_free(c);
	fn(&made, NULL, arg);
}

static void complete(struct call *c)
{
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	AUTO(free) char(*names)[WIRE_ID_SIZE] = calloc(c->n_rows + 1, sizeof(*names));
	AUTO(free) const char **layers = calloc(c->n_rows + 1, sizeof(*layers));
	runtime_layers_fn *fn = c->done.fn.layers;
	bool are_volumes = c->kind == WIRE_VOLUMES;
	size_t n = c->n_rows;
	void *arg = c->done.arg;
	struct err e = { 0 };

	if (!names || !layers) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (are_volumes)
			memcpy(names[i], rows[i].id, sizeof(names[i])); /* which was checked */
		else
			hex_encode(names[i], rows[i].snapshot.name, WIRE_SNAPSHOT_SIZE);
		layers[i] = names[i];
	}
	native_call_free(c);
	fn(layers, n, NULL, arg);
}

void native_answer_snapshots(struct call *c, const struct wire_reply *rp)
{
	static const unsigned char nothing[WIRE_SNAPSHOT_SIZE];
	struct err e = { 0 };

	if (c->kind == WIRE_VOLUMES ? !rp->id[0] : memcmp(rp->snapshot.name, nothing, sizeof(nothing)) == 0) {
		complete(c);
		return;
	}
	if (c->n_rows == c->cap_rows && !native_more_rows(c)) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	c->rows[c->n_rows++] = *rp;
}
