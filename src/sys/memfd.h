// SPDX-License-Identifier: Apache-2.0
/* sys/memfd.h - sealed files in memory, and execution of a program by its descriptor.
 *
 * Sealed means: no write, no change of size, no writable mapping and no further seal, through any descriptor.
 * All descriptors are close-on-exec. */
#pragma once
#include <sys/types.h>

#include "base/str.h"

struct err;

#define MEMFD_COPY_MAX (256ULL * 1024 * 1024) /* bytes of a file that is copied */

/* A sealed copy of the regular file FROM, as a program: owner and group are OWNER, its mode 0111. A process
 * that runs a program which it may not read is not dumpable from the first instruction on, and its files in
 * /proc belong to root. NAME is what /proc/PID/exe shows. */
int memfd_sealed_copy(int from, const char *name, uid_t owner, struct err *e);

/* Sealed data, not executable, to be read from its start. */
int memfd_sealed_bytes(const char *name, struct str bytes, struct err *e);

/* Becomes the program that FD is; returns only on failure. A script would need its descriptor to survive:
 * ENOENT. */
int memfd_exec(int fd, char *const *argv, char *const *envp, struct err *e);
