// SPDX-License-Identifier: Apache-2.0
/* mcp/map_args.h - converts arguments and lists of tools to those of the library. */
#pragma once
#include "client/opensandbox.h"
#include "mcp/args.h"

struct call;
struct err;
struct json_out;

struct osb_strings args_strings(const struct string_list *list);
struct osb_map args_map(const struct string_map *map);
int64_t args_seconds(double s); /* whole ones, at least 1 */
unsigned args_ms(double s);     /* at least 1: 0 is the library's default */
/* Of the call's network_policy; its rules are in the call's arena. */
int args_policy(struct call *c, struct osb_policy *ret, struct err *e);
struct osb_rule *args_rules(struct call *c, const struct object_list *rules, struct err *e); /* or NULL */
/* A page of the library's as {KEY: [...], "pagination": {...}}, the latter if HAS_PAGES. */
int args_write_page(struct call *c, const char *key, bool has_pages, struct json_out *o, struct err *e);
