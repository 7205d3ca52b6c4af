// SPDX-License-Identifier: Apache-2.0
/* warden/unpacker.h - runs opensandbox-unpack once (image/unpack.h): a tar into a directory, or a directory
 * into a tar.
 *
 * It also sets the marks of opaque directories, for which the unpacker has no privilege. The unpacker is as
 * untrusted as the blob: the descriptors that it sends are checked to be directories of the target's own file
 * system, of which it can only reach those below the target. */
#pragma once
#include <stdint.h>

#include "base/sha256.h"

struct box_store;
struct digest;
struct err;

struct unpacker_spec {
	const char *program;
	uint64_t id_base; /* of ids that are nobody else's while this runs */
	int blob;         /* read from where it is */
	int target;       /* an empty directory */
	const struct box_store *store; /* whose room is looked at meanwhile */
	const struct digest *diff_id; /* of a layer; NULL: the tar of a root file system */
	/* Done in small steps meanwhile; or NULL. 1: there is more, 0: that was all, -1: the unpacker is
	 * ended. */
	int (*meanwhile)(void *arg, struct err *e);
	void *arg;
};

/* Blocks until it has ended, UNPACK_SECONDS_MAX at most. ERR_INVALID is the blob's own fault; ERR_LIMIT:
 * there is no room. */
int unpacker_run(const struct unpacker_spec *spec, struct err *e);

struct packer_spec {
	const char *program;
	uint64_t id_base;      /* of ids that are nobody else's while this runs */
	uint64_t from_base;    /* of the directory's, on the disk; 0: as they are in the tar */
	int dir;               /* unchanged meanwhile */
	int out;               /* an empty file */
	uint64_t bytes_max, disk_max; /* of it */
	const char *const *left_out; /* paths of the directory; NULL behind the last, or for none */
};

/* Likewise. The digest is the packer's word, and as trustworthy as the directory. */
int packer_run(const struct packer_spec *spec, unsigned char ret_digest[SHA256_SIZE], struct err *e);
