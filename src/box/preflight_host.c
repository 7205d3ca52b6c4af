// SPDX-License-Identifier: Apache-2.0
/* Probes of settings, limits, programs and devices of the host. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "box/network.h"
#include "box/preflight_impl.h"
#include "sys/fd.h"
#include "sys/link.h"
#include "sys/netlink.h"

#include "base/banned.h"

#define MODULES_MAX ((size_t)16 * 1024 * 1024) /* bytes of a list of modules */
#define FDS_FEWEST 1024                        /* without boxes the process that makes them has some 200 */
#define FDS_ADVISED 16384                      /* four for each box */
#define PIDS_FEWEST 8192                       /* one sandbox with the default limit, and a quarter for the host */
#define PIDS_ADVISED 65536

/* ---- settings ---- */

/* "proc/sys/kernel/x" is known to people as "kernel.x". */
static void setting_name(const char *file, char *out, size_t size)
{
	(void)snprintf(out, size, "%s", file + strlen("proc/sys/"));
	for (char *p = out; *p; p++)
		if (*p == '/')
			*p = '.';
}

/* The number in the file of SELF: 1, 0 when there is no such setting, -1. */
static int read_setting(const struct preflight_trial *t, const struct preflight_check *self, int64_t *ret, char *detail)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PREFLIGHT_FILE_MAX);
	struct err e = { 0 };
	char name[64];

	setting_name(self->file, name, sizeof(name));
	if (preflight_read(t, self->file, &b, &e) < 0) {
		preflight_say(detail, "%s", e.code == ERR_NOT_FOUND ? "" : e.msg);
		return e.code == ERR_NOT_FOUND ? 0 : -1;
	}
	if (!str_to_i64(buf_str(&b), INT64_MIN, INT64_MAX, ret)) {
		preflight_say(detail, "%s is '%s'", name, SHOWN(buf_str(&b)));
		return -1;
	}
	preflight_say(detail, "%s is %" PRIi64, name, *ret);
	return 1;
}

enum preflight_outcome probe_setting(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	int64_t value = 0;
	int r = read_setting(t, self, &value, detail);

	if (r == 0)
		preflight_say(detail, "%s", self->is_absence_bad ? "always on in this kernel" : "not in this kernel");
	if (r == 0)
		return self->is_absence_bad ? PREFLIGHT_MISSING : PREFLIGHT_OK;
	return r > 0 && value >= self->min && value <= self->max ? PREFLIGHT_OK : PREFLIGHT_MISSING;
}

/* Kernels before 6.6 have no setting for it. */
enum preflight_outcome probe_io_uring(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct preflight_check row = *self;

	row.is_absence_bad = syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno != ENOSYS && errno != EPERM;
	return probe_setting(t, &row, detail);
}

enum preflight_outcome probe_core_pattern(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PREFLIGHT_FILE_MAX);

	if (preflight_read(t, self->file, &b, &(struct err){ 0 }) < 0) { /* a kernel without cores */
		preflight_say(detail, "not in this kernel");
		return PREFLIGHT_OK;
	}
	preflight_say(detail, "kernel.core_pattern is '%s'", SHOWN(buf_str(&b)));
	return buf_z(&b)[0] == '|' ? PREFLIGHT_MISSING : PREFLIGHT_OK;
}

/* ---- limits ---- */

static enum preflight_outcome judge(uint64_t value, uint64_t fewest, uint64_t advised)
{
	if (value < fewest)
		return PREFLIGHT_MISSING;
	return value < advised ? PREFLIGHT_WARNING : PREFLIGHT_OK;
}

enum preflight_outcome probe_pid_max(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	int64_t value = 0;

	if (read_setting(t, self, &value, detail) <= 0)
		return PREFLIGHT_WARNING;
	return judge(value < 0 ? 0 : (uint64_t)value, PIDS_FEWEST, PIDS_ADVISED);
}

enum preflight_outcome probe_descriptors(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct rlimit l = { 0 };

	(void)t;
	(void)self;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return PREFLIGHT_WARNING;
	preflight_say(detail, "at most %llu in one process", (unsigned long long)l.rlim_max);
	return judge(l.rlim_max, FDS_FEWEST, FDS_ADVISED);
}

/* ---- host volumes ---- */

enum preflight_outcome probe_volumes(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PREFLIGHT_DETAIL_MAX);
	struct statvfs sv;

	(void)self;
	for (size_t i = 0; i < t->host->n_volumes; i++) {
		const char *path = t->host->volumes[i];

		if (statvfs(path, &sv) < 0)
			buf_addf(&b, "%s'%s': %s", b.n > 0 ? ", " : "", SHOWN(str_of(path)), strerror(errno));
		else if (!(sv.f_flag & ST_NOSUID))
			buf_addf(&b, "%s'%s' is not nosuid", b.n > 0 ? ", " : "", SHOWN(str_of(path)));
	}
	if (t->host->n_volumes == 0)
		preflight_say(detail, "none are allowed");
	else
		preflight_say(detail, "%s%s", buf_z(&b), b.failed ? ", ..." : "");
	return b.n > 0 ? PREFLIGHT_MISSING : PREFLIGHT_OK;
}

/* ---- disk limits ---- */

enum preflight_outcome probe_loop(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };
	AUTO_FD fd = openat(t->root, "dev/loop-control", O_RDWR | O_CLOEXEC | O_NOCTTY);

	(void)self;
	return preflight_tell(fd < 0 ? err_sys(&e, errno, "open '/dev/loop-control'") : 0, &e, detail);
}

static bool file_has(const struct preflight_trial *t, const char *file, struct str what)
{
	AUTO(buf_done) struct buf b = BUF_INIT(MODULES_MAX);

	return fd_read_file(t->root, file, MODULES_MAX, &b, &(struct err){ 0 }) == 0 && /* not there: has nothing */
	       b.n > 0 && memmem(b.p, b.n, what.p, what.n);
}

/* Not by trying: that would load the module, and leave it there. */
enum preflight_outcome probe_btrfs(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct utsname u = { 0 };
	char file[128];

	(void)self;
	if (file_has(t, "proc/filesystems", STR("\tbtrfs\n")))
		return PREFLIGHT_OK;
	(void)uname(&u);
	(void)snprintf(file, sizeof(file), "lib/modules/%s/modules.dep", u.release);
	if (file_has(t, file, STR("/btrfs.ko"))) {
		preflight_say(detail, "a module, not loaded yet");
		return PREFLIGHT_OK;
	}
	preflight_say(detail, "not in this kernel, and no module of it");
	return PREFLIGHT_MISSING;
}

/* ---- programs ---- */

static enum preflight_outcome find_program(const struct preflight_trial *t, const char *name, char *detail)
{
	static const char *const places[] = { "usr/sbin", "usr/bin", "sbin", "bin", "usr/local/sbin", "usr/local/bin" };
	char path[64];

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", places[i], name);
		if (faccessat(t->root, path, X_OK, AT_EACCESS) < 0)
			continue;
		preflight_say(detail, "/%s", path);
		return PREFLIGHT_OK;
	}
	preflight_say(detail, "no program of this name");
	return PREFLIGHT_MISSING;
}

enum preflight_outcome probe_mkfs(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	return find_program(t, self->name, detail);
}

enum preflight_outcome probe_nft(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	return find_program(t, self->name, detail);
}

/* ---- networks, tried in one that ends with the child ---- */

static int try_veth(void *arg, struct err *e)
{
	const struct link_end a = { .name = "trial0", .netns = -1 }, b = { .name = "trial1", .netns = -1 };
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;

	(void)arg;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, errno, "make a network namespace");
	return netlink_open(&nl, NETLINK_ROUTE, -1, e) < 0 ? -1 : link_make_veth(&nl, &a, &b, 0, e);
}

enum preflight_outcome probe_veth(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_veth, NULL, &e), &e, detail);
}

/* All of them, where they bother nobody. */
static int try_network(void *arg, struct err *e)
{
	(void)arg;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, errno, "make a network namespace");
	return box_network_try(e);
}

enum preflight_outcome probe_network(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_network, NULL, &e), &e, detail);
}

/* Asks for the number of changes so far, which every nf_tables answers. */
static int try_nftables(void *arg, struct err *e)
{
	const struct nfgenmsg head = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0 };
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	struct netlink_msg m;

	(void)arg;
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, errno, "make a network namespace");
	if (netlink_open(&nl, NETLINK_NETFILTER, -1, e) < 0)
		return -1;
	netlink_msg_init(&m);
	netlink_begin(&m, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN, NLM_F_ACK, &head, sizeof(head));
	return netlink_ask(&nl, &m, NULL, NULL, e);
}

enum preflight_outcome probe_nftables(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_nftables, NULL, &e), &e, detail);
}
