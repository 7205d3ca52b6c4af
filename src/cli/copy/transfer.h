// SPDX-License-Identifier: Apache-2.0
/* cli/copy/transfer.h - a local file, or a standard stream, as what the library reads a body from or writes one to, with a bar.
 *
 *     AUTO(cargo_done) struct cargo t = CARGO_INIT;
 *
 *     if (cargo_open_in(&t, "image.tar", STR("image.tar"), false, &e) < 0 || osb_image_load(c, NULL, cargo_read, &t, ...) < 0) ...
 *
 * An output file has another name until cargo_finish(): there is a whole one or none. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/copy/copy_local.h"
#include "cli/progress.h"

struct cli;

struct cargo {
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

#define CARGO_INIT ((struct cargo){ .fd = -1, .landing = LANDING_INIT, .own_bar = { .fd = -1 }, .limit = PROGRESS_UNKNOWN })
void cargo_done(struct cargo *t);
DEFINE_AUTO_DONE(struct cargo, cargo_done)

/* PATH "-": the standard stream. WHAT is what the bar calls it. */
int cargo_open_in(struct cargo *t, const struct cli *cli, const char *path, struct str what, bool is_quiet, struct err *e);
int cargo_open_out(struct cargo *t, const struct cli *cli, const char *path, struct str what, uint64_t total, bool is_quiet,
		      struct err *e);
int64_t cargo_size(const struct cargo *t); /* of what is read; -1: not known */
int cargo_finish(struct cargo *t, unsigned mode, struct err *e); /* of an output: it is whole */

long cargo_read(char *out, size_t max, void *arg);             /* osb_read_fn */
int cargo_write(const char *data, size_t n, void *arg);        /* osb_write_fn */
