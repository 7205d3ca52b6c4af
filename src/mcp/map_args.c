// SPDX-License-Identifier: Apache-2.0
#include "mcp/map_args.h"

#include <math.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "mcp/call.h"

#include "base/banned.h"

struct osb_strings args_strings(const struct string_list *list)
{
	return (struct osb_strings){ list->items, list->n };
}

_Static_assert(sizeof(struct osb_pair) == sizeof(struct string_pair) &&
		       offsetof(struct osb_pair, value) == offsetof(struct string_pair, value),
	       "both have a key and a value");

struct osb_map args_map(const struct string_map *map)
{
	return (struct osb_map){ (const struct osb_pair *)(const void *)map->items, map->n };
}

int64_t args_seconds(double s)
{
	return s < 1 ? 1 : (int64_t)s;
}

unsigned args_ms(double s)
{
	double ms = ceil(s * 1000);

	return ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : (unsigned)ms;
}

struct osb_rule *args_rules(struct call *c, const struct object_list *rules, struct err *e)
{
	const struct args_rule *from = rules->items;
	struct osb_rule *to = arena_array(&c->arena, rules->n + 1, sizeof(*to));

	if (!to) {
		(void)json_no_room(&c->arena, rules->n * sizeof(*to), e);
		return NULL;
	}
	for (size_t i = 0; i < rules->n; i++)
		to[i] = (struct osb_rule){ args_actions[from[i].action], from[i].target };
	return to;
}

int args_policy(struct call *c, struct osb_policy *ret, struct err *e)
{
	const struct args_policy *policy = &c->args.network_policy;
	struct osb_rule *rules = args_rules(c, &policy->egress, e);

	if (!rules)
		return -1;
	*ret = (struct osb_policy){ args_actions[policy->default_action], rules, policy->egress.n };
	return 0;
}

int args_write_page(struct call *c, const char *key, bool has_pages, struct json_out *o, struct err *e)
{
	const struct json_limits limits = { .values = SIZE_MAX };
	AUTO(free) char *json = osb_to_json(c->result.any);
	const struct json *page = json ? json_parse(&c->arena, str_of(json), &limits, NULL, e) : NULL;

	if (!page)
		return json ? -1 : err_no_memory(e);
	json_open(o, '{');
	json_key(o, key), json_tree(o, json_get(page, "items"));
	if (has_pages)
		json_key(o, "pagination"), json_tree(o, json_get(page, "pagination"));
	json_close(o, '}');
	return 0;
}
