// SPDX-License-Identifier: Apache-2.0
/* warden/blob_layer.h - the layer of a blob of an OCI image: "blob-" and the name of the blob
 * (base/digest.h).
 *
 * The server's statement about a blob is verified here: the blob is hashed from the descriptor that is
 * unpacked, and its contents by the unpacker. Both must match the announced digests before the layer gets its
 * name. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/own.h"
#include "box/slot.h"

struct box_store;
struct err;

struct blob_layer_spec {
	const char *layers_path;
	const char *name; /* of the layer */
	int blob;         /* readable */
	struct digest digest, diff_id;
	const char *unpack; /* the program */
	const struct box_store *store; /* that the layers are in */
	uint64_t id_base;   /* of ids that are nobody else's while this runs */
};

/* Whether this is a file that may be unpacked at all. ERR_INVALID. */
int blob_check(int fd, struct stat *ret, struct err *e);

/* Blocks as long as it takes, in a process that may be killed at any moment. Of what is there already nothing
 * is done. ERR_INVALID is the blob's own fault, ERR_LIMIT a disk that is full; their words name no path of
 * the host. */
int blob_layer_make(const struct blob_layer_spec *spec, struct err *e);

/* The digest of a file, of KIND bytes, in steps and without moving its position. */
struct blob_digest {
	int fd;
	char *bytes;
	uint64_t at;
	struct hasher hasher;
	struct digest digest; /* when a step has said that it was the last */
};
#define BLOB_DIGEST_INIT ((struct blob_digest){ .fd = -1 })
int blob_digest_begin(struct blob_digest *d, int fd, uint32_t kind, struct err *e);
int blob_digest_step(struct blob_digest *d, struct err *e); /* 1: there is more; 0; -1 */
void blob_digest_done(struct blob_digest *d);
DEFINE_AUTO_DONE(struct blob_digest, blob_digest_done)
