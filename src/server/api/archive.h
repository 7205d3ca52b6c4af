// SPDX-License-Identifier: Apache-2.0
/* server/api/archive.h - an image as an archive for other tools: an OCI layout with Docker's manifest.json,
 * sent as a tar. All of its files are available before the first byte is sent. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"
#include "image/manifest.h"
#include "server/runtime/image.h"

struct err;
struct reply;

#define ARCHIVE_NAME_MAX (sizeof("blobs/sha512/") + SHA512_HEX_LEN)
#define ARCHIVE_PARTS_MAX (MANIFEST_LAYERS_MAX + 5)

/* A file of the archive: bytes at hand, or a descriptor. */
struct archive_part {
	char name[ARCHIVE_NAME_MAX];
	struct buf bytes;
	int fd; /* -1: bytes */
	uint64_t size;
};

struct archive {
	struct archive_part parts[ARCHIVE_PARTS_MAX];
	size_t n, at;  /* parts; the one that is being sent */
	uint64_t sent; /* of it */
	bool has_header;
	struct reply *rp;
	void (*ended)(void *arg); /* it was sent, or nobody wants it any more */
	void *arg;
};

void archive_done(struct archive *a);
DEFINE_AUTO_DONE(struct archive, archive_done)

/* A is all zero. Takes the descriptors when it succeeds. */
int archive_fill(struct archive *a, const struct runtime_image_parts *im, struct err *e);
/* The answer; from now on only `ended` is called. -1: too many streams. */
int archive_send(struct archive *a, struct reply *rp, void (*ended)(void *arg), void *arg, struct err *e);
