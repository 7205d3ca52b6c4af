// SPDX-License-Identifier: Apache-2.0
/* image/entry.h - decides what an archive entry may become, from its header alone (I2, I3).
 *
 * The file system is not consulted here. Where a path leads below the root is checked by the writer, in-root
 * and step by step (image/layer.h). An entry that breaks a rule makes the whole archive invalid. */
#pragma once
#include <stdint.h>

#include "sys/path.h"

struct err;

#define ENTRY_DEPTH_MAX 256
#define ENTRY_ID_MAX 65535    /* what a sandbox has; above it: */
#define ENTRY_ID_NOBODY 65534

enum entry_kind {
	ENTRY_FILE,
	ENTRY_DIR,
	ENTRY_SYMLINK,
	ENTRY_HARDLINK,
	ENTRY_FIFO,
	ENTRY_DEVICE,
	ENTRY_UNKNOWN,
	/* Of layers, never claimed: they are told by their names, ".wh.NAME" and ".wh..wh..opq". */
	ENTRY_WHITEOUT, /* what `path` names in the layers below is gone */
	ENTRY_OPAQUE,   /* the directory `path` shows nothing of the layers below */
};

enum entry_form {
	/* a root file system: whiteouts mean nothing there and are refused, so are absolute names */
	ENTRY_TAR,
	ENTRY_LAYER, /* one of a stack, of an OCI image: absolute names are those below its root */
};

/* As the archive says it. */
struct entry_claim {
	const char *path, *target; /* the latter of links; either may be NULL, when it cannot be read */
	enum entry_kind kind;
	unsigned mode;
	int64_t uid, gid, size;
	uint64_t major, minor; /* of a device */
	int64_t mtime_s;
	long mtime_ns;
};

/* As it will be. */
struct entry {
	/* below the root: no "." or "..", no "//", no '/' at either end; "": the root itself */
	char path[PATH_BYTES_MAX + 1];
	char target[PATH_BYTES_MAX + 1]; /* of a symlink: any text; of a hard link: as `path` */
	enum entry_kind kind;
	unsigned mode; /* permission bits, set-id bits included */
	uint32_t uid, gid;
	uint64_t size; /* of a file; otherwise 0 */
	int64_t mtime_s;
	long mtime_ns;
};

/* 1; 0: to be left out, which are device nodes; -1: ERR_INVALID. */
int entry_check(const struct entry_claim *claim, enum entry_form form, struct entry *ret, struct err *e);

/* The same for the name of an extended attribute: 1 for "user." alone, whose meaning is the programs' own; 0
 * for what belongs to the host's kernel (security., system.); -1 for what an overlay would obey. */
int entry_check_attr(const char *name, struct err *e);
