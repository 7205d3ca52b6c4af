// SPDX-License-Identifier: Apache-2.0
/* Records of snapshots. The warden keeps each beside a layer and gives it back by the name of that alone, so what it keeps is the
 * reference of the snapshot, a line, and behind it the record of the control plane. A layer with a record whose snapshot is recorded
 * nowhere is told to the control plane; one whose record is no good is left alone. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

void native_snapshot_record_set(struct runtime *rt, const char *reference, struct str record, runtime_done_fn *fn, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(WIRE_RECORD_MAX);
	char layer[NATIVE_LAYER_LEN + 1];
	const char *at = reference;

	if (record.n > 0) {
		buf_addf(&text, "%s\n", reference);
		(void)buf_add(&text, record.p, record.n);
	}
	if (text.failed)
		native_refuse(native_of(rt), completion_done(fn, arg));
	else /* what is no reference is refused as a name */
		native_layer_record_set(rt, native_next_layer(&at, layer) ? layer : reference, buf_str(&text), fn, arg);
}

/* ---- giving it back ---- */

/* The first line of RECORD, which is the rest then. NULL: it is no reference of a snapshot that LAYER is the uppermost layer of. */
static char *take_reference(struct str *record, const char *layer)
{
	AUTO(free) char *reference = NULL;
	char name[NATIVE_LAYER_LEN + 1];
	struct str line;
	const char *at;

	if (!str_cut(*record, '\n', &line, record) || line.n > RUNTIME_REFERENCE_MAX)
		return NULL;
	reference = strndup(line.p, line.n);
	at = reference;
	if (!at || !native_next_layer(&at, name) || strcmp(name, layer) != 0)
		return NULL;
	while (*at)
		if (!native_next_layer(&at, name))
			return NULL;
	return take_ptr(&reference);
}

static int tell(struct native *n, const struct layer_found *l, struct str record, struct err *e)
{
	AUTO(free) char *reference = take_reference(&record, l->name);
	char name[NATIVE_LAYER_LEN + 1];

	if (!reference)
		return err_set(e, ERR_INVALID, "a record without the reference of this snapshot");
	if (n->rt.users->adopt(reference, record, e, n->rt.users_arg) < 0)
		return -1;
	for (const char *at = reference; native_next_layer(&at, name);)
		(void)native_collect_note(n, name); /* or the next look does */
	return 0;
}

static void leave_alone(struct native *n, const struct layer_found *l, const struct err *why)
{
	log_error("the record of a snapshot was lost, and the copy beside its layer is no good: the layer is left alone",
		  LOG_S("layer", l->name), LOG_ERR(why));
	native_leave_alone(n, l->name);
}

static void go_on(struct adoption *a);

/* A warden that went away is asked again. One that has no record any more was about to lose the layer. */
static void on_text(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct adoption *a = arg;
	struct layer_found *l = &a->found[a->next++];
	struct err e = { 0 };

	(void)is_cut;
	if (failure && failure->err.code == ERR_UNAVAILABLE)
		a->failure = *failure;
	else if (failure && failure->err.code == ERR_NOT_FOUND)
		l->has_record = false;
	else if (failure)
		leave_alone(a->n, l, &failure->err);
	else if (a->n->rt.users && tell(a->n, l, text, &e) < 0)
		leave_alone(a->n, l, &e);
	go_on(a);
}

static void go_on(struct adoption *a)
{
	while (a->next < a->n_found && !a->found[a->next].is_unknown)
		a->next++;
	if (a->next < a->n_found && !a->failure.code && a->n->rt.users)
		native_layer_record_get(&a->n->rt, a->found[a->next].name, on_text, a);
	else
		a->fn(a);
}

/* ---- which are to be given back ---- */

struct recorded {
	struct map names; /* of uppermost layers; each its own value */
	bool failed;
};

static void note(const char *reference, void *arg)
{
	struct recorded *r = arg;

	if (strlen(reference) >= NATIVE_LAYER_LEN)
		r->failed |= !map_put(&r->names, (struct str){ reference, NATIVE_LAYER_LEN }, r);
}

int native_adopt(struct native *n, const struct runtime_layer_found *layers, size_t n_layers, void (*fn)(struct adoption *a))
{
	struct adoption *a = calloc(1, sizeof(*a) + n_layers * sizeof(a->found[0]));
	struct recorded r = { .names = MAP_INIT };
	bool asks = n->rt.users && n->rt.users->adopt;

	if (asks)
		n->rt.users->each_snapshot(note, &r, n->rt.users_arg);
	for (size_t i = 0; a && i < n_layers; i++) {
		struct layer_found *l = &a->found[a->n_found++];

		memcpy(l->name, layers[i].name, NATIVE_LAYER_LEN);
		l->has_record = layers[i].has_record;
		l->is_unknown = asks && l->has_record && !native_is_stranger(n, l->name) && !map_get(&r.names, str_of(l->name));
	}
	map_done(&r.names);
	if (!a || r.failed) {
		free(a);
		return -1;
	}
	a->n = n;
	a->fn = fn;
	free(n->snapshots.adoption);
	n->snapshots.adoption = a;
	go_on(a);
	return 0;
}
