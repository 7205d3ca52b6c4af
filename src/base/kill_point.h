// SPDX-License-Identifier: Apache-2.0
/* base/kill_point.h - places where a test can kill a program, as by SIGKILL at that instruction.
 *
 * Only test builds (-DKILL_POINTS) contain them; otherwise KILL_POINT() is empty, and even its name is
 * absent. A test shares a small file with the programs under test. It writes the name of a place and the
 * number of passes to survive into it, and reads there when the kill has happened; programs that start later
 * are not killed. A child that works for the program dies with it, or alone when KILL_POINT_ALONE precedes
 * the name. */
#pragma once
#ifdef KILL_POINTS
#include <stdatomic.h>
#include <stdint.h>

#define KILL_POINT_FD_ENV "OPENSANDBOX_KILL_POINT_FD" /* the number of an open descriptor of the shared file */
#define KILL_POINT_NAME_SIZE 60
#define KILL_POINT_ALONE '!'

struct kill_switch { /* the file; the name is written first */
	_Atomic uint32_t left; /* passes until it strikes; 0: never */
	char name[KILL_POINT_NAME_SIZE];
};

/* from here on, of this process and those that work for it; nothing happens with -1 */
void kill_point_open(int fd);
int kill_point_env(void);     /* the descriptor that the environment names, or -1 */
void kill_point(const char *name);
#define KILL_POINT(name) kill_point(name)
#define KILL_POINT_NAME(name) name /* for a table: of the place that KILL_POINT_AT() marks */
#define KILL_POINT_AT(entry) ((entry) ? kill_point(entry) : (void)0)
#else
#define KILL_POINT(name) ((void)0)
#define KILL_POINT_NAME(name) NULL
#define KILL_POINT_AT(entry) ((void)(entry))
#endif
