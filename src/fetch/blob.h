// SPDX-License-Identifier: Apache-2.0
/* fetch/blob.h - new files of the blob folder: written under a temporary name, verified meanwhile, and synced
 * before they are renamed to their digest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/own.h"
#include "base/str.h"

struct err;
struct string_list;

#define BLOB_NAME_MAX 80

struct blob {
	int dir; /* not owned */
	int fd;  /* -1: none is being written */
	char name[BLOB_NAME_MAX];
	struct hasher sum;
	uint64_t n, max; /* bytes written, and that may be */
	uint64_t reserve, next_look; /* what must stay free, and when to look */
};
#define BLOB_INIT ((struct blob){ .dir = -1, .fd = -1 })

struct blob_spec {
	int dir;
	uint64_t reserve;   /* what must stay free (sys/room.h) */
	uint32_t kind;      /* it will be known by a digest of that many bytes (base/digest.h) */
	uint64_t size, max; /* how many bytes will come, 0: not known; and may come */
};

int blob_begin(struct blob *b, const struct blob_spec *spec, struct err *e);
int blob_add(struct blob *b, const void *p, size_t n, struct err *e);
int blob_restart(struct blob *b, struct err *e); /* forgets what was written */
/* Keeps it under its digest, which must be WANT's unless that is NULL. *ret (or NULL) is what it is. */
int blob_keep(struct blob *b, const struct digest *want, struct digest *ret, struct err *e);
void blob_drop(struct blob *b); /* removes what is not kept */
DEFINE_AUTO_DONE(struct blob, blob_drop)

void blob_name(const struct digest *digest, char out[BLOB_NAME_MAX]);
/* Whether it is there already, of that size (0: any). */
bool blob_exists(int dir, const struct digest *digest, uint64_t size);
int blobs_sync(int dir, struct err *e); /* names are on the disk, too */

/* Removes all that is ours in the folder, but the blobs of KEEP (names in hexadecimal) and, unless WITH_NEW,
 * what is being written. */
int blobs_sweep(int dir, const struct string_list *keep, bool with_new, struct err *e);
