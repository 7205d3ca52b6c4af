// SPDX-License-Identifier: Apache-2.0
/* Probes of control groups. They look and make none: a group would outlive a killed process. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/preflight_impl.h"
#include "sys/cgroup_devices.h"

#include "base/banned.h"

#define ENTRIES_MAX 4096 /* looked at for a group below a root */

static const struct cgroup_hierarchy *serving(const struct preflight_trial *t, unsigned controller)
{
	int i = t->layout.where[controller];

	return i < 0 ? NULL : &t->layout.at[i];
}

enum presence { HAS_NOT, HAS, CANNOT_TELL };

/* A group that has neither the file nor cgroup.procs has just been removed, or is not ours to look into. */
static enum presence look_into(int dir, const char *name, const char *file)
{
	AUTO_FD group = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (group >= 0 && fstatat(group, file, &st, 0) == 0)
		return HAS;
	return group >= 0 && fstatat(group, "cgroup.procs", &st, 0) == 0 ? HAS_NOT : CANNOT_TELL;
}

/* Some files are in every group but the root's: any group below it shows whether the kernel has them. */
static enum presence group_has(const struct cgroup_hierarchy *h, const char *file)
{
	int fd = openat(h->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum presence found = look_into(h->dir, ".", file) == HAS ? HAS : CANNOT_TELL;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!d) {
		closep(&fd);
		return found;
	}
	for (int i = 0; found == CANNOT_TELL && i < ENTRIES_MAX && (entry = readdir(d)); i++)
		if (entry->d_name[0] != '.')
			found = look_into(h->dir, entry->d_name, file);
	(void)closedir(d);
	return found;
}

/* Without a group to look at, root goes on and finds out; anybody else may just not see it. */
static enum preflight_outcome presence_outcome(enum presence p)
{
	if (p == CANNOT_TELL)
		return geteuid() == 0 ? PREFLIGHT_OK : PREFLIGHT_UNTRIED;
	return p == HAS ? PREFLIGHT_OK : PREFLIGHT_MISSING;
}

enum preflight_outcome probe_controller(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	const struct cgroup_hierarchy *h;
	const char *lack;

	if (!t->has_layout)
		return preflight_tell(-1, &t->layout_error, detail);
	lack = cgroup_lack_text(&t->layout, self->number);
	h = serving(t, self->number);
	if (lack || !h) {
		preflight_say(detail, "%s", lack ? lack : "not mounted");
		return PREFLIGHT_MISSING;
	}
	preflight_say(detail, "%s at %s", h->is_v2 ? "v2" : "v1", h->place);
	return PREFLIGHT_OK;
}

/* On v2 it is a program: one is loaded, and attached nowhere. */
static int load_program(struct err *e)
{
	const struct cgroup_device null = { 'c', 1, 3, CGROUP_DEVICE_READ };
	struct bpf_insn insns[CG_PROGRAM_MAX];
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_CGROUP_DEVICE };
	AUTO_FD fd = -1;

	attr.insn_cnt = (uint32_t)cg_devices_program(&null, 1, insns);
	attr.insns = (uint64_t)(uintptr_t)insns;
	attr.license = (uint64_t)(uintptr_t) "Apache-2.0";
	fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	return fd < 0 ? err_sys(e, errno, "load a device program") : 0;
}

enum preflight_outcome probe_devices(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	enum preflight_outcome o = probe_controller(t, self, detail);
	const struct cgroup_hierarchy *h = t->has_layout ? serving(t, CGROUP_DEVICES) : NULL;
	struct err e = { 0 };

	if (o != PREFLIGHT_OK || !h || !h->is_v2)
		return o;
	if (geteuid() != 0)
		return PREFLIGHT_UNTRIED;
	return load_program(&e) < 0 ? preflight_tell(-1, &e, detail) : o;
}

enum preflight_outcome probe_kill(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	const struct cgroup_hierarchy *h = t->has_layout ? serving(t, CGROUP_FREEZER) : NULL;
	enum presence has;

	(void)self;
	if (!h) {
		preflight_say(detail, "no freezer");
		return PREFLIGHT_MISSING;
	}
	has = h->is_v2 ? group_has(h, "cgroup.kill") : HAS_NOT;
	if (has == HAS_NOT)
		preflight_say(detail, "freeze, kill each process, thaw");
	else
		preflight_say(detail, "%s", has == HAS ? "cgroup.kill" : "cgroup.kill, where there is one");
	return PREFLIGHT_OK;
}

enum preflight_outcome probe_io_weight(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	static const char *const files[2][2] = { { "blkio.bfq.weight", "blkio.weight" }, { "io.weight", "io.bfq.weight" } };
	const struct cgroup_hierarchy *h = t->has_layout ? serving(t, CGROUP_IO) : NULL;
	enum preflight_outcome o = probe_controller(t, self, detail);
	enum presence has;

	if (o != PREFLIGHT_OK || !h)
		return o;
	has = group_has(h, files[h->is_v2][0]);
	if (has == HAS_NOT)
		has = group_has(h, files[h->is_v2][1]);
	o = presence_outcome(has);
	if (o != PREFLIGHT_OK)
		preflight_say(detail, "%s", o == PREFLIGHT_MISSING ? "no scheduler with weights" : "");
	return o;
}

/* /proc/swaps has a line of headings, and one for each area. */
static bool has_swap(const struct preflight_trial *t)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PREFLIGHT_FILE_MAX);
	struct str head, rest = { 0 };

	if (preflight_read(t, "proc/swaps", &b, &(struct err){ 0 }) == 0) /* a kernel without swap has no such file */
		(void)str_cut(buf_str(&b), '\n', &head, &rest);
	return rest.n > 0;
}

enum preflight_outcome probe_swap(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	const struct cgroup_hierarchy *h = t->has_layout ? serving(t, CGROUP_MEMORY) : NULL;
	enum preflight_outcome o;

	(void)self;
	if (!has_swap(t)) {
		preflight_say(detail, "no swap");
		return PREFLIGHT_OK;
	}
	o = presence_outcome(h ? group_has(h, h->is_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes") : HAS_NOT);
	if (o == PREFLIGHT_MISSING)
		preflight_say(detail, "there is swap, and it is not counted");
	return o;
}
