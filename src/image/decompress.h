// SPDX-License-Identifier: Apache-2.0
/* image/decompress.h - the bytes of a blob as they are once decompressed (gzip, zstd, xz or plain), counted and hashed.
 *
 * A blob may be of several members or frames, which are one stream: the ceiling is for all of them together. The
 * decompressors are linked in, none is ever executed; a zstd window of more than 128 MiB is refused. */
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
