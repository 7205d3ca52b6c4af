// SPDX-License-Identifier: Apache-2.0
/* client/run.h - the common part of commands, sessions and code: a request whose response is a stream of
 * events. */
#pragma once
#include <stdbool.h>

#include "client/opensandbox.h"

struct op;

struct run_spec {
	const char *path;
	bool is_lines, has_exit, skips; /* see client/gather.h */
	unsigned head_ms;               /* until the stream begins; 0: as of any request */
	osb_event_fn *events;           /* or NULL */
	void *arg;
};

/* Sends what op_body() holds; the result is a struct osb_execution. */
void run_stream(struct op *op, const struct run_spec *spec);
