// SPDX-License-Identifier: Apache-2.0
#include "server/model/fork.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "server/model/snapshot.h"

#include "base/banned.h"

#define FORK_ARENA_MAX ((size_t)4 * 1024 * 1024)

struct job {
	struct sandboxes *sandboxes;
	struct snapshots *snapshots;
	const char *name; /* of the snapshot that stays, or NULL */
	struct snapshot_pin pin;
	struct arena arena; /* of the order, which outlives the request for it */
	struct sandbox_order order;
	fork_fn *fn;
	void *arg;
	size_t count, n, pending; /* wanted, begun, not yet told */
	char ids[FORKS_MAX][ID_MAX + 1];
	bool has_failed;
	struct fault failure; /* the first */
};

static void job_free(struct job *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->order.env.n; i++) /* the copies are ours, and may be secrets */
		secret_wipe((void *)(uintptr_t)j->order.env.items[i].value, strlen(j->order.env.items[i].value));
	snapshot_unpin(&j->pin);
	arena_done(&j->arena);
	free(j);
}
DEFINE_AUTO(struct job *, job_free)

/* ---- the order ---- */

static const char *copy(struct job *j, const char *z)
{
	const char *c = z ? arena_dup(&j->arena, str_of(z)) : NULL;

	j->has_failed |= z && !c;
	return c;
}

static void copy_list(struct job *j, const struct string_list *from, struct string_list *to)
{
	*to = (struct string_list){ .items = arena_array(&j->arena, from->n + 1, sizeof(*to->items)) };
	j->has_failed |= !to->items;
	for (; to->items && to->n < from->n; to->n++)
		to->items[to->n] = copy(j, from->items[to->n]);
}

static void copy_map(struct job *j, const struct string_map *from, struct string_map *to)
{
	*to = (struct string_map){ .items = arena_array(&j->arena, from->n + 1, sizeof(*to->items)) };
	j->has_failed |= !to->items;
	for (; to->items && to->n < from->n && !j->has_failed; to->n++) {
		to->items[to->n].key = copy(j, from->items[to->n].key);
		to->items[to->n].value = copy(j, from->items[to->n].value);
		if (j->has_failed)
			return;
	}
}

static void copy_volumes(struct job *j, const struct sandbox_order *o)
{
	uint64_t *sizes = arena_array(&j->arena, o->n_volumes + 1, sizeof(*sizes));

	j->has_failed |= !sizes || row_volumes_copy(&j->arena, o->volumes, o->n_volumes, &j->order.volumes, &(struct err){ 0 }) < 0;
	for (size_t i = 0; sizes && i < o->n_volumes; i++)
		sizes[i] = o->volume_sizes[i];
	j->order.volume_sizes = sizes;
}

static int copy_order(struct job *j, const struct sandbox_order *o, struct err *e)
{
	j->order = *o;
	j->order.image = copy(j, o->image);
	j->order.image_digest = copy(j, o->image_digest);
	j->order.snapshot = copy(j, o->snapshot);
	j->order.os = copy(j, o->os);
	j->order.arch = copy(j, o->arch);
	j->order.policy = copy(j, o->policy);
	j->order.base = NULL;
	j->order.key = (struct str){ 0 };
	j->order.ignored = NULL;
	j->order.n_ignored = 0;
	copy_volumes(j, o);
	copy_list(j, &o->entrypoint, &j->order.entrypoint);
	copy_map(j, &o->env, &j->order.env);
	copy_map(j, &o->metadata, &j->order.metadata);
	return j->has_failed ? err_no_memory(e) : 0;
}

/* ---- the steps ---- */

static void note_failure(struct job *j, const struct fault *f)
{
	if (!j->has_failed)
		j->failure = *f;
	j->has_failed = true;
}

static void remove_made(struct job *j)
{
	struct fault ignored;

	for (size_t i = 0; i < j->n; i++) {
		struct sandbox *sb = sandboxes_find(j->sandboxes, str_of(j->ids[i]));

		if (sb) /* should it be out of memory for that, it lives as long as it was asked to */
			(void)sandbox_remove(sb, NULL, NULL, &ignored);
	}
}

static void finish(struct job *j)
{
	KILL_POINT("server.fork.made");
	if (j->has_failed) {
		remove_made(j);
		j->fn(NULL, 0, &j->failure, j->arg);
	} else {
		log_info("sandbox forked", LOG_U("count", j->n), LOG_S("snapshot", j->pin.id));
		j->fn((const char(*)[ID_MAX + 1])j->ids, j->n, NULL, j->arg);
	}
	KILL_POINT("server.fork.told");
	job_free(j);
}

static void on_created(struct sandbox *sb, const struct fault *f, void *arg)
{
	struct job *j = arg;

	(void)sb;
	if (f)
		note_failure(j, f);
	if (--j->pending == 0)
		finish(j);
}

static void create_all(struct job *j)
{
	struct sandbox *sb = NULL;
	struct fault f;

	for (; j->n < j->count && !j->has_failed; j->n++) {
		if (sandboxes_create(j->sandboxes, &j->order, on_created, j, &sb, &f) < 0) {
			note_failure(j, &f);
			break;
		}
		(void)snprintf(j->ids[j->n], sizeof(j->ids[0]), "%s", sb->row.id);
		j->pending++;
	}
	KILL_POINT("server.fork.begun");
	if (j->pending == 0)
		finish(j);
}

static void on_named(struct snapshot *sn, const struct fault *f, void *arg)
{
	struct job *j = arg;

	if (f) {
		note_failure(j, f);
		finish(j);
		return;
	}
	j->order.snapshot = copy(j, sn->row.id);
	if (j->has_failed)
		(void)fault_set(&j->failure, 503, NULL, "UNAVAILABLE", "out of memory");
	create_all(j);
}

/* Once the order is complete. */
static void go_on(struct job *j, struct sandbox *source)
{
	struct fault why;

	if (!j->name || j->has_failed) {
		create_all(j);
	} else if (snapshots_keep(j->snapshots, source, j->name, &j->pin, on_named, j, &why) < 0) {
		note_failure(j, &why);
		finish(j);
	}
}

/* It may have changed since the source was made. */
static void on_policy(struct sandbox *source, const struct fault *f, void *arg)
{
	struct job *j = arg;

	if (f) {
		note_failure(j, f);
		finish(j);
		return;
	}
	if (source->policy_now.n > 0) {
		j->order.network = RUNTIME_NET_POLICY;
		j->order.policy = arena_dup(&j->arena, source->policy_now);
		if (!j->order.policy) {
			(void)fault_set(&j->failure, 503, NULL, "UNAVAILABLE", "out of memory");
			j->has_failed = true;
		}
	}
	go_on(j, source);
}

static void on_layer(struct sandbox *source, const struct fault *f, void *arg)
{
	struct job *j = arg;
	struct fault why;

	KILL_POINT("server.fork.layer");
	if (f) {
		note_failure(j, f);
		finish(j);
		return;
	}
	if (snapshot_repin(&j->pin, source, &why) < 0)
		note_failure(j, &why);
	j->order.base = j->pin.reference;
	if (!j->order.inherits || j->has_failed) {
		go_on(j, source);
	} else if (sandbox_read_policy(source, on_policy, j, &why) < 0) {
		note_failure(j, &why);
		finish(j);
	}
}

static int check(const struct fork_spec *sp, struct fault *f)
{
	const struct sandbox_row *r = &sp->source->row;

	if (r->state != SANDBOX_RUNNING && r->state != SANDBOX_PAUSED)
		return fault_set(f, 409, "SNAPSHOT", "INVALID_SOURCE_STATE", "sandbox '%s' is %s, neither Running nor Paused", r->id,
				 sandbox_state_name(r->state));
	return 0;
}

int sandboxes_fork(const struct fork_spec *spec, fork_fn *fn, void *arg, struct fault *f)
{
	AUTO(job_free) struct job *j = NULL;
	struct err e = { 0 };

	if (check(spec, f) < 0)
		return -1;
	j = calloc(1, sizeof(*j));
	if (!j)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	j->arena = ARENA_INIT(FORK_ARENA_MAX);
	j->sandboxes = spec->sandboxes;
	j->snapshots = spec->snapshots;
	j->name = copy(j, spec->name);
	j->count = spec->count;
	j->fn = fn;
	j->arg = arg;
	if (copy_order(j, spec->order, &e) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	if (snapshot_pin(spec->snapshots, spec->source, &j->pin, f) < 0)
		return -1;
	if (sandbox_snapshot(spec->source, j->pin.reference, on_layer, j, f) < 0)
		return -1;
	(void)take_ptr(&j);
	return 0;
}
