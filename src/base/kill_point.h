// SPDX-License-Identifier: Apache-2.0
/* base/kill_point.h - places where a test lets a program die, as if somebody had sent SIGKILL right there.
 *
 * Only test builds (-DKILL_POINTS) have them: elsewhere KILL_POINT() is nothing, not even its name. A test shares a small
 * file with the programs under test, writes the name of a place and how many passes are survived into it, and sees when
 * that has happened; whoever is started afterwards lives. A child that works for the program dies with it, or alone when
 * KILL_POINT_ALONE stands before the name. */
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

void kill_point_open(int fd); /* from here on, of this process and those that work for it; nothing happens with -1 */
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
