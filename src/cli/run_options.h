// SPDX-License-Identifier: Apache-2.0
/* cli/run_options.h - the options of `osb run`, and the create request that follows from them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "client/opensandbox.h"

struct cli;
struct err;

#define RUN_STATUS_FAILED 125 /* we failed, and not the command */

struct run_options {
	const char *workdir, *timeout, *policy_file, *volumes_file, *name, *snapshot, *pool, *username,
		*password;
	struct opt_list env, volumes, resource, metadata, extensions;
	bool interactive, terminal, keep, no_stdin, quiet, detach, remove;
	char **words; /* the command */
	int n_words;
};

/* Words: what is wrong is a matter of usage. *ret_timeout_s: 0 if none was said. */
int run_options_read(struct cli *cli, struct run_options *o, struct osb_create *create,
		     int64_t *ret_timeout_s, struct err *e);
/* Files that they name. */
int run_options_load(struct cli *cli, const struct run_options *o, struct osb_create *create, struct err *e);

/* "NAME:/path[:ro]" or "/host/path:/path[:ro]", the Nth of them. Pure; text goes to the arena. */
struct arena;
int run_volume_parse(struct arena *a, const char *text, size_t n, struct osb_volume *ret, struct err *e);

void run_fail(struct cli *cli, const struct osb_error *e); /* gives the reason, and what to do about it */
/* A line on standard error, in which nothing is obeyed by a terminal. */
void run_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
