// SPDX-License-Identifier: Apache-2.0
/* execd/env.h - environments of programs, and what is made of them: paths with variables, programs by name.
 *
 * An environment is a list of "NAME=value" in an arena, ready for exec. */
#pragma once
#include <stddef.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;

#define ENV_ITEMS_MAX 4096
#define ENV_FILE_MAX (128 * 1024) /* bytes of the file that EXECD_ENVS names */
#define ENV_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct env {
	char **items; /* ends with NULL once there is an item */
	size_t n, cap;
};

/* A copy of FROM (ends with NULL) without the names in EXCEPT (likewise). Entries without '=' are left
 * out. */
int env_copy(struct env *env, struct arena *a, char *const *from, const char *const *except, struct err *e);
int env_set(struct env *env, struct arena *a, struct str name, struct str value, struct err *e);
const char *env_get(const struct env *env, struct str name); /* or NULL */

/* The lines of a KEY=VALUE file: blanks around a line, empty lines and '#' lines do not count, $NAME and
 * ${NAME} in values come from BASE (nothing if undefined), no quotes. A line without '=' or key, or with a
 * NUL, is skipped. */
int env_add_file(struct env *env, struct arena *a, struct str text, const struct env *base, struct err *e);

/* A path of a request: $NAME and ${NAME} (undefined: ERR_INVALID, and so is a "~" without HOME), the shell's
 * one character names (nothing), then a leading "~" or "~/". Appends. */
int env_expand_path(const struct env *env, struct str path, struct buf *out, struct err *e);

/* The executable file that NAME means: itself if it has a '/', else the first in PATH. NULL with
 * ERR_NOT_FOUND. */
const char *env_find_program(const struct env *env, struct arena *a, const char *name, struct err *e);
