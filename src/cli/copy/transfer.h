// SPDX-License-Identifier: Apache-2.0
/* cli/copy/transfer.h - a local file, or a standard stream, as what the library reads a body from or writes
 * one to, with a bar.
 *
 *     AUTO(transfer_done) struct transfer t = TRANSFER_INIT;
 *
 *     if (transfer_open_in(&t, "image.tar", STR("image.tar"), false, &e) < 0 || osb_image_load(c, NULL, transfer_read, &t, ...) < 0) ...
 *
 * An output file has another name until transfer_finish(): there is a whole one or none. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/copy/copy_local.h"
#include "cli/progress.h"

struct cli;

struct transfer {
	int fd;
	bool owns_fd;
	struct landing landing;
	struct progress own_bar, *bar; /* the second may be one that several transfers share */
	struct str what;        /* for messages */
	uint64_t done, limit;   /* bytes; and how many are written at most, PROGRESS_UNKNOWN: any number */
	bool is_cut;            /* there was more than that */
	const struct cli *cli;  /* who knows of Ctrl-C */
	struct err why;         /* of a local failure; code ERR_NONE: there was none */
};

#define TRANSFER_INIT ((struct transfer){ .fd = -1, .landing = LANDING_INIT, .own_bar = { .fd = -1 }, .limit = PROGRESS_UNKNOWN })
void transfer_done(struct transfer *t);
DEFINE_AUTO_DONE(struct transfer, transfer_done)

/* PATH "-": the standard stream. WHAT is what the bar calls it. */
int transfer_open_in(struct transfer *t, const struct cli *cli, const char *path, struct str what,
		     bool is_quiet, struct err *e);
int transfer_open_out(struct transfer *t, const struct cli *cli, const char *path, struct str what,
		      uint64_t total, bool is_quiet,
		      struct err *e);
int64_t transfer_size(const struct transfer *t); /* of what is read; -1: not known */
int transfer_finish(struct transfer *t, unsigned mode, struct err *e); /* of an output: it is whole */

long transfer_read(char *out, size_t max, void *arg);             /* osb_read_fn */
int transfer_write(const char *data, size_t n, void *arg);        /* osb_write_fn */
