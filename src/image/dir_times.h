// SPDX-License-Identifier: Apache-2.0
/* image/dir_times.h - times of directories, stored until all of their entries are written. */
#pragma once
#include "base/buf.h"
#include "base/own.h"

struct entry;
struct err;

#define DIR_TIMES_MAX ((size_t)256 << 20) /* bytes of names: a layer of 60,000 directories has some 4 MiB */

struct dir_times {
	struct buf notes;
};

void dir_times_init(struct dir_times *t);
void dir_times_done(struct dir_times *t);
DEFINE_AUTO_DONE(struct dir_times, dir_times_done)

/* EN is a directory. Of several notes of one the last holds. ERR_LIMIT. */
int dir_times_note(struct dir_times *t, const struct entry *en, struct err *e);
/* Sets them all below ROOT, in-root. One that cannot be found any more by its name is left as it is. */
int dir_times_apply(const struct dir_times *t, int root, struct err *e);
