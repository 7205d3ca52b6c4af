// SPDX-License-Identifier: Apache-2.0
/* fetch/blob.h - files of the blob folder on their way in: written under a name of their own, checked while they are, on the
 * disk before they get the name that says what they are. */
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
};
#define BLOB_INIT ((struct blob){ .dir = -1, .fd = -1 })

/* It will be known by a digest of KIND bytes (base/digest.h). */
int blob_begin(struct blob *b, int dir, uint32_t kind, uint64_t max, struct err *e);
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

/* Removes all that is ours in the folder, but the blobs of KEEP (names in hexadecimal) and, unless WITH_NEW, what is being written. */
int blobs_sweep(int dir, const struct string_list *keep, bool with_new, struct err *e);
