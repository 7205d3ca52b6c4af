// SPDX-License-Identifier: Apache-2.0
#include "client/pool_copy.h"

#include "base/arena.h"
#include "client/op.h"
#include "client/opensandbox.h"

#include "base/banned.h"

/* Copies append to the same arena and remember a failure: one look at the end is enough. */
struct copier {
	struct arena *arena;
	bool failed;
};

static const char *text(struct copier *c, const char *z)
{
	char *copy = z ? arena_dup(c->arena, str_of(z)) : NULL;

	c->failed |= z && !copy;
	return copy;
}

static void *array(struct copier *c, size_t n, size_t size)
{
	void *items = arena_array(c->arena, n + 1, size);

	c->failed |= !items;
	return items;
}

static struct osb_strings strings(struct copier *c, const struct osb_strings *from)
{
	const char **items = array(c, from->n, sizeof(*items));

	for (size_t i = 0; items && i < from->n; i++)
		items[i] = text(c, from->items[i]);
	return (struct osb_strings){ items, from->n };
}

static struct osb_map map(struct copier *c, const struct osb_map *from)
{
	struct osb_pair *items = array(c, from->n, sizeof(*items));

	for (size_t i = 0; items && i < from->n; i++)
		items[i] = (struct osb_pair){ text(c, from->items[i].key), text(c, from->items[i].value) };
	return (struct osb_map){ items, from->n };
}

static const struct osb_policy *policy(struct copier *c, const struct osb_policy *from)
{
	struct osb_policy *to = from ? array(c, 1, sizeof(*to)) : NULL;
	struct osb_rule *rules = to ? array(c, from->n_egress, sizeof(*rules)) : NULL;

	if (!rules)
		return NULL;
	for (size_t i = 0; i < from->n_egress; i++)
		rules[i] = (struct osb_rule){ text(c, from->egress[i].action), text(c, from->egress[i].target) };
	*to = (struct osb_policy){ text(c, from->default_action), rules, from->n_egress };
	return to;
}

static const struct osb_volume *volumes(struct copier *c, const struct osb_volume *from, size_t n)
{
	struct osb_volume *to = array(c, n, sizeof(*to));

	for (size_t i = 0; to && i < n; i++) {
		to[i] = from[i];
		to[i].name = text(c, from[i].name);
		to[i].mount_path = text(c, from[i].mount_path);
		to[i].sub_path = text(c, from[i].sub_path);
		to[i].host_path = text(c, from[i].host_path);
		to[i].claim_name = text(c, from[i].claim_name);
		to[i].storage = text(c, from[i].storage);
		to[i].json = text(c, from[i].json);
	}
	return to;
}

int create_copy(struct arena *a, const struct osb_create *from, struct osb_create *to)
{
	struct copier c = { .arena = a };
	struct osb_create x;

	struct_take(&x, sizeof(x), from, from->size, sizeof(x));
	*to = x;
	to->size = sizeof(x);
	to->image = text(&c, x.image);
	to->snapshot_id = text(&c, x.snapshot_id);
	to->image_username = text(&c, x.image_username);
	to->image_password = text(&c, x.image_password);
	to->entrypoint = strings(&c, &x.entrypoint);
	to->env = map(&c, &x.env);
	to->metadata = map(&c, &x.metadata);
	to->extensions = map(&c, &x.extensions);
	to->resource = map(&c, &x.resource);
	to->network_policy = policy(&c, x.network_policy);
	to->volumes = volumes(&c, x.volumes, x.n_volumes);
	to->platform = (struct osb_platform){ text(&c, x.platform.os), text(&c, x.platform.arch) };
	to->idempotency_key = NULL; /* each is to be a new one */
	return c.failed ? -1 : 0;
}
