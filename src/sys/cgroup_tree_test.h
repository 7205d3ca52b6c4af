// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_tree_test.h - for tests: a directory that looks like a host's /proc and /sys/fs/cgroup.
 *
 * Its files are ordinary ones: they keep what was written to them last and do nothing. */
#pragma once
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/fd.h"
#include "sys/path.h"

struct tree {
	char root[64];
	int dir;
	struct cgroup_layout l;
	struct cgroup top;
};

static inline void tree_mkdir(struct tree *t, const char *path)
{
	struct err e = { 0 };

	if (root_mkdirs(t->dir, path, 0755, &e) < 0)
		fail_msg("%s", e.msg);
}

static inline void tree_put(struct tree *t, const char *path, const char *text)
{
	char above[512];
	const char *slash = strrchr(path, '/');
	AUTO_FD fd = -1;

	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	tree_mkdir(t, above);
	fd = openat(t->dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static inline void tree_check(struct tree *t, const char *path, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct err e = { 0 };

	if (fd_read_file(t->dir, path, 65536, &b, &e) < 0)
		fail_msg("%s", e.msg);
	assert_string_equal(buf_z(&b), want);
}

static inline void tree_init(struct tree *t, const char *mountinfo, const char *own, const char *kernel)
{
	*t = (struct tree){ .root = "/tmp/cgroup_test.XXXXXX" };
	assert_non_null(mkdtemp(t->root));
	t->dir = open(t->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(t->dir >= 0);
	t->top = CGROUP_INIT;
	tree_put(t, "proc/self/mountinfo", mountinfo);
	tree_put(t, "proc/self/cgroup", own);
	if (kernel)
		tree_put(t, "proc/cgroups", kernel);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void tree_done(struct tree *t)
{
	cgroup_done(&t->top);
	cgroup_layout_done(&t->l);
	closep(&t->dir);
	(void)nftw(t->root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

DEFINE_AUTO_DONE(struct tree, tree_done)

static inline int tree_find(struct tree *t, struct cgroup_find how, struct err *e)
{
	how.root = t->root;
	return cgroup_layout_find(&how, &t->l, e);
}

static inline void tree_must_find(struct tree *t, struct cgroup_find how)
{
	struct err e = { 0 };

	if (tree_find(t, how, &e) < 0)
		fail_msg("%s", e.msg);
}

/* ---- hosts --------------------------------------------------------------------------------------------- */

#define TREE_KERNEL \
	"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\ncpuacct\t0\t1\t1\n" \
	"blkio\t0\t1\t1\nmemory\t0\t1\t1\ndevices\t0\t1\t1\nfreezer\t0\t1\t1\nhugetlb\t0\t1\t1\npids\t0\t1\t1\n"

#define TREE_V2_MOUNTS "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define TREE_V1_MOUNT(number, name) \
	"4" number " 30 0:4" number " / /sys/fs/cgroup/" name " rw - cgroup cgroup rw," name "\n"
#define TREE_V1_MOUNTS \
	TREE_V1_MOUNT("1", "memory") TREE_V1_MOUNT("2", "cpu,cpuacct") TREE_V1_MOUNT("3", "pids") \
	TREE_V1_MOUNT("4", "blkio") TREE_V1_MOUNT("5", "devices") TREE_V1_MOUNT("6", "freezer") \
	TREE_V1_MOUNT("7", "hugetlb") TREE_V1_MOUNT("8", "cpuset")

/* A v2 group below the mount; AT ends with '/' or is empty. */
static inline void tree_v2_group(struct tree *t, const char *at, const char *controllers, const char *below)
{
	static const char *const files[][2] = {
		{ "cgroup.type", "domain\n" }, { "cgroup.procs", "" }, { "cgroup.freeze", "0\n" },
			{ "cgroup.kill", "" },
		{ "cgroup.events", "populated 0\nfrozen 0\n" },
			{ "cpu.stat", "usage_usec 12\nuser_usec 7\n" },
	};
	char path[512];

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s%s", at, files[i][0]);
		tree_put(t, path, files[i][1]);
	}
	(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%scgroup.controllers", at);
	tree_put(t, path, controllers);
	(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%scgroup.subtree_control", at);
	tree_put(t, path, below);
}

static inline void tree_v2(struct tree *t, const char *own)
{
	tree_init(t, TREE_V2_MOUNTS, own, TREE_KERNEL);
	tree_v2_group(t, "", "cpuset cpu io memory hugetlb pids\n", "cpu io memory hugetlb pids\n");
	assert_int_equal(unlinkat(t->dir, "sys/fs/cgroup/cgroup.type", 0), 0); /* the true root */
}

static inline void tree_v1(struct tree *t)
{
	static const char *const names[] = { "memory", "cpu,cpuacct", "pids", "blkio", "devices", "freezer",
					     "hugetlb",
					     "cpuset" };
	char path[256];

	tree_init(t, TREE_V1_MOUNTS, "1:memory:/\n", TREE_KERNEL);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s/cgroup.procs", names[i]);
		tree_put(t, path, "");
	}
}
