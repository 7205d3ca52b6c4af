// SPDX-License-Identifier: Apache-2.0
/* sys/landlock.h - restricts which files this process can still open. Needs no privilege and cannot be
 * undone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

/* FD (O_PATH is enough) and all below it, or a file: may be read, or also written, made and removed. */
struct landlock_rule {
	int fd;
	bool is_writable;
};

/* Of this thread and those that it will make; needs no_new_privs. What is open already stays usable. 1: from
 * now on nothing else can be opened, renamed or removed; 0: this kernel does not have it, and nothing has
 * changed; -1. */
int landlock_confine(const struct landlock_rule *rules, size_t n, struct err *e);
