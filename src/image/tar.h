// SPDX-License-Identifier: Apache-2.0
/* image/tar.h - reads a tar, plain or compressed (gzip, zstd, xz), entry by entry into a sink.
 *
 * The archive is hostile. Each entry passes entry_check() before the sink gets it, and limits are checked
 * first. An archive that ends early, or without its end mark, is an error; the caller then discards what the
 * sink has written. Decompressors are linked in, never executed. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "image/entry.h"

struct digest;
struct err;

/* I2. The header of one entry is bounded too: the reader takes no more than 1 MiB of pax or long names, and a
 * zstd window of 128 MiB. */
#define TAR_BYTES_MAX (UINT64_C(50) << 30)
#define TAR_ENTRIES_MAX UINT64_C(2000000)
#define TAR_FILE_MAX (UINT64_C(20) << 30) /* of the tar itself, as it is stored; for who opens it */
#define TAR_HEADERS_BYTES 4096 /* that each entry may cost besides its content, on average */

struct tar_limits {
	uint64_t bytes, entries; /* of all files together; sizes as they will be, holes included */
};
#define TAR_LIMITS_DEFAULT ((struct tar_limits){ TAR_BYTES_MAX, TAR_ENTRIES_MAX })

struct tar_source {
	int fd;           /* to be read from where it is; -1: */
	struct str bytes;
	enum entry_form form;
	/* or NULL: the digest of all of it once decompressed, of the kind that its size says */
	struct digest *ret_digest;
};

/* For each entry: make, then any number of attr, for a file data in ascending order, end. */
struct tar_sink {
	int (*make)(void *arg, const struct entry *en, struct err *e);
	int (*attr)(void *arg, const char *name, const void *value, size_t n, struct err *e);
	int (*data)(void *arg, const void *p, size_t n, uint64_t at, struct err *e);
	int (*end)(void *arg, struct err *e);
};

/* A failure names the entry where there is one. */
int tar_read(const struct tar_source *source, const struct tar_limits *limits, const struct tar_sink *sink,
	     void *arg,
	     struct err *e);

/* The sha256 of what is in FD once it is decompressed, read from its start; *ret_kind is "" for what is not,
 * "gzip", "zstd" or "xz". */
int tar_plain_digest(int fd, struct digest *ret, const char **ret_kind, struct err *e);

/* Once per process before it gives up the right to open files: names are taken as they are, and nothing is
 * looked up. */
int tar_prepare(struct err *e);
