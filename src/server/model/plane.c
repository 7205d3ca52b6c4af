// SPDX-License-Identifier: Apache-2.0
#include "server/model/plane.h"

#include "base/err.h"
#include "net/loop.h"
#include "server/model/pool.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

/* ---- what waits for the runtime ---- */

void plane_job_begin(struct plane *p, struct plane_job *j, void (*drop)(struct plane_job *j))
{
	*j = (struct plane_job){ .plane = p, .drop = drop };
	list_prepend(&p->jobs, &j->at);
}

void plane_job_end(struct plane_job *j)
{
	list_remove(&j->plane->jobs, &j->at);
}

/* ---- life ---- */

void plane_close(struct plane *p)
{
	struct plane_job *j;

	if (!p)
		return;
	p->spec.parts->stop(p);
	if (p->spec.runtime->users_arg == p)
		p->spec.runtime->users = NULL;
	if (p->snapshots)
		snapshots_stop(p->snapshots);
	pools_stop(p->pools);
	sandboxes_free(p->sandboxes);
	pools_free(p->pools);
	while ((j = LIST_TAKE(&p->jobs, struct plane_job, at)))
		j->drop(j);
	snapshots_free(p->snapshots);
	store_close(p->store);
	p->spec.parts->close(p);
	free(p);
}

static void on_gone(struct sandbox *sb, void *arg)
{
	struct plane *p = arg;

	pools_gone(p->pools, sb); /* first: it may be calling it */
	p->spec.parts->gone(p, sb);
	if (p->spec.runtime->ops->snapshots_released)
		p->spec.runtime->ops->snapshots_released(p->spec.runtime);
}

static bool is_image_used(const char *digest, void *arg)
{
	const struct plane *p = arg;

	return sandboxes_have_image(p->sandboxes, digest) || snapshots_have_image(p->snapshots, digest);
}

static void on_ended(struct sandbox *sb, void *arg)
{
	struct plane *p = arg;

	pools_ended(p->pools, sb);
}

static void on_found(struct sandbox *sb, void *arg)
{
	struct plane *p = arg;

	p->spec.parts->found(p, sb);
	pools_found(p->pools, sb); /* last: it may not keep it */
}

static void on_denied(const struct runtime_denial *d, void *arg)
{
	struct plane *p = arg;

	p->spec.parts->denied(p, d);
}

static void each_reference(runtime_reference_fn *fn, void *fn_arg, void *arg)
{
	const struct plane *p = arg;

	snapshots_each_reference(p->snapshots, fn, fn_arg);
	sandboxes_each_reference(p->sandboxes, fn, fn_arg);
}

static void each_snapshot(runtime_reference_fn *fn, void *fn_arg, void *arg)
{
	snapshots_each_recorded(((const struct plane *)arg)->snapshots, fn, fn_arg);
}

static int adopt(const char *reference, struct str record, struct err *e, void *arg)
{
	return snapshots_adopt(((const struct plane *)arg)->snapshots, reference, record, e);
}

static const struct runtime_users users = {
	.uses_image = is_image_used, .each_reference = each_reference, .each_snapshot = each_snapshot, .adopt = adopt,
};

struct plane *plane_open(const struct plane_spec *spec, enum store_fault *ret_fault, struct err *e)
{
	AUTO(plane_close) struct plane *p = calloc(1, sizeof(*p));
	struct sandboxes_spec set = {
		.loop = spec->loop, .runtime = spec->runtime, .boot_id = spec->boot_id,
		.creates_max = spec->creates_max > 0 ? spec->creates_max : PLANE_CREATES_MAX,
		.wall_us = spec->wall_us, .wall_arg = spec->wall_arg, .gone = on_gone, .ended = on_ended, .denied = on_denied,
		.found = on_found, .gone_arg = p,
	};

	struct snapshots_spec snapshots = {
		.loop = spec->loop, .runtime = spec->runtime, .wall_us = spec->wall_us, .wall_arg = spec->wall_arg,
	};
	struct pools_spec pools = { .plane = p };

	*ret_fault = STORE_FAILED;
	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->spec = *spec;
	set.host_paths = &p->spec.host_paths;
	p->store = store_open(spec->state_dir, ret_fault, e);
	if (!p->store)
		return NULL;
	if (spec->runtime->ops->open && spec->runtime->ops->open(spec->runtime, p->store, ret_fault, e) < 0)
		return NULL;
	if (spec->parts->open(p, e) < 0)
		return NULL;
	snapshots.store = set.store = p->store;
	p->snapshots = snapshots_new(&snapshots, ret_fault, e);
	if (!p->snapshots)
		return NULL;
	p->pools = pools_new(&pools, ret_fault, e);
	if (!p->pools)
		return NULL;
	p->sandboxes = sandboxes_new(&set, ret_fault, e);
	if (!p->sandboxes)
		return NULL;
	spec->runtime->users = &users;
	spec->runtime->users_arg = p;
	return take_ptr(&p);
}

struct recovery {
	struct plane *plane;
	bool is_over;
	struct err e;
};

static void on_snapshots(const struct err *e, void *arg)
{
	struct recovery *r = arg;

	r->is_over = true;
	if (e)
		r->e = *e;
}

static void on_recovered(const struct err *e, void *arg)
{
	struct recovery *r = arg;

	if (!e) {
		snapshots_recover(r->plane->snapshots, r->plane->sandboxes, on_snapshots, r);
		return;
	}
	r->is_over = true;
	r->e = *e;
}

static void on_late(void *arg)
{
	struct recovery *r = arg;

	r->is_over = true;
	(void)err_set(&r->e, ERR_TIMEOUT, "the runtime did not answer");
}

int plane_recover(struct plane *p, struct err *e)
{
	struct recovery r = { .plane = p };
	struct timer late = { 0 };
	int rc = 0;

	if (loop_turn(p->spec.loop, 0, e) < 0) /* its time stood still while the store was opened */
		return -1;
	if (timer_init(&late, p->spec.loop, on_late, &r, "recovery", e) < 0)
		return -1;
	timer_in(&late, PLANE_RECOVER_MS);
	sandboxes_recover(p->sandboxes, on_recovered, &r);
	while (rc == 0 && !r.is_over)
		rc = loop_turn(p->spec.loop, -1, e);
	timer_done(&late);
	if (rc == 0 && r.e.code != ERR_NONE) {
		*e = r.e;
		rc = err_wrap(e, "recover sandboxes");
	}
	if (rc == 0) {
		pools_recovered(p->pools);
		p->spec.parts->recovered(p);
	}
	return rc;
}
