// SPDX-License-Identifier: Apache-2.0
/* box/etc.h - the files of a box for name resolution: /etc/resolv.conf and /etc/hosts.
 *
 * They are made in a folder of the box's disk before the image is known. That folder becomes the uppermost
 * /etc by one rename, before there is a root; files or links of the image in these places lie below and lead
 * nowhere (R2). The sandbox may change them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct slot_layer;

int etc_make(int disk, uint64_t owner, uint32_t gateway, struct err *e); /* addresses are in network order */

struct etc_place {
	int disk;
	int layers; /* the host's layers, with the ids that they have on the disk */
	const struct slot_layer *list; /* the uppermost first */
	size_t n;
	bool has_usr; /* see box/disk.h */
	int image;  /* a directory below them; -1: none */
	uint64_t id_base;
	/* the box has no network: its files contain no addresses; without networks on this host it gets no
	 * files */
	bool is_alone;
};
/* /etc keeps the mode and the owner that it has in the image. */
int etc_place(const struct etc_place *p, struct err *e);
int etc_take_back(int disk, bool has_usr, struct err *e); /* undoes it, when there is no root any more */

/* What is made here, and belongs to no other box: paths of a box's root, NULL behind the last. */
extern const char *const etc_files[];

/* The box's own name, once it has one. ROOT is that of the whole, with an /etc that was placed. */
int etc_open_hosts(int root, struct err *e); /* to append to */
int etc_add_name(int root, uint32_t address, const char *hostname, struct err *e);
