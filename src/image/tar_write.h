// SPDX-License-Identifier: Apache-2.0
/* image/tar_write.h - writes tars: exported images, and the layers in them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define TAR_RECORD 512
#define TAR_END_BYTES ((size_t)2 * TAR_RECORD) /* of zeros, after the last file */

#define TAR_NAME_MAX 255
#define TAR_HEAD_MAX ((size_t)3 * TAR_RECORD)

/* What comes before a file of SIZE bytes: one record, or three for a name of more than 100 bytes, which is
 * ASCII then. Returns how many bytes that are; 0: NAME is empty, or has more than TAR_NAME_MAX. */
size_t tar_head(const char *name, uint64_t size, unsigned char out[TAR_HEAD_MAX]);
size_t tar_head_size(const char *name);

/* How many zeros follow a file. */
static inline size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_RECORD - size % TAR_RECORD) % TAR_RECORD);
}

/* An entry of a layer, with a pax record before it for what a plain one cannot say: long names, parts of a
 * second, attributes. */
struct tar_entry {
	char type;                 /* '0' file, '1' hard link, '2' symlink, '5' directory, '6' FIFO */
	/* below the root, the former of directories without a '/' at the end; NULL: no link */
	const char *path, *target;
	unsigned mode;
	uint32_t uid, gid;
	uint64_t size;
	int64_t mtime_s;
	long mtime_ns;
	struct str more;           /* records by tar_pax_add() */
};
void tar_entry_write(const struct tar_entry *t, struct buf *out);
void tar_pax_add(struct buf *out, const char *key, struct str value);

/* The other way, for records of the above kind alone, one by one. *READER is all zero before the first of an
 * archive. */
struct tar_reader {
	bool has_more;               /* the next record has the name of the file behind it */
	char name[TAR_NAME_MAX + 1]; /* of that file; or "" */
};
enum tar_step {
	TAR_BROKEN, /* it is anything else */
	TAR_ZEROS,
	TAR_MORE, /* the next record is a part of this head */
	TAR_FILE, /* ret_name and ret_size */
};
enum tar_step tar_head_read(struct tar_reader *r, const unsigned char in[TAR_RECORD],
			    char ret_name[TAR_NAME_MAX + 1],
			    uint64_t *ret_size);
