// SPDX-License-Identifier: Apache-2.0
/* Snapshots, as the warden makes them: each is a layer with a name, 32 hexadecimal digits. It is what one sandbox had changed of
 * all that it stood on, so the reference of a snapshot is its layer's name and those of the layers below it, the uppermost first,
 * with ':' between them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "image/manifest.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define LAYERS_MAX 127

_Static_assert(NATIVE_LAYER_LEN == 2 * WIRE_SNAPSHOT_SIZE, "names are these bytes");
_Static_assert(WIRE_ID_SIZE > NATIVE_LAYER_LEN, "a name fits where an id does");
_Static_assert(LAYERS_MAX + MANIFEST_LAYERS_MAX <= WIRE_LAYERS_MAX, "any stack above any image fits into a message");
_Static_assert(LAYERS_MAX * (NATIVE_LAYER_LEN + 1) <= RUNTIME_REFERENCE_MAX, "any stack has a reference");

/* ---- references ---- */

bool native_next_layer(const char **at, char name[NATIVE_LAYER_LEN + 1])
{
	size_t n = strcspn(*at, ":");

	if (n != NATIVE_LAYER_LEN)
		return false;
	memcpy(name, *at, n);
	name[n] = '\0';
	*at += n + ((*at)[n] == ':');
	return true;
}

size_t native_count_layers(const char *reference)
{
	return reference ? (strlen(reference) + 1) / (NATIVE_LAYER_LEN + 1) : 0;
}

int native_snapshot_reference(struct runtime *rt, const char *id, const char *base, struct buf *ret, struct err *e)
{
	char name[NATIVE_LAYER_LEN + 1];
	size_t n = 0;

	(void)rt;
	if (native_count_layers(base) >= LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "stands on %d layers already, one more cannot be", LAYERS_MAX);
	for (; *id && n < NATIVE_LAYER_LEN; id++)
		if (*id != '-')
			name[n++] = *id;
	name[n] = '\0';
	buf_addf(ret, "%s%s%s", name, base ? ":" : "", base ? base : "");
	return ret->failed ? err_no_memory(e) : 0;
}

/* Names are of one length: what begins with one begins at one. */
bool native_snapshot_is_below(struct runtime *rt, const char *reference, const char *other)
{
	char name[NATIVE_LAYER_LEN + 1];

	(void)rt;
	return native_next_layer(&reference, name) && strstr(other, name);
}

int native_add_layers(struct wire_request *rq, const char *reference, struct err *e)
{
	char name[NATIVE_LAYER_LEN + 1];

	while (reference && *reference) {
		struct wire_layer *l = &rq->layers[rq->n_layers];

		if (rq->n_layers == WIRE_LAYERS_MAX)
			return err_set(e, ERR_INVALID, "the sandbox would stand on more than %d layers", WIRE_LAYERS_MAX);
		*l = (struct wire_layer){ .kind = WIRE_LAYER_SNAPSHOT };
		if (!native_next_layer(&reference, name) || !hex_decode(str_of(name), l->name, WIRE_SNAPSHOT_SIZE))
			return err_set(e, ERR_INTERNAL, "a reference that is none of a snapshot");
		rq->n_layers++;
	}
	return 0;
}

/* ---- taking ---- */

static void ask(struct call *c, const char *id, const char *layer)
{
	struct wire_request rq = { 0 };

	if (native_add_layers(&rq, layer, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_call_send(c, id, &rq, -1);
}

void native_snapshot(struct runtime *rt, const char *id, const char *reference, runtime_snapshot_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	char layer[NATIVE_LAYER_LEN + 1] = "";
	const char *at = reference;
	struct call *c;

	if (native_next_layer(&at, layer) && native_collect_note(n, layer) < 0) {
		native_refuse(n, completion_snapshot(fn, arg));
		return;
	}
	c = native_call_new(rt, WIRE_SNAPSHOT, completion_snapshot(fn, arg));
	if (!c)
		return;
	if (layer[0]) {
		ask(c, id, layer);
		return;
	}
	(void)err_set(&c->failure, ERR_INTERNAL, "a reference that is none of a snapshot");
	native_call_fail_later(c);
}

void native_answer_snapshot(struct call *c, const struct wire_snapshot *w)
{
	struct runtime_snapshot made = { .flush_us = w->flush_us, .frozen_us = w->frozen_us };
	runtime_snapshot_fn *fn = c->done.fn.snapshot;
	void *arg = c->done.arg;

	native_call_free(c);
	fn(&made, NULL, arg);
}

void native_layer_remove(struct native *n, const char *layer, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(&n->rt, WIRE_SNAPSHOT_REMOVE, completion_done(fn, arg));

	if (c)
		ask(c, "", layer);
}

/* ---- listing, also of volumes ---- */

void native_list_layers(struct native *n, runtime_layers_fn *fn, void *arg)
{
	struct call *c = native_call_new(&n->rt, WIRE_SNAPSHOTS, completion_layers(fn, arg));
	struct wire_request rq = { 0 };

	if (c)
		native_call_send(c, "", &rq, -1);
}

void native_volumes(struct runtime *rt, runtime_names_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_VOLUMES, completion_names(fn, arg));
	struct wire_request rq = { 0 };

	if (c)
		native_call_send(c, "", &rq, -1);
}

static void complete_layers(struct call *c)
{
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	AUTO(free) char(*names)[NATIVE_LAYER_LEN + 1] = calloc(c->n_rows + 1, sizeof(*names));
	AUTO(free) struct runtime_layer_found *found = calloc(c->n_rows + 1, sizeof(*found));
	struct completion done = c->done;
	size_t n = c->n_rows;
	struct err e = { 0 };

	if (!names || !found) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		hex_encode(names[i], rows[i].snapshot.name, WIRE_SNAPSHOT_SIZE);
		found[i] = (struct runtime_layer_found){ names[i], rows[i].snapshot.has_record };
	}
	native_call_free(c);
	done.fn.layers(found, n, NULL, done.arg);
}

static void complete_volumes(struct call *c)
{
	AUTO(free) struct wire_reply *rows = take_ptr(&c->rows);
	AUTO(free) const char **ids = calloc(c->n_rows + 1, sizeof(*ids));
	struct completion done = c->done;
	size_t n = c->n_rows;
	struct err e = { 0 };

	if (!ids) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = rows[i].id; /* which was checked */
	native_call_free(c);
	done.fn.names(ids, n, NULL, done.arg);
}

void native_answer_names(struct call *c, const struct wire_reply *rp)
{
	static const unsigned char nothing[WIRE_SNAPSHOT_SIZE];
	struct err e = { 0 };

	if (c->kind == WIRE_VOLUMES ? !rp->id[0] : memcmp(rp->snapshot.name, nothing, sizeof(nothing)) == 0) {
		(c->kind == WIRE_VOLUMES ? complete_volumes : complete_layers)(c);
		return;
	}
	if (c->n_rows == c->cap_rows && !native_more_rows(c)) {
		(void)err_no_memory(&e);
		native_call_fail(c, &e);
		return;
	}
	c->rows[c->n_rows++] = *rp;
}
