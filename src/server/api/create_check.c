// SPDX-License-Identifier: Apache-2.0
/* What a create may ask for here. */
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "server/api/create.h"
#include "server/model/capability.h"
#include "server/model/snapshot.h"
#include "server/proxy/host_ports.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define INVALID(f, ...) fault_set((f), 400, "SANDBOX", "INVALID_PARAMETER", __VA_ARGS__)
#define PIDS_MAX 4194304 /* the kernel's own */
#define MEMORY_MIN ((uint64_t)16 << 20) /* with less, nothing starts */
#define DISK_MIN ((uint64_t)1 << 20)

static const char *map_get_value(const struct string_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->items[i].key, key) == 0)
			return m->items[i].value;
	return NULL;
}

/* ---- extensions ---- */

static int check_extensions(const struct create_request *rq, struct sandbox_order *o, struct fault *f)
{
	const char *renew = map_get_value(&rq->extensions, "access.renew.extend.seconds");
	uint64_t seconds = 0;

	if (renew && !str_to_u64(str_trim(str_of(renew)), CREATE_RENEW_MIN_S, CREATE_RENEW_MAX_S, &seconds))
		return INVALID(f, "extensions.access.renew.extend.seconds: must be a number of %d to %d", CREATE_RENEW_MIN_S,
			       CREATE_RENEW_MAX_S);
	o->renew_s = (int64_t)seconds;
	return 0;
}

/* "8080,5432" */
static int check_ports(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o, struct fault *f)
{
	const char *text = map_get_value(&rq->extensions, HOST_PORTS_KEY);
	struct str rest = str_of(text), item;
	uint64_t port;

	if (text && !rules->has_host_ports)
		return INVALID(f, "extensions." HOST_PORTS_KEY ": this server has no ports to give (ingress.host_ports), or not for this");
	if (text && o->is_secure)
		return INVALID(f, "extensions." HOST_PORTS_KEY ": cannot be used with secureAccess: such ports are not authenticated");
	while (rest.n > 0) {
		(void)str_cut(rest, ',', &item, &rest);
		if (o->n_ports == ROW_PORTS_MAX)
			return INVALID(f, "extensions." HOST_PORTS_KEY ": more than %d ports", ROW_PORTS_MAX);
		if (!str_to_u64(str_trim(item), 1, 65535, &port) || guarded_port_find((unsigned)port))
			return INVALID(f, "extensions." HOST_PORTS_KEY ": must be ports of the sandbox's own programs, with commas between them");
		for (size_t i = 0; i < o->n_ports; i++)
			if (o->ports[i].inside == port)
				return INVALID(f, "extensions." HOST_PORTS_KEY ": %u is there twice", (unsigned)port);
		o->ports[o->n_ports++].inside = (unsigned)port;
	}
	return 0;
}

const char *create_pool_name(const struct create_request *rq, struct arena *a)
{
	struct str name = str_trim(str_of(map_get_value(&rq->extensions, "poolRef")));

	return name.n > 0 ? arena_dup(a, name) : NULL;
}

/* ---- the entrypoint ---- */

struct splitter {
	struct str in;
	struct arena *a;
	char *word; /* as long as the line, at most */
	size_t n;
	bool has_word;
};

/* Takes what a quote or backslash protects; -1: it does not end. */
static int take_quoted(struct splitter *s, char quote)
{
	s->has_word = true;
	s->in = str_skip(s->in, 1);
	while (s->in.n > 0 && s->in.p[0] != quote) {
		if (quote == '"' && s->in.p[0] == '\\' && s->in.n > 1 && (s->in.p[1] == '"' || s->in.p[1] == '\\'))
			s->in = str_skip(s->in, 1);
		s->word[s->n++] = s->in.p[0];
		s->in = str_skip(s->in, 1);
	}
	if (s->in.n == 0)
		return -1;
	s->in = str_skip(s->in, 1);
	return 0;
}

static int take_one(struct splitter *s)
{
	char c = s->in.p[0];

	if (c == '\'' || c == '"')
		return take_quoted(s, c);
	if (c == '\\') {
		s->in = str_skip(s->in, 1);
		if (s->in.n == 0)
			return -1;
	}
	s->has_word = true;
	s->word[s->n++] = s->in.p[0];
	s->in = str_skip(s->in, 1);
	return 0;
}

static bool is_blank_char(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int end_word(struct splitter *s, struct string_list *list, struct err *e)
{
	if (!s->has_word)
		return 0;
	if (list->n == CREATE_ARGS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d words", CREATE_ARGS_MAX);
	list->items[list->n] = arena_strndup(s->a, s->word, s->n);
	if (!list->items[list->n])
		return err_no_memory(e);
	list->n++;
	s->n = 0;
	s->has_word = false;
	return 0;
}

int words_split(struct str line, struct arena *a, struct string_list *ret, struct err *e)
{
	struct splitter s = { .in = line, .a = a, .word = arena_alloc(a, line.n + 1) };
	struct string_list list = { .items = arena_array(a, CREATE_ARGS_MAX, sizeof(*list.items)) };

	if (!s.word || !list.items)
		return err_no_memory(e);
	while (s.in.n > 0) {
		if (!is_blank_char(s.in.p[0])) {
			if (take_one(&s) < 0)
				return err_set(e, ERR_INVALID, "a quote is not closed, or a backslash stands at the end");
			continue;
		}
		s.in = str_skip(s.in, 1);
		if (end_word(&s, &list, e) < 0)
			return -1;
	}
	if (end_word(&s, &list, e) < 0)
		return -1;
	*ret = list;
	return 0;
}

static int check_entrypoint(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			    struct sandbox_order *o, struct fault *f)
{
	static const char *stay[] = { "tail", "-f", "/dev/null" };
	const char *prefix = rules->runtime->code_prefix;
	struct err e = { 0 };
	size_t bytes = 0;

	o->entrypoint = rq->entrypoint;
	if (rq->entrypoint.n == 0 && rules->source)
		o->entrypoint = rules->source->entrypoint;
	else if (rq->entrypoint.n == 0 && o->snapshot)
		o->entrypoint = (struct string_list){ stay, ARRAY_LEN(stay) };
	if (rq->entrypoint.n == 1 && strchr(rq->entrypoint.items[0], ' ') &&
	    words_split(str_of(rq->entrypoint.items[0]), a, &o->entrypoint, &e) < 0)
		return fault_set(f, 400, prefix, "INVALID_ENTRYPOINT", "entrypoint: %s", e.msg);
	if (o->entrypoint.n == 0 || o->entrypoint.items[0][0] == '\0')
		return fault_set(f, 400, prefix, "INVALID_ENTRYPOINT", "entrypoint: names no program");
	if (o->entrypoint.n > CREATE_ARGS_MAX)
		return INVALID(f, "entrypoint: more than %d words", CREATE_ARGS_MAX);
	for (size_t i = 0; i < o->entrypoint.n; i++)
		bytes += strlen(o->entrypoint.items[i]) + 1;
	if (bytes > CREATE_ARGS_BYTES_MAX)
		return INVALID(f, "entrypoint: more than %zu bytes", CREATE_ARGS_BYTES_MAX);
	return 0;
}

/* ---- metadata and environment ---- */

static int check_metadata(const struct create_request *rq, struct sandbox_order *o, struct fault *f)
{
	if (rq->metadata.n > LABELS_MAX)
		return INVALID(f, "metadata: more than %d entries", LABELS_MAX);
	for (size_t i = 0; i < rq->metadata.n; i++) {
		const struct string_pair *p = &rq->metadata.items[i];
		struct str key = str_of(p->key);
		const char *why = label_check_key(key);

		if (!why)
			why = label_check_value(str_of(p->value));
		if (!why && label_is_reserved(key))
			why = "the prefix " LABEL_RESERVED " is reserved";
		if (why)
			return fault_set(f, 400, "SANDBOX", "INVALID_METADATA_LABEL", "metadata '%s': %s", SHOWN(key), why);
	}
	o->metadata = rq->metadata;
	return 0;
}

static int check_env(const struct create_request *rq, struct sandbox_order *o, struct fault *f)
{
	size_t bytes = 0;

	if (rq->env.n > CREATE_ENV_MAX)
		return INVALID(f, "env: more than %d entries", CREATE_ENV_MAX);
	for (size_t i = 0; i < rq->env.n; i++) {
		const struct string_pair *p = &rq->env.items[i];

		if (p->key[0] == '\0' || strchr(p->key, '=') || !escape_is_free(str_of(p->key)))
			return INVALID(f, "env: '%s' is not a name", SHOWN(str_of(p->key)));
		bytes += strlen(p->key) + strlen(p->value) + 2; /* '=' and NUL */
	}
	if (bytes > CREATE_ENV_BYTES_MAX)
		return INVALID(f, "env: more than %zu bytes", CREATE_ENV_BYTES_MAX);
	o->env = rq->env;
	return 0;
}

/* ---- the platform ---- */

static bool is_one_of(struct str s, const char *const *names)
{
	for (; *names; names++)
		if (str_eq_nocase(s, str_of(*names)))
			return true;
	return false;
}

static int check_platform(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o,
			  struct fault *f)
{
	static const char *const systems[] = { "linux", "windows", NULL }, *const machines[] = { "amd64", "arm64", NULL };
	const struct runtime *rt = rules->runtime;
	struct str os, arch;

	if (!rq->has_platform)
		return 0;
	os = str_trim(str_of(rq->platform.os));
	arch = str_trim(str_of(rq->platform.arch));
	if (!is_one_of(os, systems))
		return INVALID(f, "platform.os: must be linux or windows");
	if (!is_one_of(arch, machines))
		return INVALID(f, "platform.arch: must be amd64 or arm64");
	for (size_t i = 0; i < rt->can.n_platforms; i++) {
		const struct runtime_platform *p = &rt->can.platforms[i];

		if (!str_eq_nocase(os, str_of(p->os)) || !str_eq_nocase(arch, str_of(p->arch)))
			continue;
		o->os = p->os;
		o->arch = p->arch;
		return 0;
	}
	return capability_missing(rt, CAPABILITY_PLATFORM, "platform", f);
}

/* ---- limits ---- */

static int limit_cpu(struct str text, struct runtime_limits *l, struct err *e)
{
	return quantity_cpu(text, &l->cpu_milli, e);
}

static int limit_memory(struct str text, struct runtime_limits *l, struct err *e)
{
	if (quantity_memory(text, &l->memory_bytes, e) < 0)
		return -1;
	return l->memory_bytes >= MEMORY_MIN ? 0 : err_set(e, ERR_INVALID, "must be 16Mi or more");
}

static int limit_disk(struct str text, struct runtime_limits *l, struct err *e)
{
	if (quantity_memory(text, &l->disk_bytes, e) < 0)
		return -1;
	return l->disk_bytes >= DISK_MIN ? 0 : err_set(e, ERR_INVALID, "must be 1Mi or more");
}

static int limit_pids(struct str text, struct runtime_limits *l, struct err *e)
{
	return str_to_u64(str_trim(text), 1, PIDS_MAX, &l->pids) ? 0 :
	       err_set(e, ERR_INVALID, "must be a number of 1 to %d", PIDS_MAX);
}

static int limit_gpu(struct str text, struct runtime_limits *l, struct err *e)
{
	(void)text, (void)l;
	return err_set(e, ERR_INVALID, "there are no GPUs here");
}

static const struct limit_key {
	const char *name;
	enum runtime_limit bit;
	int (*parse)(struct str text, struct runtime_limits *l, struct err *e);
} limit_keys[] = {
	{ "cpu", LIMIT_CPU, limit_cpu },        { "memory", LIMIT_MEMORY, limit_memory },
	{ "disk", LIMIT_DISK, limit_disk },     { "ephemeral-storage", LIMIT_DISK, limit_disk },
	{ "storage", LIMIT_DISK, limit_disk },  { "pids", LIMIT_PIDS, limit_pids },
	{ "gpu", LIMIT_GPU, limit_gpu },
};

static const struct limit_key *find_limit(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(limit_keys); i++)
		if (strcmp(limit_keys[i].name, name) == 0)
			return &limit_keys[i];
	return NULL;
}

/* What the request does not name is no more than the operator allows. */
static struct runtime_limits limits_default(const struct runtime_limits *most)
{
	struct runtime_limits l = RUNTIME_LIMITS_DEFAULT;

	l.cpu_milli = MIN(l.cpu_milli, most->cpu_milli);
	l.memory_bytes = MIN(l.memory_bytes, most->memory_bytes);
	l.disk_bytes = MIN(l.disk_bytes, most->disk_bytes);
	return l;
}

/* Of a fork as well: what its source has may be more than is allowed today (I7). */
static int check_ceilings(const struct runtime_limits *l, const struct runtime_limits *most, struct fault *f)
{
	if (l->cpu_milli > most->cpu_milli)
		return INVALID(f, "resourceLimits.cpu: must be at most %llum", (unsigned long long)most->cpu_milli);
	if (l->memory_bytes > most->memory_bytes)
		return INVALID(f, "resourceLimits.memory: must be at most %llu bytes", (unsigned long long)most->memory_bytes);
	if (l->disk_bytes > most->disk_bytes)
		return INVALID(f, "resourceLimits.disk: must be at most %llu bytes", (unsigned long long)most->disk_bytes);
	return 0;
}

static int limit_missing(const struct runtime *rt, const struct limit_key *k, struct fault *f)
{
	char where[64];

	(void)snprintf(where, sizeof(where), "resourceLimits.%s", k->name);
	return capability_missing(rt, k->bit == LIMIT_DISK ? CAPABILITY_DISK_LIMIT : CAPABILITY_LIMIT, where, f);
}

static int check_limits(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o,
			struct fault *f)
{
	unsigned seen = 0;

	o->limits = rules->source ? rules->source->limits : limits_default(&rules->ceilings);
	for (size_t i = 0; i < rq->limits.n; i++) {
		const struct string_pair *p = &rq->limits.items[i];
		const struct limit_key *k = find_limit(p->key);
		struct err e = { 0 };

		if (!k)
			return INVALID(f, "resourceLimits.%s: cannot be enforced here; known are cpu, memory, disk, pids and gpu",
				       SHOWN(str_of(p->key)));
		if (!(rules->runtime->can.limits & k->bit))
			return limit_missing(rules->runtime, k, f);
		if (seen & k->bit)
			return INVALID(f, "resourceLimits.%s: is named twice", k->name);
		seen |= k->bit;
		if (k->parse(str_of(p->value), &o->limits, &e) < 0)
			return INVALID(f, "resourceLimits.%s: %s", k->name, e.msg);
	}
	return check_ceilings(&o->limits, &rules->ceilings, f);
}

/* ---- the rest ---- */

static int check_timeout(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o, struct fault *f)
{
	if (rules->max_timeout_s > 0 && rq->timeout > rules->max_timeout_s)
		return INVALID(f, "timeout: must be at most %lld seconds", (long long)rules->max_timeout_s);
	o->timeout_s = rq->timeout;
	return 0;
}

/* A fork is no less guarded than what it was made of. */
static void check_access(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o)
{
	o->is_secure = rq->is_secure_access || (rules->source && rules->source->is_secure);
}

static int check_unsupported(const struct create_request *rq, struct fault *f)
{
	if (rq->proxies_credentials)
		return INVALID(f, "credentialProxy: not supported by this server");
	return 0;
}

/* I7: whatever stood on the image before, it has to be one that can be had today. */
static int check_base(const struct create_rules *rules, struct sandbox_order *o, struct fault *f)
{
	struct err e = { 0 };

	if (rules->runtime->ops->check_image(rules->runtime, o->image, &e) == 0)
		return 0;
	return fault_set(f, 409, "SNAPSHOT", "INVALID_RESTORE_CONFIG", "its image cannot be used: %s", e.msg);
}

static int check_snapshot(const struct create_request *rq, const struct create_rules *rules, struct sandbox_order *o, struct fault *f)
{
	struct str id = str_trim(str_of(rq->snapshot_id));
	const struct snapshot *sn;

	if (rules->source) {
		o->image = rules->source->image;
		o->image_digest = rules->source->image_digest;
		o->snapshot = rules->source->snapshot;
		o->os = rules->source->os;
		o->arch = rules->source->arch;
		return check_base(rules, o, f);
	}
	if (id.n == 0)
		return 0;
	sn = rules->snapshots ? snapshots_find(rules->snapshots, id) : NULL;
	if (!sn)
		return fault_set(f, 404, "SNAPSHOT", "NOT_FOUND", "snapshotId: there is no snapshot '%s'", SHOWN(id));
	if (snapshot_check_use(sn, f) < 0)
		return -1;
	o->image = sn->row.image;
	o->image_digest = sn->row.image_digest;
	o->snapshot = sn->row.id;
	o->base = sn->row.reference;
	return check_base(rules, o, f);
}

static int check_image(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
		       struct sandbox_order *o, struct fault *f)
{
	struct str uri = str_trim(str_of(rq->image.uri));
	struct err e = { 0 };

	if (o->image)
		return 0;
	if (uri.n > CREATE_IMAGE_MAX)
		return INVALID(f, "image.uri: more than %d bytes", CREATE_IMAGE_MAX);
	o->image = arena_dup(a, uri);
	o->username = rq->image.auth.username;
	o->password = rq->image.auth.password;
	if (!o->image)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	if (rules->runtime->ops->check_image(rules->runtime, o->image, &e) < 0)
		return INVALID(f, "image.uri: %s", e.msg);
	return 0;
}

/* ---- what a sandbox that waits in a pool cannot have any more ---- */

static bool has_limits(const struct create_request *rq, const struct runtime_limits *asked, const struct runtime_limits *l,
		       const char **ret_other)
{
	for (size_t i = 0; i < rq->limits.n; i++) {
		enum runtime_limit bit = find_limit(rq->limits.items[i].key)->bit; /* they were checked */

		*ret_other = rq->limits.items[i].key;
		if ((bit == LIMIT_CPU && asked->cpu_milli != l->cpu_milli) || (bit == LIMIT_MEMORY && asked->memory_bytes != l->memory_bytes) ||
		    (bit == LIMIT_DISK && asked->disk_bytes != l->disk_bytes) || (bit == LIMIT_PIDS && asked->pids != l->pids))
			return false;
	}
	return true;
}

static bool is_same_list(const struct string_list *a, const struct string_list *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return a->n == b->n;
}

static int check_same(const struct create_request *rq, const struct sandbox_order *o, const struct sandbox_order *t, struct fault *f)
{
	const char *other = NULL;

	if (rq->has_network_policy) /* E6: never left out in silence */
		return INVALID(f, "networkPolicy: the sandboxes of pool '%s' run already, with the network of its template", t->pool_name);
	if (map_get_value(&rq->extensions, CREATE_NETWORK_KEY))
		return INVALID(f, "extensions." CREATE_NETWORK_KEY ": the sandboxes of pool '%s' run already, with the network of its template",
			       t->pool_name);
	if (rq->volumes.n > 0)
		return INVALID(f, "volumes: the sandboxes of pool '%s' run already, without any", t->pool_name);
	if (o->image && strcmp(o->image, t->image) != 0)
		return INVALID(f, "image.uri: the sandboxes of pool '%s' have '%s'", t->pool_name, t->image);
	if (o->entrypoint.n > 0 && !is_same_list(&o->entrypoint, &t->entrypoint))
		return INVALID(f, "entrypoint: the sandboxes of pool '%s' run another one already", t->pool_name);
	if (!has_limits(rq, &o->limits, &t->limits, &other))
		return INVALID(f, "resourceLimits.%s: the sandboxes of pool '%s' have another one", other, t->pool_name);
	for (size_t i = 0; i < o->env.n; i++) {
		const char *has = map_get_value(&t->env, o->env.items[i].key);

		if (!has || strcmp(has, o->env.items[i].value) != 0)
			return INVALID(f, "env.%s: the sandboxes of pool '%s' run already, without it or with another value",
				       SHOWN(str_of(o->env.items[i].key)), t->pool_name);
	}
	return 0;
}

int create_check_pooled(const struct create_request *rq, const struct create_rules *rules, const struct sandbox_order *template,
			struct arena *a, struct sandbox_order *ret, struct fault *f)
{
	struct sandbox_order o = { 0 };
	bool has_image = str_trim(str_of(rq->image.uri)).n > 0;

	if (check_extensions(rq, &o, f) < 0 || (rq->entrypoint.n > 0 && check_entrypoint(rq, rules, a, &o, f) < 0) ||
	    check_metadata(rq, &o, f) < 0 || check_platform(rq, rules, &o, f) < 0 || check_timeout(rq, rules, &o, f) < 0)
		return -1;
	if (check_unsupported(rq, f) < 0 || check_limits(rq, rules, &o, f) < 0 || check_env(rq, &o, f) < 0 ||
	    (has_image && check_image(rq, rules, a, &o, f) < 0) || check_same(rq, &o, template, f) < 0)
		return -1;
	if (map_get_value(&rq->extensions, HOST_PORTS_KEY))
		return INVALID(f, "extensions." HOST_PORTS_KEY ": not with a pool, whose sandboxes run already");
	*ret = *template;
	ret->metadata = o.metadata;
	ret->timeout_s = o.timeout_s;
	ret->renew_s = o.renew_s;
	ret->is_secure = rq->is_secure_access;
	ret->os = o.os;
	ret->arch = o.arch;
	return 0;
}

/* ---- the whole ---- */

int create_check(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
		 struct sandbox_order *ret, struct fault *f)
{
	struct sandbox_order o = { 0 };

	if (check_extensions(rq, &o, f) < 0 || check_snapshot(rq, rules, &o, f) < 0)
		return -1;
	if (check_entrypoint(rq, rules, a, &o, f) < 0 || check_metadata(rq, &o, f) < 0 ||
	    check_platform(rq, rules, &o, f) < 0 || check_timeout(rq, rules, &o, f) < 0)
		return -1;
	if (check_unsupported(rq, f) < 0 || create_check_network(rq, rules, a, &o, f) < 0 || create_check_volumes(rq, rules, a, &o, f) < 0 || check_limits(rq, rules, &o, f) < 0 ||
	    check_env(rq, &o, f) < 0 || check_image(rq, rules, a, &o, f) < 0)
		return -1;
	check_access(rq, rules, &o);
	if (check_ports(rq, rules, &o, f) < 0)
		return -1;
	*ret = o;
	return 0;
}
