// SPDX-License-Identifier: Apache-2.0
/* sys/inode_test.h - for tests: which namespace a descriptor leads to. Include it after cmocka.h. */
#pragma once
#include <stdint.h>
#include <sys/stat.h>

/* Two namespaces are the same when these numbers are, while both are kept alive: afterwards a number may come back. 0: not open. */
static inline uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}
