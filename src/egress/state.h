// SPDX-License-Identifier: Apache-2.0
/* egress/state.h - the policies of sandboxes as files, one for each, for the next process.
 *
 * A new policy is written to a second file before it is put in force, so that a full disk is noticed in time,
 * and renamed afterwards. Files are not synced: sandboxes do not survive a crash of the host anyway.
 *
 * A sidecar has one sandbox: its policy is in a file that the operator names, or in memory that outlives the
 * process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy;
struct state_memory;

#define STATE_BYTES_MAX (2 * 1024 * 1024) /* of one file */

struct state {
	int dir;                     /* the folder; -1: there is none */
	const char *file;            /* of the only sandbox, in it; NULL: each has one, by its id */
	struct state_memory *memory; /* instead of the file of the only sandbox; or NULL */
};

/* Shared with the processes that are forked from now on; it is never half of something, whenever one of them
 * is killed. */
struct state_memory *state_memory_new(struct err *e);

int state_write(const struct state *st, const char *id, const struct policy *p, struct err *e); /* beside */
/* by what was written */
int state_replace(const struct state *st, const char *id, struct err *e);
/* what was written */
void state_forget(const struct state *st, const char *id);
/* NULL: *ret_is_there tells whether there is none, or it cannot be read (e->sys), or is no policy. */
struct policy *state_load(const struct state *st, const char *id, bool *ret_is_there, struct err *e);
void state_remove(const struct state *st, const char *id); /* both */
/* Removes all of those that KEEP does not want, and what is nobody's; nothing where there is one sandbox. */
void state_sweep(const struct state *st, bool (*keep)(const char *id, void *arg), void *arg);
