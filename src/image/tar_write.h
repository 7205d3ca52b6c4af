// SPDX-License-Identifier: Apache-2.0
/* image/tar_write.h - tars, for archives of images that leave this house, and for layers in them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define TAR_RECORD 512
#define TAR_END_BYTES ((size_t)2 * TAR_RECORD) /* of zeros, after the last file */

/* The record before a file of SIZE bytes. False: NAME has more than 100. */
bool tar_header(const char *name, uint64_t size, unsigned char out[TAR_RECORD]);

/* How many zeros follow a file. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_RECORD - size % TAR_RECORD) % TAR_RECORD);
}

/* An entry of a layer, with a pax record before it for what a plain one cannot say: long names, parts of a second, attributes. */
struct tar_entry {
	char type;                 /* '0' file, '1' hard link, '2' symlink, '5' directory, '6' FIFO */
	const char *path, *target; /* below the root, the former of directories without a '/' at the end; NULL: no link */
	unsigned mode;
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_s;
	long mtime_ns;
	struct str more;           /* records by tar_pax_add() */
};
void tar_entry_write(const struct tar_entry *t, struct buf *out);
void tar_pax_add(struct buf *out, const char *key, struct str value);

/* The other way, for records of the above kind alone: 1 and a file, 0 for one of zeros, -1 for anything else. */
int tar_header_read(const unsigned char in[TAR_RECORD], char ret_name[101], uint64_t *ret_size);
