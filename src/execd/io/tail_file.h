// SPDX-License-Identifier: Apache-2.0
/* execd/io/tail_file.h - the last bytes of a program's output, in an unnamed file on the sandbox's own disk.
 *
 * Bytes are counted from the first one ever written; beyond `max`, the oldest are overwritten. Bytes that the
 * disk has no room for are lost, and `is_cut` is set. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct err;

#define TAIL_FILE_MAX (UINT64_C(64) * 1024 * 1024) /* unless the owner says otherwise */

struct tail_file {
	const char *dir; /* where the file is made, with the first byte; not owned */
	int fd;          /* -1: there is none yet, or none could be had */
	uint64_t start, end; /* offsets of the first byte that is there, and behind the last */
	bool is_cut;         /* something before `end` is missing */
	uint64_t max;
};

#define TAIL_FILE_INIT_MAX(dir_, max_) ((struct tail_file){ .dir = (dir_), .fd = -1, .max = (max_) }) /* a folder that is missing is made */
#define TAIL_FILE_INIT(dir_) TAIL_FILE_INIT_MAX(dir_, TAIL_FILE_MAX)
void tail_file_done(struct tail_file *k);

void tail_file_add(struct tail_file *k, struct str bytes);
/* From OFFSET on, at most CAP bytes that lie in one piece; 0 at the end. */
size_t tail_file_read(const struct tail_file *k, uint64_t offset, void *out, size_t cap);

/* A file without a name in DIR, which is made if it is missing. What is called DIR may be anything by now:
 * where it is no directory, or one in memory, the file is in the root, which nobody in a sandbox can
 * replace. */
int unnamed_file(const char *dir, struct err *e);

static inline uint64_t tail_file_bytes(const struct tail_file *k)
{
	return k->end - k->start;
}
