// SPDX-License-Identifier: Apache-2.0
/* cli/copy/copy_job.h - one run of `osb cp`: shared by both directions. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cli/copy/copy.h"
#include "cli/copy/file_transfer.h"
#include "cli/progress.h"
#include "client/opensandbox.h"

struct cli;

struct copy_job {
	struct cli *cli;
	struct osb_sandbox *sandbox;
	struct progress bar;
	bool is_quiet, keeps_unsafe_links;
	unsigned mask; /* what the modes of files that are made here leave out */
	uint64_t n_files, n_folders, n_links, n_bytes;
	uint64_t n_skipped, n_refused; /* devices and the like; links that could lead out */
};

/* Of a path in the sandbox, links followed. */
enum copy_found { COPY_FOUND_NONE, COPY_FOUND_FILE, COPY_FOUND_DIR, COPY_FOUND_OTHER };

/* All return 0, or -1 after it was said why; the status is the cli's then. */
int copy_look(struct copy_job *j, const char *path, enum copy_found *ret, struct osb_file_info *ret_info);
int copy_up(struct copy_job *j, const struct copy_place *from, const struct copy_place *to, bool to_is_dir);
int copy_down(struct copy_job *j, const struct copy_place *from, const struct copy_place *to, bool to_is_dir);

/* Waits for a call; Ctrl-C that came between two calls counts, too. */
int copy_wait(struct copy_job *j, int begun);
/* The end of one transfer: BEGUN is what cli_wait() returned. */
int copy_ended(struct copy_job *j, const struct file_transfer *t, int begun);
int copy_refuse(struct copy_job *j, const struct err *e); /* says it, and returns -1 */

/* Whether PATH is one that a shell finds as well: the API expands a '~' at its beginning and '$'. If not, it
 * has been said. */
bool copy_is_literal(struct copy_job *j, const char *path);

/* FOLDER/NAME in the arena of the cli; NULL: no memory. */
const char *copy_join(struct copy_job *j, const char *folder, struct str name);
