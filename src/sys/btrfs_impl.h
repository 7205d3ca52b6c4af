// SPDX-License-Identifier: Apache-2.0
/* sys/btrfs_impl.h - what the files of sys/btrfs.h share: looking into the trees. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;

struct btrfs_sought {
	uint64_t tree, object;
	uint32_t type;
	uint64_t first; /* the least offset */
};

#define BTRFS_ITEM_MAX 512 /* bytes of an item that are looked at */

struct btrfs_item {
	uint64_t offset;
	size_t n;
	unsigned char bytes[BTRFS_ITEM_MAX];
};

/* The first of these keys: 1, 0 none, -1. */
int btrfs_search(int fd, const struct btrfs_sought *key, struct btrfs_item *ret, struct err *e);
