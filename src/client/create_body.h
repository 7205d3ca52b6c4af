// SPDX-License-Identifier: Apache-2.0
/* client/create_body.h - the JSON body of a create, from the caller's struct. */
#pragma once
#include <stdint.h>

struct json_out;
struct op;
struct osb_create;
struct osb_fork;
struct osb_policy;
struct osb_pull;
struct osb_rule;

/* Into op_body(); what no server could take fails the operation (OSB_INVALID). */
void create_body(struct op *op, const struct osb_create *create);
void fork_body(struct op *op, const struct osb_fork *fork);
void pull_body(struct op *op, const struct osb_pull *pull);

void body_rule(struct json_out *o, const struct osb_rule *r);
/* KEY NULL: a value of its own */
void body_policy(struct json_out *o, const char *key, const struct osb_policy *p);
