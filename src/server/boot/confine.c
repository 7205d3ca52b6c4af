// SPDX-License-Identifier: Apache-2.0
#include "server/boot/confine.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/filter.h"
#include "sys/caps.h"

#include "base/banned.h"

/* The leak checker of test builds traces its own process when that ends. */
#ifdef __SANITIZE_ADDRESS__
#define IS_CHECKED_FOR_LEAKS 1
#else
#define IS_CHECKED_FOR_LEAKS 0
#endif

static const char *const denied[] = {
	"execve", "execveat", "process_vm_readv", "process_vm_writev", "process_mrelease", "pidfd_send_signal", "chroot", "mknod",
	"mknodat", "chown", "fchown", "lchown", "fchownat", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
	"setfsuid", "setfsgid", "setgroups", "capset", "personality", "io_setup", "io_submit", "shmget", "semget", "msgget",
	"mq_open", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "name_to_handle_at",
	"ptrace", /* the last one: left out where IS_CHECKED_FOR_LEAKS */
};

static int deny(struct seccomp_rule *rules, size_t n, const char *name, struct err *e)
{
	int nr = filter_number(FILTER_NATIVE, name);

	for (size_t i = 0; nr >= 0 && i < n; i++) {
		if (rules[i].nr != (uint32_t)nr)
			continue;
		rules[i] = (struct seccomp_rule){ .nr = (uint32_t)nr, .action = SECCOMP_FAIL(EPERM) };
		return 0;
	}
	return nr < 0 ? 0 : err_set(e, ERR_INTERNAL, "the filter of sandboxes has no call '%s'", name);
}

int confine_compile(struct seccomp_program *ret, struct err *e)
{
	struct seccomp_rule rules[FILTER_RULES_MAX];
	struct seccomp_policy policy = filter_policy(FILTER_NATIVE, rules);

	for (size_t i = 0; i < ARRAY_LEN(denied) - IS_CHECKED_FOR_LEAKS; i++)
		if (deny(rules, policy.n_rules, denied[i], e) < 0)
			return -1;
	return seccomp_compile(&policy, ret, e);
}

static int become(uid_t uid, gid_t gid, struct err *e)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_sys(e, errno, "become user %u", uid);
	return 0;
}

void confine_end(void)
{
	if (IS_CHECKED_FOR_LEAKS)
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

int confine_server(uid_t uid, gid_t gid, struct err *e)
{
	static struct seccomp_program program; /* too large for the stack */

	if (confine_compile(&program, e) < 0 || caps_bound(0, e) < 0 || become(uid, gid, e) < 0 || caps_set(0, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "forbid cores");
	return seccomp_load(&program, e);
}
