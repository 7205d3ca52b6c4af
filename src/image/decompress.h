// SPDX-License-Identifier: Apache-2.0
/* image/decompress.h - decompresses a blob (gzip, zstd, xz or plain), and counts and hashes the result.
 *
 * Several members or frames are one stream: the ceiling holds for all of them together. The decompressors are
 * linked in, never executed; a zstd window of more than 128 MiB is refused. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/digest.h"
#include "base/own.h"

struct archive;
struct err;
struct tar_source;

struct decompress {
	struct archive *raw;
	uint64_t left; /* bytes that may still come */
	bool is_hashed;
	struct hasher hasher;
};

/* SOURCE is read from where it is. Nothing is handed out beyond BYTES_MAX: ERR_LIMIT. */
int decompress_open(struct decompress *s, const struct tar_source *source, uint64_t bytes_max, struct err *e);
void decompress_done(struct decompress *s);
DEFINE_AUTO_DONE(struct decompress, decompress_done)

/* The next bytes, valid until the next call: how many, 0 at the end, -1. */
ssize_t decompress_next(struct decompress *s, const void **ret, struct err *e);
/* Reads what is left. */
int decompress_drain(struct decompress *s, struct err *e);
const char *decompress_kind(const struct decompress *s); /* "gzip", "zstd", "xz", or "": plain */
