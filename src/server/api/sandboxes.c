// SPDX-License-Identifier: Apache-2.0
/* /sandboxes and what changes one of them. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "server/api/api.h"
#include "server/api/create.h"
#include "server/api/parts.h"
#include "server/http/reply.h"
#include "server/model/pool.h"
#include "server/proxy/host_ports.h"

#include "base/banned.h"

#define KEY_HEADER "Idempotency-Key"
#define KEY_MAX 255
#define PATCH_MAX (4 * LABELS_MAX) /* members of a patch: what is there, what is not, and some */

/* ---- create ---- */

static bool key_valid(struct str key)
{
	for (size_t i = 0; i < key.n; i++)
		if (key.p[i] < 0x20 || key.p[i] > 0x7e)
			return false;
	return key.n > 0 && key.n <= KEY_MAX;
}

static int take_key(const struct request *rq, struct sandbox_order *o, struct fault *f)
{
	if (!http_find(rq->head, KEY_HEADER))
		return 0;
	o->key = str_trim(request_header(rq, KEY_HEADER));
	if (!key_valid(o->key))
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", KEY_HEADER ": must be 1 to %d printable characters",
				 KEY_MAX);
	sha256(rq->body, o->body);
	return 0;
}

/* *ret_pool is NULL when it is to be made from nothing. */
static int check_create(struct request *rq, const struct create_request *cr, const struct create_rules *rules,
			struct pool **ret_pool, struct sandbox_order *o, struct fault *f)
{
	const char *name = create_pool_name(cr, rq->arena);
	const struct sandbox_order *template;
	struct pool *pool;

	if (!name)
		return create_check(cr, rules, rq->arena, o, f);
	pool = pools_find(plane_of(rq)->pools, str_of(name));
	if (!pool)
		return fault_set(f, 404, rules->runtime->code_prefix, "POOL_NOT_FOUND", "extensions.poolRef: there is no pool '%s'",
				 SHOWN(str_of(name)));
	template = pool_order(pool, f);
	if (!template || create_check_pooled(cr, rules, template, rq->arena, o, f) < 0)
		return -1;
	*ret_pool = pool;
	return 0;
}

int sandboxes_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct create_rules rules = create_volume_rules_of(plane);
	struct create_request *cr = arena_alloc(rq->arena, sizeof(*cr));
	struct sandbox_order order;
	struct pool *pool = NULL;
	struct sandbox *sb = NULL;
	struct decode d;
	struct waiting_reply *p;
	struct fault f;
	int rc;

	if (!cr)
		return err_no_memory(e);
	rules.has_host_ports = plane->host_ports != NULL;
	rc = create_decode(rq, rp, cr, &d, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (check_create(rq, cr, &rules, &pool, &order, &f) < 0 || take_key(rq, &order, &f) < 0 ||
	    (order.n_ports > 0 && host_ports_open(plane->host_ports, order.ports, order.n_ports, &f) < 0))
		return reply_fault(rp, &f);
	if (cr->entrypoint.n == 0)
		cr->entrypoint = order.entrypoint;
	pools_give_way(plane->pools);
	order.ignored = d.unknown;
	order.n_ignored = d.n_unknown;
	p = waiting_reply_new(rq, rp, 202, e);
	if (!p)
		return -1;
	p->shows = REPLY_SHOWS_CREATED;
	p->entrypoint = &cr->entrypoint;
	rc = pool ? pool_take(pool, &order, waiting_reply_done, p, &sb, &f) :
		    sandboxes_create(plane->sandboxes, &order, waiting_reply_done, p, &sb, &f);
	if (rc == 0 && sb && sb->row.n_ports > 0)
		host_ports_claim(plane->host_ports, sb);
	if (rc == 0) {
		service_note(rq, sb ? sb->row.id : ""); /* also when nobody is there any more to be answered */
		return 0;
	}
	free(p); /* nobody hangs up once it is answered */
	return rc < 0 ? reply_fault(rp, &f) : reply_created(rq, rp, sb, &cr->entrypoint);
}

/* ---- read ---- */

int sandbox_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct sandbox *sb = request_sandbox(rq, rp);

	(void)e;
	return sb ? reply_sandbox(rp, 200, sb) : 0;
}

/* ---- pause, resume, delete ---- */

typedef int change_fn(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f);

static int change(struct request *rq, struct reply *rp, unsigned status, change_fn *fn, struct err *e)
{
	struct sandbox *sb = request_sandbox(rq, rp);
	struct waiting_reply *p;
	struct fault f;

	if (!sb)
		return 0;
	p = waiting_reply_new(rq, rp, status, e);
	if (!p)
		return -1;
	if (fn(sb, waiting_reply_done, p, &f) == 0)
		return 0;
	free(p);
	return reply_fault(rp, &f);
}

int sandbox_pause_post(struct request *rq, struct reply *rp, struct err *e)
{
	return request_can(rq, rp, CAPABILITY_PAUSE) ? change(rq, rp, 202, sandbox_pause, e) : 0;
}

int sandbox_resume_post(struct request *rq, struct reply *rp, struct err *e)
{
	return request_can(rq, rp, CAPABILITY_PAUSE) ? change(rq, rp, 202, sandbox_resume, e) : 0;
}

int sandbox_delete(struct request *rq, struct reply *rp, struct err *e)
{
	return change(rq, rp, 204, sandbox_remove, e);
}

/* ---- renew ---- */

struct renewal {
	const char *expires_at;
};

#define EXPIRES_FLAGS (RFC3339_SPACE | RFC3339_NAIVE_UTC | RFC3339_NO_SECONDS)

static const char *check_time(const void *value)
{
	struct timespec t;

	return rfc3339_parse(str_of(*(const char *const *)value), EXPIRES_FLAGS, &t, &(struct err){ 0 }) == 0 ?
		       NULL : "must be a time such as 2026-06-15T09:46:58Z";
}

static const struct field renewal_fields[] = {
	FIELD(struct renewal, expires_at, FIELD_STRING, "expiresAt", .alias = "expires_at", .required = true,
	      .check = check_time),
	{ 0 },
};

int sandbox_renew_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct renewal r = { 0 };
	struct timespec t = { 0 };
	struct sandbox *sb;
	struct decode d;
	struct waiting_reply *p;
	struct fault f;
	int rc = service_decode(rq, rp, renewal_fields, &r, &d, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (rfc3339_parse(str_of(r.expires_at), EXPIRES_FLAGS, &t, e) < 0)
		return -1;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	p = waiting_reply_new(rq, rp, 200, e);
	if (!p)
		return -1;
	p->shows = REPLY_SHOWS_EXPIRY;
	if (sandbox_renew(sb, timespec_to_us(t), waiting_reply_done, p, &f) == 0)
		return 0;
	free(p);
	return reply_fault(rp, &f);
}

/* ---- metadata ---- */

struct patch {
	struct label_change *changes;
	size_t n;
};

/* 0, 1 (the 422 is on its way) or -1, as service_decode(). */
static int decode_patch(struct request *rq, struct reply *rp, struct patch *ret, struct err *e)
{
	static const struct field none[] = { { 0 } };
	struct patch p = { 0 };
	const struct json *v;
	struct decode d;
	int rc = service_decode(rq, rp, none, &p, &d, e); /* an object, and no key twice */

	if (rc != 0)
		return rc;
	v = request_json(rq, e);
	if (!v)
		return -1;
	p.changes = arena_array(rq->arena, v->kids.n + 1, sizeof(*p.changes));
	if (!p.changes)
		return err_no_memory(e);
	for (v = v->kids.first; v; v = v->next, p.n++) {
		bool has_nul = v->type == JSON_STRING && v->s.n > 0 && memchr(v->s.p, '\0', v->s.n);

		p.changes[p.n].key = arena_dup(rq->arena, v->key);
		p.changes[p.n].value = v->type == JSON_STRING ? arena_dup(rq->arena, v->s) : NULL;
		if (!p.changes[p.n].key || (v->type == JSON_STRING && !p.changes[p.n].value))
			return err_no_memory(e);
		if (v->type != JSON_STRING && v->type != JSON_NULL)
			(void)decode_refuse(&d, p.changes[p.n].key, "must be a string or null", &(struct err){ 0 });
		if (has_nul || (v->key.n > 0 && memchr(v->key.p, '\0', v->key.n)))
			(void)decode_refuse(&d, NULL, "must not contain a NUL character", &(struct err){ 0 });
	}
	*ret = p;
	if (d.n_problems == 0)
		return 0;
	(void)service_reply_problems(rp, &d, "body");
	return 1;
}

static int check_patch(const struct patch *p, struct fault *f)
{
	if (p->n > PATCH_MAX)
		return fault_set(f, 400, "SANDBOX", "INVALID_METADATA_LABEL", "more than %d members", PATCH_MAX);
	for (size_t i = 0; i < p->n; i++)
		if (label_is_reserved(str_of(p->changes[i].key)))
			return fault_set(f, 400, NULL, "INVALID_METADATA_LABEL", "'%s': the prefix " LABEL_RESERVED " is reserved",
					 SHOWN(str_of(p->changes[i].key)));
	for (size_t i = 0; i < p->n; i++) {
		const struct label_change *c = &p->changes[i];
		const char *why = c->value ? label_check_key(str_of(c->key)) : NULL;

		if (!why && c->value)
			why = label_check_value(str_of(c->value));
		if (why)
			return fault_set(f, 400, "SANDBOX", "INVALID_METADATA_LABEL", "'%s': %s", SHOWN(str_of(c->key)), why);
	}
	return 0;
}

int sandbox_metadata_patch(struct request *rq, struct reply *rp, struct err *e)
{
	struct sandbox *sb;
	struct waiting_reply *p;
	struct patch patch = { 0 };
	struct fault f;
	int rc = decode_patch(rq, rp, &patch, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	if (check_patch(&patch, &f) < 0)
		return reply_fault(rp, &f);
	if (patch.n == 0)
		return reply_sandbox(rp, 200, sb);
	p = waiting_reply_new(rq, rp, 200, e);
	if (!p)
		return -1;
	p->shows = REPLY_SHOWS_SANDBOX;
	if (sandbox_patch(sb, patch.changes, patch.n, waiting_reply_done, p, &f) == 0)
		return 0;
	free(p);
	return reply_fault(rp, &f);
}
