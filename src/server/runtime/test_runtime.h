// SPDX-License-Identifier: Apache-2.0
/* server/runtime/test_runtime.h - for tests: a runtime that does what the script says. Its boxes outlive the control plane, as real
 * ones do. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/loop.h"
#include "net/transport.h"
#include "server/model/sandbox.h"
#include "server/runtime/runtime.h"

#define FAKE_BOXES_MAX 64
#define FAKE_CALLS_MAX 256
#define FAKE_DIALS_MAX 64
#define FAKE_LAYER_LEN 32

enum fake_kind { FAKE_CREATE, FAKE_PAUSE, FAKE_RESUME, FAKE_REMOVE, FAKE_DIAL, FAKE_LOGS, FAKE_INSPECT, FAKE_STATS, FAKE_SNAPSHOT, FAKE_SNAPSHOT_REMOVE,
		 FAKE_SNAPSHOTS, FAKE_VOLUME_MAKE, FAKE_VOLUME_REMOVE, FAKE_VOLUMES, FAKE_POLICY, FAKE_ACTIVITY, FAKE_RECORD_SET, FAKE_RECORD_GET, FAKE_LIST };

struct fake_call {
	enum fake_kind kind;
	char id[ID_MAX + 1];
	unsigned port;
	void *fn, *arg;
	bool is_done;
};

struct fake_box {
	char id[ID_MAX + 1];
	enum runtime_state state;
	struct runtime_end end;
};

struct fake_record { /* of a create, or set since; they outlive the control plane, too */
	char id[ID_MAX + 1];
	char text[4096];
	char reference[512]; /* of a snapshot's */
	bool is_damaged;
};

struct fake {
	struct runtime rt;
	struct loop *loop;
	struct deferred later, collecting;
	struct fake_call calls[FAKE_CALLS_MAX];
	unsigned n_calls, n_done;
	unsigned count[FAKE_LIST + 1];
	bool holds;                  /* completions wait for the test */
	unsigned fails[FAKE_LIST + 1]; /* this many of the next calls of that kind fail */
	struct runtime_failure failure;
	struct fake_box boxes[FAKE_BOXES_MAX];
	unsigned n_boxes;
	struct fake_record records[FAKE_BOXES_MAX];
	unsigned n_records;
	char layers[FAKE_BOXES_MAX][FAKE_LAYER_LEN + 1]; /* snapshots */
	bool is_stranger[FAKE_BOXES_MAX], is_marked[FAKE_BOXES_MAX]; /* of these */
	bool leaves_unknown;
	unsigned n_layers;
	char stack[512]; /* of the last create */
	char volumes[FAKE_BOXES_MAX][ID_MAX + 1]; /* that there are */
	unsigned n_volumes;
	uint64_t volume_bytes;                    /* of the last one */
	char mounts[1024];                        /* of the last create: "kind path mount_path ro|", without ids */
	int far[FAKE_DIALS_MAX]; /* the other ends of what was dialled */
	unsigned n_far;
	const char *logs;
	enum runtime_network network; /* of the last create, with its policy */
	char policy[512];
	const char *policy_now, *activity; /* what is answered to who asks; NULL: nobody keeps one */
	char token[RUNTIME_TOKEN_MAX + 1], env[256], entrypoint[256], image[256], digest[160];
	struct runtime_limits limits;
	struct runtime_log_query query;
	unsigned cancels;
	bool lives; /* not freed with the plane */
};

static inline struct fake_box *fake_find(struct fake *f, const char *id)
{
	for (unsigned i = 0; i < f->n_boxes; i++)
		if (strcmp(f->boxes[i].id, id) == 0)
			return &f->boxes[i];
	return NULL;
}

static inline struct fake_box *fake_add(struct fake *f, const char *id, enum runtime_state state)
{
	struct fake_box *b = &f->boxes[f->n_boxes++];

	assert_true(f->n_boxes < FAKE_BOXES_MAX);
	*b = (struct fake_box){ .state = state };
	(void)snprintf(b->id, sizeof(b->id), "%s", id);
	return b;
}

static inline struct fake_record *fake_record(const struct fake *f, const char *id)
{
	for (unsigned i = 0; i < f->n_records; i++)
		if (strcmp(f->records[i].id, id) == 0)
			return (struct fake_record *)(uintptr_t)&f->records[i];
	return NULL;
}

static inline struct fake_record *fake_keep(struct fake *f, const char *id, struct str text)
{
	struct fake_record *r = fake_record(f, id);

	assert_true(r || f->n_records < FAKE_BOXES_MAX);
	if (!r)
		r = &f->records[f->n_records++];
	(void)snprintf(r->id, sizeof(r->id), "%s", id);
	(void)snprintf(r->text, sizeof(r->text), "%.*s", (int)text.n, text.p);
	r->is_damaged = false;
	return r;
}

static inline void fake_unkeep(struct fake *f, const char *id)
{
	struct fake_record *r = fake_record(f, id);

	if (r)
		*r = f->records[--f->n_records];
}

static inline void fake_drop(struct fake *f, const char *id)
{
	struct fake_box *b = fake_find(f, id);

	fake_unkeep(f, id);
	if (b)
		*b = f->boxes[--f->n_boxes];
}

/* The failure of this call, or NULL. */
static inline const struct runtime_failure *fake_failure(struct fake *f, const struct fake_call *c)
{
	if (f->fails[c->kind] == 0)
		return NULL;
	f->fails[c->kind]--;
	return &f->failure;
}

static inline void fake_list(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	struct runtime_box boxes[FAKE_BOXES_MAX];

	for (unsigned i = 0; i < f->n_boxes; i++)
		boxes[i] = (struct runtime_box){ f->boxes[i].id, f->boxes[i].state, f->boxes[i].end };
	((runtime_list_fn *)c->fn)(failure ? NULL : boxes, failure ? 0 : f->n_boxes, failure, c->arg);
}

static inline int fake_layer(const struct fake *f, const char *name)
{
	for (unsigned i = 0; i < f->n_layers; i++)
		if (strcmp(f->layers[i], name) == 0)
			return (int)i;
	return -1;
}

static inline void fake_list_volumes(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	const char *ids[FAKE_BOXES_MAX];

	for (unsigned i = 0; i < f->n_volumes; i++)
		ids[i] = f->volumes[i];
	((runtime_names_fn *)c->fn)(failure ? NULL : ids, failure ? 0 : f->n_volumes, failure, c->arg);
}

/* A reference is the names of layers, the uppermost first, with ':' between them. */
static inline void fake_mark(const char *reference, void *arg)
{
	struct fake *f = arg;

	for (unsigned i = 0; i < f->n_layers; i++)
		f->is_marked[i] |= strstr(reference, f->layers[i]) != NULL;
}

static inline void fake_remove_layer(struct fake *f, unsigned at)
{
	fake_unkeep(f, f->layers[at]);
	f->n_layers--;
	memmove(f->layers[at], f->layers[f->n_layers], sizeof(f->layers[0]));
	f->is_stranger[at] = f->is_stranger[f->n_layers];
	f->is_stranger[f->n_layers] = false;
}

/* What nobody refers to goes at once. Returns how many there are of them. */
static inline unsigned fake_collect(struct fake *f, bool removes)
{
	unsigned unknown = 0;

	if (!f->rt.users)
		return 0;
	memset(f->is_marked, 0, sizeof(f->is_marked));
	f->rt.users->each_reference(fake_mark, f, f->rt.users_arg);
	for (unsigned i = f->n_layers; i > 0; i--) {
		if (f->is_marked[i - 1] || f->is_stranger[i - 1])
			continue;
		unknown++;
		f->is_stranger[i - 1] = !removes;
		if (removes)
			fake_remove_layer(f, i - 1);
	}
	return unknown;
}

struct fake_search {
	const char *layer;
	bool is_found;
};

static inline void fake_compare(const char *reference, void *arg)
{
	struct fake_search *q = arg;

	q->is_found |= strncmp(reference, q->layer, FAKE_LAYER_LEN) == 0;
}

/* Of each snapshot with a record that is recorded nowhere else. */
static inline void fake_give_back(struct fake *f)
{
	memset(f->is_stranger, 0, sizeof(f->is_stranger));
	for (unsigned i = 0; f->rt.users && i < f->n_layers; i++) {
		const struct fake_record *r = fake_record(f, f->layers[i]);
		struct fake_search q = { .layer = f->layers[i] };

		f->rt.users->each_snapshot(fake_compare, &q, f->rt.users_arg);
		if (r && !q.is_found)
			f->is_stranger[i] =
				f->rt.users->adopt(r->reference, str_of(r->text), &(struct err){ 0 }, f->rt.users_arg) < 0;
	}
}

struct fake_found {
	struct runtime_snapshots pub; /* first */
	const struct fake *fake;
};

static inline bool fake_has_snapshot(const struct runtime_snapshots *s, const char *reference)
{
	const struct fake *f = ((const struct fake_found *)(const void *)s)->fake;
	size_t n = 0;

	for (unsigned i = 0; i < f->n_layers; i++)
		n += strstr(reference, f->layers[i]) != NULL;
	return n == (strlen(reference) + 1) / (FAKE_LAYER_LEN + 1);
}

static inline bool fake_has_record(const struct runtime_snapshots *s, const char *reference)
{
	char layer[FAKE_LAYER_LEN + 1];

	(void)snprintf(layer, sizeof(layer), "%s", reference);
	return fake_record(((const struct fake_found *)(const void *)s)->fake, layer);
}

static inline void fake_snap(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	const struct runtime_snapshot made = { .flush_us = 7, .frozen_us = 8 };
	struct fake_found found = { .pub = { .has = fake_has_snapshot, .has_record = fake_has_record }, .fake = f };

	if (!failure && c->kind == FAKE_SNAPSHOT && fake_layer(f, c->id) < 0)
		(void)snprintf(f->layers[f->n_layers++], sizeof(f->layers[0]), "%.32s", c->id);
	if (c->kind == FAKE_SNAPSHOT) {
		((runtime_snapshot_fn *)c->fn)(failure ? NULL : &made, failure, c->arg);
	} else if (c->kind == FAKE_SNAPSHOT_REMOVE) {
		if (!failure)
			(void)fake_collect(f, true);
		((runtime_done_fn *)c->fn)(failure, c->arg);
	} else {
		if (!failure)
			fake_give_back(f);
		if (!failure)
			found.pub.n_unknown = fake_collect(f, !f->leaves_unknown);
		((runtime_snapshots_fn *)c->fn)(failure ? NULL : &found.pub, failure, c->arg);
	}
}

static inline void fake_dial(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	struct runtime_failure no_memory = { .code = "SANDBOX_QUERY_FAILED", .status = 503 };
	struct transport *t;
	int pair[2];

	if (failure) {
		((runtime_dial_fn *)c->fn)(NULL, failure, c->arg);
		return;
	}
	assert_true(f->n_far < FAKE_DIALS_MAX);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	f->far[f->n_far++] = pair[1];
	t = transport_plain(pair[0], &no_memory.err);
	if (!t)
		(void)close(pair[0]);
	((runtime_dial_fn *)c->fn)(t, t ? NULL : &no_memory, c->arg);
}

static inline void fake_done(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	struct fake_box *b = fake_find(f, c->id);

	if (!failure && c->kind == FAKE_CREATE)
		(void)fake_add(f, c->id, RUNTIME_RUNNING);
	if (b && b->state == RUNTIME_ENDED)
		b = NULL;
	if (!failure && b && c->kind == FAKE_PAUSE)
		b->state = RUNTIME_PAUSED;
	if (!failure && b && c->kind == FAKE_RESUME)
		b->state = RUNTIME_RUNNING;
	if (!failure && c->kind == FAKE_REMOVE)
		fake_drop(f, c->id);
	((runtime_done_fn *)c->fn)(failure, c->arg);
}

static inline bool fake_has_volume(struct fake *f, const char *id)
{
	for (unsigned i = 0; i < f->n_volumes; i++)
		if (strcmp(f->volumes[i], id) == 0)
			return true;
	return false;
}

static inline void fake_volume(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	bool is_there = fake_has_volume(f, c->id);

	if (!failure && c->kind == FAKE_VOLUME_MAKE && !is_there) {
		assert_true(f->n_volumes < FAKE_BOXES_MAX);
		(void)snprintf(f->volumes[f->n_volumes++], ID_MAX + 1, "%s", c->id);
	}
	for (unsigned i = 0; !failure && c->kind == FAKE_VOLUME_REMOVE && i < f->n_volumes; i++)
		if (strcmp(f->volumes[i], c->id) == 0)
			memcpy(f->volumes[i], f->volumes[--f->n_volumes], ID_MAX + 1);
	((runtime_done_fn *)c->fn)(failure, c->arg);
}

static inline void fake_tell_record(struct fake *f, const struct fake_call *c, const struct runtime_failure *failure)
{
	const struct runtime_failure none = { .code = "SANDBOX_QUERY_FAILED", .status = 404, .err.code = ERR_NOT_FOUND };
	const struct runtime_failure damaged = { .code = "SANDBOX_QUERY_FAILED", .status = 500, .err.code = ERR_INVALID };
	const struct fake_record *r = fake_record(f, c->id);

	if (!failure && !r)
		failure = &none;
	if (!failure && r->is_damaged)
		failure = &damaged;
	((runtime_text_fn *)c->fn)(str_of(failure ? "" : r->text), false, failure, c->arg);
}

static inline void fake_complete(struct fake *f, struct fake_call *c)
{
	static const struct runtime_fact facts[] = { { "network", "10.0.0.2/30" } };
	const struct runtime_info info = { RUNTIME_RUNNING, facts, 1 };
	const struct runtime_stats stats = { .cpu_usec = 12, .memory_bytes = 34, .pids = 5, .io_read_bytes = 6, .io_written_bytes = 7 };
	const struct runtime_failure nobody = { .code = "SANDBOX_QUERY_FAILED", .status = 503, .err.code = ERR_NOT_FOUND };
	const struct runtime_failure *failure = fake_failure(f, c);
	struct fake_call call = *c;

	c->is_done = true;
	switch (call.kind) {
	case FAKE_VOLUME_MAKE:
	case FAKE_VOLUME_REMOVE:
		fake_volume(f, &call, failure);
		break;
	case FAKE_RECORD_GET:
		fake_tell_record(f, &call, failure);
		break;
	case FAKE_RECORD_SET:
	case FAKE_CREATE:
	case FAKE_PAUSE:
	case FAKE_RESUME:
	case FAKE_REMOVE:
		fake_done(f, &call, failure);
		break;
	case FAKE_DIAL:
		fake_dial(f, &call, failure);
		break;
	case FAKE_LOGS:
		((runtime_text_fn *)call.fn)(str_of(f->logs), false, failure, call.arg);
		break;
	case FAKE_POLICY:
		((runtime_text_fn *)call.fn)(str_of(f->policy_now), false, failure ? failure : f->policy_now ? NULL : &nobody, call.arg);
		break;
	case FAKE_ACTIVITY:
		((runtime_text_fn *)call.fn)(str_of(f->activity), false, failure ? failure : f->activity ? NULL : &nobody, call.arg);
		break;
	case FAKE_INSPECT:
		((runtime_info_fn *)call.fn)(failure ? NULL : &info, failure, call.arg);
		break;
	case FAKE_STATS:
		((runtime_stats_fn *)call.fn)(failure ? NULL : &stats, failure, call.arg);
		break;
	case FAKE_VOLUMES:
		fake_list_volumes(f, &call, failure);
		break;
	case FAKE_SNAPSHOT:
	case FAKE_SNAPSHOT_REMOVE:
	case FAKE_SNAPSHOTS:
		fake_snap(f, &call, failure);
		break;
	case FAKE_LIST:
		fake_list(f, &call, failure);
		break;
	}
}

/* Lets what waits complete. */
static inline void fake_release(struct fake *f)
{
	while (f->n_done < f->n_calls) {
		struct fake_call *c = &f->calls[f->n_done++];

		if (!c->is_done)
			fake_complete(f, c);
	}
	f->n_calls = f->n_done = 0;
}

static inline void fake_later(void *arg)
{
	struct fake *f = arg;

	if (!f->holds)
		fake_release(f);
}

static inline void fake_call(struct runtime *rt, enum fake_kind kind, const char *id, void *fn, void *arg, unsigned port)
{
	struct fake *f = container_of(rt, struct fake, rt);
	struct fake_call *c = &f->calls[f->n_calls++];

	assert_true(f->n_calls < FAKE_CALLS_MAX);
	*c = (struct fake_call){ .kind = kind, .fn = fn, .arg = arg, .port = port };
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	f->count[kind]++;
	defer(&f->later, f->loop, fake_later, f, "fake runtime");
}

static inline void fake_create(struct runtime *rt, const struct runtime_spec *spec, runtime_done_fn *fn, void *arg)
{
	struct fake *f = container_of(rt, struct fake, rt);
	size_t n = 0;

	(void)snprintf(f->token, sizeof(f->token), "%s", spec->execd_token);
	(void)snprintf(f->image, sizeof(f->image), "%s", spec->image);
	(void)snprintf(f->digest, sizeof(f->digest), "%s", spec->image_digest ? spec->image_digest : "");
	f->limits = spec->limits;
	f->network = spec->network;
	(void)snprintf(f->policy, sizeof(f->policy), "%.*s", (int)spec->policy.n, spec->policy.n > 0 ? spec->policy.p : "");
	f->env[0] = f->entrypoint[0] = '\0';
	for (size_t i = 0; i < spec->env.n; i++)
		n += (size_t)snprintf(f->env + n, sizeof(f->env) - n, "%s=%s;", spec->env.items[i].key, spec->env.items[i].value);
	n = 0;
	f->stack[0] = '\0';
	if (spec->base)
		(void)snprintf(f->stack, sizeof(f->stack), "%s;", spec->base);
	n = 0;
	for (size_t i = 0; i < spec->entrypoint.n; i++)
		n += (size_t)snprintf(f->entrypoint + n, sizeof(f->entrypoint) - n, "%s|", spec->entrypoint.items[i]);
	n = 0;
	f->mounts[0] = '\0';
	for (size_t i = 0; i < spec->n_volumes; i++) {
		const struct runtime_volume *v = &spec->volumes[i];

		assert_true(v->kind == RUNTIME_VOLUME_HOST || fake_has_volume(f, v->id));
		n += (size_t)snprintf(f->mounts + n, sizeof(f->mounts) - n, "%s '%s' %s%s|",
				      v->kind == RUNTIME_VOLUME_HOST ? "host" : "named", v->path, v->mount_path,
				      v->is_read_only ? " ro" : "");
	}
	fake_keep(f, spec->id, spec->record);
	fake_call(rt, FAKE_CREATE, spec->id, (void *)fn, arg, 0);
}

static inline void fake_record_set(struct runtime *rt, const char *id, struct str record, runtime_done_fn *fn, void *arg)
{
	fake_keep(container_of(rt, struct fake, rt), id, record);
	fake_call(rt, FAKE_RECORD_SET, id, (void *)fn, arg, 0);
}

static inline void fake_record_get(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	fake_call(rt, FAKE_RECORD_GET, id, (void *)fn, arg, 0);
}

/* Known by their layers, beside the records of boxes. */
static inline void fake_snapshot_record_set(struct runtime *rt, const char *reference, struct str record, runtime_done_fn *fn, void *arg)
{
	struct fake *f = container_of(rt, struct fake, rt);
	char layer[FAKE_LAYER_LEN + 1];

	(void)snprintf(layer, sizeof(layer), "%s", reference);
	if (record.n == 0 && f->fails[FAKE_RECORD_SET] == 0)
		fake_unkeep(f, layer);
	else if (record.n > 0 && f->fails[FAKE_RECORD_SET] == 0)
		(void)snprintf(fake_keep(f, layer, record)->reference, sizeof(f->records[0].reference), "%s", reference);
	fake_call(rt, FAKE_RECORD_SET, layer, (void *)fn, arg, 0);
}

static inline void fake_volume_make(struct runtime *rt, const char *id, uint64_t limit_bytes, runtime_done_fn *fn, void *arg)
{
	container_of(rt, struct fake, rt)->volume_bytes = limit_bytes;
	fake_call(rt, FAKE_VOLUME_MAKE, id, (void *)fn, arg, 0);
}

static inline void fake_volumes(struct runtime *rt, runtime_names_fn *fn, void *arg)
{
	fake_call(rt, FAKE_VOLUMES, "", (void *)fn, arg, 0);
}

static inline void fake_volume_remove(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	fake_call(rt, FAKE_VOLUME_REMOVE, id, (void *)fn, arg, 0);
}

static inline void fake_pause(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	fake_call(rt, FAKE_PAUSE, id, (void *)fn, arg, 0);
}

static inline void fake_resume(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	fake_call(rt, FAKE_RESUME, id, (void *)fn, arg, 0);
}

static inline void fake_remove(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	fake_call(rt, FAKE_REMOVE, id, (void *)fn, arg, 0);
}

static inline void fake_dial_op(struct runtime *rt, const char *id, unsigned port, runtime_dial_fn *fn, void *arg)
{
	fake_call(rt, FAKE_DIAL, id, (void *)fn, arg, port);
}

static inline void fake_logs(struct runtime *rt, const char *id, const struct runtime_log_query *q, runtime_text_fn *fn, void *arg)
{
	container_of(rt, struct fake, rt)->query = *q;
	fake_call(rt, FAKE_LOGS, id, (void *)fn, arg, 0);
}

static inline void fake_policy(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	fake_call(rt, FAKE_POLICY, id, (void *)fn, arg, 0);
}

static inline void fake_activity(struct runtime *rt, const char *id, runtime_text_fn *fn, void *arg)
{
	fake_call(rt, FAKE_ACTIVITY, id, (void *)fn, arg, 0);
}

static inline void fake_inspect(struct runtime *rt, const char *id, runtime_info_fn *fn, void *arg)
{
	fake_call(rt, FAKE_INSPECT, id, (void *)fn, arg, 0);
}

static inline void fake_stats(struct runtime *rt, const char *id, runtime_stats_fn *fn, void *arg)
{
	fake_call(rt, FAKE_STATS, id, (void *)fn, arg, 0);
}

static inline void fake_list_op(struct runtime *rt, runtime_list_fn *fn, void *arg)
{
	fake_call(rt, FAKE_LIST, "", (void *)fn, arg, 0);
}

static inline int fake_snapshot_reference(struct runtime *rt, const char *id, const char *base, struct buf *ret, struct err *e)
{
	(void)rt;
	if (base && strlen(base) > 20 * FAKE_LAYER_LEN)
		return err_set(e, ERR_LIMIT, "stands on too much already");
	for (; *id; id++)
		if (*id != '-')
			buf_add(ret, id, 1);
	buf_addf(ret, "%s%s", base ? ":" : "", base ? base : "");
	return ret->failed ? err_no_memory(e) : 0;
}

static inline bool fake_snapshot_is_below(struct runtime *rt, const char *reference, const char *other)
{
	char layer[FAKE_LAYER_LEN + 1];

	(void)rt;
	(void)snprintf(layer, sizeof(layer), "%s", reference);
	return strstr(other, layer);
}

/* What is asked for is known by its layer. */
static inline void fake_snapshot(struct runtime *rt, const char *id, const char *reference, runtime_snapshot_fn *fn, void *arg)
{
	char layer[FAKE_LAYER_LEN + 1];

	(void)snprintf(layer, sizeof(layer), "%s", reference);
	assert_non_null(fake_find(container_of(rt, struct fake, rt), id));
	fake_call(rt, FAKE_SNAPSHOT, layer, (void *)fn, arg, 0);
}

static inline void fake_snapshot_remove(struct runtime *rt, const char *reference, runtime_done_fn *fn, void *arg)
{
	(void)reference;
	fake_call(rt, FAKE_SNAPSHOT_REMOVE, "", (void *)fn, arg, 0);
}

static inline void fake_snapshots(struct runtime *rt, bool leaves_unknown, runtime_snapshots_fn *fn, void *arg)
{
	container_of(rt, struct fake, rt)->leaves_unknown = leaves_unknown;
	fake_call(rt, FAKE_SNAPSHOTS, "", (void *)fn, arg, 0);
}

static inline void fake_later_collect(void *arg)
{
	(void)fake_collect(arg, true);
}

static inline void fake_released(struct runtime *rt)
{
	struct fake *f = container_of(rt, struct fake, rt);

	defer(&f->collecting, f->loop, fake_later_collect, f, "fake runtime");
}

static inline void fake_cancel(struct runtime *rt, const char *id)
{
	(void)id;
	container_of(rt, struct fake, rt)->cancels++;
}

static inline int fake_check_image(struct runtime *rt, const char *uri, struct err *e)
{
	(void)rt;
	return strcmp(uri, "host") == 0 ? 0 : err_set(e, ERR_INVALID, "must be 'host'");
}

static inline void fake_free(struct runtime *rt)
{
	(void)rt;
}

#define FAKE_NETWORKS (1U << RUNTIME_NET_NONE | 1U << RUNTIME_NET_OPEN | 1U << RUNTIME_NET_POLICY)

/* But for networks, and images of its own. */
static inline struct runtime_capabilities fake_can(void)
{
	static const struct runtime_platform here = { "linux", "amd64" };

	return (struct runtime_capabilities){
		.platforms = &here, .n_platforms = 1, .limits = LIMIT_CPU | LIMIT_MEMORY | LIMIT_PIDS | LIMIT_DISK,
		.networks = 1U << RUNTIME_NET_NONE, .pauses = true, .snapshots = true, .forks = true, .rolls_back = true, .volumes = true,
		.host_paths = true, .logs = true, .stats = true,
	};
}

static inline void fake_init(struct fake *f, struct loop *l)
{
	static const struct runtime_ops ops = {
		.create = fake_create, .pause = fake_pause, .resume = fake_resume, .remove = fake_remove, .dial = fake_dial_op,
		.policy = fake_policy, .activity = fake_activity, .logs = fake_logs, .inspect = fake_inspect, .stats = fake_stats, .record_set = fake_record_set, .record_get = fake_record_get, .list = fake_list_op,
		.snapshot_reference = fake_snapshot_reference, .snapshot_is_below = fake_snapshot_is_below,
		.snapshot = fake_snapshot, .snapshot_remove = fake_snapshot_remove, .snapshots = fake_snapshots,
		.snapshots_released = fake_released, .snapshot_record_set = fake_snapshot_record_set,
		.volume_make = fake_volume_make, .volume_remove = fake_volume_remove, .volumes = fake_volumes,
		.cancel = fake_cancel, .check_image = fake_check_image, .free = fake_free,
	};

	*f = (struct fake){
		.rt = { .ops = &ops, .name = "native", .code_prefix = "NATIVE", .can = fake_can() },
		.loop = l,
		.logs = "",
		.failure = { .code = "SANDBOX_START_FAILED", .status = 500,
			     .err = { .code = ERR_IO, .msg = "mount '/secret/path': Operation not permitted" } },
	};
}

/* A box ends by itself. */
static inline void fake_end(struct fake *f, const char *id, const struct runtime_end *end)
{
	struct fake_box *b = fake_find(f, id);

	if (b) {
		b->state = RUNTIME_ENDED;
		b->end = *end;
	}
	f->rt.events->ended(id, end, f->rt.events_arg);
}

static inline void fake_done_with(struct fake *f)
{
	defer_cancel(&f->later);
	defer_cancel(&f->collecting);
	f->n_calls = f->n_done = 0;
	for (unsigned i = 0; i < f->n_far; i++)
		closep(&f->far[i]);
	f->n_far = 0;
}
