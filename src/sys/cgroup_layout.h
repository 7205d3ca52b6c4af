// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_layout.h - the control group hierarchies of this host, and what we use of each.
 *
 * A host is v2 (one tree with all controllers), v1 (one tree per controller or pair of them) or hybrid (v1
 * trees, and a v2 tree with the remaining controllers). Callers need not know: a group of sys/cgroup.h is one
 * directory in each hierarchy that is in use. Looking changes nothing on the host. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "sys/cgroup_parse.h"

struct err;

#define CGROUP_HIERARCHIES_MAX 9   /* v2, and one for each controller */
#define CGROUP_OWN_LEAF "self"     /* where cgroup_vacate() puts this process */
#define CGROUP_TEXT_MAX (8 * 1024 * 1024) /* bytes of mountinfo: every box adds some mounts */

struct cgroup_hierarchy {
	bool is_v2;
	bool is_used;         /* our groups have a directory here */
	bool is_shared;       /* but those below the top have none: see cgroup_layout_share() */
	bool is_read_only;
	unsigned controllers; /* bits of those that we can use here */
	char place[CGROUP_MOUNT_MAX + 1];
	int dir;              /* its mount point */
};

enum cgroup_lack {
	CGROUP_AVAILABLE,
	CGROUP_NOT_IN_KERNEL,
	CGROUP_DISABLED,      /* at boot: cgroup_disable= */
	CGROUP_NOT_MOUNTED,
	CGROUP_NOT_DELEGATED, /* v2: the hierarchy has it, the group that we are to work below has not */
	CGROUP_READ_ONLY,
};

/* Plain data for reading. The v2 hierarchy, or else v1's freezer, is the first that is used: a process that
 * is attached to groups in this order can be killed with its group from the first step on. */
struct cgroup_layout {
	struct cgroup_hierarchy at[CGROUP_HIERARCHIES_MAX];
	size_t n;
	int where[CGROUP_CONTROLLERS]; /* index of the hierarchy that serves it, or -1 */
	enum cgroup_lack lack[CGROUP_CONTROLLERS];
	unsigned shared; /* controllers that groups below the top do not have of their own */
	/* below the mount points, "" or "a/b": where our groups go on v1 */
	char base[CGROUP_MOUNT_MAX + 1];
	char v2_base[CGROUP_MOUNT_MAX + 1]; /* and on v2 */
	/* v2: there are processes in the base, so controllers cannot be enabled: cgroup_vacate() */
	bool is_busy;
	bool has_freeze;  /* v2: cgroup.freeze; known once there is a group, see cgroup_open_top() */
	bool has_kill;    /* v2: cgroup.kill */
};

struct cgroup_find {
	/* NULL: "/". Another tree is a test's: its files are not asked whether they are cgroups */
	const char *root;
	const char *base; /* NULL: "" */
	/* v2: below the group of this process (which is then delegated to us), not below `base` */
	bool below_own;
	/* v2 alone: where this process is in NAME.service, below the group of the unit NAME + `beside` +
	 * .service next to it, if there is one that systemd leaves to us (Delegate=); else below `base`.
	 * NULL: not looked for. */
	const char *beside;
	bool v1_only;     /* as if v2 were not mounted */
};

#define CGROUP_LAYOUT_INIT ((struct cgroup_layout){ 0 })

int cgroup_layout_find(const struct cgroup_find *how, struct cgroup_layout *ret, struct err *e);
void cgroup_layout_done(struct cgroup_layout *l);
DEFINE_AUTO_DONE(struct cgroup_layout, cgroup_layout_done)

/* From now on groups below the top do without CONTROLLERS (bits) of their own: what the top has holds for all
 * of them, or nobody asks. They have no directory in v1 hierarchies that serve nothing else. */
void cgroup_layout_share(struct cgroup_layout *l, unsigned controllers);

/* Whether the group NAME below the v2 base is there with groups below it. */
bool cgroup_is_in_use(const struct cgroup_layout *l, const char *name);

/* For people, "disabled at boot" and so on; NULL when controller C is available. */
const char *cgroup_lack_text(const struct cgroup_layout *l, enum cgroup_controller c);

/* On v2 a group either has processes or hands controllers on to groups below it. Moves this process from the
 * base group to CGROUP_OWN_LEAF below it, and with ALL every other process there too (in a container: its
 * init). ERR_CONFLICT when processes are left. Nothing to do on v1 and at the true root, which is exempt. */
int cgroup_vacate(struct cgroup_layout *l, bool all, struct err *e);
