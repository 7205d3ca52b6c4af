// SPDX-License-Identifier: Apache-2.0
/* sys/spawn_child.h - the child's side of process_spawn(), between fork and exec.
 *
 * The stages below are run in this order. What fails is reported through a pipe as a stage and an errno; the
 * parent turns them into words, so that the child formats nothing. */
#pragma once
#include <sys/types.h>

#include "base/err.h"
#include "sys/process.h"

enum spawn_stage {
	SPAWN_SESSION,
	SPAWN_FDS,
	SPAWN_LIMITS,
	SPAWN_IDS,
	SPAWN_CWD,
	SPAWN_DEATH_SIGNAL,
	SPAWN_SETUP,
	SPAWN_EXEC,
};

/* Smaller than PIPE_BUF: written at once or not at all. */
struct spawn_report {
	enum spawn_stage stage;
	int sys;
	struct err setup; /* what the setup callback said */
};

/* Ends in exec, or with a report and _exit(). PARENT is who must still be alive when there is a death
 * signal. */
_Noreturn void spawn_child(const struct spawn_spec *sp, pid_t parent, int report);

/* returns -1 */
int spawn_report_read(const struct spawn_report *report, const struct spawn_spec *sp, struct err *e);
