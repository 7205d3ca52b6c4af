// SPDX-License-Identifier: Apache-2.0
/* execd/jupyter/jupyter_files.h - the connection file of a kernel: five ports and a key.
 *
 * A kernel binds ports that it is given. They are reserved by sockets of ours that do not listen: the kernel
 * does not assign them to other programs meanwhile, while the Jupyter kernel can bind them (SO_REUSEADDR on
 * both sides). A program that binds one first cannot sign messages.
 *
 * The file belongs to the user that runs the kernel and is readable by that user only, because it contains
 * the key. */
#pragma once
#include "execd/jupyter/jupyter_message.h"

struct arena;
struct err;
struct identity;

enum jupyter_port { JUPYTER_SHELL, JUPYTER_IOPUB, JUPYTER_CONTROL, JUPYTER_HEARTBEAT, JUPYTER_STDIN,
		    JUPYTER_PORTS };

struct jupyter_files {
	int reserved[JUPYTER_PORTS]; /* -1: not now */
	unsigned short ports[JUPYTER_PORTS];
	char key[JUPYTER_KEY_LEN + 1];
	char *path; /* of the file; NULL: there is none */
};

#define JUPYTER_FILES_INIT ((struct jupyter_files){ .reserved = { -1, -1, -1, -1, -1 } })

/* Takes ports, makes a key, and writes both to a new file in DIR for AS (NULL: for us). On failure there is
 * nothing to be released. */
int jupyter_files_make(struct jupyter_files *f, const char *dir, const struct identity *as,
		       const char *kernel, struct err *e);
/* ports and file: the kernel has them; fine when there are none */
void jupyter_files_release(struct jupyter_files *f);
