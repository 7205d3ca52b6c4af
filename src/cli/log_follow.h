// SPDX-License-Identifier: Apache-2.0
/* cli/log_follow.h - finds the new lines in a log that is polled. Pure.
 *
 * Lines begin with their time ("2026-06-15T09:46:58.120431123Z text") and are ordered; several may have the
 * same time. The position is the time of the last line, and how many lines of that time were seen. */
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

/* Appends the lines of TEXT that have not been seen. A last line that has no end yet is left for the next
 * time, unless IS_FINAL. */
void log_follow(struct log_follow *f, struct str text, bool is_final, struct buf *out);
