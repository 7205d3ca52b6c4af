// SPDX-License-Identifier: Apache-2.0
/* server/boot/log_file.h - where the log goes, and a file that is rotated by size.
 *
 * Rotation renames FILE to FILE.1, FILE.1 to FILE.2 and so on; the oldest goes. The new file is made first, as
 * FILE.new: a rotation that fails loses nothing and is tried again. */
#pragma once
#include <sys/types.h>

#include "base/own.h"
#include "server/config/config.h"

struct err;

struct log_file {
	const struct config_log *config;
	int fd; /* -1: the log goes to standard error */
};

#define LOG_FILE_INIT ((struct log_file){ .fd = -1 })

/* Sets level, format and, if asked for, the file, whose folders are made. CONFIG must outlive it. */
int log_file_open(struct log_file *l, const struct config_log *config, struct err *e);
void log_file_done(struct log_file *l); /* back to standard error */
DEFINE_AUTO_DONE(struct log_file, log_file_done)

int log_file_reopen(struct log_file *l, struct err *e);           /* after somebody else moved it */
int log_file_rotate_if_large(struct log_file *l, struct err *e);  /* to be called now and then */
