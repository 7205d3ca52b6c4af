// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/jupyter_files.h - what a kernel is told where to listen by: five ports and a file that names them.
 *
 * A kernel binds ports that it is given. They are taken beforehand by sockets of ours, which do not listen: others are not given
 * them meanwhile, while the kernel, whose sockets allow for that (SO_REUSEADDR, as ours do), can bind them all the same. Who binds
 * one in its place cannot sign what a kernel signs.
 *
 * The file belongs to whoever runs the kernel and can be read by nobody else, for it holds the key. */
#pragma once
#include "execd/jupyter/jupyter_message.h"

struct arena;
struct err;
struct identity;

enum jupyter_port { JUPYTER_SHELL, JUPYTER_IOPUB, JUPYTER_CONTROL, JUPYTER_HEARTBEAT, JUPYTER_STDIN, JUPYTER_PORTS };

struct jupyter_files {
	int reserved[JUPYTER_PORTS]; /* -1: not now */
	unsigned short ports[JUPYTER_PORTS];
	char key[JUPYTER_KEY_LEN + 1];
	char *path; /* of the file; NULL: there is none */
};

#define JUPYTER_FILES_INIT ((struct jupyter_files){ .reserved = { -1, -1, -1, -1, -1 } })

/* Takes ports, makes a key, and writes both to a new file in DIR for AS (NULL: for us). On failure there is nothing to be released. */
int jupyter_files_make(struct jupyter_files *f, const char *dir, const struct identity *as, const char *kernel, struct err *e);
void jupyter_files_release(struct jupyter_files *f); /* ports and file: the kernel has them; fine when there are none */
