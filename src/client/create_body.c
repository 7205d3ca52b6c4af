// SPDX-License-Identifier: Apache-2.0
#include "client/create_body.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "client/op.h"

#include "base/banned.h"

#define TTL_DEFAULT_S 600
#define VOLUME_TREE_MAX ((size_t)1024 * 1024)

static bool has(const char *z)
{
	return z && *z;
}

void body_rule(struct json_out *o, const struct osb_rule *r)
{
	json_open(o, '{');
	body_string(o, "action", r->action);
	body_string(o, "target", r->target);
	json_close(o, '}');
}

void body_policy(struct json_out *o, const char *key, const struct osb_policy *p)
{
	if (key)
		json_key(o, key);
	json_open(o, '{');
	json_key(o, "defaultAction"), json_cstr(o, has(p->default_action) ? p->default_action : "deny");
	json_key(o, "egress"), json_open(o, '[');
	for (size_t i = 0; i < p->n_egress; i++)
		body_rule(o, &p->egress[i]);
	json_close(o, ']');
	json_close(o, '}');
}

static void body_platform(struct json_out *o, const struct osb_platform *p)
{
	if (!has(p->os) && !has(p->arch))
		return;
	json_key(o, "platform"), json_open(o, '{');
	body_string(o, "os", p->os);
	body_string(o, "arch", p->arch);
	json_close(o, '}');
}

static void body_auth(struct json_out *o, const char *username, const char *password)
{
	if (!has(username))
		return;
	json_key(o, "auth"), json_open(o, '{');
	json_key(o, "username"), json_cstr(o, username);
	json_key(o, "password"), json_cstr(o, password);
	json_close(o, '}');
}

static void body_timeout(struct json_out *o, int64_t timeout_s)
{
	if (timeout_s != OSB_TTL_NONE)
		json_key(o, "timeout"), json_int(o, timeout_s == OSB_TTL_DEFAULT ? TTL_DEFAULT_S : timeout_s);
}

/* ---- volumes ---- */

static void body_claim(struct json_out *o, const struct osb_volume *v)
{
	json_key(o, "pvc"), json_open(o, '{');
	json_key(o, "claimName"), json_cstr(o, v->claim_name);
	json_key(o, "createIfNotExists"), json_bool(o, v->create_if_missing);
	json_key(o, "deleteOnSandboxTermination"), json_bool(o, v->delete_with_sandbox);
	body_string(o, "storage", v->storage);
	json_close(o, '}');
}

/* Whatever it says, it must be one value on one line: it goes in between other people's text. */
static void body_volume_json(struct op *op, struct json_out *o, const char *json)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(VOLUME_TREE_MAX);
	const struct json *v = json_parse(&a, str_of(json), NULL, NULL, &(struct err){ 0 });

	if (op_need(op, v && v->type == JSON_OBJECT, "the JSON of a volume is no object"))
		json_tree(o, v);
}

static void body_volume(struct op *op, struct json_out *o, const struct osb_volume *v)
{
	if (v->json) {
		body_volume_json(op, o, v->json);
		return;
	}
	if (!op_need(op, has(v->name) && has(v->mount_path), "a volume needs a name and a mount path") ||
	    !op_need(op, has(v->host_path) != has(v->claim_name), "a volume is a host path or a claim"))
		return;
	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, v->name);
	json_key(o, "mountPath"), json_cstr(o, v->mount_path);
	json_key(o, "readOnly"), json_bool(o, v->read_only);
	body_string(o, "subPath", v->sub_path);
	if (has(v->host_path)) {
		json_key(o, "host"), json_open(o, '{');
		json_key(o, "path"), json_cstr(o, v->host_path);
		json_close(o, '}');
	} else {
		body_claim(o, v);
	}
	json_close(o, '}');
}

/* ---- create ---- */

static bool names_pool(const struct osb_create *c)
{
	for (size_t i = 0; i < c->extensions.n; i++)
		if (c->extensions.items[i].key && strcmp(c->extensions.items[i].key, "poolRef") == 0)
			return true;
	return false;
}

static void body_source(struct json_out *o, const struct osb_create *c)
{
	if (has(c->image)) {
		json_key(o, "image"), json_open(o, '{');
		json_key(o, "uri"), json_cstr(o, c->image);
		body_auth(o, c->image_username, c->image_password);
		json_close(o, '}');
	}
	if (has(c->snapshot_id))
		json_key(o, "snapshotId"), json_cstr(o, c->snapshot_id);
}

/* Sandboxes of a pool have the pool's own, so nothing is said about them that the caller did not say. */
static void body_defaults(struct json_out *o, const struct osb_create *c)
{
	static const char *const stay[] = { "tail", "-f", "/dev/null" };
	static const struct osb_pair small[] = { { "cpu", "1" }, { "memory", "2Gi" } };
	const struct osb_strings entrypoint = { stay, ARRAY_LEN(stay) };
	const struct osb_map resource = { small, ARRAY_LEN(small) };
	bool is_pool = names_pool(c) && !has(c->image);

	body_strings(o, "entrypoint", c->entrypoint.n > 0 || is_pool ? &c->entrypoint : &entrypoint);
	body_map(o, "resourceLimits", c->resource.n > 0 || is_pool ? &c->resource : &resource);
}

static bool create_check(struct op *op, const struct osb_create *c)
{
	bool has_source = has(c->image) || has(c->snapshot_id) || names_pool(c);

	return op_need(op, has_source, "it needs an image, a snapshot or a pool") &&
	       op_need(op, !has(c->image) || !has(c->snapshot_id), "an image and a snapshot cannot both be had") &&
	       op_need(op, has(c->image_username) == has(c->image_password), "a user of a registry needs a password, and the other way round") &&
	       op_need(op, c->timeout_s >= OSB_TTL_NONE, "the timeout is negative") &&
	       op_need(op, !c->credential_proxy || c->network_policy, "the credential proxy needs a network policy");
}

void create_body(struct op *op, const struct osb_create *c)
{
	struct json_out *o = op_body(op);

	if (!create_check(op, c))
		return;
	json_open(o, '{');
	body_source(o, c);
	body_defaults(o, c);
	body_timeout(o, c->timeout_s);
	body_map(o, "env", &c->env);
	body_map(o, "metadata", &c->metadata);
	body_map(o, "extensions", &c->extensions);
	if (c->network_policy)
		body_policy(o, "networkPolicy", c->network_policy);
	if (c->n_volumes > 0) {
		json_key(o, "volumes"), json_open(o, '[');
		for (size_t i = 0; i < c->n_volumes; i++)
			body_volume(op, o, &c->volumes[i]);
		json_close(o, ']');
	}
	body_platform(o, &c->platform);
	json_key(o, "secureAccess"), json_bool(o, c->secure_access);
	if (c->credential_proxy)
		json_key(o, "credentialProxy"), json_open(o, '{'), json_key(o, "enabled"), json_bool(o, true), json_close(o, '}');
	json_close(o, '}');
}

/* ---- forks and pulls ---- */

void fork_body(struct op *op, const struct osb_fork *f)
{
	struct json_out *o = op_body(op);

	if (!op_need(op, f->timeout_s >= OSB_TTL_NONE, "the timeout is negative") || !op_need(op, f->count >= 0, "the count is negative"))
		return;
	json_open(o, '{');
	json_key(o, "count"), json_int(o, f->count ? f->count : 1);
	body_timeout(o, f->timeout_s);
	body_map(o, "env", &f->env);
	body_map(o, "metadata", &f->metadata);
	body_map(o, "resourceLimits", &f->resource);
	if (f->network_policy)
		body_policy(o, "networkPolicy", f->network_policy);
	body_string(o, "name", f->name);
	json_close(o, '}');
}

void pull_body(struct op *op, const struct osb_pull *p)
{
	struct json_out *o = op_body(op);

	if (!op_need(op, has(p->image), "the image is missing") ||
	    !op_need(op, has(p->username) == has(p->password), "a user of a registry needs a password, and the other way round"))
		return;
	json_open(o, '{');
	json_key(o, "uri"), json_cstr(o, p->image);
	body_auth(o, p->username, p->password);
	body_platform(o, &p->platform);
	json_close(o, '}');
}
