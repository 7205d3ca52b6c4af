// SPDX-License-Identifier: Apache-2.0
/* fetch/load_impl.h - shared by load.c and load_docker.c. */
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "fetch/blob.h"
#include "fetch/order.h"
#include "image/entry.h"
#include "image/manifest.h"

struct asker;
struct tar_sink;

#define LOAD_FILES_MAX 16384 /* of an archive of docker's */

struct load {
	const struct order *order;
	struct asker *asker;
	int blobs, fd; /* the folder; the spooled archive */
	struct blob spool, blob; /* the latter: the one that is being taken out of it */
	struct buf index, docker; /* index.json and manifest.json */
	struct buf *to;
	bool is_layout;
	struct digest want; /* of `blob`, with has_want */
	bool has_want;
	struct loaded_file *file;  /* that `blob` will be */
	struct map files;          /* of an archive of docker's, by path: struct loaded_file */
	struct arena arena;
};

struct loaded_file {
	const char *target; /* of a symlink: where it leads; NULL: a file */
	struct digest digest;
	uint64_t size;
	bool is_there;
};

struct made_layer {
	struct digest digest;
	uint64_t size;
	const char *packing; /* "", "gzip", "zstd" */
};

/* One pass over the archive. */
int load_read(struct load *l, const struct tar_sink *sink, struct err *e);
/* An image without a manifest: it gets one. */
int load_found_made(struct load *l, const char *name, struct buf *config, const struct made_layer *layers,
		    size_t n, struct err *e);

int load_layout(struct load *l, struct err *e);
bool load_is_docker(struct load *l);
int load_docker(struct load *l, struct err *e);
