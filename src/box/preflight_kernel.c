// SPDX-License-Identifier: Apache-2.0
/* Probes of system calls. What cannot be taken back (a filter, a namespace) happens in a child. */
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "box/filter.h"
#include "box/preflight_impl.h"
#include "box/slot.h"
#include "sys/caps.h"
#include "sys/keyring.h"
#include "sys/landlock.h"
#include "sys/memfd.h"
#include "sys/namespace.h"
#include "sys/path.h"
#include "sys/process.h"
#include "sys/userns.h"

#include "base/banned.h"

/* ---- rights ---- */

/* Found by taking each away: without one of these no box is made, or (KILL, SYS_PTRACE) it cannot be ended on v1 or
 * taken up again. */
static const struct {
	unsigned number;
	const char *name;
} caps_needed[] = {
	{ CAP_CHOWN, "CHOWN" },         { CAP_DAC_OVERRIDE, "DAC_OVERRIDE" }, { CAP_FOWNER, "FOWNER" },
	{ CAP_KILL, "KILL" },           { CAP_SETGID, "SETGID" },             { CAP_SETUID, "SETUID" },
	{ CAP_NET_ADMIN, "NET_ADMIN" }, { CAP_SYS_PTRACE, "SYS_PTRACE" },     { CAP_SYS_ADMIN, "SYS_ADMIN" },
	{ CAP_MKNOD, "MKNOD" },
};

enum preflight_outcome probe_root(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	AUTO(buf_done) struct buf lacking = BUF_INIT(PREFLIGHT_DETAIL_MAX);
	struct err e = { 0 };
	struct caps caps;

	(void)t;
	(void)self;
	if (geteuid() != 0) {
		preflight_say(detail, "not root now");
		return PREFLIGHT_UNTRIED;
	}
	if (caps_read(0, &caps, &e) < 0)
		return preflight_tell(-1, &e, detail);
	for (size_t i = 0; i < ARRAY_LEN(caps_needed); i++)
		if (!(caps.effective >> caps_needed[i].number & 1))
			buf_addf(&lacking, " %s", caps_needed[i].name);
	if (lacking.n == 0)
		return PREFLIGHT_OK;
	preflight_say(detail, "root without%s", buf_z(&lacking));
	return PREFLIGHT_MISSING;
}

/* ---- files and processes ---- */

enum preflight_outcome probe_openat2(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };
	AUTO_FD fd = root_open(t->root, ".", O_PATH | O_DIRECTORY, 0, &e);

	(void)self;
	return preflight_tell(fd, &e, detail);
}

/* From a number on that is nobody's. */
enum preflight_outcome probe_close_range(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };
	long rc = syscall(SYS_close_range, ~0U, ~0U, 0);

	(void)t;
	(void)self;
	return preflight_tell(rc < 0 ? err_sys(&e, errno, "close_range") : 0, &e, detail);
}

static int try_clone3(struct err *e)
{
	struct process_end end;
	AUTO_FD pidfd = -1;
	pid_t pid = namespace_clone(0, -1, &pidfd, e);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return -1;
	return process_wait(pidfd, PREFLIGHT_TRIAL_MS, &end, e) < 0 ? err_wrap(e, "collect by pidfd") : 0;
}

enum preflight_outcome probe_clone3(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(try_clone3(&e), &e, detail);
}

enum preflight_outcome probe_pidfd_open(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };
	AUTO_FD fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int rc = fd < 0 ? err_sys(&e, errno, "pidfd_open") : 0;

	(void)t;
	(void)self;
	if (rc == 0 && syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		rc = err_sys(&e, errno, "pidfd_send_signal");
	return preflight_tell(rc, &e, detail);
}

/* ---- namespaces ---- */

/* One after the other, so that all that fail are named. The user namespace is a check of its own. */
static int try_namespaces(void *arg, struct err *e)
{
	static const struct {
		int flag;
		const char *name;
	} kinds[] = {
		{ CLONE_NEWNS, "mount" }, { CLONE_NEWPID, "pid" }, { CLONE_NEWNET, "net" },
		{ CLONE_NEWIPC, "ipc" },  { CLONE_NEWUTS, "uts" }, { CLONE_NEWCGROUP, "cgroup" },
	};
	AUTO(buf_done) struct buf lacking = BUF_INIT(PREFLIGHT_DETAIL_MAX);
	int sys = 0;

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (unshare(kinds[i].flag) == 0)
			continue;
		sys = errno;
		buf_addf(&lacking, "%s%s", lacking.n > 0 ? ", " : "", kinds[i].name);
	}
	return sys == 0 ? 0 : err_sys(e, sys, "%s", buf_z(&lacking));
}

enum preflight_outcome probe_namespaces(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_namespaces, NULL, &e), &e, detail);
}

/* With the last range: no box has it before all others are taken. */
enum preflight_outcome probe_userns(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };
	AUTO_FD fd = userns_make(-1, SLOT_ID_BASE + (uint64_t)(SLOT_NUMBER_MAX - 1) * USERNS_IDS, &e);

	(void)t;
	(void)self;
	return preflight_tell(fd, &e, detail);
}

/* ---- what PID 1 of a box goes through ---- */

static int try_seccomp(void *arg, struct err *e)
{
	struct seccomp_program program;

	(void)arg;
	if (filter_compile(FILTER_NATIVE, &program, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	if (seccomp_load(&program, e) < 0)
		return -1;
	if (unshare(CLONE_NEWUTS) == 0 || errno != EPERM) /* which not even root may, now */
		return err_set(e, ERR_UNAVAILABLE, "a filter that was loaded denies nothing");
	return 0;
}

enum preflight_outcome probe_seccomp(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_seccomp, NULL, &e), &e, detail);
}

/* The program is no program, which is found out last: the kernel would have run it. */
static int try_memfd(void *arg, struct err *e)
{
	static const char *const none[] = { NULL };
	AUTO_FD bytes = memfd_sealed_bytes("trial", STR("no program"), e);
	AUTO_FD fd = bytes < 0 ? -1 : memfd_sealed_copy(bytes, "trial", geteuid(), e);
	struct err why = { 0 };

	(void)arg;
	if (fd < 0)
		return -1;
	(void)memfd_exec(fd, (char *const *)(uintptr_t)none, (char *const *)(uintptr_t)none, &why);
	if (why.sys == ENOEXEC)
		return 0;
	*e = why;
	return -1;
}

enum preflight_outcome probe_memfd(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_memfd, NULL, &e), &e, detail);
}

static int try_keyring(void *arg, struct err *e)
{
	(void)arg;
	return keyring_join_fresh(e);
}

enum preflight_outcome probe_keyring(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_keyring, NULL, &e), &e, detail);
}

/* ---- what our own programs give up ---- */

static int try_landlock(void *arg, struct err *e)
{
	int r;

	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	r = landlock_confine(NULL, 0, e);
	if (r <= 0)
		return r < 0 ? -1 : err_set(e, ERR_UNAVAILABLE, "not in this kernel, or turned off");
	if (open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 || errno != EACCES)
		return err_set(e, ERR_UNAVAILABLE, "a ruleset that was loaded denies nothing");
	return 0;
}

enum preflight_outcome probe_landlock(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	struct err e = { 0 };

	(void)t;
	(void)self;
	return preflight_tell(trial_in_child(try_landlock, NULL, &e), &e, detail);
}
