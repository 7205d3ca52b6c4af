// SPDX-License-Identifier: Apache-2.0
/* execd/launch.h - the common setup of every program that we start: control group, ids and directory.
 *
 * launch_setup() is the last step of the child before exec. It enters the `user` leaf, so that memory and
 * time of the program are charged to the sandbox and not to execd; then it changes the ids; then, with these
 * ids, the directory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/guest.h"
#include "execd/users.h"

struct arena;
struct env;
struct err;

struct leaf {
	int fds[GUEST_CGROUPS_MAX]; /* cgroup.procs or tasks, writable; in the child at the same numbers */
	size_t n;
	int oom_fd; /* counter of kills for lack of memory, or -1 */
};

#define LEAF_INIT ((struct leaf){ .oom_fd = -1 })

struct launch {
	const struct leaf *leaf;
	const struct identity *as; /* NULL: stays who we are */
	int cwd_fd;                /* -1: stays where we are */
};

int leaf_enter(const struct leaf *leaf, struct err *e); /* for this process; in a child of ours */
int launch_setup(void *launch, struct err *e); /* a spawn_setup_fn */

/* A directory by its name in a request, with variables and "~" from ENV; relative to our own. Magic links do
 * not lead anywhere (R1). ERR_INVALID with a reason that names the path when there is no such directory. */
int launch_open_cwd(const struct env *env, struct str path, struct err *e);

/* One by its absolute path, which is made if it is missing: at first, and again where it was removed
 * since. */
int launch_open_made(const char *path, struct err *e);
/* another path would have done, or another file there; ours did not fail */
bool launch_is_about_path(const struct err *why);

/* The same as an absolute path, whether it is there or not. NULL with an error as above. */
const char *launch_cwd_path(const struct env *env, struct str path, struct arena *a, struct err *e);

/* Where programs start: entered, and made first if it is missing, as an image's WORKDIR is. */
int launch_make_cwd(const char *path, struct err *e);
/* The same where that directory has been removed since. False: there is none, and none can be made. */
bool launch_keep_cwd(const char *path);

/* bash, or sh where there is none; always with a '/'. Without either, exec says what is wrong. */
const char *launch_shell(const struct env *env, struct arena *a);

uint64_t leaf_oom_kills(const struct leaf *leaf); /* so far; 0 if that cannot be known */
