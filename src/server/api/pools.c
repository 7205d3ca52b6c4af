// SPDX-License-Identifier: Apache-2.0
/* /pools: sandboxes that wait. */
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/api/create.h"
#include "server/api/parts.h"
#include "server/http/reply.h"
#include "server/model/pool.h"

#include "base/banned.h"

#define POOL_BODY_MAX ((size_t)64 * 1024)
#define POOLS_BODY_MAX ((size_t)1024 * 1024)
#define TEMPLATE_TEXT_MAX ((size_t)8 * 1024 * 1024) /* a body in which every character is escaped */

struct pool_body {
	const char *name;
	const struct json *template;
	struct pool_capacity capacity;
};

static const char *check_name(const void *value)
{
	return pool_name_valid(str_of(*(const char *const *)value)) ? NULL : "must be lower-case letters, digits and '-' between them";
}

static const char *check_template(const void *value)
{
	return (*(const struct json *const *)value)->type == JSON_OBJECT ? NULL : "must be an object";
}

#define SIZE(member, name_, alias_) \
	FIELD(struct pool_capacity, member, FIELD_INT, name_, .alias = alias_, .required = true, .min = 0, \
	      .max = STORE_POOL_SIZE_MAX)
static const struct field capacity_fields[] = {
	SIZE(buffer_max, "bufferMax", "buffer_max"), SIZE(buffer_min, "bufferMin", "buffer_min"),
	SIZE(pool_max, "poolMax", "pool_max"),       SIZE(pool_min, "poolMin", "pool_min"),
	{ 0 },
};

#define CAPACITY \
	FIELD(struct pool_body, capacity, FIELD_OBJECT, "capacitySpec", .alias = "capacity_spec", .required = true, \
	      .fields = capacity_fields)
static const struct field create_fields[] = {
	FIELD(struct pool_body, name, FIELD_STRING, "name", .required = true, .min = 1, .max = STORE_POOL_NAME_MAX, .check = check_name,
	      .pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
	FIELD(struct pool_body, template, FIELD_ANY, "template", .required = true, .check = check_template, .secret = true),
	CAPACITY,
	{ 0 },
};
static const struct field update_fields[] = {
	CAPACITY,
	{ 0 },
};

/* ---- answers ---- */

static void write_pool(struct json_out *o, const struct pool *pool)
{
	struct pool_view v;

	pool_show(pool, &v);
	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, v.name);
	json_key(o, "capacitySpec"), json_open(o, '{');
	json_key(o, "bufferMax"), json_int(o, v.capacity.buffer_max);
	json_key(o, "bufferMin"), json_int(o, v.capacity.buffer_min);
	json_key(o, "poolMax"), json_int(o, v.capacity.pool_max);
	json_key(o, "poolMin"), json_int(o, v.capacity.pool_min);
	json_close(o, '}');
	json_key(o, "status"), json_open(o, '{');
	json_key(o, "total"), json_uint(o, v.total);
	json_key(o, "allocated"), json_uint(o, v.allocated);
	json_key(o, "available"), json_uint(o, v.available);
	json_key(o, "revision"), json_cstr(o, v.revision);
	json_close(o, '}');
	write_time(o, "createdAt", v.created_us);
	json_close(o, '}');
}

static int reply_pool(struct reply *rp, unsigned status, const struct pool *pool)
{
	AUTO(buf_done) struct buf body = BUF_INIT(POOL_BODY_MAX);
	struct json_out o = json_out(&body);

	write_pool(&o, pool);
	return reply_json(rp, status, &body);
}

/* The pool of params[0]. NULL: the 404 is on its way. */
static struct pool *request_pool(const struct request *rq, struct reply *rp)
{
	struct pool *pool = pools_find(plane_of(rq)->pools, rq->params[0]);
	struct fault f;

	if (pool)
		return pool;
	(void)fault_set(&f, 404, plane_of(rq)->spec.runtime->code_prefix, "POOL_NOT_FOUND", "pool '%s' not found", SHOWN(rq->params[0]));
	(void)reply_fault(rp, &f);
	return NULL;
}

/* A reply that waits for a pool_fn. */
struct waiting {
	struct reply *rp; /* NULL: nobody is there any more */
	unsigned status;
};

static void on_hangup(void *arg)
{
	struct waiting *w = arg;

	w->rp = NULL; /* what was begun goes on */
}

static struct waiting *waiting_new(struct reply *rp, unsigned status, struct err *e)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)err_no_memory(e);
		return NULL;
	}
	*w = (struct waiting){ rp, status };
	(void)reply_hold(rp, on_hangup, w);
	return w;
}

static void on_changed(struct pool *pool, const struct fault *f, void *arg)
{
	struct waiting *w = arg;

	if (w->rp && f)
		(void)reply_fault(w->rp, f);
	else if (w->rp && pool)
		(void)reply_pool(w->rp, w->status, pool);
	else if (w->rp)
		(void)reply_empty(w->rp, w->status);
	free(w);
}

/* ---- reading ---- */

int pools_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(POOLS_BODY_MAX);
	const struct pools *pools = plane_of(rq)->pools;
	struct json_out o = json_out(&body);

	(void)e;
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (const struct pool *p = pools_next(pools, NULL); p; p = pools_next(pools, p))
		write_pool(&o, p);
	json_close(&o, ']');
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}

int pool_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct pool *pool = request_pool(rq, rp);

	(void)e;
	return pool ? reply_pool(rp, 200, pool) : 0;
}

/* ---- changing ---- */

static int check_capacity(const struct pool_capacity *c, struct fault *f)
{
	const char *why = pool_capacity_check(c);

	return why ? fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "capacitySpec.%s", why) : 0;
}

/* 0, 1 (answered) or -1, as service_decode(). */
static int decode_template(struct request *rq, struct reply *rp, const struct json *v, struct create_request *ret, struct err *e)
{
	struct decode d = { .arena = rq->arena };
	struct err bad = { 0 };

	if (template_bind(v, &d, ret, &bad) == 0)
		return 0;
	if (bad.code != ERR_INVALID) {
		*e = bad;
		return -1;
	}
	(void)service_reply_problems(rp, &d, "template");
	return 1;
}

static int start_create(struct request *rq, struct reply *rp, const struct pool_body *body, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEMPLATE_TEXT_MAX);
	struct pool_order order = { .name = body->name, .capacity = body->capacity };
	struct json_out o = json_out(&text);
	struct waiting *w;
	struct fault f;
	int rc;

	json_tree(&o, body->template);
	order.template = buf_str(&text);
	if (text.failed)
		return err_no_memory(e);
	if (text.n > ROW_SPEC_MAX)
		return reply_error(rp, 413, "BODY_TOO_LARGE", "template: more than %zu bytes", ROW_SPEC_MAX);
	w = waiting_new(rp, 201, e);
	if (!w)
		return -1;
	rc = pools_create(plane_of(rq)->pools, &order, on_changed, w, &f);
	secret_wipe(text.p, text.n);
	if (rc == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}

int pools_post(struct request *rq, struct reply *rp, struct err *e)
{
	const struct plane *plane = plane_of(rq);
	const struct create_rules rules = create_rules_of(plane);
	struct pool_body body = { 0 };
	struct create_request template = { 0 };
	struct sandbox_order order;
	struct decode d;
	struct fault f;
	int rc = service_decode(rq, rp, create_fields, &body, &d, e);

	if (rc == 0)
		rc = decode_template(rq, rp, body.template, &template, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (check_capacity(&body.capacity, &f) < 0 || template_check(&template, &rules, rq->arena, &order, &f) < 0)
		return reply_fault(rp, &f);
	return start_create(rq, rp, &body, e);
}

int pool_put(struct request *rq, struct reply *rp, struct err *e)
{
	struct pool_body body = { 0 };
	struct waiting *w;
	struct decode d;
	struct pool *pool;
	struct fault f;
	int rc = service_decode(rq, rp, update_fields, &body, &d, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	pool = request_pool(rq, rp);
	if (!pool)
		return 0;
	if (check_capacity(&body.capacity, &f) < 0)
		return reply_fault(rp, &f);
	w = waiting_new(rp, 200, e);
	if (!w)
		return -1;
	if (pool_resize(pool, &body.capacity, on_changed, w, &f) == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}

int pool_delete_one(struct request *rq, struct reply *rp, struct err *e)
{
	struct pool *pool = request_pool(rq, rp);
	struct waiting *w;
	struct fault f;

	if (!pool)
		return 0;
	w = waiting_new(rp, 204, e);
	if (!w)
		return -1;
	if (pool_delete(pool, on_changed, w, &f) == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}
