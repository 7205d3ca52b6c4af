// SPDX-License-Identifier: Apache-2.0
/* Forking a sandbox, and rolling it back. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/api/create.h"
#include "server/api/parts.h"
#include "server/http/reply.h"
#include "server/model/fork.h"

#include "base/banned.h"

#define FORK_BODY_MAX ((size_t)64 * 1024 * 1024)

/* ---- fork ---- */

struct forking {
	struct create_request rq; /* as of a create, where it has the same members */
	int64_t count;
	const char *name;
};

static const struct field fork_fields[] = {
	FIELD(struct forking, count, FIELD_INT, "count", .min = 1, .max = FORKS_MAX),
	FIELD(struct forking, name, FIELD_STRING, "name", .min = 1, .max = SNAPSHOT_NAME_MAX),
	FIELD(struct forking, rq.timeout, FIELD_INT, "timeout", .min = 60),
	FIELD(struct forking, rq.limits, FIELD_MAP, "resourceLimits", .alias = "resource_limits", .no_nulls = true),
	FIELD(struct forking, rq.env, FIELD_MAP, "env", .secret = true),
	FIELD(struct forking, rq.metadata, FIELD_MAP, "metadata", .no_nulls = true),
	FIELD(struct forking, rq.policy, FIELD_OBJECT, "networkPolicy", .alias = "network_policy", .fields = create_policy_fields,
	      .has = HAS(struct forking, rq.has_network_policy)),
	FIELD(struct forking, rq.volumes, FIELD_OBJECTS, "volumes", .fields = create_volume_fields, .size = sizeof(struct create_volume),
	      .defaults = &create_volume_defaults, .check_item = create_volume_check),
	{ 0 },
};

struct waiting {
	struct plane *plane;
	struct request *rq; /* NULL: gone */
	struct reply *rp;
};

static void on_hangup(void *arg)
{
	struct waiting *w = arg;

	w->rq = NULL; /* what was begun goes on */
}

static void on_forked(const char (*ids)[ID_MAX + 1], size_t n, const struct fault *f, void *arg)
{
	AUTO(free) struct waiting *w = arg;
	AUTO(buf_done) struct buf body = BUF_INIT(FORK_BODY_MAX);
	struct json_out o = json_out(&body);

	if (!w->rq)
		return;
	if (f) {
		(void)reply_fault(w->rp, f);
		return;
	}
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (size_t i = 0; i < n; i++) {
		const struct sandbox *sb = sandboxes_find(w->plane->sandboxes, str_of(ids[i]));

		if (sb) /* somebody else may have deleted it already */
			write_created(&o, sb, &sb->row.entrypoint);
	}
	json_close(&o, ']');
	json_close(&o, '}');
	(void)reply_json(w->rp, 202, &body);
}

static int fork_source(struct request *rq, struct reply *rp, const struct forking *fk, struct sandbox *source, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct create_rules rules = create_volume_rules_of(plane);
	struct sandbox_order order;
	struct fork_spec spec = { .snapshots = plane->snapshots, .sandboxes = plane->sandboxes, .source = source, .order = &order,
				  .name = fk->name, .count = (size_t)fk->count };
	struct waiting *w;
	struct fault f;

	rules.source = &source->row;
	if (create_check(&fk->rq, &rules, rq->arena, &order, &f) < 0)
		return reply_fault(rp, &f);
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_no_memory(e);
	*w = (struct waiting){ plane, rq, rp };
	(void)reply_hold(rp, on_hangup, w);
	if (sandboxes_fork(&spec, on_forked, w, &f) == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}

int sandbox_fork_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct str body = str_trim(rq->body);
	struct forking fk = { .count = 1 };
	struct sandbox *source;
	struct decode d;
	int rc;

	if (!request_can(rq, rp, CAPABILITY_FORK))
		return 0;
	rc = body.n == 0 ? 0 : service_decode(rq, rp, fork_fields, &fk, &d, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	source = request_sandbox(rq, rp);
	return source ? fork_source(rq, rp, &fk, source, e) : 0;
}

/* ---- rollback ---- */

struct rolling {
	const char *snapshot_id;
	struct string_map env;
};

static const struct field rollback_fields[] = {
	FIELD(struct rolling, snapshot_id, FIELD_STRING, "snapshotId", .alias = "snapshot_id", .required = true, .min = 1),
	FIELD(struct rolling, env, FIELD_MAP, "env", .secret = true),
	{ 0 },
};

/* The snapshot, and all rules of today for what is made from it (I7). */
static const struct snapshot *check_rollback(const struct request *rq, const struct rolling *r, const struct sandbox *sb, struct fault *f)
{
	struct plane *plane = plane_of(rq);
	struct create_rules rules = create_rules_of(plane);
	const struct create_request as_create = { .env = r->env };
	struct str id = str_trim(str_of(r->snapshot_id));
	const struct snapshot *sn = snapshots_find(plane->snapshots, id);
	struct sandbox_order order;

	rules.source = &sb->row;
	if (!sn || strcmp(sn->row.sandbox_id, sb->row.id) != 0) {
		(void)fault_set(f, 404, "SNAPSHOT", "NOT_FOUND", "sandbox '%s' has no snapshot '%s'", sb->row.id, SHOWN(id));
		return NULL;
	}
	if (snapshot_check_use(sn, f) < 0 || create_check(&as_create, &rules, rq->arena, &order, f) < 0)
		return NULL;
	return sn;
}

int sandbox_rollback_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct rolling r = { 0 };
	const struct snapshot *sn;
	struct sandbox *sb;
	struct waiting_reply *p;
	struct decode d;
	struct fault f;
	int rc = request_can(rq, rp, CAPABILITY_ROLLBACK) ? service_decode(rq, rp, rollback_fields, &r, &d, e) : 1;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	sn = check_rollback(rq, &r, sb, &f);
	if (!sn)
		return reply_fault(rp, &f);
	p = waiting_reply_new(rq, rp, 200, e);
	if (!p)
		return -1;
	p->shows = REPLY_SHOWS_SANDBOX;
	if (sandbox_rollback(sb, sn->row.id, sn->row.reference, &r.env, waiting_reply_done, p, &f) == 0)
		return 0;
	free(p);
	return reply_fault(rp, &f);
}
