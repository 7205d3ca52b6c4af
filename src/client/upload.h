// SPDX-License-Identifier: Apache-2.0
/* client/upload.h - the body of a POST to /files/upload: one file and its metadata, as multipart/form-data.
 *
 * It is read piece by piece with upload_read(), which reads the file's bytes from their source as needed:
 * memory use does not depend on the file's size. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "client/opensandbox.h"

struct err;

struct upload {
	struct buf head, tail; /* around the file's bytes */
	size_t at;             /* in what is being sent */
	int64_t size, left;    /* of the file; -1: not known */
	osb_read_fn *read;
	void *arg;
	int stage;
	char type[96];         /* of the body: a Content-Type */
	const char *problem;   /* why upload_read() gave up */
};

/* SIZE: -1 if it is not known. On failure there is nothing to be done with it. */
int upload_init(struct upload *u, const struct osb_entry *entry, int64_t size, osb_read_fn *read, void *arg,
		struct err *e);
void upload_done(struct upload *u); /* fine on zeroes */
DEFINE_AUTO_DONE(struct upload, upload_done)
int64_t upload_length(const struct upload *u); /* of the whole body; -1: not known */

/* An osb_read_fn: ARG is the struct upload. -1: the source gave up, or ended before SIZE bytes. */
long upload_read(char *out, size_t max, void *arg);
