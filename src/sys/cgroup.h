// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup.h - control groups: one interface over v2, v1 and hybrid hosts.
 *
 *     cgroup_layout_find(&(struct cgroup_find){ 0 }, &layout, e);
 *     cgroup_open_top(&layout, "opensandbox", owner, &top, e);      above all boxes
 *     cgroup_make(&top, "b17", &box, e);                            limits and devices are set here, then
 *     cgroup_make(&box, "user", &user, e);                          the leaves that hold processes are made
 *
 * On v2 only leaves may hold processes. Making is idempotent, and removing works on what is left of a group,
 * so that a step that was cut is simply repeated. The other verbs are in cgroup_limits.h, cgroup_control.h
 * and cgroup_stats.h. Nothing here is for threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/own.h"
#include "sys/cgroup_layout.h"

struct arena;
struct err;

#define CGROUP_NAME_MAX 64    /* bytes of the name of a group of ours: letters, digits, '-' and '_' */
#define CGROUP_PATH_MAX 511   /* bytes of its path */
#define CGROUP_LIST_MAX 65536 /* groups listed below one */
#define CGROUP_OWNER_MAX 64   /* bytes of the owner's tag */

struct cgroup {
	const struct cgroup_layout *layout; /* must outlive the group */
	char path[CGROUP_PATH_MAX + 1];     /* for messages: "opensandbox/b17/user" */
	int dirs[CGROUP_HIERARCHIES_MAX];   /* -1 where the hierarchy is not used */
};

/* The group above all of ours, made if need be with those above it. On v2 controllers are enabled on the way
 * down: ERR_CONFLICT where processes are in the way. OWNER, if not NULL, is written to the group as an
 * extended attribute; one that carries another, or that has groups or processes but no tag, is not ours:
 * ERR_CONFLICT. */
int cgroup_open_top(struct cgroup_layout *l, const char *name, const char *owner, struct cgroup *ret,
		    struct err *e);

int cgroup_make(const struct cgroup *parent, const char *name, struct cgroup *ret, struct err *e);
/* In the hierarchies alone that serve one of CONTROLLERS (bits): elsewhere its processes are the parent's. */
int cgroup_make_for(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret,
		    struct err *e);
/* The same, for processes that could as well be PARENT's own: on v2 alone, where only leaves hold
 * processes. */
int cgroup_make_leaf(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret,
		     struct err *e);
/* An existing one; ERR_NOT_FOUND when it is missing in one of the hierarchies: make it, or remove the
 * rest. */
int cgroup_open(const struct cgroup *parent, const char *name, struct cgroup *ret, struct err *e);
/* The same, but no more of it than serves one of CONTROLLERS (bits). For cgroup_kill() that of CGROUP_FREEZER
 * is enough. */
int cgroup_open_for(const struct cgroup *parent, const char *name, unsigned controllers, struct cgroup *ret,
		    struct err *e);
/* whether C counts for this group of its own */
bool cgroup_has(const struct cgroup *g, enum cgroup_controller c);
void cgroup_done(struct cgroup *g); /* closes; the group stays */
DEFINE_AUTO_DONE(struct cgroup, cgroup_done)
#define CGROUP_INIT ((struct cgroup){ .dirs = { -1, -1, -1, -1, -1, -1, -1, -1, -1 } })

/* Removes the group and those below it from every hierarchy. Processes that are about to end are waited for;
 * ERR_TIMEOUT when some are left by then (kill them first). A group that is not there is removed already. */
int cgroup_remove(const struct cgroup *parent, const char *name, int timeout_ms, struct err *e);
/* The top itself, with all that is below it. */
int cgroup_remove_top(struct cgroup_layout *l, const char *name, int timeout_ms, struct err *e);

struct cgroup_names {
	const char **names; /* sorted */
	size_t n;
};

/* The groups below G in any of the hierarchies, so that halves are found too; all memory is A's. */
int cgroup_list(const struct cgroup *g, struct arena *a, struct cgroup_names *ret, struct err *e);

/* ---- entering -------------------------------------------------------------------------------------------- */

/* Descriptors that let whoever holds them enter the group, with the rights of who opened them. On v1 it is
 * the thread that enters: for processes with one. */
struct cgroup_entry {
	int fds[CGROUP_HIERARCHIES_MAX];
	size_t n;
};

int cgroup_entry_open(const struct cgroup *g, struct cgroup_entry *ret, struct err *e);
/* For a process that is born in G's v2 directory and enters LEAF below it: the others, where there is no
 * LEAF. */
int cgroup_entry_open_rest(const struct cgroup *g, const struct cgroup *leaf, struct cgroup_entry *ret,
			   struct err *e);
/* For a process that leaves FROM, below G: LEAF, and G itself where that has no directory. */
int cgroup_entry_open_back(const struct cgroup *g, const struct cgroup *leaf, const struct cgroup *from,
			   struct cgroup_entry *ret,
			   struct err *e);
/* The hierarchies that cgroup_layout_share() left to TOP, which whoever is to be in a group below it enters
 * as well. */
int cgroup_entry_open_shared(const struct cgroup *top, struct cgroup_entry *ret, struct err *e);
void cgroup_entry_done(struct cgroup_entry *entry);
DEFINE_AUTO_DONE(struct cgroup_entry, cgroup_entry_done)

/* This process enters. No heap: usable between fork and exec. Limits are not asked: a group can hold more
 * processes than its pids.max in this way, so the group above it is to be limited too. */
int cgroup_enter(const int *fds, size_t n, struct err *e);

/* For CLONE_INTO_CGROUP: the directory in v2, or -1. The other hierarchies are still to be entered. */
int cgroup_clone_dir(const struct cgroup *g);
