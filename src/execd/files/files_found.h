// SPDX-License-Identifier: Apache-2.0
/* execd/files/files_found.h - what a walk has found, until all of it is known.
 *
 * A list that goes out while the walk is on its way may turn out to be incomplete, when its first byte has been read long ago
 * (G12b). So it is kept first: of each path what differs from the one before, and of each entry what is told of it. In the order
 * of a walk a name is kept at most once, so that 100,000 entries take 33 MiB at the very most, and some 9 as trees go. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/own.h"

struct err;
struct stat;

struct found {
	struct buf bytes; /* entries, each followed by the end of its path */
	struct buf path;  /* of the last one that was added, or read */
	size_t at;        /* of the next one to read */
};

struct found found_init(void);
void found_done(struct found *f);
DEFINE_AUTO_DONE(struct found, found_done)

int found_add(struct found *f, struct str path, const struct stat *st, struct err *e);

/* Begins to read; then each, in order: false at the end. The path is valid until the next call. */
void found_rewind(struct found *f);
bool found_next(struct found *f, struct str *ret_path, struct stat *ret);
