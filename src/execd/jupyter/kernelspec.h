// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/kernelspec.h - the Jupyter kernels of an image, and how each is started.
 *
 * A kernel is a folder NAME with a kernel.json, in the folder "kernels" of a data directory: those of
 * JUPYTER_PATH; JUPYTER_DATA_DIR or else XDG_DATA_HOME/jupyter or ~/.local/share/jupyter;
 * PREFIX/share/jupyter for each PREFIX/bin in PATH, where Python environments have theirs;
 * /usr/local/share/jupyter and /usr/share/jupyter. Of equal names the first is used.
 *
 * All of it is under the sandbox's control: files have a size limit, and malformed ones are skipped. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;
struct env;
struct err;

#define KERNELSPEC_FILE_MAX ((size_t)64 * 1024)
#define KERNELSPEC_NAME_MAX 127
#define KERNELSPEC_ARGS_MAX 128
#define KERNELSPECS_MAX 64     /* folders that are looked at, in one data directory */
#define KERNELSPEC_DIRS_MAX 32 /* data directories */
#define KERNELSPEC_ARENA_MAX ((size_t)1024 * 1024)

struct kernelspec {
	const char *name;
	const char *dir;      /* its folder, absolute */
	const char *language;
	const char **argv;
	size_t n_argv;
	const struct json *env; /* names and text, or NULL */
	bool interrupts_by_message;
};

/* The kernel of that name, or (NAME is NULL) one for LANGUAGE: the one that is called like it first. 1, 0
 * when there is none, -1. */
int kernelspec_find(const struct env *env, const char *language, const char *name, struct arena *a,
		    struct kernelspec *ret, struct err *e);

/* Reads one kernel.json. ERR_INVALID. NAME and DIR are the caller's to set. */
int kernelspec_parse(struct str text, struct arena *a, struct kernelspec *ret, struct err *e);

/* The program and its arguments (which end with NULL), with the path of the connection file in its place. */
int kernelspec_argv(const struct kernelspec *k, const struct env *env, const char *connection_file,
		    struct arena *a, const char **ret_path,
		    char *const **ret_argv, struct err *e);
/* Adds the kernel's own variables; ${NAME} in them comes from ENV as it was. */
int kernelspec_env(const struct kernelspec *k, struct env *env, struct arena *a, struct err *e);
