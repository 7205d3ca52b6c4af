// SPDX-License-Identifier: Apache-2.0
/* execd/io/output.h - the entrypoint's output, line by line with timestamps, into two log segments used in
 * turn.
 *
 * Each line is "2026-06-15T09:46:58.120431123Z text\n". When a segment is full, the other one is emptied and
 * used, so the last GUEST_LOG_SEGMENT_MAX bytes are always available. Without segments, or with a full disk,
 * the output is read and dropped: the entrypoint never waits for us. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "execd/io/lines.h"
#include "net/loop.h"

struct err;

#define OUTPUT_LINE_MAX (16 * 1024) /* a longer line is split */

struct segments {
	int fds[2];   /* not owned; -1: nothing is kept */
	size_t max;   /* bytes of each */
	size_t used;  /* of the one in use */
	unsigned at;  /* which that is */
	bool is_lost; /* the last write failed */
};

#define SEGMENTS_INIT(a, b, max_) ((struct segments){ .fds = { (a), (b) }, .max = (max_) })

void segments_add(struct segments *sg, struct str line); /* at most sg->max bytes */

struct output {
	struct loop *loop;
	struct segments segments;
	struct output_pipe {
		struct output *of;
		struct io io;
		int fd;
		struct buf in;
		struct lines lines;
	} pipes[2];
	struct buf line;
};

void output_init(struct output *o, struct loop *l, const struct segments *segments);
void output_done(struct output *o); /* what has arrived is written first */

/* Makes the pipes; the write ends in ret_fds are for the child's stdout and stderr and the caller's to
 * close. */
int output_open(struct output *o, int ret_fds[2], struct err *e);
void output_collect(struct output *o); /* takes what is in the pipes now */
