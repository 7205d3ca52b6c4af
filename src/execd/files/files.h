// SPDX-License-Identifier: Apache-2.0
/* execd/files/files.h - the file API: shared by the files_*.c.
 *
 * Everything except the download of a whole file happens in a worker (execd/work.h). A path of a request is
 * resolved once; afterwards descriptors are used, opened in our root without magic links (O1). Content is
 * read from and written to regular files only (O2). Every write goes to an unnamed or temporary file in the
 * target directory, which gets its final name when it is complete (O3).
 *
 * Of several paths in one request, the first failure ends the request; earlier changes stay. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/json_out.h"
#include "base/own.h"
#include "base/str.h"
#include "sys/path.h"

struct buf;
struct env;
struct err;
struct task;

/* ---- paths (files_path.c) ---- */

/* Where a path of a request leads: absolute, without variables. */
struct place {
	char path[PATH_BYTES_MAX + 1];
};

enum {
	PLACE_CLEAN = 1, /* without "." and "..", by its text */
};

/* A name with a '$' or a '~' that exists as it is means itself; otherwise variables and "~" come from ENV,
 * and an undefined one is ERR_INTERNAL. What is no path (O3) is ERR_INVALID. A name need not be UTF-8, which
 * JSON cannot say: as "file:///a%FFb", with its bytes escaped, it can be sent, and an entry that has such a
 * name is told with that as its "uri". */
int place_find(const struct env *env, int root, struct str sent, unsigned flags, struct place *ret,
	       struct err *e);
int place_check(struct str sent, struct err *e); /* what can be known without looking */
void place_write_uri(struct buf *out, struct str path); /* of an absolute path */
int task_place(struct task *t, struct str sent, unsigned flags, struct place *ret); /* -1: has answered */

/* The directory that holds the last component, and that. "/" and what ends with "." or ".." has none:
 * ERR_INVALID. */
struct seat_of {
	int dir; /* owned; O_PATH */
	char name[PATH_COMPONENT_MAX + 1];
};
int place_seat(int root, const struct place *at, bool makes_parents, struct seat_of *ret, struct err *e);
void seat_of_done(struct seat_of *s);
DEFINE_AUTO_DONE(struct seat_of, seat_of_done)
#define SEAT_OF_INIT ((struct seat_of){ .dir = -1 })

/* The same behind a last component that is a symlink, as open(O_CREAT) would go. */
#define PLACE_LINKS_MAX 40
int place_seat_behind(int root, const struct place *at, bool makes_parents, struct seat_of *ret,
		      struct err *e);

/* The file itself, symlinks followed: an open regular file, or ERR_INVALID for anything else (O2). */
int place_open_regular(int root, const struct place *at, struct stat *ret, struct err *e);

/* ---- attributes (files_attr.c) ---- */

/* Digits that are read as octal: 644 is 0644. Of 4755 the first counts for nothing; more than four are none,
 * nor are a digit of 8 or 9 and what is below 0: false. */
#define MODE_DIGITS_MAX 7777
bool mode_from_digits(int64_t digits, mode_t *ret);
const char *check_mode(const void *value); /* of FIELD_INT */
int64_t mode_to_digits(mode_t mode);

struct attr {
	int64_t mode;             /* as sent; 0: leave alone */
	const char *owner, *group; /* names; NULL or empty: leave alone */
};

/* What was asked for, looked up. */
struct attr_ids {
	bool has_mode, has_uid, has_gid;
	mode_t mode;
	uid_t uid;
	gid_t gid;
};
int attr_look_up(struct task *t, const struct attr *a, struct attr_ids *ret, struct err *e);
/* To an open file or an O_PATH descriptor; the owner first, because that takes bits from the mode. */
int attr_apply(int fd, const struct attr_ids *ids, struct err *e);

/* ---- information (files_info.c) ---- */

/* Names of users and groups by their number, looked up at once. */
struct names;
struct names *names_new(struct task *t, struct err *e);
void names_free(struct names *n);
DEFINE_AUTO(struct names *, names_free)
void info_write(struct json_out *o, struct str path, const struct stat *st, const struct names *names);

/* ---- trees ---- */

/* Removes NAME with all that is in it; what is not there is removed already. Symlinks are not followed and no
 * other mount is entered (ERR_CONFLICT). However deep it is, one descriptor and 16 bytes a level are used
 * (files_remove.c). */
int files_remove(struct task *t, int dir, const char *name, struct err *e);

/* Copies NAME to TO, which must not exist, with modes, owners and times; holes stay holes. Sockets and
 * devices are refused. On failure nothing remains (files_copy.c). */
#define COPY_DEPTH_MAX 128
int files_copy(struct task *t, int dir, const char *name, int to_dir, const char *to, struct err *e);
/* of regular files, from their begin to the end */
int copy_content(struct task *t, int from, int to, struct err *e);

/* ---- new content for a name (files_draft.c) ---- */

#define DRAFT_NAME_SIZE 32
struct draft {
	int fd;        /* write the content here */
	int dir;       /* a descriptor of its own */
	char temp[DRAFT_NAME_SIZE]; /* its name meanwhile; empty: it has none */
};
#define DRAFT_INIT ((struct draft){ .fd = -1, .dir = -1 })
int draft_temp_name(char out[DRAFT_NAME_SIZE], struct err *e); /* an unused one */
int draft_open(struct draft *d, int dir, struct err *e);
/* gives it the name, in place of what had it */
int draft_keep(struct draft *d, const char *name, struct err *e);
/* a draft that was not kept leaves nothing */
void draft_done(struct draft *d);
DEFINE_AUTO_DONE(struct draft, draft_done)
/* Mode and owner: those asked for, else those of the file it replaces, else what a new file gets. */
int draft_dress(struct draft *d, const char *name, const struct attr_ids *ids, mode_t new_mode,
		struct err *e);
