// SPDX-License-Identifier: Apache-2.0
#include "server/plane.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/attempts.h"
#include "net/loop.h"
#include "server/api/audit.h"
#include "server/api/create.h"
#include "server/api/proxy.h"
#include "server/config.h"
#include "server/host_ports.h"
#include "server/pool.h"
#include "server/pull.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- what waits for the runtime ---- */

void plane_job_begin(struct plane *p, struct plane_job *j, void (*drop)(struct plane_job *j))
{
	*j = (struct plane_job){ .next = p->jobs, .plane = p, .drop = drop };
	if (j->next)
		j->next->prev = j;
	p->jobs = j;
}

void plane_job_end(struct plane_job *j)
{
	*(j->prev ? &j->prev->next : &j->plane->jobs) = j->next;
	if (j->next)
		j->next->prev = j->prev;
	j->prev = j->next = NULL;
}

/* ---- life ---- */

void plane_close(struct plane *p)
{
	if (!p)
		return;
	timer_done(&p->stream_timer);
	tunnels_drop(p, NULL);
	if (p->spec.puller)
		images_set_users(p->spec.puller, NULL, NULL);
	if (p->snapshots)
		snapshots_stop(p->snapshots);
	pools_stop(p->pools);
	sandboxes_free(p->sandboxes);
	pools_free(p->pools);
	while (p->jobs) {
		struct plane_job *j = p->jobs;

		plane_job_end(j);
		j->drop(j);
	}
	host_ports_free(p->host_ports);
	snapshots_free(p->snapshots);
	store_close(p->store);
	audit_close(p->audit);
	route_keys_done(&p->keys);
	attempts_free(p->attempts);
	free(p);
}

static void on_gone(struct sandbox *sb, void *arg)
{
	struct plane *p = arg;

	pools_gone(p->pools, sb); /* first: it may be calling it */
	proxy_gone(p, sb);
	host_ports_gone(p->host_ports, sb);
	snapshots_released(p->snapshots);
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

	if (p->host_ports)
		host_ports_adopt(p->host_ports, sb);
	pools_found(p->pools, sb); /* last: it may not keep it */
}

static void on_denied(const struct runtime_denial *d, void *arg)
{
	const struct plane *p = arg;

	if (p->audit)
		audit_denial(p->audit, d);
}

struct create_rules plane_create_rules(const struct plane *p)
{
	return (struct create_rules){
		.runtime = p->spec.runtime, .max_timeout_s = p->spec.max_timeout_s, .ceilings = p->spec.ceilings,
		.snapshots = p->snapshots, .network = p->spec.network, .max_rules = p->spec.max_rules,
	};
}

struct create_rules plane_volume_rules(const struct plane *p)
{
	struct create_rules rules = plane_create_rules(p);

	rules.volumes = sandboxes_volumes(p->sandboxes);
	rules.host_paths = &p->spec.host_paths;
	rules.volume_bytes = p->spec.volume_bytes;
	return rules;
}

static int make_order(struct str template, struct arena *a, struct sandbox_order *ret, struct fault *f, void *arg)
{
	const struct plane *p = arg;
	const struct create_rules rules = plane_create_rules(p);

	return template_order(template, &rules, a, ret, f);
}

static void on_stream_timer(void *arg)
{
	struct plane *p = arg;

	proxy_look_at_streams(p);
	timer_in(&p->stream_timer, PROXY_LOOK_MS);
}

static int load_keys(struct plane *p, struct err *e)
{
	const struct config_ingress *in = p->spec.ingress;
	const struct config_access_key *keys = in && in->has_secure_access ? in->secure_access.keys.items : NULL;

	p->attempts = attempts_new(e);
	if (!p->attempts)
		return -1;
	for (size_t i = 0; keys && i < in->secure_access.keys.n; i++)
		if (route_keys_add(&p->keys, keys[i].key_id[0], str_of(keys[i].key), e) < 0)
			return -1;
	return 0;
}

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
	struct pools_spec pools = { .plane = p, .make_order = make_order, .arg = p };

	*ret_fault = STORE_FAILED;
	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->spec = *spec;
	set.host_paths = &p->spec.host_paths;
	if (load_keys(p, e) < 0 || timer_init(&p->stream_timer, spec->loop, on_stream_timer, p, "long streams", e) < 0)
		return NULL;
	if (spec->ingress && spec->ingress->host_ports) {
		p->host_ports = host_ports_new(p, spec->host, spec->ingress->host_ports, e);
		if (!p->host_ports)
			return NULL;
	}
	p->store = store_open(spec->state_dir, ret_fault, e);
	if (!p->store)
		return NULL;
	if (spec->puller && puller_attach(spec->puller, p->store, ret_fault, e) < 0)
		return NULL;
	p->audit = audit_open(spec->state_dir, e);
	if (!p->audit)
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
	if (spec->puller)
		images_set_users(spec->puller, is_image_used, p);
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
	if (rc == 0)
		pools_recovered(p->pools);
	for (struct sandbox *sb = sandboxes_newest(p->sandboxes); rc == 0 && p->host_ports && sb; sb = sb->older)
		host_ports_adopt(p->host_ports, sb);
	if (rc == 0 && p->spec.renews_on_access)
		timer_in(&p->stream_timer, PROXY_LOOK_MS);
	return rc;
}

/* ---- small things ---- */

void plane_audit(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	const struct plane *p = plane_of(rq);

	if (p && !str_is(rq->path, "/health"))
		audit_write(p->audit, rq, status, body_bytes);
}

void plane_audit_left_out(const struct plane *p, const char *what, uint64_t n)
{
	if (p)
		audit_left_out(p->audit, what, n);
}
