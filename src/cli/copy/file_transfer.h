// SPDX-License-Identifier: Apache-2.0
/* cli/copy/file_transfer.h - a local file, or a standard stream, as source or target of a body, with a bar.
 *
 *     AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
 *
 *     if (file_transfer_open_in(&t, cli, "image.tar", STR("image.tar"), false, &e) < 0 ||
 *         osb_image_load(c, NULL, file_transfer_read, &t, ...) < 0) ...
 *
 * An output file has a temporary name until file_transfer_finish(), so an incomplete file is never seen. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/copy/copy_local.h"
#include "cli/progress.h"

struct cli;

struct file_transfer {
	int fd;
	bool owns_fd;
	struct landing landing;
	struct progress own_bar, *bar; /* `bar` may be shared by several transfers */
	struct str what;               /* for messages */
	uint64_t done, limit;          /* bytes so far, and at most; PROGRESS_UNKNOWN: no limit */
	bool is_cut;                   /* the limit was exceeded */
	const struct cli *cli;         /* for Ctrl-C */
	struct err why;                /* a local failure; code ERR_NONE: none */
};

#define FILE_TRANSFER_INIT \
	((struct file_transfer){ .fd = -1, .landing = LANDING_INIT, .own_bar = { .fd = -1 }, .limit = PROGRESS_UNKNOWN })
void file_transfer_done(struct file_transfer *t);
DEFINE_AUTO_DONE(struct file_transfer, file_transfer_done)

/* PATH "-": the standard stream. WHAT is the label of the bar. */
int file_transfer_open_in(struct file_transfer *t, const struct cli *cli, const char *path, struct str what,
			  bool is_quiet, struct err *e);
int file_transfer_open_out(struct file_transfer *t, const struct cli *cli, const char *path, struct str what,
			   uint64_t total, bool is_quiet, struct err *e);
int64_t file_transfer_size(const struct file_transfer *t); /* of an input; -1: not known */
int file_transfer_finish(struct file_transfer *t, unsigned mode, struct err *e); /* an output is complete */

long file_transfer_read(char *out, size_t max, void *arg);      /* osb_read_fn */
int file_transfer_write(const char *data, size_t n, void *arg); /* osb_write_fn */
