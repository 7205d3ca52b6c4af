// SPDX-License-Identifier: Apache-2.0
/* net/log_limit.h - a ceiling for log lines that peers can cause at will.
 *
 *     if (log_limit_admits(&gs->refused, gs->loop))
 *         log_warn("gateway refused");
 *
 * LOG_LIMIT_LINES lines of a kind are written in each LOG_LIMIT_MS. Further ones are counted. At the end of
 * that time, or of the program, one line reports how many were omitted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "net/loop.h"

#define LOG_LIMIT_LINES 60
#define LOG_LIMIT_MS 60000

/* Called beside that line, for who keeps another record. */
typedef void log_limit_fn(const char *what, uint64_t left_out, void *arg);

struct log_limit {
	const char *what; /* the lines are about; a constant */
	enum log_level level; /* of the lines, and of the one that counts them */
	log_limit_fn *told; /* or NULL */
	void *arg;
	struct timer window; /* armed from the first line on */
	unsigned lines;
	uint64_t left_out;
};
#define LOG_LIMIT(level_, what_) ((struct log_limit){ .level = (level_), .what = (what_) })

bool log_limit_admits(struct log_limit *l, struct loop *loop); /* the same loop each time */
void log_limit_done(struct log_limit *l); /* before the loop goes */
