// SPDX-License-Identifier: Apache-2.0
/* cli/local_file.h - files of the local user. */
#pragma once
#include <stddef.h>

struct buf;
struct err;

/* Everything up to the end. PATH NULL or "-": standard input; on a terminal a note says that it is read. */
int local_read(const char *path, size_t max, struct buf *out, struct err *e);

/* Opens PATH for what is downloaded, if that is there and no file whose content could be replaced: a pipe, a
 * terminal. -1 with e->code ERR_NONE: it is none of these. A folder is an error. */
int local_open_special(const char *path, struct err *e);

unsigned local_mask(void); /* the umask: what no file that is made here allows */
