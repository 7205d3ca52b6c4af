// SPDX-License-Identifier: Apache-2.0
/* image/pack.h - writes a directory of an overlay as the tar of a layer: the reverse of image/layer.h.
 *
 * Whiteouts and opaque directories become ".wh." names; ids are those that the directory shows; times, modes,
 * hard links and "user." attributes are included; sockets and devices are omitted. A tree that cannot be
 * expressed as a layer is refused: a file with the name of a whiteout, a tree that is too deep. Holes stay
 * holes in the written file. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/sha256.h"

struct err;

#define PACK_LINKS_MAX ((size_t)256 << 20) /* bytes of names of files that have more than one */

/* Whether DIR, which is open, shows nothing of the layers below: 1 or 0; -1. */
typedef int pack_opaque_fn(int dir, void *arg, struct err *e);

struct pack_spec {
	int root;              /* the directory */
	int out;               /* an empty file */
	uint64_t bytes_max;    /* that the tar has */
	uint64_t disk_max;     /* of them that are written: holes are not */
	uint64_t entries_max;
	/* paths below the root, NULL behind the last: neither they nor that they are gone is told */
	const char *const *left_out;
	pack_opaque_fn *is_opaque;
	void *arg;
};

/* Writes all of it, and says which digest the tar has. ERR_LIMIT and ERR_INVALID are the tree's own fault. */
int pack_tree(const struct pack_spec *spec, unsigned char ret_digest[SHA256_SIZE], struct err *e);
