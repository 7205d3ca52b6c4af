// SPDX-License-Identifier: Apache-2.0
#include "box/preflight.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/groups.h"
#include "box/preflight_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- the table ---- */

#define NO_BOX ": no sandbox can be created"
#define SYSCTL(file_, min_, max_) .file = "proc/sys/" file_, .min = (min_), .max = (max_), .probe = probe_setting
#define ANY INT64_MAX
#define DISK_LIMITS "disk limits"

/* In this order they are shown; rows of a group follow each other. */
static const struct preflight_check checks[] = {
	{ "kernel", "version", .is_for_doctor = true, .probe = probe_version, .file = "proc/sys/kernel/osrelease",
	  .cost = "it is untested: differences without a check here show only in use",
	  .remedy = "run 'make test' on it, or use one of those" },
	{ "kernel", "root", true, false, .probe = probe_root,
	  .cost = "namespaces, mounts and control groups cannot be made" NO_BOX,
	  .remedy = "start the server as root, with all capabilities; in a container: --privileged" },
	{ "kernel", "openat2", true, .probe = probe_openat2,
	  .cost = "a path of an image could lead out of it" NO_BOX, .remedy = "use Linux 5.6 or later" },
	{ "kernel", "close_range", true, .probe = probe_close_range,
	  .cost = "descriptors of the host could reach a sandbox" NO_BOX, .remedy = "use Linux 5.9 or later" },
	{ "kernel", "clone3", true, .probe = probe_clone3,
	  .cost = "no process can be started together with its pidfd" NO_BOX,
	  .remedy = "use Linux 5.4 or later; in a container: a seccomp profile that allows clone3" },
	{ "kernel", "pidfd_open", true, .probe = probe_pidfd_open,
	  .cost = "running sandboxes cannot be found again after a restart" NO_BOX,
	  .remedy = "use Linux 5.4 or later" },
	{ "kernel", "namespaces", true, true, .probe = probe_namespaces,
	  .cost = "a sandbox would share them with the host" NO_BOX,
	  .remedy = "use a kernel with all of them; raise user.max_*_namespaces" },
	{ "kernel", "user namespace", true, true, .probe = probe_userns,
	  .cost = "root in a sandbox would be root of the host" NO_BOX,
	  .remedy = "use a kernel with CONFIG_USER_NS; set user.max_user_namespaces above 0" },
	{ "kernel", "seccomp filter", true, .probe = probe_seccomp,
	  .cost = "system calls cannot be denied" NO_BOX, .remedy = "use a kernel with CONFIG_SECCOMP_FILTER" },
	{ "kernel", "sealed programs", true, .probe = probe_memfd,
	  .cost = "a sandbox could change its own execd" NO_BOX,
	  .remedy = "set vm.memfd_noexec=0; a security module must let root run a memfd" },
	{ "kernel", "key rings", true, .probe = probe_keyring,
	  .cost = "keys of the host would be seen in a sandbox" NO_BOX, .remedy = "raise kernel.keys.root_maxkeys" },
	{ "kernel", "landlock", false, .probe = probe_landlock,
	  .cost = "opensandbox-fetch and opensandbox-egress can open every file that their accounts may",
	  .remedy = "use Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, and 'landlock' in the list of lsm=" },

	{ "mounts", "mount api", true, true, .probe = probe_mount_api,
	  .cost = "mounts cannot be made detached" NO_BOX, .remedy = "use Linux 5.12 or later" },
	{ "mounts", "overlayfs", true, true, .probe = probe_overlayfs,
	  .cost = "images cannot be shared" NO_BOX,
	  .remedy = "load the module 'overlay', or use a kernel with CONFIG_OVERLAY_FS" },
	{ "mounts", "overlay mounts", true, true, .probe = probe_overlay,
	  .cost = "images cannot be shared" NO_BOX,
	  .remedy = "use Linux 5.19 or later; a security module or a container must let root mount overlays" },
	{ "mounts", "id-mapped mounts", true, true, .probe = probe_idmap,
	  .cost = "files of an image cannot be shown with a sandbox's ids" NO_BOX,
	  .remedy = "put native.state_dir on ext4, xfs or btrfs" },
	{ "mounts", "id-mapped layers", true, true, .probe = probe_idmap_overlay,
	  .cost = "an image cannot be shared by sandboxes with different ids" NO_BOX,
	  .remedy = "use Linux 5.19 or later, with native.state_dir on ext4, xfs or btrfs" },

	{ "control groups", "memory", true, .probe = probe_controller, .number = CGROUP_MEMORY,
	  .cost = "no memory limit can be enforced" NO_BOX,
	  .remedy = "boot without cgroup_disable=memory (some boards: with cgroup_enable=memory)" },
	{ "control groups", "cpu", true, .probe = probe_controller, .number = CGROUP_CPU,
	  .cost = "no CPU limit can be enforced" NO_BOX,
	  .remedy = "use a kernel with CONFIG_CFS_BANDWIDTH, and mount cgroup2" },
	{ "control groups", "pids", true, .probe = probe_controller, .number = CGROUP_PIDS,
	  .cost = "no process limit can be enforced" NO_BOX,
	  .remedy = "use a kernel with CONFIG_CGROUP_PIDS, and mount cgroup2" },
	{ "control groups", "freezer", true, .probe = probe_controller, .number = CGROUP_FREEZER,
	  .cost = "sandboxes cannot be paused, nor ended reliably" NO_BOX,
	  .remedy = "mount cgroup2, or v1's freezer" },
	{ "control groups", "devices", true, .probe = probe_devices, .number = CGROUP_DEVICES,
	  .cost = "devices of the host cannot be denied" NO_BOX,
	  .remedy = "use a kernel with CONFIG_CGROUP_BPF, or mount v1's devices" },
	{ "control groups", "killing", true, .probe = probe_kill,
	  .cost = "a sandbox that forks all the time cannot be ended" NO_BOX,
	  .remedy = "mount cgroup2 (Linux 5.14), or v1's freezer" },
	{ "control groups", "io weight", false, .probe = probe_io_weight, .number = CGROUP_IO,
	  .cost = "a sandbox that uses the disk heavily slows down the others",
	  .remedy = "use the bfq scheduler, or cgroup2 with io" },
	{ "control groups", "swap accounting", false, .probe = probe_swap,
	  .cost = "sandboxes can use swap beyond their memory limit",
	  .remedy = "boot with swapaccount=1, or turn swap off" },

	{ DISK_LIMITS, "loop devices", true, true, true, .probe = probe_loop,
	  .cost = "no disk limit can be enforced" NO_BOX,
	  .remedy = "load the module 'loop'; in a container: pass /dev/loop-control in" },
	{ DISK_LIMITS, "btrfs", true, false, true, .probe = probe_btrfs,
	  .cost = "no disk limit can be enforced" NO_BOX,
	  .remedy = "load the module 'btrfs', or use a kernel with CONFIG_BTRFS_FS" },
	{ DISK_LIMITS, "mkfs.btrfs", true, false, true, .probe = probe_mkfs,
	  .cost = "no disk limit can be enforced" NO_BOX, .remedy = "install the package btrfs-progs" },

	{ "network", "veth links", false, true, true, .probe = probe_veth,
	  .cost = "sandboxes have no network but their own loopback",
	  .remedy = "load the module 'veth', or use a kernel with CONFIG_VETH" },
	{ "network", "nftables", false, true, true, .probe = probe_nftables,
	  .cost = "sandboxes have no network but their own loopback",
	  .remedy = "load the module 'nf_tables', or use a kernel with CONFIG_NF_TABLES" },
	{ "network", "nft", false, false, true, .probe = probe_nft,
	  .cost = "sandboxes have no network but their own loopback", .remedy = "install the package nftables" },
	{ "network", "network rules", false, true, true, .probe = probe_network,
	  .cost = "sandboxes have no network but their own loopback",
	  .remedy = "use a kernel with CONFIG_NFT_NAT, NFT_MASQ, NFT_CT, NFT_CONNLIMIT, NFT_LIMIT and NFT_FIB_INET" },

	{ "ids and limits", "id range", true, .probe = probe_ids,
	  .cost = "files of a sandbox would belong to that account" NO_BOX,
	  .remedy = "give the account other ids, outside of this range" },
	{ "ids and limits", "descriptors", true, .probe = probe_descriptors,
	  .cost = "only few sandboxes can run at a time",
	  .remedy = "raise the hard limit: LimitNOFILE=, or ulimit -Hn 65536" },
	{ "ids and limits", "pid_max", true, .probe = probe_pid_max, .file = "proc/sys/kernel/pid_max",
	  .cost = "a few sandboxes use up the host's process numbers", .remedy = "sysctl kernel.pid_max=4194304" },

	{ "settings", "io_uring", false, .probe = probe_io_uring, .file = "proc/sys/kernel/io_uring_disabled", .min = 1, .max = ANY,
	  .cost = "io_uring is available to programs of the host",
	  .remedy = "sysctl kernel.io_uring_disabled=2" },
	{ "settings", "unprivileged bpf", false, SYSCTL("kernel/unprivileged_bpf_disabled", 1, ANY),
	  .cost = "any user of the host may load programs into the kernel",
	  .remedy = "sysctl kernel.unprivileged_bpf_disabled=1" },
	{ "settings", "userfaultfd", false, SYSCTL("vm/unprivileged_userfaultfd", 0, 0),
	  .cost = "races in the kernel are easier to win", .remedy = "sysctl vm.unprivileged_userfaultfd=0" },
	{ "settings", "legacy TIOCSTI", false, SYSCTL("dev/tty/legacy_tiocsti", 0, 0), .is_absence_bad = true,
	  .cost = "a program can type into the terminal of its parent", .remedy = "sysctl dev.tty.legacy_tiocsti=0" },
	{ "settings", "kernel pointers", false, SYSCTL("kernel/kptr_restrict", 1, ANY),
	  .cost = "addresses of the kernel can be read", .remedy = "sysctl kernel.kptr_restrict=1" },
	{ "settings", "kernel log", false, SYSCTL("kernel/dmesg_restrict", 1, ANY),
	  .cost = "any user can read the kernel's log", .remedy = "sysctl kernel.dmesg_restrict=1" },
	{ "settings", "hard links", false, SYSCTL("fs/protected_hardlinks", 1, ANY),
	  .cost = "links to files of others can be made", .remedy = "sysctl fs.protected_hardlinks=1" },
	{ "settings", "symbolic links", false, SYSCTL("fs/protected_symlinks", 1, ANY),
	  .cost = "links in /tmp can mislead other users", .remedy = "sysctl fs.protected_symlinks=1" },
	{ "settings", "fifos", false, SYSCTL("fs/protected_fifos", 1, ANY),
	  .cost = "fifos in /tmp can mislead other users", .remedy = "sysctl fs.protected_fifos=1" },
	{ "settings", "regular files", false, SYSCTL("fs/protected_regular", 1, ANY),
	  .cost = "files in /tmp can mislead other users", .remedy = "sysctl fs.protected_regular=1" },
	{ "settings", "core dumps", false, .probe = probe_core_pattern, .file = "proc/sys/kernel/core_pattern",
	  .cost = "a crash on the host starts a program as root",
	  .remedy = "sysctl kernel.core_pattern=core" },
	{ "settings", "host volumes", false, .probe = probe_volumes,
	  .cost = "a setuid file that a sandbox leaves there works on the host",
	  .remedy = "mount these folders nosuid" },
};
_Static_assert(ARRAY_LEN(checks) <= PREFLIGHT_FINDINGS_MAX, "a report has room for every row");

/* ---- a child ---- */

static _Noreturn void child(int report, pid_t parent, trial_fn fn, void *arg)
{
	struct err e = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	if (fn(arg, &e) == 0)
		e.code = ERR_NONE;
	(void)!write(report, &e, sizeof(e));
	_exit(0);
}

static int await_report(int fd, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct err told;
	ssize_t n;
	int ready;

	do
		ready = poll(&p, 1, PREFLIGHT_TRIAL_MS);
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		return err_set(e, ERR_TIMEOUT, "not done after %d ms", PREFLIGHT_TRIAL_MS);
	n = read(fd, &told, sizeof(told));
	if (n != (ssize_t)sizeof(told))
		return err_set(e, ERR_INTERNAL, "the child that tried it ended without a word");
	if (told.code == ERR_NONE)
		return 0;
	told.msg[sizeof(told.msg) - 1] = '\0';
	*e = told;
	return -1;
}

/* By fork(): where clone3() is refused, the other checks still tell the truth. */
int trial_in_child(trial_fn fn, void *arg, struct err *e)
{
	AUTO_FD rd = -1;
	AUTO_FD wr = -1;
	pid_t parent = getpid(), pid;
	int fds[2], rc;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	rd = fds[0];
	wr = fds[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "fork");
	if (pid == 0)
		child(wr, parent, fn, arg);
	(void)close(take_fd(&wr));
	rc = await_report(rd, e);
	(void)kill(pid, SIGKILL); /* not collected yet, so the number is its own */
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return rc;
}

/* ---- what helps the probes ---- */

void preflight_say(char *detail, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(detail, PREFLIGHT_DETAIL_MAX, fmt, ap); /* a long one is cut: it is for people */
	va_end(ap);
}

enum preflight_outcome preflight_tell(int rc, const struct err *e, char *detail)
{
	if (rc >= 0)
		return PREFLIGHT_OK;
	preflight_say(detail, "%s", e->msg);
	return PREFLIGHT_MISSING;
}

int preflight_read(const struct preflight_trial *t, const char *file, struct buf *b, struct err *e)
{
	if (fd_read_file(t->root, file, PREFLIGHT_FILE_MAX, b, e) < 0)
		return -1;
	while (b->n > 0 && b->p[b->n - 1] == '\n')
		b->p[--b->n] = '\0';
	return 0;
}

void preflight_existing(const char *path, char *out, size_t size)
{
	char *slash;

	(void)snprintf(out, size, "%s", path);
	while (access(out, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		slash = strrchr(out, '/');
		if (!slash)
			break;
		slash[slash == out] = '\0'; /* "/" stays */
		if (slash == out)
			break;
	}
}

/* ---- a run ---- */

static void run_one(const struct preflight_trial *t, const struct preflight_check *c, bool is_root,
		    struct preflight_finding *f)
{
	bool is_needed;

	*f = (struct preflight_finding){ .check = c };
	if (c->needs_root && !is_root) {
		f->outcome = PREFLIGHT_UNTRIED;
		return;
	}
	f->outcome = c->probe(t, c, f->detail);
	is_needed = c->is_needed && !(t->host->no_disk_limit && strcmp(c->group, DISK_LIMITS) == 0);
	if (f->outcome == PREFLIGHT_MISSING && !is_needed)
		f->outcome = PREFLIGHT_WARNING;
}

void preflight_run(const struct preflight_host *h, struct preflight_report *ret)
{
	const char *root = h->root ? h->root : "/", *state = h->state_dir ? h->state_dir : "/";
	char existing[PATH_MAX];
	struct preflight_trial t = { .host = h, .root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), .layers_at = existing };
	bool is_root = geteuid() == 0;

	preflight_existing(state, existing, sizeof(existing));
	t.has_layout = cgroup_layout_find(&(struct cgroup_find){ .root = h->root, .beside = BOX_UNIT_SUFFIX }, &t.layout, &t.layout_error) == 0;
	ret->n = 0;
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (!h->is_start || !checks[i].is_for_doctor)
			run_one(&t, &checks[i], is_root, &ret->at[ret->n++]);
	if (t.has_layout)
		cgroup_layout_done(&t.layout);
	closep(&t.root);
}

/* ---- reports ---- */

size_t preflight_count(const struct preflight_report *r, enum preflight_outcome outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->at[i].outcome == outcome;
	return n;
}

const char *preflight_outcome_name(enum preflight_outcome outcome)
{
	static const char *const names[] = {
		[PREFLIGHT_OK] = "ok", [PREFLIGHT_WARNING] = "warning", [PREFLIGHT_MISSING] = "missing",
		[PREFLIGHT_UNTRIED] = "untried",
	};

	return names[outcome];
}

int preflight_refuse(const struct preflight_report *r, struct buf *problems, struct err *e)
{
	AUTO(buf_done) struct buf names = BUF_INIT(sizeof(e->msg));

	for (size_t i = 0; i < r->n; i++) {
		const struct preflight_finding *f = &r->at[i];

		if (f->outcome != PREFLIGHT_MISSING)
			continue;
		buf_addf(&names, "%s%s", names.n > 0 ? ", " : "", f->check->name);
		buf_addf(problems, "%s: %s; %s; to do: %s\n", f->check->name, f->detail[0] ? f->detail : "not there", f->check->cost,
			 f->check->remedy);
	}
	return names.n == 0 ? 0 : err_set(e, ERR_UNAVAILABLE, "this host lacks what sandboxes need: %s", buf_z(&names));
}
