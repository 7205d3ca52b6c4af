// SPDX-License-Identifier: Apache-2.0
/* client/gather.h - builds an execution from its events. Pure: everything lives in an arena of the caller. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "client/opensandbox.h"

struct arena;
struct err;

struct gather_text {
	struct gather_text *next;
	struct osb_text item;
	size_t n;
};
struct gather_result {
	struct gather_result *next;
	struct osb_result item;
};
struct gather_output {
	struct gather_text *first, **last;
	size_t n, bytes;
};

struct gather {
	struct arena *arena;
	bool is_lines;    /* of commands and sessions: events are lines, and the text joins them */
	bool has_exit;    /* of what runs in the foreground: the end tells an exit code */
	bool skips;       /* neither lines nor results are kept */
	bool is_complete; /* it ended, well or not */
	struct osb_execution *x;
	struct gather_output out[2];
	struct gather_result *first_result, **last_result;
};

void gather_init(struct gather *g, struct arena *a, struct osb_execution *x);
/* -1: no memory, or the arena is full (ERR_LIMIT) */
int gather_add(struct gather *g, const struct osb_event *ev, struct err *e);
int gather_finish(struct gather *g, struct err *e); /* *x is complete */
