// SPDX-License-Identifier: Apache-2.0
/* cli/log_follow.h - what is new in a log that is asked for again and again. Pure.
 *
 * Lines begin with the time that they were written at ("2026-06-15T09:46:58.120431123Z text"), and come in order; several may have
 * the same one. What has been seen is remembered as the time of the last line, and how many lines of that time there were. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/rfc3339.h"

struct buf;

struct log_follow {
	bool shows_times;
	bool has_last;
	struct timespec last;
	size_t n_last; /* lines with that time */
};

/* Appends the lines of TEXT that have not been seen. A last line that has no end yet is left for the next time, unless IS_FINAL. */
void log_follow(struct log_follow *f, struct str text, bool is_final, struct buf *out);
