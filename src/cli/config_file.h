// SPDX-License-Identifier: Apache-2.0
/* cli/config_file.h - files of other programs that osb changes: read as a whole, and replaced atomically. */
#pragma once
#include "base/str.h"

struct buf;
struct err;

/* Appends its content, up to the ceiling of B; one that is not there is empty. */
int config_file_read(const char *path, struct buf *b, struct err *e);
/* Makes the folders above it. A link is followed: the file that it leads to is replaced, and keeps its
 * mode. */
int config_file_write(const char *path, struct str text, struct err *e);
/* ERR_DENIED: PATH leads out of this folder, by a link in it. A project is somebody else's, and its links may
 * lead anywhere. */
int config_file_stays_here(const char *path, struct err *e);
/* Keeps what is there now as PATH.bak, if it is there. */
int config_file_backup(const char *path, struct err *e);
