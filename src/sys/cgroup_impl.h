// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_impl.h - what the files of the cgroup module share: the small files of a group, and walking. */
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf;
struct cgroup;
struct cgroup_layout;
struct err;

#define CGROUP_FILE_MAX (1024 * 1024) /* bytes of one file of a group: 128k process numbers */
#define CGROUP_DEPTH_MAX 8            /* groups below a group of ours */
#define CGROUP_POLL_MS 20             /* longest pause between two looks where the kernel tells us nothing */

/* 1 done, 0 there is no such file (or the group is gone), -1. */
int cg_write(int dir, const char *file, const char *text, struct err *e);
int cg_writef(int dir, const char *file, struct err *e, const char *fmt,
	      ...) __attribute__((format(printf, 4, 5)));
int cg_read(int dir, const char *file, struct buf *b, struct err *e); /* appends */
int cg_read_number(int dir, const char *file, uint64_t *ret, struct err *e);
int cg_read_key(int dir, const char *file, const char *key, uint64_t *ret, struct err *e);

bool cg_has(int dir, const char *file);
int cg_open_dir(int parent, const char *name, struct err *e);
int cg_make_dir(int parent, const char *name, struct err *e); /* opens it when it exists */

/* FN for each group below DIR, deepest first, and then for DIR itself; stops at the first that is not 0 and
 * returns that. Groups that vanish meanwhile are passed over. */
typedef int (*cg_walk_fn)(int dir, void *arg, struct err *e);
int cg_walk(int dir, cg_walk_fn fn, void *arg, struct err *e);

/* The next directory in D that is a group, or NULL. */
const char *cg_next_group(DIR *d);

uint64_t cg_deadline(int timeout_ms);
/* Sleeps a little, longer each time; false when the deadline has passed. *delay_ms starts at 0. */
bool cg_pause(unsigned *delay_ms, uint64_t deadline);
/* Waits until cgroup.events of DIR says KEY WANT. 1 it does, 0 the deadline passed, -1. A group that is gone
 * is neither populated nor frozen. */
int cg_wait_event(int dir, const char *key, uint64_t want, uint64_t deadline, struct err *e);

/* Decides, now that there is a v2 group of ours (DIR, or -1), what v1 hierarchies are still needed. */
void cg_layout_settle(struct cgroup_layout *l, int dir);

/* A capped group (cgroup_cap_cpu()) has an odd quota in periods of this length; those of cgroup_limit() are
 * even. */
#define CG_CAPPED_PERIOD_US 20000
#define CG_CAPPED_QUOTA(milli) ((milli) * (CG_CAPPED_PERIOD_US / 10000) + 1)
#define CG_CAPPED_MILLI(quota) (((quota) - 1) / (CG_CAPPED_PERIOD_US / 10000))

int cg_dir_for(const struct cgroup *g, unsigned controller); /* -1: nothing serves it */
bool cg_is_v2(const struct cgroup *g, unsigned controller);
