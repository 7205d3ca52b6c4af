// SPDX-License-Identifier: Apache-2.0
/* cli/progress.h - a progress bar.
 *
 *     model.bin  ############............  50%  1.0 GiB of 2.0 GiB  93.1 MiB/s  11s left
 *
 * It is drawn on a terminal only, at most ten times a second, not before PROGRESS_FIRST_MS (short work needs
 * none), and erased at the end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct buf;

#define PROGRESS_FIRST_MS 150
#define PROGRESS_MS 100
#define PROGRESS_UNKNOWN UINT64_MAX /* as a total */

struct progress {
	int fd;           /* a terminal; -1: nothing is shown */
	struct str what;  /* borrowed; may be foreign */
	struct str note;  /* instead of bytes, where nothing is known about these; may be empty */
	uint64_t done, total;
	uint64_t start_ms, shown_ms;
	bool is_shown;
};

/* Nothing is shown if FD is no terminal, or IS_QUIET. */
void progress_init(struct progress *p, int fd, bool is_quiet, struct str what, uint64_t total);
void progress_set(struct progress *p, uint64_t done); /* draws, now and then */
void progress_add(struct progress *p, uint64_t bytes);
void progress_say(struct progress *p, struct str note); /* draws at once */
void progress_clear(struct progress *p); /* before something else is written; the next one draws it again */
DEFINE_AUTO_DONE(struct progress, progress_clear)

/* The line itself, without moving a cursor. Pure. */
void progress_line(const struct progress *p, uint64_t now_ms, unsigned columns, struct buf *out);
