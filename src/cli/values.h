// SPDX-License-Identifier: Apache-2.0
/* cli/values.h - parses command line arguments: durations, pairs, rules, modes. Pure. */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;
struct opt_list;
struct osb_map;
struct osb_rule;

#define VALUES_DURATION_MAX INT64_C(3155760000) /* seconds: a hundred years */

/* "90s", "10m", "1h30m45s", or whole seconds. ERR_INVALID otherwise. */
int value_duration(const char *text, int64_t *ret_s, struct err *e);
/* The same, or "none" in any case: *ret_s is VALUES_NONE. */
#define VALUES_NONE (-1)
int value_duration_or_none(const char *text, int64_t *ret_s, struct err *e);

/* "1:30:00", "2 days, 0:00:00": as Python shows a duration. */
#define VALUES_SPAN_SIZE 48
void value_show_duration(int64_t s, char out[VALUES_SPAN_SIZE]);

/* KEY=VALUE each, split at the first '='; of a key that comes twice the last one counts. What *ret points to
 * is in A. */
int value_pairs(const struct opt_list *list, struct arena *a, struct osb_map *ret, struct err *e);

/* allow=TARGET or deny=TARGET; RET has room for as many as there are in the list. */
int value_rules(const struct opt_list *list, struct arena *a, struct osb_rule **ret, struct err *e);

/* "755", "0755": the digits of an octal number, as a decimal one. */
int value_mode(const char *text, int *ret, struct err *e);

/* Words as a shell reads them back. */
void value_quote(char *const *words, int n, struct buf *out);
