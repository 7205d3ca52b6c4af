// SPDX-License-Identifier: Apache-2.0
/* execd/users.h - the user that a program runs as, from the passwd and group files of the sandbox.
 *
 * Both files are controlled by the sandbox's root: they are read with a size limit by our own parser, never
 * through libc (P4). Malformed lines are skipped; of equal names or ids the first line is used. A name that
 * is all digits is an id and never looked up as a name (C2). */
#pragma once
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"

struct err;

#define USERS_FILE_MAX (16 * 1024 * 1024) /* bytes of each file; a larger one is refused */
#define USERS_LINE_MAX ((size_t)128 * 1024) /* a longer one is skipped */
#define USERS_PIECE ((size_t)32 * 1024)
#define USERS_LINES_MAX 256 /* groups that are looked at for one user */
#define USERS_GROUPS_MAX 64          /* supplementary ones; further ones are left out */
#define USERS_NAME_MAX 256

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t groups[USERS_GROUPS_MAX]; /* supplementary */
	size_t n_groups;
};

struct user {
	struct str name, home; /* views of the file */
	uid_t uid;
	gid_t gid;
};

/* The parsers: false when there is none. Ids beyond GUEST_ID_MAX are none. */
bool passwd_by_uid(struct str passwd, uid_t uid, struct user *ret);
bool passwd_by_name(struct str passwd, struct str name, struct user *ret);
bool group_by_name(struct str group, struct str name, gid_t *ret);
/* One after the other: take the next entry from *text. False at the end. */
bool passwd_next(struct str *text, struct user *ret);
bool group_next(struct str *text, struct str *ret_name, gid_t *ret);
/* The groups that list NAME as a member, without PRIMARY and without repeats. */
size_t groups_of(struct str group, struct str name, gid_t primary, gid_t out[USERS_GROUPS_MAX]);

/* The two files as text; what does not exist is empty. */
struct users_files {
	struct str passwd, group;
};

/* A uid alone: the user's primary and supplementary groups, or the gid of the same number for an unknown one.
 * With a gid: that, and no others. */
void identity_of_uid(const struct users_files *f, uid_t uid, struct identity *ret);
void identity_of_ids(uid_t uid, gid_t gid, struct identity *ret);
/* One by its name or its number. ERR_INVALID when the name is unknown or the number too large. */
int identity_of_name(const struct users_files *f, struct str name, struct identity *ret, struct err *e);
int gid_of_name(const struct users_files *f, struct str name, gid_t *ret, struct err *e);
/* "name", "id", "name:group", "id:id", in any mix. ERR_INVALID when a name is unknown or an id too large. */
int identity_of_text(const struct users_files *f, struct str text, struct identity *ret, struct err *e);

/* The files in /etc, with room for them. */
struct users_text {
	struct buf passwd_bytes, group_bytes;
	struct users_files files; /* views of these */
};
void users_text_done(struct users_text *t);
DEFINE_AUTO_DONE(struct users_text, users_text_done)
/* All of both, for a worker: that much memory is not ours to take. On failure there is nothing to be done.
 * ERR_INVALID names a file that is none or too large. */
int users_read(struct users_text *ret, struct err *e);
/* The lines about one user and one group, each by its name, its number, or empty; of the rest no more than a
 * piece is in memory at a time. Errors are those of users_read(). */
int users_find(struct str user, struct str group, struct users_text *ret, struct err *e);

/* Looked up in the files in /etc, read anew each time. */
int users_by_uid(uid_t uid, struct identity *ret, struct err *e);
int users_by_text(struct str text, struct identity *ret, struct err *e);
