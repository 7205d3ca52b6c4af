// SPDX-License-Identifier: Apache-2.0
#include "box/confine.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "base/err.h"
#include "base/own.h"
#include "box/filter.h"
#include "sys/caps.h"

#include "base/banned.h"

/* The leak checker of test builds traces its own process when that ends. */
#ifdef __SANITIZE_ADDRESS__
#define IS_CHECKED_FOR_LEAKS true
#else
#define IS_CHECKED_FOR_LEAKS false
#endif

/* Of what a sandbox may do: starting programs, other processes, other ids, nodes, owners, new names of files. */
static const char *const always[] = {
	"execve", "execveat", "kill", "tkill", "process_vm_readv", "process_vm_writev", "process_mrelease",
	"pidfd_send_signal", "pidfd_open", "chroot", "mknod", "mknodat", "chown", "fchown", "lchown", "fchownat", "setuid",
	"setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups", "capset",
	"personality", "io_setup", "io_submit", "shmget", "semget", "msgget", "mq_open", "setxattr", "lsetxattr",
	"fsetxattr", "setxattrat", "name_to_handle_at", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat",
};

static void deny(struct seccomp_rule *rules, size_t n, const char *name)
{
	int nr = filter_number(FILTER_NATIVE, name);

	for (size_t i = 0; nr >= 0 && i < n; i++)
		if (rules[i].nr == (uint32_t)nr)
			rules[i] = (struct seccomp_rule){ .nr = (uint32_t)nr, .action = SECCOMP_FAIL(EPERM) };
}

static int load_filter(const char *const *denied, size_t n, struct err *e)
{
	static struct seccomp_program program; /* too large for the stack */
	struct seccomp_rule rules[FILTER_RULES_MAX];
	struct seccomp_policy policy = filter_policy(FILTER_NATIVE, rules);

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		deny(rules, policy.n_rules, always[i]);
	for (size_t i = 0; i < n; i++)
		deny(rules, policy.n_rules, denied[i]);
	if (!IS_CHECKED_FOR_LEAKS)
		deny(rules, policy.n_rules, "ptrace");
	return seccomp_compile(&policy, &program, e) < 0 ? -1 : seccomp_load(&program, e);
}

int confine_process(const char *const *denied, size_t n, struct err *e)
{
	if (caps_set(0, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "set no_new_privs");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "forbid cores");
	return load_filter(denied, n, e);
}

void confine_process_end(void)
{
	if (IS_CHECKED_FOR_LEAKS)
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}
