// SPDX-License-Identifier: Apache-2.0
/* server/boot/confine.h - what the process that speaks HTTP keeps of root's rights: nothing (P1).
 *
 * Its user and group, no supplementary groups, no capabilities, no_new_privs, and a filter that allows what the programs of
 * sandboxes may do less everything that a server has no business with: starting programs, tracing, changing ids. */
#pragma once
#include <sys/types.h>

#include "sys/seccomp.h"

struct err;

/* Of this process, with one thread, for good. */
int confine_server(uid_t uid, gid_t gid, struct err *e);
void confine_end(void); /* right before exit(): lets the leak checker of test builds do its work */

/* ---- for tests ---- */
int confine_compile(struct seccomp_program *ret, struct err *e);
