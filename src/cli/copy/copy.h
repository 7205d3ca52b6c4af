// SPDX-License-Identifier: Apache-2.0
/* cli/copy/copy.h - the arguments of `osb cp`, and the list of files to copy. Pure.
 *
 * Names from a sandbox are hostile: the list contains only paths below its folder. They are relative, without
 * ".", ".." and empty components. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct err;

#define COPY_ENTRIES_MAX 1000000
#define COPY_DEPTH_MAX 128
#define COPY_ARENA_MAX ((size_t)512 * 1024 * 1024)

/* ---- operands ---- */

enum copy_side { COPY_LOCAL, COPY_REMOTE, COPY_STREAM };

struct copy_place {
	enum copy_side side;
	struct str sandbox;    /* of a remote one */
	const char *path;      /* part of the operand; "" is where the sandbox's commands begin */
	bool wants_dir;        /* it ends with '/': what is copied goes into it */
	bool wants_contents;   /* it ends with "/.": what is in the folder, and not the folder itself */
};

/* "ID:PATH", "-" or a local path. What has a '/' before its first ':' is local, so "./a:b" is a file. */
int copy_place_parse(const char *operand, struct copy_place *ret, struct err *e);
/* The last component of a path, for what it is called elsewhere; empty for "/", "." and "..". */
struct str copy_base_name(const char *path);

/* ---- the list ---- */

enum copy_kind { COPY_FILE, COPY_DIR, COPY_LINK };

struct copy_entry {
	enum copy_kind kind;
	unsigned mode;      /* permission bits, 0777 at most */
	bool is_made;       /* a folder that was not there before */
	uint64_t size;      /* of a file */
	const char *path;   /* below the top; "" is the top itself */
	const char *target; /* of a link; NULL: not asked for yet */
};

struct copy_list {
	struct arena arena;
	struct copy_entry *items; /* a folder comes before what is in it */
	size_t n, cap;
	uint64_t bytes;           /* of all files */
	size_t n_skipped;         /* devices, sockets and the like */
};

#define COPY_LIST_INIT ((struct copy_list){ .arena = ARENA_INIT(COPY_ARENA_MAX) })
void copy_list_done(struct copy_list *l);
DEFINE_AUTO_DONE(struct copy_list, copy_list_done)

/* ERR_DENIED for a path that could leave the folder, ERR_LIMIT for one entry too many. */
int copy_list_add(struct copy_list *l, enum copy_kind kind, struct str path, uint64_t size, unsigned mode,
		  struct err *e);
int copy_list_set_target(struct copy_list *l, struct copy_entry *entry, struct str target, struct err *e);

/* ---- names from the other side ---- */

/* The part of LISTED, a path that the sandbox named, below the folder TOP ("/" or without one at its end).
 * ERR_DENIED where it is not directly or further below it. */
int copy_below(struct str top, struct str listed, struct str *ret, struct err *e);
/* 755 as the wire has it: the digits of the octal number. Only permission bits are taken; what is no mode is
 * FALLBACK. */
unsigned copy_mode(int digits, unsigned fallback);
int copy_digits(unsigned mode);
/* Whether a link at PATH (on a list) stays in the folder: relative, with ".." at its beginning only and no
 * more of them than there are folders above it. Together with the same about all others no chain of links can
 * leave. */
bool copy_link_stays(struct str path, struct str target);
