// SPDX-License-Identifier: Apache-2.0
/* The rules that span several keys. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/quantity.h"
#include "server/config/config_impl.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define IMAGE_PATH_MAX 1023 /* what the warden takes */

static void check_server(struct config_loading *l, struct config *c)
{
	struct config_server *s = &c->server;

	if (s->proxy_port == 0 && s->port == 65535)
		config_problem(l, "server.proxy_port", "must be set when server.port is 65535");
	else if (s->proxy_port == 0)
		s->proxy_port = s->port + 1;
	if (s->proxy_port == s->port)
		config_problem(l, "server.proxy_port", "must not be server.port");
	if (s->tls_cert && !s->tls_key)
		config_problem(l, "server.tls_cert", "needs server.tls_key");
	if (s->tls_key && !s->tls_cert)
		config_problem(l, "server.tls_key", "needs server.tls_cert");
}

static bool is_run_of(struct str s, const char *extra, size_t max)
{
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9') || memchr(extra, s.p[i], strlen(extra))))
			return false;
	return s.n > 0 && s.n <= max;
}

struct runtime_limits config_ceilings(const struct config *c)
{
	const struct config_native *n = &c->native;
	struct runtime_limits l = RUNTIME_CEILINGS;
	struct err e; /* they were checked */

	if (n->max_cpu && n->max_cpu[0])
		(void)quantity_cpu(str_of(n->max_cpu), &l.cpu_milli, &e);
	if (n->max_memory && n->max_memory[0])
		(void)quantity_storage(str_of(n->max_memory), &l.memory_bytes, &e);
	if (n->max_disk && n->max_disk[0])
		(void)quantity_storage(str_of(n->max_disk), &l.disk_bytes, &e);
	return l;
}

uint64_t config_disk_reserve(const struct config *c)
{
	uint64_t bytes;

	return c->native.disk_reserve && quantity_storage(str_of(c->native.disk_reserve), &bytes, &(struct err){ 0 }) == 0 ? bytes : 0;
}

bool config_image_name(struct str s)
{
	static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-";
	struct str name, tag;
	bool has_tag = str_cut(s, ':', &name, &tag);

	if (!is_run_of(name, "._/-", 128) || !is_run_of(str_first(name, 1), "", 1))
		return false;
	return !has_tag || (is_run_of(tag, upper, 128) && tag.p[0] != '.' && tag.p[0] != '-');
}

static bool is_reserved(struct str image)
{
	struct str name, tag;

	(void)str_cut(image, ':', &name, &tag);
	return str_is(name, "host") || str_is(name, "default");
}

static void check_native(struct config_loading *l, const struct config_native *n)
{
	bool has_default = strcmp(n->default_image, "host") == 0;

	for (size_t i = 0; i < n->images.n; i++) {
		const struct string_pair *im = &n->images.items[i];

		if (!config_image_name(str_of(im->key)))
			config_problem(l, "native.images", "'%s' must be small letters, digits and ._/- with an optional :tag",
				       SHOWN(str_of(im->key)));
		else if (is_reserved(str_of(im->key)))
			config_problem(l, "native.images", "'%s' is taken: 'host' and 'default' are", im->key);
		if (im->value[0] != '/' || strlen(im->value) > IMAGE_PATH_MAX)
			config_problem(l, "native.images", "'%s' needs an absolute path of at most %d bytes", SHOWN(str_of(im->key)),
				       IMAGE_PATH_MAX);
		has_default = has_default || strcmp(n->default_image, im->key) == 0;
	}
	if (!has_default)
		config_problem(l, "native.default_image", "'%s' is neither 'host' nor in native.images",
			       SHOWN(str_of(n->default_image)));
}

static void check_images(struct config_loading *l, const struct config_images *im)
{
	const struct config_registry *r = im->registries.items;
	char path[64];

	for (size_t i = 0; i < im->registries.n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (!str_eq_nocase(str_of(r[i].host), str_of(r[j].host)))
				continue;
			(void)snprintf(path, sizeof(path), "images.registries[%zu].host", i);
			config_problem(l, path, "'%s' is there twice", r[i].host);
		}
		if (r[i].ca_file && r[i].ca_file[0] && r[i].ca_file[0] != '/') {
			(void)snprintf(path, sizeof(path), "images.registries[%zu].ca_file", i);
			config_problem(l, path, "must be an absolute path");
		}
	}
}

static void check_runtime(struct config_loading *l, const struct config *c)
{
	static const char *const names[] = { "native", "docker", "kubernetes" };
	const char *name = names[c->runtime.type];

	if (c->runtime.type != RUNTIME_NATIVE && !c->runtime.execd_image)
		config_problem(l, "runtime.execd_image", "is required with runtime.type '%s'", name);
	if (c->runtime.type == RUNTIME_KUBERNETES)
		return;
	if (c->has_kubernetes)
		config_problem(l, "kubernetes", "not allowed with runtime.type '%s'", name);
	if (c->has_agent_sandbox)
		config_problem(l, "agent_sandbox", "not allowed with runtime.type '%s'", name);
}

/* What could not be kept is not promised. */
static void check_egress(struct config_loading *l, const struct config *c)
{
	if (c->runtime.type == RUNTIME_NATIVE && !c->egress.disable_ipv6)
		config_problem(l, "egress.disable_ipv6", "sandboxes of the native runtime have no IPv6");
}

static bool is_unconfined(const char *profile)
{
	return profile && str_eq_nocase(str_of(profile), STR("unconfined"));
}

/* The network of the host, or of another container. */
static bool is_shared_network(struct str mode)
{
	return str_is(mode, "host") || str_starts(mode, STR("container:"));
}

static void check_docker(struct config_loading *l, struct config *c)
{
	struct config_docker *d = &c->docker;
	static const char needs[] = "needs docker.unsafe_weaker_isolation";
	char *mode = arena_strndup(l->arena, d->network_mode, strlen(d->network_mode));

	if (!mode) {
		config_problem(l, "docker.network_mode", "out of memory");
		return;
	}
	for (char *p = mode; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	d->network_mode = mode;
	if (d->unsafe_weaker_isolation)
		return;
	if (is_shared_network(str_of(mode)))
		config_problem(l, "docker.network_mode", "'%s' %s", mode, needs);
	if (d->drop_capabilities.n == 0)
		config_problem(l, "docker.drop_capabilities", "an empty list %s", needs);
	if (!d->no_new_privileges)
		config_problem(l, "docker.no_new_privileges", "false %s", needs);
	if (is_unconfined(d->seccomp_profile))
		config_problem(l, "docker.seccomp_profile", "'%s' %s", d->seccomp_profile, needs);
	if (is_unconfined(d->apparmor_profile))
		config_problem(l, "docker.apparmor_profile", "'%s' %s", d->apparmor_profile, needs);
}

static void check_secure_runtime(struct config_loading *l, struct config *c)
{
	struct config_secure_runtime *s = &c->secure_runtime;
	static const char *const docker_names[] = { NULL, "runsc", "kata-runtime", NULL };
	static const char *const class_names[] = { NULL, "gvisor", "kata-qemu", "kata-fc" };

	if (s->type == SECURE_NONE) {
		if (s->docker_runtime)
			config_problem(l, "secure_runtime.docker_runtime", "needs secure_runtime.type");
		if (s->k8s_runtime_class)
			config_problem(l, "secure_runtime.k8s_runtime_class", "needs secure_runtime.type");
		return;
	}
	if (c->runtime.type == RUNTIME_NATIVE)
		config_problem(l, "secure_runtime.type", "needs runtime.type 'docker' or 'kubernetes'");
	if (s->type == SECURE_FIRECRACKER && c->runtime.type == RUNTIME_DOCKER)
		config_problem(l, "secure_runtime.type", "'firecracker' needs runtime.type 'kubernetes'");
	if (s->type != SECURE_FIRECRACKER && !s->docker_runtime && !s->k8s_runtime_class)
		config_problem(l, "secure_runtime.type", "needs docker_runtime or k8s_runtime_class");
	if (!s->docker_runtime)
		s->docker_runtime = docker_names[s->type];
	if (!s->k8s_runtime_class)
		s->k8s_runtime_class = class_names[s->type];
}

static void check_gateway(struct config_loading *l, const struct config_gateway *g)
{
	bool has_star = strchr(g->address, '*') != NULL;

	if (strstr(g->address, "://"))
		config_problem(l, "ingress.gateway.address", "must not have a scheme");
	else if (g->route.mode == GATEWAY_WILDCARD &&
		 (strncmp(g->address, "*.", 2) != 0 || !g->address[2] || strchr(g->address + 1, '*')))
		config_problem(l, "ingress.gateway.address", "must be '*.domain' with wildcard routes");
	else if (g->route.mode != GATEWAY_WILDCARD && has_star)
		config_problem(l, "ingress.gateway.address", "'*' needs ingress.gateway.route.mode 'wildcard'");
}

/* Base64, padded or not, of one byte or more. */
static bool is_base64(const char *text)
{
	AUTO(buf_done) struct buf key = BUF_INIT(4096);
	struct str s = str_of(text);
	unsigned flags = s.n % 4 == 0 ? BASE64_STD : BASE64_STD | BASE64_UNPADDED;
	bool ok = base64_decode(&key, s, flags, &(struct err){ 0 }) == 0 && key.n > 0;

	if (key.p)
		secret_wipe(key.p, key.n);
	return ok;
}

static void check_secure_access(struct config_loading *l, const struct config_secure_access *s)
{
	const struct config_access_key *keys = s->keys.items;
	bool has_active = false;
	char path[64];

	for (size_t i = 0; i < s->keys.n; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(keys[i].key_id, keys[j].key_id) != 0)
				continue;
			(void)snprintf(path, sizeof(path), "ingress.secure_access.keys[%zu].key_id", i);
			config_problem(l, path, "'%s' is there twice", keys[i].key_id);
		}
		has_active = has_active || strcmp(keys[i].key_id, s->active_key) == 0;
		if (!is_base64(keys[i].key)) {
			(void)snprintf(path, sizeof(path), "ingress.secure_access.keys[%zu].key", i);
			config_problem(l, path, "must be base64 of one byte or more");
		}
	}
	if (!has_active)
		config_problem(l, "ingress.secure_access.active_key", "no key has the key_id '%s'", s->active_key);
}

static void check_ingress(struct config_loading *l, const struct config *c)
{
	const struct config_ingress *in = &c->ingress;

	if (in->mode == INGRESS_GATEWAY && c->runtime.type == RUNTIME_DOCKER)
		config_problem(l, "ingress.mode", "'gateway' is not allowed with runtime.type 'docker'");
	if (in->mode == INGRESS_GATEWAY && !in->has_gateway)
		config_problem(l, "ingress.gateway", "is required with ingress.mode 'gateway'");
	if (in->mode != INGRESS_GATEWAY && in->has_gateway)
		config_problem(l, "ingress.gateway", "needs ingress.mode 'gateway'");
	if (in->mode != INGRESS_GATEWAY && in->has_secure_access && c->runtime.type != RUNTIME_NATIVE)
		config_problem(l, "ingress.secure_access", "needs ingress.mode 'gateway'");
	if (in->has_gateway)
		check_gateway(l, &in->gateway);
	if (in->has_secure_access)
		check_secure_access(l, &in->secure_access);
}

void config_check_rules(struct config_loading *l, struct config *c)
{
	check_server(l, c);
	check_native(l, &c->native);
	check_images(l, &c->images);
	check_runtime(l, c);
	check_egress(l, c);
	check_docker(l, c);
	check_secure_runtime(l, c);
	check_ingress(l, c);
	if (c->renew_intent.redis.enabled && !c->renew_intent.redis.dsn)
		config_problem(l, "renew_intent.redis.dsn", "is required when renew_intent.redis.enabled");
}
