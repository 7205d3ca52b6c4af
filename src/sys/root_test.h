// SPDX-License-Identifier: Apache-2.0
/* sys/root_test.h - for tests that need rights: skip with the reason where they are missing, and run in a
 * child whose namespaces end with it. Include it after cmocka.h. */
#pragma once
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/refuse_test.h"

/* In a function that runs in a child: its result is the first line that went wrong, as a message and a 1. */
#define CHECK(what) \
	do { \
		if (!(what)) { \
			(void)dprintf(2, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
			return 1; \
		} \
	} while (0)
/* The same for calls with an error. */
#define CHECK_OK(what, e_) \
	do { \
		if ((what) < 0) { \
			(void)dprintf(2, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, (e_)->msg); \
			return 1; \
		} \
	} while (0)

#define CHILD_CANNOT 77 /* a child's word for "this kernel or file system does not do that" */

static inline int try_unshare(void *arg)
{
	return unshare(*(int *)arg) < 0;
}

/* Ends the test as skipped unless it runs as root and may make such namespaces. */
#define NEEDS_ROOT(flags) \
	do { \
		int flags_ = (flags); \
		if (geteuid() != 0) { \
			print_message("skipped: needs root\n"); \
			skip(); \
		} \
		if (in_child(try_unshare, &flags_) != 0) { \
			print_message("skipped: may not make namespaces 0x%x\n", (unsigned)flags_); \
			skip(); \
		} \
	} while (0)
