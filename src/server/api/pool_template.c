// SPDX-License-Identifier: Apache-2.0
/* What the sandboxes of a pool are made by. */
#include "base/arena.h"
#include "base/err.h"
#include "base/escape.h"
#include "server/api/create.h"

#include "base/banned.h"

#define CONTAINERS_MAX 64
#define LIMITS_MAX 64

/* ---- pod templates ---- */

struct variable {
	const char *name, *value;
	const struct json *value_from;
};

struct resources {
	const struct json *limits;
};

struct container {
	const char *image;
	struct string_list command, args, entrypoint;
	struct object_list env;
	struct resources resources;
};

struct pod_spec {
	struct object_list containers;
};

struct pod {
	struct pod_spec spec;
};

static const char *check_variable(const void *item)
{
	const struct variable *v = item;

	return v->value_from ? "valueFrom is not known here: only plain values are" : NULL;
}

static const char *check_limits(const void *value)
{
	const struct json *limits = *(const struct json *const *)value;

	if (limits->type != JSON_OBJECT || limits->kids.n > LIMITS_MAX)
		return "must be an object of quantities";
	for (const struct json *v = json_first(limits); v; v = v->next)
		if (v->type != JSON_STRING && v->type != JSON_INT)
			return "must be an object of quantities";
	return NULL;
}

static const struct field variable_fields[] = {
	FIELD(struct variable, name, FIELD_STRING, "name", .required = true, .min = 1),
	FIELD(struct variable, value, FIELD_STRING, "value", .secret = true),
	FIELD(struct variable, value_from, FIELD_ANY, "valueFrom"),
	{ 0 },
};

static const struct field resource_fields[] = {
	FIELD(struct resources, limits, FIELD_ANY, "limits", .check = check_limits),
	{ 0 },
};

static const struct field container_fields[] = {
	FIELD(struct container, image, FIELD_STRING, "image", .required = true, .min = 1),
	FIELD(struct container, command, FIELD_STRINGS, "command", .min = 0, .max = CREATE_ARGS_MAX),
	FIELD(struct container, args, FIELD_STRINGS, "args", .min = 0, .max = CREATE_ARGS_MAX),
	FIELD(struct container, entrypoint, FIELD_STRINGS, "entrypoint", .min = 0, .max = CREATE_ARGS_MAX),
	FIELD(struct container, env, FIELD_OBJECTS, "env", .fields = variable_fields, .size = sizeof(struct variable),
	      .check_item = check_variable, .min = 0, .max = CREATE_ENV_MAX),
	FIELD(struct container, resources, FIELD_OBJECT, "resources", .fields = resource_fields),
	{ 0 },
};

static const struct field pod_spec_fields[] = {
	FIELD(struct pod_spec, containers, FIELD_OBJECTS, "containers", .required = true, .fields = container_fields,
	      .size = sizeof(struct container), .min = 1, .max = CONTAINERS_MAX),
	{ 0 },
};

static const struct field pod_fields[] = {
	FIELD(struct pod, spec, FIELD_OBJECT, "spec", .required = true, .fields = pod_spec_fields),
	{ 0 },
};

/* The command and its arguments; a container without either stays until it is removed. */
static int take_words(const struct container *c, struct arena *a, struct string_list *ret)
{
	static const char *const stay[] = { "tail", "-f", "/dev/null" };
	const struct string_list *first = c->command.n > 0 ? &c->command : &c->entrypoint;
	size_t n = first->n + c->args.n;

	ret->items = arena_array(a, MAX(n, ARRAY_LEN(stay)), sizeof(*ret->items));
	if (!ret->items)
		return -1;
	for (size_t i = 0; n == 0 && i < ARRAY_LEN(stay); i++)
		ret->items[ret->n++] = stay[i];
	for (size_t i = 0; i < first->n; i++)
		ret->items[ret->n++] = first->items[i];
	for (size_t i = 0; i < c->args.n; i++)
		ret->items[ret->n++] = c->args.items[i];
	return 0;
}

/* Of a name that is there twice, the last counts. */
static int take_env(const struct container *c, struct arena *a, struct string_map *ret)
{
	const struct variable *v = c->env.items;

	ret->items = arena_array(a, c->env.n + 1, sizeof(*ret->items));
	for (size_t i = 0; ret->items && i < c->env.n; i++) {
		size_t at = 0;

		while (at < ret->n && strcmp(ret->items[at].key, v[i].name) != 0)
			at++;
		ret->items[at] = (struct string_pair){ v[i].name, v[i].value ? v[i].value : "" };
		ret->n += at == ret->n;
	}
	return ret->items ? 0 : -1;
}

static int take_limits(const struct container *c, struct arena *a, struct string_map *ret)
{
	const struct json *v = json_first(c->resources.limits);

	ret->items = arena_array(a, LIMITS_MAX, sizeof(*ret->items));
	for (; ret->items && v; v = v->next) {
		struct string_pair *p = &ret->items[ret->n++];

		p->key = arena_dup(a, v->key);
		p->value = v->type == JSON_STRING ? arena_dup(a, v->s) : arena_printf(a, "%lld", (long long)v->i);
		if (!p->key || !p->value)
			return -1;
	}
	return ret->items ? 0 : -1;
}

static int bind_pod(const struct json *v, struct decode *d, struct create_request *ret, struct err *e)
{
	struct create_request rq = { .has_limits = true };
	const struct container *c;
	struct pod pod = { 0 };

	if (decode(d, v, pod_fields, &pod, e) < 0)
		return -1;
	c = pod.spec.containers.items;
	rq.image.uri = c->image;
	if (take_words(c, d->arena, &rq.entrypoint) < 0 || take_env(c, d->arena, &rq.env) < 0 ||
	    take_limits(c, d->arena, &rq.limits) < 0)
		return err_no_memory(e);
	*ret = rq;
	return 0;
}

/* ---- both kinds ---- */

int template_bind(const struct json *v, struct decode *d, struct create_request *ret, struct err *e)
{
	const struct json *spec = v && v->type == JSON_OBJECT ? json_get(v, "spec") : NULL;

	return spec && spec->type != JSON_NULL ? bind_pod(v, d, ret, e) : create_bind(v, d, ret, e);
}

/* What a pool cannot decide for whoever takes a sandbox, or must not keep. */
static const char *foreign(const struct create_request *rq)
{
	if (rq->timeout != 0)
		return "timeout: an idle sandbox has none; the create that takes it sets it";
	if (rq->metadata.n > 0)
		return "metadata: an idle sandbox has none; the create that takes it sets it";
	if (rq->is_secure_access)
		return "secureAccess: the create that takes a sandbox requests it";
	for (size_t i = 0; i < rq->extensions.n; i++)
		if (strcmp(rq->extensions.items[i].key, CREATE_NETWORK_KEY) != 0)
			return "extensions: but for " CREATE_NETWORK_KEY " an idle sandbox has none; the create that takes it sets them";
	if (str_trim(str_of(rq->snapshot_id)).n > 0) /* whose layers could go while nothing of the pool stands on them */
		return "snapshotId: a pool is made from an image";
	if (rq->volumes.n > 0) /* one named volume for all that wait would be theirs before it is anybody's */
		return "volumes: the sandboxes of a pool have none";
	return rq->image.auth.username ? "image.auth: a pool keeps no credentials" : NULL;
}

int template_check(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
		   struct sandbox_order *ret, struct fault *f)
{
	const char *why = foreign(rq);
	struct fault inner;

	if (why)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "template.%s", why);
	if (create_check(rq, rules, a, ret, &inner) == 0)
		return 0;
	return fault_set(f, inner.status, NULL, inner.code, "template.%s", inner.message);
}

int template_order(struct str text, const struct create_rules *rules, struct arena *a, struct sandbox_order *ret,
		   struct fault *f)
{
	struct decode d = { .arena = a };
	struct create_request rq = { 0 };
	struct err e = { 0 };
	const struct json *v = json_parse(a, text, NULL, NULL, &e);

	if (v && template_bind(v, &d, &rq, &e) == 0)
		return template_check(&rq, rules, a, ret, f);
	if (e.code == ERR_INVALID)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "template: %s", e.msg);
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}
