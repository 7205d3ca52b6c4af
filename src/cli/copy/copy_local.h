// SPDX-License-Identifier: Apache-2.0
/* cli/copy/copy_local.h - the local side of `osb cp`: reads a tree, and creates one that stays below its top.
 *
 * Everything is relative to the descriptor of the top folder, and no symlink below it is followed. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/own.h"
#include "base/str.h"

struct copy_entry;
struct copy_list;
struct err;

/* ---- reading ---- */

/* Lists what is below the folder DIRFD, links as links; what is neither a file, a folder nor a link is
 * counted as skipped. */
int copy_local_list(int dirfd, struct copy_list *l, struct err *e);
/* A regular file below it. */
int copy_local_read(int dirfd, const char *path, struct err *e);

/* ---- writing ---- */

/* The folder PATH, made with those above it if need be. */
int copy_local_top(const char *path, struct err *e);
/* For us alone. 0: one was there, and stays as it is; 1: it was made. */
int copy_local_mkdir(int dirfd, const char *path, struct err *e);
/* of a folder, once it is filled */
int copy_local_chmod(int dirfd, const char *path, unsigned mode, struct err *e);
/* in place of a file or link of that name */
int copy_local_link(int dirfd, const char *path, const char *target, struct err *e);

/* A file that is there as a whole or not at all: it has another name until it lands. */
struct landing {
	int dir, fd; /* -1: none */
	char temp[32];
	char name[256];
};
#define LANDING_INIT ((struct landing){ .dir = -1, .fd = -1 })

int landing_open(struct landing *l, int dirfd, const char *path, struct err *e);
/* Gives it its mode and its name. What is there under that name goes, except for a folder. */
int landing_land(struct landing *l, unsigned mode, struct err *e);
void landing_done(struct landing *l); /* what has not landed is removed */
DEFINE_AUTO_DONE(struct landing, landing_done)
