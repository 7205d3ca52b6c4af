// SPDX-License-Identifier: Apache-2.0
#include "unpack/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "image/entry.h"
#include "image/tar.h"
#include "image/unpack.h"
#include "sys/caps.h"
#include "sys/limits.h"
#include "sys/mounts.h"
#include "sys/namespace.h"

#include "base/banned.h"

/* CHOWN DAC_OVERRIDE FOWNER FSETID, and until they are set SETGID SETUID SETPCAP */
#define CAPS 0x1bULL
#define CAPS_READ 0x4ULL /* DAC_READ_SEARCH */
#define MEMORY_MAX ((rlim_t)1 << 30) /* of addresses: a zstd window of 128 MiB, and what the libraries map */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define HAS_X32 true
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define HAS_X32 false
#endif

/* AddressSanitizer maps terabytes. */
#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

static const struct limit rlimits[] = {
	{ RLIMIT_NOFILE, 64, true },           { RLIMIT_NPROC, 0, true },          { RLIMIT_CORE, 1, true },
	{ RLIMIT_FSIZE, TAR_BYTES_MAX, true }, { RLIMIT_CPU, UNPACK_SECONDS_MAX, true }, { RLIMIT_MEMLOCK, 0, true },
#ifndef IS_SANITIZED
	{ RLIMIT_AS, MEMORY_MAX, true },
#endif
};

#define READ_FILES (ENTRY_DEPTH_MAX * 2 + 32) /* two of each directory on the way */

/* ---- system calls ---- */

static const uint32_t common[] = {
	/* The tar and the report, and directories that are handed out. */
	__NR_read, __NR_write, __NR_lseek, __NR_close, __NR_fcntl, __NR_sendmsg, __NR_pwrite64, __NR_ftruncate,
	__NR_openat2, __NR_fstat, __NR_newfstatat, __NR_statx,
	/* Memory, time and the end. */
	__NR_brk, __NR_munmap, __NR_mremap, __NR_madvise, __NR_futex, __NR_getrandom, __NR_clock_gettime, __NR_gettimeofday,
	__NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack, __NR_getpid, __NR_gettid, __NR_tgkill,
	__NR_sched_yield, __NR_exit, __NR_exit_group, __NR_restart_syscall,
};
static const uint32_t making[] = {
	__NR_mkdirat, __NR_symlinkat, __NR_linkat, __NR_unlinkat, __NR_fchown, __NR_fchownat, __NR_fchmod, __NR_fchmodat,
	__NR_utimensat, __NR_fsetxattr,
};
static const uint32_t reading[] = { __NR_getdents64, __NR_readlinkat, __NR_flistxattr, __NR_fgetxattr };

/* FIFOs, and the whiteouts of an overlay, which are no devices: the mode is of type umode_t, so its low half decides. */
static const struct seccomp_case no_devices[] = {
	{ { { SECCOMP_NONE_OF, .arg = 2, .mask = S_IFMT, .n = 2, .values = { S_IFIFO, S_IFCHR } } }, SECCOMP_FAIL(EPERM) },
	{ { { SECCOMP_ONE_OF, .arg = 2, .mask = S_IFMT, .n = 1, .values = { S_IFCHR } },
	    { SECCOMP_NONE_OF, .arg = 3, .mask = SECCOMP_INT, .n = 1, .values = { 0 } } },
	  SECCOMP_FAIL(EPERM) },
};
/* Nothing becomes a program any more. */
static const struct seccomp_case no_code[] = {
	{ { { SECCOMP_ONE_OF, .arg = 2, .mask = PROT_EXEC, .n = 1, .values = { PROT_EXEC } } }, SECCOMP_FAIL(EPERM) },
};

static size_t allow(struct seccomp_rule *rules, const uint32_t *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rules[i] = (struct seccomp_rule){ .nr = calls[i], .action = SECCOMP_RET_ALLOW };
	return n;
}

struct seccomp_policy confine_policy(bool reads, struct seccomp_rule rules[CONFINE_RULES_MAX])
{
	size_t n = allow(rules, common, ARRAY_LEN(common));

	_Static_assert(ARRAY_LEN(common) + ARRAY_LEN(making) + 3 <= CONFINE_RULES_MAX, "the rules have room");
	_Static_assert(ARRAY_LEN(common) + ARRAY_LEN(reading) + 3 <= CONFINE_RULES_MAX, "the rules have room");
	n += reads ? allow(rules + n, reading, ARRAY_LEN(reading)) : allow(rules + n, making, ARRAY_LEN(making));
	if (!reads)
		rules[n++] = (struct seccomp_rule){ __NR_mknodat, SECCOMP_RET_ALLOW, no_devices, ARRAY_LEN(no_devices) };
	rules[n++] = (struct seccomp_rule){ __NR_mmap, SECCOMP_RET_ALLOW, no_code, ARRAY_LEN(no_code) };
	rules[n++] = (struct seccomp_rule){ __NR_mprotect, SECCOMP_RET_ALLOW, no_code, ARRAY_LEN(no_code) };
	return (struct seccomp_policy){ .arch = ARCH, .has_x32 = HAS_X32, .foreign = SECCOMP_RET_KILL_PROCESS,
					.unknown = SECCOMP_FAIL(EPERM), .rules = rules, .n_rules = n };
}

static int load_filter(bool reads, struct err *e)
{
	static struct seccomp_program program; /* too large for the stack; used once */
	struct seccomp_rule rules[CONFINE_RULES_MAX];
	const struct seccomp_policy policy = confine_policy(reads, rules);

	return seccomp_compile(&policy, &program, e) < 0 ? -1 : seccomp_load(&program, e);
}

/* ---- the rest ---- */

/* The target is cloned while its mount namespace is still ours, and has its place in the new one: on /proc, a directory
 * that is always there and out of sight a moment later. */
static int enter_target(const struct confine_spec *spec, struct err *e)
{
	AUTO_FD mount = mount_clone(spec->target, "", false, e);
	AUTO_FD place = -1;

	if (mount < 0 || mount_idmap(mount, spec->map < 0 ? spec->userns : spec->map, false, e) < 0 ||
	    mount_restrict(mount, MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC | (spec->reads ? MOUNT_RO : 0), false, e) < 0)
		return -1;
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
		return err_sys(e, errno, "make namespaces");
	if (mount_private_all(e) < 0)
		return -1;
	place = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return err_sys(e, errno, "open '/proc'");
	if (mount_move(mount, place, e) < 0 || mount_pivot(mount, e) < 0)
		return -1;
	return take_fd(&mount);
}

/* A change of ids takes the signal back that our starter asked for: when it has ended meanwhile, so do we. */
static int become_nobody(int userns, uint64_t caps, struct err *e)
{
	pid_t starter = getppid();

	if (namespace_enter(userns, NAMESPACE_USER, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, errno, "become another user");
	if (caps_limit(caps, e) < 0)
		return -1;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	return getppid() != starter ? err_set(e, ERR_UNAVAILABLE, "who started this has ended") : 0;
}

static int apply_limits(bool reads, struct err *e)
{
	struct limit own[ARRAY_LEN(rlimits)];

	memcpy(own, rlimits, sizeof(own));
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (own[i].resource == RLIMIT_NOFILE && reads)
			own[i].value = READ_FILES;
	return limits_apply(own, ARRAY_LEN(own), e);
}

int confine(const struct confine_spec *spec, struct err *e)
{
	AUTO_FD root = -1;

	(void)umask(0);
	root = enter_target(spec, e);
	if (root < 0 || become_nobody(spec->userns, spec->reads ? CAPS_READ : CAPS, e) < 0)
		return -1;
	if (close(spec->target) < 0 || close(spec->userns) < 0 || (spec->map >= 0 && close(spec->map) < 0))
		return err_sys(e, errno, "close descriptors");
	if (apply_limits(spec->reads, e) < 0 || load_filter(spec->reads, e) < 0)
		return -1;
	return take_fd(&root);
}
