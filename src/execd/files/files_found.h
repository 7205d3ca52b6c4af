// SPDX-License-Identifier: Apache-2.0
/* execd/files/files_found.h - the results of a walk, stored until all of them are known.
 *
 * A list that is sent during the walk could turn out to be incomplete after its first byte has been read
 * (G12b). So it is stored first: of each path the difference to the one before, and of each entry its
 * attributes. In the order of a walk each name is stored at most once: 100,000 entries take 33 MiB at most,
 * and about 9 MiB in typical trees. */
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
