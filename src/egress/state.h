// SPDX-License-Identifier: Apache-2.0
/* egress/state.h - the policies of sandboxes as files, one of each, so that the next process has the same.
 *
 * A new one is written beside the old one before it is put in force, where no room is noticed in time, and takes its place
 * afterwards. They are replaced by rename, and not synced: what a crash of the host could tear belongs to sandboxes that it has ended. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;
struct policy;

#define STATE_BYTES_MAX (2 * 1024 * 1024) /* of one file */

int state_write(int dir, const char *id, const struct policy *p, struct err *e); /* beside */
int state_replace(int dir, const char *id, struct err *e);                        /* by what was written */
void state_forget(int dir, const char *id);                                       /* what was written */
/* NULL: *ret_is_there tells whether there is none, or it cannot be read. */
struct policy *state_load(int dir, const char *id, bool *ret_is_there, struct err *e);
void state_remove(int dir, const char *id); /* both */
/* Removes all of those that KEEP does not want, and what is nobody's. */
void state_sweep(int dir, bool (*keep)(const char *id, void *arg), void *arg);
