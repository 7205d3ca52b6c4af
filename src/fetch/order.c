// SPDX-License-Identifier: Apache-2.0
#include "fetch/order.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/path.h"
#include "sys/room.h"

#include "base/banned.h"

#define SECRET_MAX 16384

static const char *const kinds[] = { "pull", "check", "sweep", "load", NULL };

static const struct field rule_fields[] = {
	FIELD(struct registry_rule, host, FIELD_STRING, "host", .required = true, .min = 1, .max = REFERENCE_REGISTRY_MAX),
	FIELD(struct registry_rule, mirror, FIELD_STRING, "mirror", .min = 1, .max = REFERENCE_REGISTRY_MAX),
	FIELD(struct registry_rule, auth_host, FIELD_STRING, "authHost", .min = 1, .max = REFERENCE_REGISTRY_MAX),
	FIELD(struct registry_rule, ca_file, FIELD_STRING, "caFile", .min = 1, .max = PATH_BYTES_MAX),
	FIELD(struct registry_rule, is_insecure, FIELD_BOOL, "insecure"),
	FIELD(struct registry_rule, is_private, FIELD_BOOL, "private"),
	{ 0 },
};

_Static_assert(DIGEST_TEXT_MAX >= REFERENCE_TAG_MAX, "either may stand in its place");

static const struct field order_fields[] = {
	FIELD(struct order, kind, FIELD_ENUM, "kind", .required = true, .names = kinds),
	FIELD(struct order, registry, FIELD_STRING, "registry", .min = 1, .max = REFERENCE_REGISTRY_MAX),
	FIELD(struct order, repository, FIELD_STRING, "repository", .min = 1, .max = REFERENCE_REPOSITORY_MAX),
	FIELD(struct order, tag, FIELD_STRING, "tag", .min = 1, .max = DIGEST_TEXT_MAX),
	FIELD(struct order, os, FIELD_STRING, "os", .min = 1, .max = 64),
	FIELD(struct order, arch, FIELD_STRING, "arch", .min = 1, .max = 64),
	FIELD(struct order, username, FIELD_STRING, "username", .max = SECRET_MAX, .secret = true),
	FIELD(struct order, password, FIELD_STRING, "password", .max = SECRET_MAX, .secret = true),
	FIELD(struct order, name, FIELD_STRING, "name", .min = 1, .max = REFERENCE_TEXT_MAX),
	FIELD(struct order, seconds, FIELD_INT, "seconds", .min = 1, .max = FETCH_SECONDS_MAX),
	FIELD(struct order, stall_seconds, FIELD_INT, "stallSeconds", .min = 1, .max = FETCH_STALL_SECONDS_MAX),
	FIELD(struct order, reserve, FIELD_INT, "reserve", .min = 0, .max = ROOM_RESERVE_MAX),
	FIELD(struct order, registries, FIELD_OBJECTS, "registries", .fields = rule_fields, .size = sizeof(struct registry_rule),
	      .min = 0, .max = FETCH_REGISTRIES_MAX),
	FIELD(struct order, proxy, FIELD_STRING, "proxy", .min = 1, .max = FETCH_PROXY_MAX, .secret = true),
	FIELD(struct order, no_proxy, FIELD_STRINGS, "noProxy", .min = 0, .max = FETCH_NO_PROXY_MAX),
	FIELD(struct order, with_new, FIELD_BOOL, "withNew"),
	FIELD(struct order, keep, FIELD_STRINGS, "keep", .min = 0, .max = FETCH_KEEP_MAX),
	{ 0 },
};

static int check(const struct order *o, struct err *e)
{
	bool is_remote = o->kind == ORDER_PULL || o->kind == ORDER_CHECK;

	if (is_remote && (!o->registry || !o->repository || !o->tag))
		return err_set(e, ERR_INTERNAL, "an order without the name of an image");
	if (o->kind != ORDER_SWEEP && o->kind != ORDER_CHECK && (!o->os || !o->arch))
		return err_set(e, ERR_INTERNAL, "an order without a platform");
	if ((o->username == NULL) != (o->password == NULL))
		return err_set(e, ERR_INTERNAL, "an order with half of its credentials");
	return 0;
}

int order_read(struct order *o, int fd, struct err *e)
{
	const struct json_limits limits = { .bytes = FETCH_ORDER_MAX, .values = 2 * FETCH_KEEP_MAX };
	struct decode d = { .arena = &o->arena, .closed = true, .strict = true };
	struct json *root;

	if (fd_read_all(fd, FETCH_ORDER_MAX, &o->text, e) < 0)
		return -1;
	root = json_parse(&o->arena, buf_str(&o->text), &limits, NULL, e);
	if (!root || decode(&d, root, order_fields, o, e) < 0)
		return err_wrap(e, "order");
	return check(o, e);
}

static void wipe(const char *secret)
{
	if (secret)
		secret_wipe((void *)(uintptr_t)secret, strlen(secret));
}

void order_done(struct order *o)
{
	wipe(o->username);
	wipe(o->password);
	wipe(o->proxy);
	if (o->text.p)
		secret_wipe(o->text.p, o->text.n);
	buf_done(&o->text);
	arena_done(&o->arena);
	o->username = o->password = o->proxy = NULL;
}

/* Docker's registry has one name in references and others in URLs: what is said about one is said about all. */
static struct str usual_name(struct str host)
{
	static const char *const names[] = { "index.docker.io", "registry-1.docker.io" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(host, str_of(names[i])))
			return STR(REFERENCE_DEFAULT_REGISTRY);
	return host;
}

const struct registry_rule *order_rule(const struct order *o, struct str host)
{
	const struct registry_rule *rules = o->registries.items;

	for (size_t i = 0; i < o->registries.n; i++)
		if (str_eq_nocase(usual_name(str_of(rules[i].host)), usual_name(host)))
			return &rules[i];
	return NULL;
}
