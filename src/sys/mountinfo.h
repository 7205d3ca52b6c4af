// SPDX-License-Identifier: Apache-2.0
/* sys/mountinfo.h - which mounts this process sees: /proc/self/mountinfo, read and unescaped within
 * bounds. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct arena;
struct err;

#define MOUNTINFO_BYTES_MAX (16 * 1024 * 1024)
#define MOUNTINFO_ROWS_MAX 65536

struct mountinfo {
	uint64_t id, parent;
	uint32_t major, minor;
	const char *root;    /* what of its file system is mounted */
	/* where, as seen from our root; "//deleted" is part of it when the place is gone */
	const char *place;
	const char *options; /* of the mount: "ro,nosuid,relatime" */
	const char *fs;      /* "overlay" */
	const char *source;  /* whatever was named at the mount; not a path to trust */
};

struct mountinfo_list {
	struct mountinfo *rows;
	size_t n;
};

/* One line, without its end. Names are unescaped copies in the arena. ERR_INVALID when it is not such a
 * line. */
int mountinfo_parse(struct str line, struct arena *a, struct mountinfo *ret, struct err *e);

/* True for PREFIX itself and what is below it: "/a" has "/a/b", and not "/ab". */
bool mountinfo_is_below(const char *place, const char *prefix);

/* The lines of TEXT that are at or below PREFIX, in the order of the text. */
int mountinfo_select(struct str text, const char *prefix, struct arena *a, struct mountinfo_list *ret,
		     struct err *e);

/* The same for this process, in the order in which they were mounted: who unmounts goes through it from the
 * end. The kernel writes the table in portions, and mounts that come or go meanwhile may be missed: a sweep
 * repeats until nothing is left. */
int mountinfo_list(const char *prefix, struct arena *a, struct mountinfo_list *ret, struct err *e);
