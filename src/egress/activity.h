// SPDX-License-Identifier: Apache-2.0
/* egress/activity.h - what a sandbox has tried to reach: one row for each target, verdict and reason, with
 * count and time. Only the most recent rows are stored, older ones are counted. So a sandbox can fill neither
 * our memory nor the log: a log line is written for a new row only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/policy.h"
#include "base/map.h"

struct json_out;

#define ACTIVITY_ROWS_MAX 256
#define ACTIVITY_TEXT_MAX (HOST_NAME_LEN_MAX + 1)

enum activity_kind { ACTIVITY_DNS, ACTIVITY_TCP };

struct activity_row {
	struct activity_row *prev, *next; /* the most recent first */
	uint64_t count;
	int64_t first_us, last_us; /* wall clock */
	enum activity_kind kind;
	bool is_allowed;
	uint16_t port;    /* of ACTIVITY_TCP */
	uint32_t address; /* of ACTIVITY_TCP, and the first of an answer; 0: none */
	const char *why;  /* constant, or NULL */
	size_t key_n;
	char key[ACTIVITY_TEXT_MAX + 100];
	char target[ACTIVITY_TEXT_MAX]; /* the name; "" when there was none */
};

struct activity {
	struct map rows;
	struct activity_row *first, *last;
	size_t n;
	uint64_t forgotten; /* rows that made room */
};

struct activity_event {
	enum activity_kind kind;
	bool is_allowed;
	const char *target; /* or "" */
	uint32_t address;
	uint16_t port;
	const char *why;
};

void activity_done(struct activity *a);
/* Whether it is the first of its kind that is remembered. Out of memory it is not remembered. */
bool activity_add(struct activity *a, const struct activity_event *ev);
/* Members of an object about what was tried. */
void activity_write_target(const struct activity_event *ev, struct json_out *o);
void activity_write(const struct activity *a, struct json_out *o); /* an array, the most recent first */
