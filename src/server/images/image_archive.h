// SPDX-License-Identifier: Apache-2.0
/* server/images/image_archive.h - OCI layouts in folders, as the tars that the server takes and gives. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"
#include "image/tar_write.h"

struct err;

/* ---- from a folder, or a file that is an archive already ---- */

struct archive_source {
	int dir, fd;
	struct archive_file *files; /* of a folder; NULL: fd is all of it */
	size_t n, at;
	unsigned char head[TAR_HEAD_MAX];
	size_t n_head, head_at; /* of what comes before the file at hand; how much of it has been read */
	uint64_t left; /* of the file at hand */
	size_t zeros;  /* that follow it */
	uint64_t length; /* of everything; UINT64_MAX: not known */
	bool has_ended;
};

/* PATH "-": standard input. */
int archive_source_open(struct archive_source *s, const char *path, struct err *e);
void archive_source_close(struct archive_source *s);
DEFINE_AUTO_DONE(struct archive_source, archive_source_close)
long archive_source_read(char *out, size_t max, void *source, struct err *e); /* an admin_read_fn */

/* ---- into a folder or a file ---- */

struct archive_sink {
	int dir, fd;       /* dir -1: all goes into fd */
	const char *path;
	char temporary[4200];
	unsigned char record[TAR_RECORD];
	size_t n;          /* of the record */
	struct tar_reader reader;
	uint64_t left;     /* of the file at hand */
	size_t padding;    /* behind it */
	bool has_ended;
	bool is_kept;      /* nothing is taken back any more */
	bool is_made;      /* the folder */
};

/* A path that ends with '/', or a folder that exists and is empty: the layout's files go there. "-": standard output. A file
 * appears under its name when all of it is there. */
int archive_sink_open(struct archive_sink *s, const char *path, struct err *e);
int archive_sink_take(struct str piece, void *sink, struct err *e); /* an admin_take_fn */
int archive_sink_keep(struct archive_sink *s, struct err *e);
void archive_sink_close(struct archive_sink *s); /* what was not kept goes */
DEFINE_AUTO_DONE(struct archive_sink, archive_sink_close)
