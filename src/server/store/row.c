// SPDX-License-Identifier: Apache-2.0
#include "server/store/row.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "base/uuid.h"
#include "image/reference.h"
#include "server/store/labels.h"
#include "server/store/snapshot_row.h"

#include "base/banned.h"

static const char *const states[] = {
	[SANDBOX_PENDING] = "Pending",       [SANDBOX_RUNNING] = "Running",   [SANDBOX_PAUSING] = "Pausing",
	[SANDBOX_PAUSED] = "Paused",         [SANDBOX_RESUMING] = "Resuming", [SANDBOX_STOPPING] = "Stopping",
	[SANDBOX_TERMINATED] = "Terminated", [SANDBOX_FAILED] = "Failed",
};

static const char *const intents[] = {
	[INTENT_NONE] = "",           [INTENT_CREATE] = "create", [INTENT_PAUSE] = "pause",
	[INTENT_RESUME] = "resume",   [INTENT_REMOVE] = "remove", [INTENT_ROLLBACK] = "rollback",
};

const char *sandbox_state_name(enum sandbox_state s)
{
	return states[s];
}

bool sandbox_state_parse(struct str name, enum sandbox_state *ret)
{
	for (unsigned i = 0; i < SANDBOX_STATES; i++) {
		if (str_is(name, states[i])) {
			*ret = (enum sandbox_state)i;
			return true;
		}
	}
	return false;
}

const char *sandbox_intent_name(enum sandbox_intent i)
{
	return intents[i];
}

static bool intent_parse(struct str name, enum sandbox_intent *ret)
{
	for (unsigned i = 0; i < SANDBOX_INTENTS; i++) {
		if (str_is(name, intents[i])) {
			*ret = (enum sandbox_intent)i;
			return true;
		}
	}
	return false;
}

/* ---- the spec, a document ---- */

struct spec_platform {
	const char *os, *arch;
};

struct spec_limits {
	int64_t cpu, memory, pids, disk, inodes;
};

struct spec {
	const char *image, *digest, *snapshot;
	struct string_list entrypoint, env, layers; /* the latter: of earlier versions */
	const char *base;
	struct spec_platform platform;
	struct spec_limits limits;
	struct object_list volumes; /* of struct row_volume */
	int64_t renew;
	int network;
	const char *policy;
	bool secure;
	struct object_list ports; /* of struct spec_port */
};

struct spec_port {
	int64_t inside, host;
};

static const struct field port_fields[] = {
	FIELD(struct spec_port, inside, FIELD_INT, "inside", .required = true, .min = 1, .max = 65535),
	FIELD(struct spec_port, host, FIELD_INT, "host", .required = true, .min = 1, .max = 65535),
	{ 0 },
};

static const char *const networks[] = {
	[RUNTIME_NET_NONE] = "none", [RUNTIME_NET_OPEN] = "default", [RUNTIME_NET_POLICY] = "policy", [RUNTIME_NETWORKS] = NULL,
};

const char *row_network_name(enum runtime_network n)
{
	return networks[n];
}

static const struct field platform_fields[] = {
	FIELD(struct spec_platform, os, FIELD_STRING, "os", .required = true, .min = 1, .max = 16),
	FIELD(struct spec_platform, arch, FIELD_STRING, "arch", .required = true, .min = 1, .max = 16),
	{ 0 },
};

#define LIMIT(member) \
	FIELD(struct spec_limits, member, FIELD_INT, #member, .required = true, .min = 1, .max = INT64_MAX)
static const struct field limit_fields[] = {
	LIMIT(cpu), LIMIT(memory), LIMIT(pids), LIMIT(disk),
	/* Of records from before, where nothing ever came of it. */
	FIELD(struct spec_limits, inodes, FIELD_INT, "inodes", .min = 1, .max = INT64_MAX),
	{ 0 },
};

static const struct field spec_fields[] = {
	FIELD(struct spec, image, FIELD_STRING, "image", .required = true, .min = 1, .max = ROW_IMAGE_MAX),
	FIELD(struct spec, digest, FIELD_STRING, "digest", .min = 1, .max = DIGEST_TEXT_MAX),
	FIELD(struct spec, entrypoint, FIELD_STRINGS, "entrypoint", .required = true, .min = 1, .max = ROW_ARGS_MAX),
	FIELD(struct spec, env, FIELD_STRINGS, "env", .required = true, .max = ROW_ENV_MAX),
	FIELD(struct spec, platform, FIELD_OBJECT, "platform", .fields = platform_fields),
	FIELD(struct spec, limits, FIELD_OBJECT, "limits", .required = true, .fields = limit_fields),
	FIELD(struct spec, snapshot, FIELD_STRING, "snapshot", .min = 1, .max = ID_MAX),
	FIELD(struct spec, base, FIELD_STRING, "base", .min = 1, .max = RUNTIME_REFERENCE_MAX),
	FIELD(struct spec, layers, FIELD_STRINGS, "layers", .max = ROW_LAYERS_MAX),
	FIELD(struct spec, volumes, FIELD_OBJECTS, "volumes", .max = VOLUMES_OF_SANDBOX_MAX, .fields = row_volume_fields,
	      .size = sizeof(struct row_volume), .check_item = row_volume_check),
	FIELD(struct spec, renew, FIELD_INT, "renew", .min = 0, .max = 86400),
	FIELD(struct spec, network, FIELD_ENUM, "network", .names = networks),
	FIELD(struct spec, policy, FIELD_STRING, "policy", .max = RUNTIME_POLICY_MAX),
	FIELD(struct spec, secure, FIELD_BOOL, "secure"),
	FIELD(struct spec, ports, FIELD_OBJECTS, "ports", .max = ROW_PORTS_MAX, .fields = port_fields, .size = sizeof(struct spec_port)),
	{ 0 },
};

static void write_list(struct json_out *o, const char *key, const struct string_list *l)
{
	json_key(o, key), json_open(o, '[');
	for (size_t i = 0; i < l->n; i++)
		json_cstr(o, l->items[i]);
	json_close(o, ']');
}

static void write_ports(struct json_out *o, const struct sandbox_row *r)
{
	if (r->n_ports == 0)
		return;
	json_key(o, "ports"), json_open(o, '[');
	for (size_t i = 0; i < r->n_ports; i++) {
		json_open(o, '{');
		json_key(o, "inside"), json_uint(o, r->ports[i].inside);
		json_key(o, "host"), json_uint(o, r->ports[i].host);
		json_close(o, '}');
	}
	json_close(o, ']');
}

bool row_write_spec(const struct sandbox_row *r, struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "image"), json_cstr(&o, r->image);
	if (r->image_digest)
		json_key(&o, "digest"), json_cstr(&o, r->image_digest);
	if (r->snapshot)
		json_key(&o, "snapshot"), json_cstr(&o, r->snapshot);
	if (r->base)
		json_key(&o, "base"), json_cstr(&o, r->base);
	write_list(&o, "entrypoint", &r->entrypoint);
	write_list(&o, "env", &r->env_names);
	if (r->os) {
		json_key(&o, "platform"), json_open(&o, '{');
		json_key(&o, "os"), json_cstr(&o, r->os);
		json_key(&o, "arch"), json_cstr(&o, r->arch);
		json_close(&o, '}');
	}
	json_key(&o, "limits"), json_open(&o, '{');
	json_key(&o, "cpu"), json_uint(&o, r->limits.cpu_milli);
	json_key(&o, "memory"), json_uint(&o, r->limits.memory_bytes);
	json_key(&o, "pids"), json_uint(&o, r->limits.pids);
	json_key(&o, "disk"), json_uint(&o, r->limits.disk_bytes);
	json_close(&o, '}');
	if (r->n_volumes > 0) {
		json_key(&o, "volumes");
		row_volumes_write(&o, r->volumes, r->n_volumes);
	}
	json_key(&o, "renew"), json_int(&o, r->renew_s);
	if (r->network != RUNTIME_NET_NONE)
		json_key(&o, "network"), json_cstr(&o, networks[r->network]);
	if (r->network == RUNTIME_NET_POLICY)
		json_key(&o, "policy"), json_cstr(&o, r->policy);
	if (r->is_secure)
		json_key(&o, "secure"), json_bool(&o, true);
	write_ports(&o, r);
	json_close(&o, '}');
	return !b->failed;
}

static int load_spec(struct str text, struct arena *a, struct sandbox_row *r, struct err *e)
{
	struct decode d = { .arena = a, .closed = true, .strict = true };
	struct json_limits limits = { .bytes = ROW_SPEC_MAX, .depth = 4 };
	const struct json *v = json_parse(a, text, &limits, NULL, e);
	struct spec s = { 0 };

	if (!v || decode(&d, v, spec_fields, &s, e) < 0)
		return -1;
	if (row_reference_load(s.base, &s.layers, a, &r->base, e) < 0)
		return -1;
	if (s.snapshot && !id_valid(str_of(s.snapshot)))
		return err_set(e, ERR_INVALID, "a snapshot that has no name");
	if (s.digest && !row_digest_valid(s.digest))
		return err_set(e, ERR_INVALID, "the digest of an image that is none");
	if ((s.network == RUNTIME_NET_POLICY) != (s.policy != NULL))
		return err_set(e, ERR_INVALID, "a policy without its network, or the other way round");
	r->image = s.image;
	r->image_digest = s.digest;
	r->snapshot = s.snapshot;
	r->entrypoint = s.entrypoint;
	r->env_names = s.env;
	r->os = s.platform.os;
	r->arch = s.platform.arch;
	r->renew_s = s.renew;
	r->network = (enum runtime_network)s.network;
	r->policy = s.policy;
	r->is_secure = s.secure;
	r->n_ports = s.ports.n;
	for (size_t i = 0; i < s.ports.n; i++) {
		const struct spec_port *p = (const struct spec_port *)s.ports.items + i;

		r->ports[i] = (struct row_port){ (unsigned)p->inside, (unsigned)p->host };
	}
	r->volumes = s.volumes.items;
	r->n_volumes = s.volumes.n;
	r->limits = (struct runtime_limits){
		.cpu_milli = (uint64_t)s.limits.cpu, .memory_bytes = (uint64_t)s.limits.memory,
		.pids = (uint64_t)s.limits.pids, .disk_bytes = (uint64_t)s.limits.disk,
	};
	return 0;
}

/* ---- the metadata ---- */

bool row_write_metadata(const struct string_map *m, struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	for (size_t i = 0; i < m->n; i++)
		json_key(&o, m->items[i].key), json_cstr(&o, m->items[i].value);
	json_close(&o, '}');
	return !b->failed;
}

static bool is_there(const struct string_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->items[i].key, key) == 0)
			return true;
	return false;
}

static int load_pair(const struct json *v, struct arena *a, struct string_map *m, struct err *e)
{
	struct string_pair *p = &m->items[m->n];
	const char *why = label_check_key(v->key);

	if (v->type != JSON_STRING)
		return err_set(e, ERR_INVALID, "a value is not a string");
	if (!why)
		why = label_check_value(v->s);
	if (why)
		return err_set(e, ERR_INVALID, "'%s': %s", SHOWN(v->key), why);
	p->key = arena_dup(a, v->key);
	p->value = arena_dup(a, v->s);
	if (!p->key || !p->value)
		return err_no_memory(e);
	if (is_there(m, p->key))
		return err_set(e, ERR_INVALID, "'%s' is there twice", p->key);
	m->n++;
	return 0;
}

static int load_metadata(struct str text, struct arena *a, struct string_map *ret, struct err *e)
{
	struct json_limits limits = { .bytes = ROW_METADATA_MAX, .depth = 1 };
	const struct json *v = json_parse(a, text, &limits, NULL, e);
	struct string_map m = { 0 };

	if (!v)
		return -1;
	if (v->type != JSON_OBJECT || v->kids.n > LABELS_MAX)
		return err_set(e, ERR_INVALID, "not an object of at most %d members", LABELS_MAX);
	m.items = arena_array(a, v->kids.n + 1, sizeof(*m.items));
	if (!m.items)
		return err_no_memory(e);
	for (v = v->kids.first; v; v = v->next)
		if (load_pair(v, a, &m, e) < 0)
			return -1;
	*ret = m;
	return 0;
}

/* ---- the row ---- */

bool row_is_instant(int64_t us)
{
	return us > 0 && us / US_PER_S <= CIVIL_MAX_S;
}

bool row_digest_valid(const char *text)
{
	struct digest digest;

	return digest_parse(str_of(text), &digest);
}

int row_load_text(struct str s, size_t max, const char *what, struct arena *a, const char **ret, struct err *e)
{
	if (s.n > max || !utf8_valid(s) || (s.n > 0 && memchr(s.p, '\0', s.n)))
		return err_set(e, ERR_INVALID, "%s: not a text of at most %zu bytes", what, max);
	*ret = arena_dup(a, s);
	return *ret ? 0 : err_no_memory(e);
}

static int load_numbers(const struct row_columns *c, struct sandbox_row *r, struct err *e)
{
	if (!sandbox_state_parse(c->state, &r->state))
		return err_set(e, ERR_INVALID, "state: '%s' is none", SHOWN(c->state));
	if (!intent_parse(c->intent, &r->intent))
		return err_set(e, ERR_INVALID, "intent: '%s' is none", SHOWN(c->intent));
	if (!row_is_instant(c->created_us) || !row_is_instant(c->changed_us))
		return err_set(e, ERR_INVALID, "a time that cannot be");
	if (c->revision < 0)
		return err_set(e, ERR_INVALID, "a revision that cannot be");
	if ((c->expires_us != 0 && !row_is_instant(c->expires_us)) || c->deadline_ms < 0)
		return err_set(e, ERR_INVALID, "an expiry that cannot be");
	r->created_us = c->created_us;
	r->changed_us = c->changed_us;
	r->expires_us = c->expires_us;
	r->deadline_ms = (uint64_t)c->deadline_ms;
	r->revision = (uint64_t)c->revision;
	return 0;
}

int row_load(const struct row_columns *c, struct arena *a, struct sandbox_row *ret, struct err *e)
{
	struct sandbox_row r = { 0 };

	if (!id_valid(c->id))
		return err_set(e, ERR_INVALID, "sandbox '%s': not an id", SHOWN(c->id));
	r.id = arena_dup(a, c->id);
	if (!r.id)
		return err_no_memory(e);
	if (load_spec(c->spec, a, &r, e) < 0)
		return err_wrap(e, "sandbox '%s': spec", r.id);
	if (load_metadata(c->metadata, a, &r.metadata, e) < 0)
		return err_wrap(e, "sandbox '%s': metadata", r.id);
	if (load_numbers(c, &r, e) < 0 || row_load_text(c->reason, ROW_REASON_MAX, "reason", a, &r.reason, e) < 0 ||
	    row_load_text(c->message, ROW_MESSAGE_MAX, "message", a, &r.message, e) < 0)
		return err_wrap(e, "sandbox '%s'", r.id);
	*ret = r;
	return 0;
}
