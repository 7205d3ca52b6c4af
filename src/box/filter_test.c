// SPDX-License-Identifier: Apache-2.0
/* The program starts itself, under the filter, with a word that says what to be; see main(). */
#include "box/filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"
#include "sys/process.h"
#include "sys/refuse_test.h"
#include "sys/seccomp_sim.h"

#include "base/banned.h"

#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define UPPER 0xffffffff00000000 /* bits that the kernel throws away when it takes an int */

static const uint32_t audit_archs[] = {
	[FILTER_X86_64] = AUDIT_ARCH_X86_64,
	[FILTER_AARCH64] = AUDIT_ARCH_AARCH64,
};
#define EACH_ARCH(a) (enum filter_arch a = FILTER_X86_64; a <= FILTER_AARCH64; a++)

/* Both programs, and how often each of their instructions was executed by any test so far. */
struct fixture {
	struct seccomp_program programs[2];
	unsigned counts[2][BPF_MAXINSNS];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	if (!f)
		return -1;
	*state = f;
	for EACH_ARCH (a)
		if (filter_compile(a, &f->programs[a], &e) < 0)
			return -1;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static uint32_t ask(struct fixture *f, enum filter_arch a, struct seccomp_data d)
{
	struct err e = { 0 };
	uint32_t action = 0;

	if (seccomp_simulate(&f->programs[a], &d, f->counts[a], &action, &e) < 0)
		fail_msg("%s", e.msg);
	return action;
}

static struct seccomp_data bare(uint32_t nr, uint32_t arch)
{
	return (struct seccomp_data){ .nr = (int)nr, .arch = arch };
}

struct call {
	const char *name;
	uint64_t args[6];
	uint32_t want;
};

static void check_call(struct fixture *f, enum filter_arch a, const struct call *c)
{
	int nr = filter_number(a, c->name);
	struct seccomp_data d = { .nr = nr, .arch = audit_archs[a] };
	uint32_t got;

	assert_true(nr >= 0);
	memcpy(d.args, c->args, sizeof(d.args));
	got = ask(f, a, d);
	if (got != c->want)
		fail_msg("%s(%#llx, %#llx, %#llx): %#x, not %#x", c->name, (unsigned long long)c->args[0],
			 (unsigned long long)c->args[1], (unsigned long long)c->args[2], got, c->want);
}

static void check_calls(struct fixture *f, const struct call *calls, size_t n)
{
	for EACH_ARCH (a)
		for (size_t i = 0; i < n; i++)
			check_call(f, a, &calls[i]);
}

/* ---- the table --------------------------------------------------------------------------------------------- */

/* F2, and what it stands for. */
static const char *const never[] = {
	"io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf", "perf_event_open",
	"keyctl", "add_key", "request_key", "mount", "umount2", "pivot_root", "open_tree", "open_tree_attr",
	"move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "unshare",
	"swapon", "swapoff", "reboot", "kexec_load", "kexec_file_load", "create_module", "init_module",
	"finit_module", "delete_module", "query_module", "acct", "quotactl", "quotactl_fd", "settimeofday",
	"clock_settime", "iopl", "ioperm", "modify_ldt", "open_by_handle_at", "lookup_dcookie",
	"fanotify_init", "syslog", "vhangup", "sethostname", "setdomainname", "kcmp", "pidfd_getfd",
	"process_madvise", "mbind", "migrate_pages", "move_pages", "set_mempolicy",
	"set_mempolicy_home_node", "lsm_get_self_attr", "lsm_set_self_attr", "ustat", "sysfs", "uselib",
	"_sysctl", "nfsservctl",
};

static const char *const only_x86_64[] = { "create_module", "query_module", "iopl", "ioperm", "modify_ldt", "ustat",
					   "sysfs", "uselib", "_sysctl" };

static bool is_in(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static void what_is_never_reachable_fails_with_eperm(void **state)
{
	for EACH_ARCH (a) {
		for (size_t i = 0; i < ARRAY_LEN(never); i++) {
			struct call c = { never[i], { 0 }, SECCOMP_FAIL(EPERM) };

			if (a == FILTER_AARCH64 && is_in(only_x86_64, ARRAY_LEN(only_x86_64), never[i])) {
				assert_int_equal(filter_number(a, never[i]), -1);
				continue;
			}
			check_call(*state, a, &c);
			memset(c.args, 0xff, sizeof(c.args));
			check_call(*state, a, &c);
		}
	}
}

static void what_programs_can_do_without_is_not_there(void **state)
{
	static const struct call calls[] = {
		{ "clone3", { 0 }, SECCOMP_FAIL(ENOSYS) },
		{ "clone3", { UINT64_MAX, 88 }, SECCOMP_FAIL(ENOSYS) },
		{ "statmount", { 0 }, SECCOMP_FAIL(ENOSYS) },
		{ "listmount", { 0 }, SECCOMP_FAIL(ENOSYS) },
		{ "io_setup", { 1, 0x1000 }, SECCOMP_FAIL(ENOSYS) },
		{ "io_submit", { 0 }, SECCOMP_FAIL(ENOSYS) },
		{ "sync", { 0 }, SECCOMP_FAIL(0) }, /* says so, and spares the neighbours */
		{ "syncfs", { 3 }, SECCOMP_FAIL(0) },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
	for EACH_ARCH (a) {
		assert_int_equal(filter_number(a, "no_such_call"), -1);
		for (uint32_t nr = 470; nr < 1024; nr++)
			assert_int_equal(ask(*state, a, bare(nr, audit_archs[a])), SECCOMP_FAIL(ENOSYS));
	}
}

static void what_ordinary_programs_need_is_there(void **state)
{
	static const char *const names[] = {
		"read", "write", "openat", "openat2", "close", "close_range", "fstat", "newfstatat", "statx",
		"lseek", "mmap", "mprotect", "munmap", "brk", "madvise", "mremap", "mlock", "memfd_create",
		"membarrier", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
		"ioctl", "fcntl", "flock", "pipe2", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait",
		"epoll_pwait2", "eventfd2", "signalfd4", "timerfd_create", "inotify_init1",
		"inotify_add_watch", "ppoll", "pselect6", "clone", "execve", "execveat", "exit",
		"exit_group", "wait4", "waitid", "kill", "tgkill", "ptrace", "process_vm_readv",
		"process_vm_writev", "pidfd_open", "pidfd_send_signal", "futex", "futex_waitv",
		"set_robust_list", "set_tid_address", "sched_yield", "sched_getaffinity",
		"sched_setaffinity", "setpriority", "nanosleep", "clock_nanosleep", "clock_gettime",
		"timer_create", "setitimer", "getrandom", "prctl", "getuid", "setuid", "setresuid",
		"setgroups", "capget", "capset", "chroot", "mknodat", "fchownat", "fchmodat", "fchmodat2",
		"renameat2", "linkat", "symlinkat", "unlinkat", "utimensat", "faccessat2", "getdents64",
		"getcwd", "fallocate", "fsync", "copy_file_range", "sendfile", "splice", "setxattr",
		"getxattr", "name_to_handle_at", "shmget", "semop", "msgget", "mq_open", "get_mempolicy", "seccomp", "landlock_create_ruleset", "connect", "accept4",
		"bind", "listen", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "getsockopt", "shutdown",
		"umask", "uname", "sysinfo", "getrusage", "getrlimit", "restart_syscall", "mseal",
		"map_shadow_stack",
};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		check_calls(*state, &(struct call){ names[i], { 0 }, ALLOW }, 1);
}

/* L1 */
static void huge_pages_are_the_hosts(void **state)
{
	static const struct call calls[] = {
		{ "mmap", { 0, 4096, 3, 0x22, UINT64_MAX, 0 }, ALLOW },
		{ "mmap", { 0, 1 << 21, 3, 0x40022, UINT64_MAX, 0 }, SECCOMP_FAIL(ENOMEM) },
		{ "mmap", { 0, 1 << 21, 3, UPPER | 0x40022, UINT64_MAX, 0 }, SECCOMP_FAIL(ENOMEM) },
		{ "mmap", { 0, 1 << 30, 3, (30u << 26) | 0x40022, UINT64_MAX, 0 }, SECCOMP_FAIL(ENOMEM) },
		{ "memfd_create", { 0x1000, 3 }, ALLOW },
		{ "memfd_create", { 0x1000, 5 }, SECCOMP_FAIL(EINVAL) },
		{ "memfd_create", { 0x1000, UPPER | 4 }, SECCOMP_FAIL(EINVAL) },
		{ "shmget", { 1, 4096, 01600 }, ALLOW },
		{ "shmget", { 1, 4096, UPPER | 05600 }, SECCOMP_FAIL(EPERM) },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
}

static void at_most_300_calls_are_allowed(void **state)
{
	struct fixture *f = *state;

	for EACH_ARCH (a) {
		struct seccomp_rule rules[FILTER_RULES_MAX];
		struct seccomp_policy policy = filter_policy(a, rules);
		unsigned n = 0;

		for (size_t i = 0; i < policy.n_rules; i++)
			n += rules[i].action == ALLOW;
		assert_in_range(n, 250, 300);
		print_message("%s: %u allowed, %zu instructions\n", a == FILTER_X86_64 ? "x86_64" : "aarch64", n,
			      f->programs[a].n);
	}
}

/* What the system's headers say, where there are some: "#define __NR_name 12". The generic ones are aarch64's. */
static unsigned check_header(const char *path, const char *prefix, enum filter_arch a)
{
	static const char *const gone[] = {
		"get_kernel_syms", "getpmsg", "putpmsg", "afs_syscall", "tuxcall", "security", "set_thread_area",
		"get_thread_area", "epoll_ctl_old", "epoll_wait_old", "vserver", "sync_file_range2",
		"arch_specific_syscall", "syscalls",
	};
	AUTO(buf_done) struct buf b = BUF_INIT(256 * 1024);
	struct err e = { 0 };
	struct str rest, line, word;
	unsigned checked = 0;

	if (fd_read_file(AT_FDCWD, path, 256 * 1024, &b, &e) < 0)
		return 0;
	for (rest = buf_str(&b); str_cut(rest, '\n', &line, &rest);) {
		char name[64];
		uint64_t nr;

		if (!str_take_word(&line, &word, 8) || !str_is(word, "#define") ||
		    !str_take_word(&line, &word, 60) || !str_starts(word, str_of(prefix)) ||
		    !str_to_u64(str_trim(line), 0, 1023, &nr))
			continue;
		word = str_skip(word, strlen(prefix));
		(void)snprintf(name, sizeof(name), "%.*s", STR_ARG(word));
		if ((nr >= 403 && nr < 424) || is_in(gone, ARRAY_LEN(gone), name))
			continue; /* of 32-bit systems; not implemented */
		if (filter_number(a, strcmp(name, "fstatat") ? name : "newfstatat") != (int)nr && nr <= 471)
			fail_msg("%s: '%s' is %d, not %u", path, name, filter_number(a, name), (unsigned)nr);
		checked++;
	}
	return checked;
}

static void numbers_are_those_of_the_headers(void **state)
{
	static const struct {
		const char *name;
		int nr;
	} newer[] = {
		{ "futex_waitv", 449 }, { "set_mempolicy_home_node", 450 }, { "cachestat", 451 },
		{ "fchmodat2", 452 }, { "map_shadow_stack", 453 }, { "futex_wake", 454 }, { "futex_wait", 455 },
		{ "futex_requeue", 456 }, { "statmount", 457 }, { "listmount", 458 }, { "lsm_get_self_attr", 459 },
		{ "lsm_set_self_attr", 460 }, { "lsm_list_modules", 461 }, { "mseal", 462 }, { "setxattrat", 463 },
		{ "getxattrat", 464 }, { "listxattrat", 465 }, { "removexattrat", 466 }, { "open_tree_attr", 467 },
		{ "file_getattr", 468 }, { "file_setattr", 469 },
	};
	unsigned checked = 0;

	(void)state;
	for EACH_ARCH (a)
		for (size_t i = 0; i < ARRAY_LEN(newer); i++)
			assert_int_equal(filter_number(a, newer[i].name), newer[i].nr);
	checked += check_header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "__NR_", FILTER_X86_64);
	checked += check_header("/usr/include/asm/unistd_64.h", "__NR_", FILTER_X86_64);
	checked += check_header("/usr/include/asm-generic/unistd.h", "__NR_", FILTER_AARCH64);
	checked += check_header("/usr/include/asm-generic/unistd.h", "__NR3264_", FILTER_AARCH64);
	if (checked == 0)
		skip();
	assert_true(checked > 250);
}

/* ---- ABIs and arguments ------------------------------------------------------------------------------------ */

static void a_foreign_abi_is_the_end(void **state)
{
	static const uint32_t foreign[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_ARMEB, AUDIT_ARCH_RISCV64,
					    0, UINT32_MAX };

	for (uint32_t nr = 0; nr < 1024; nr++) {
		uint32_t x32 = nr | SECCOMP_X32_BIT;

		for EACH_ARCH (a) {
			for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
				assert_int_equal(ask(*state, a, bare(nr, foreign[i])), KILL);
			assert_int_equal(ask(*state, a, bare(nr, audit_archs[!a])), KILL);
		}
		assert_int_equal(ask(*state, FILTER_X86_64, bare(x32, AUDIT_ARCH_X86_64)), KILL);
		if (nr < 1023) /* all bits set: see below */
			assert_int_equal(ask(*state, FILTER_X86_64, bare(0xfffffc00 | nr, AUDIT_ARCH_X86_64)), KILL);
	}
	/* A debugger's way to have a call skipped. */
	for EACH_ARCH (a)
		assert_int_equal(ask(*state, a, bare(UINT32_MAX, audit_archs[a])), SECCOMP_FAIL(ENOSYS));
}

static void clone_makes_no_namespaces(void **state)
{
	static const struct call calls[] = {
		{ "clone", { SIGCHLD }, ALLOW },
		{ "clone", { 0x3d0f00 }, ALLOW },  /* a thread of glibc */
		{ "clone", { 0x4111 }, ALLOW },    /* posix_spawn */
		{ "clone", { 0x81fdffff }, ALLOW }, /* everything else that there is */
		{ "clone", { UPPER | SIGCHLD }, ALLOW },
		{ "clone", { UPPER | 0x10000000 }, SECCOMP_FAIL(EPERM) },
		{ "clone", { UINT64_MAX }, SECCOMP_FAIL(EPERM) },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
	for (unsigned bit = 0; bit < 32; bit++)
		check_calls(*state, &(struct call){ "clone", { 1u << bit | SIGCHLD },
						    0x7e020000u >> bit & 1 ? SECCOMP_FAIL(EPERM) : ALLOW }, 1);
}

static void sockets_are_of_the_four_families(void **state)
{
	for (uint64_t family = 0; family < 64; family++) {
		bool ok = family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
		struct call c = { "socket", { family, SOCK_DGRAM | SOCK_CLOEXEC }, ALLOW };

		if (!ok)
			c.want = SECCOMP_FAIL(EAFNOSUPPORT);
		check_calls(*state, &c, 1);
		c.args[0] |= UPPER;
		check_calls(*state, &c, 1);
		c.args[0] |= 0x80000000; /* a negative family is none */
		c.want = SECCOMP_FAIL(EAFNOSUPPORT);
		check_calls(*state, &c, 1);
	}
}

static void vsock_and_alg_are_closed(void **state)
{
	static const struct call calls[] = {
		{ "socket", { AF_VSOCK, SOCK_STREAM }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socket", { UPPER | AF_VSOCK, SOCK_DGRAM }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socket", { AF_ALG, SOCK_SEQPACKET }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socket", { UPPER | AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socket", { AF_PACKET, SOCK_RAW, 0x300 }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socketpair", { AF_VSOCK, SOCK_STREAM }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socketpair", { AF_ALG, SOCK_SEQPACKET }, SECCOMP_FAIL(EAFNOSUPPORT) },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
}

static void types_and_protocols_of_sockets_are_the_plain_ones(void **state)
{
	static const struct call calls[] = {
		{ "socket", { AF_UNIX, SOCK_STREAM }, ALLOW },
		{ "socket", { AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 1 }, ALLOW },
		{ "socket", { AF_UNIX, SOCK_RAW }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_UNIX, UPPER | SOCK_RAW | SOCK_CLOEXEC }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_INET, SOCK_STREAM }, ALLOW },
		{ "socket", { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP }, ALLOW },
		{ "socket", { AF_INET6, SOCK_DGRAM, IPPROTO_UDP }, ALLOW },
		{ "socket", { AF_INET, SOCK_DGRAM, IPPROTO_ICMP }, ALLOW },
		{ "socket", { AF_INET6, SOCK_DGRAM, UPPER | IPPROTO_ICMPV6 }, ALLOW },
		{ "socket", { AF_INET, SOCK_STREAM, IPPROTO_SCTP }, SECCOMP_FAIL(EPROTONOSUPPORT) },
		{ "socket", { AF_INET6, SOCK_STREAM, UPPER | 262 }, SECCOMP_FAIL(EPROTONOSUPPORT) }, /* MPTCP */
		{ "socket", { AF_INET, SOCK_STREAM, 256 }, SECCOMP_FAIL(EPROTONOSUPPORT) },          /* SMC */
		{ "socket", { AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE }, SECCOMP_FAIL(EPROTONOSUPPORT) },
		{ "socket", { AF_INET, SOCK_DGRAM, UINT64_MAX }, SECCOMP_FAIL(EPROTONOSUPPORT) },
		{ "socket", { AF_INET, SOCK_RAW, IPPROTO_ICMP }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_INET, SOCK_RAW, IPPROTO_RAW }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_INET6, UPPER | SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMPV6 }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_INET, SOCK_PACKET, 0x300 }, SECCOMP_FAIL(EPERM) },
		{ "socket", { AF_INET, SOCK_SEQPACKET }, SECCOMP_FAIL(ESOCKTNOSUPPORT) },
		{ "socket", { AF_INET6, SOCK_DCCP | SOCK_CLOEXEC }, SECCOMP_FAIL(ESOCKTNOSUPPORT) },
		{ "socket", { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE }, ALLOW },
		{ "socket", { AF_NETLINK, SOCK_DGRAM, UPPER | NETLINK_ROUTE }, ALLOW },
		{ "socket", { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER }, SECCOMP_FAIL(EPROTONOSUPPORT) },
		{ "socket", { UPPER | AF_NETLINK, SOCK_RAW, UPPER | 15 }, SECCOMP_FAIL(EPROTONOSUPPORT) }, /* uevents */
		{ "socketpair", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC }, ALLOW },
		{ "socketpair", { UPPER | AF_UNIX, SOCK_DGRAM }, ALLOW },
		{ "socketpair", { AF_INET, SOCK_STREAM }, SECCOMP_FAIL(EAFNOSUPPORT) },
		{ "socketpair", { 30, SOCK_STREAM }, SECCOMP_FAIL(EAFNOSUPPORT) }, /* TIPC */
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
}

static void options_terminals_and_personalities_are_judged(void **state)
{
	static const struct call calls[] = {
		{ "setsockopt", { 3, IPPROTO_TCP, TCP_NODELAY }, ALLOW },
		{ "setsockopt", { 3, IPPROTO_TCP, TCP_ULP }, SECCOMP_FAIL(ENOPROTOOPT) },
		{ "setsockopt", { 3, UPPER | IPPROTO_TCP, UPPER | TCP_ULP }, SECCOMP_FAIL(ENOPROTOOPT) },
		{ "setsockopt", { 3, SOL_SOCKET, 31 }, ALLOW },
		{ "ioctl", { 0, TIOCGWINSZ }, ALLOW },
		{ "ioctl", { 0, TIOCSTI }, SECCOMP_FAIL(EPERM) },
		{ "ioctl", { 0, UPPER | TIOCSTI }, SECCOMP_FAIL(EPERM) },
		{ "ioctl", { 0, TIOCLINUX }, SECCOMP_FAIL(EPERM) },
		{ "ioctl", { 0, 0x100000000 | TIOCLINUX }, SECCOMP_FAIL(EPERM) },
		{ "ioctl", { 0, TIOCSETD }, SECCOMP_FAIL(EPERM) },
		{ "ioctl", { UINT64_MAX, TIOCSETD ^ 1 }, ALLOW },
		{ "personality", { 0 }, ALLOW },
		{ "personality", { 8 }, ALLOW },
		{ "personality", { 0x20000 }, ALLOW },
		{ "personality", { 0x20008 }, ALLOW },
		{ "personality", { 0xffffffff }, ALLOW },
		{ "personality", { UINT64_MAX }, ALLOW },
		{ "personality", { 0x40000 }, SECCOMP_FAIL(EPERM) },          /* ADDR_NO_RANDOMIZE */
		{ "personality", { UPPER | 0x400000 }, SECCOMP_FAIL(EPERM) }, /* READ_IMPLIES_EXEC */
		{ "personality", { 0x100008 }, SECCOMP_FAIL(EPERM) },
		{ "personality", { 0x100000 }, SECCOMP_FAIL(EPERM) },
		{ "personality", { 0xfffffffe }, SECCOMP_FAIL(EPERM) },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
}

/* L6: all of btrfs's own requests, whatever their size and direction say; sharing content of files is any file system's. */
static void nothing_of_the_stores_file_system_can_be_asked_for(void **state)
{
	static const struct call calls[] = {
		{ "ioctl", { 3, 0x40049409 }, ALLOW },         /* FICLONE */
		{ "ioctl", { 3, UPPER | 0x40049409 }, ALLOW },
		{ "ioctl", { 3, 0x4020940d }, ALLOW },         /* FICLONERANGE */
		{ "ioctl", { 3, 0xc0189436 }, ALLOW },         /* FIDEDUPERANGE */
		{ "ioctl", { 3, 0x9409 }, SECCOMP_FAIL(ENOTTY) }, /* numbers of these three with another size */
		{ "ioctl", { 3, 0x80049409 }, SECCOMP_FAIL(ENOTTY) },
		{ "ioctl", { 3, 0x5000940e }, SECCOMP_FAIL(ENOTTY) }, /* SUBVOL_CREATE */
		{ "ioctl", { 3, UPPER | 0x5000940e }, SECCOMP_FAIL(ENOTTY) },
		{ "ioctl", { 3, 0x9308 }, ALLOW },
		{ "ioctl", { 3, 0x9508 }, ALLOW },
		{ "ioctl", { 0x9400, 0x5401, 0x9400 }, ALLOW },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
	for (uint64_t nr = 0; nr < 256; nr++) {
		static const uint32_t forms[] = { 0, 0x50000000, 0x40000000, 0xc0000000, 0x80000000, 0x3fff0000, 0xffff0000 };

		for (size_t i = 0; i < ARRAY_LEN(forms); i++)
			check_calls(*state, &(struct call){ "ioctl", { 3, forms[i] | 0x9400 | nr }, SECCOMP_FAIL(ENOTTY) }, 1);
	}
}

static void the_limit_on_cores_seems_to_change(void **state)
{
	static const struct call calls[] = {
		{ "setrlimit", { RLIMIT_CORE, 0x1000 }, SECCOMP_FAIL(0) },
		{ "setrlimit", { UPPER | RLIMIT_CORE, 0x1000 }, SECCOMP_FAIL(0) },
		{ "setrlimit", { RLIMIT_NOFILE, 0x1000 }, ALLOW },
		{ "getrlimit", { RLIMIT_CORE, 0x1000 }, ALLOW },
		{ "prlimit64", { 0, RLIMIT_CORE, 0x7f0000001000 }, SECCOMP_FAIL(0) },
		{ "prlimit64", { 1, RLIMIT_CORE, 0x100000000, 0x1000 }, SECCOMP_FAIL(0) }, /* half of it is 0 */
		{ "prlimit64", { 0, UPPER | RLIMIT_CORE, 1 }, SECCOMP_FAIL(0) },
		{ "prlimit64", { 0, RLIMIT_CORE, 0, 0x1000 }, ALLOW },
		{ "prlimit64", { 0, RLIMIT_NOFILE, 0x1000 }, ALLOW },
	};

	check_calls(*state, calls, ARRAY_LEN(calls));
}

/* Every number of every ABI with arguments from all over, against the policy; then nothing of the programs may be
 * left that no test has executed (F4). */
static void programs_do_what_the_policy_says_with_each_instruction(void **state)
{
	static const uint64_t values[] = { 0, 1, 2, 4, 6, 8, 10, 16, 31, 0x20008, 0x5412, 0x7e020000, 0xffffffff,
					   0x100000000, 0x100000002, UINT64_MAX };
	struct fixture *f = *state;

	for EACH_ARCH (a) {
		struct seccomp_rule rules[FILTER_RULES_MAX];
		struct seccomp_policy policy = filter_policy(a, rules);

		for (int i = 0; i < 1024 * (int)ARRAY_LEN(values); i++) {
			struct seccomp_data d = { .nr = i & 1023, .arch = audit_archs[a] };
			size_t v = (size_t)i >> 10;

			for (size_t k = 0; k < 6; k++)
				d.args[k] = values[(v + k * (1 + v / 3)) % ARRAY_LEN(values)];
			assert_int_equal(ask(f, a, d), seccomp_judge(&policy, &d));
		}
		for (size_t i = 0; i < f->programs[a].n; i++)
			if (f->counts[a][i] == 0)
				fail_msg("instruction %zu of %zu was never executed", i, f->programs[a].n);
	}
}

/* ---- in the kernel ----------------------------------------------------------------------------------------- */

static int confine(void *program, struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, errno, "no_new_privs");
	return seccomp_load(program, e);
}

static const struct call real_calls[] = {
	{ "unshare", { 0 }, SECCOMP_FAIL(EPERM) },
	{ "setns", { UINT64_MAX, 0 }, SECCOMP_FAIL(EPERM) },
	{ "bpf", { 99 }, SECCOMP_FAIL(EPERM) },
	{ "keyctl", { 99 }, SECCOMP_FAIL(EPERM) },
	{ "io_uring_setup", { 0 }, SECCOMP_FAIL(EPERM) },
	{ "open_tree_attr", { UINT64_MAX }, SECCOMP_FAIL(EPERM) },
	{ "clone3", { 0 }, SECCOMP_FAIL(ENOSYS) },
	{ "clone", { 0x10000000 | SIGCHLD }, SECCOMP_FAIL(EPERM) },
	{ "socket", { UPPER | AF_VSOCK, SOCK_STREAM }, SECCOMP_FAIL(EAFNOSUPPORT) },
	{ "socket", { AF_ALG, SOCK_SEQPACKET }, SECCOMP_FAIL(EAFNOSUPPORT) },
	{ "socket", { AF_INET, SOCK_DCCP }, SECCOMP_FAIL(ESOCKTNOSUPPORT) },
	{ "socket", { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER }, SECCOMP_FAIL(EPROTONOSUPPORT) },
	{ "setsockopt", { UINT64_MAX, IPPROTO_TCP, UPPER | TCP_ULP }, SECCOMP_FAIL(ENOPROTOOPT) },
	{ "ioctl", { UINT64_MAX, UPPER | TIOCSTI }, SECCOMP_FAIL(EPERM) },
	{ "ioctl", { UINT64_MAX, UPPER | 0x5000940e }, SECCOMP_FAIL(ENOTTY) },
	{ "syncfs", { UINT64_MAX }, SECCOMP_FAIL(0) },
	{ "personality", { 0x40000 }, SECCOMP_FAIL(EPERM) },
	{ "setrlimit", { RLIMIT_CORE, 1 }, SECCOMP_FAIL(0) }, /* no such address: nobody looks */
	{ "prlimit64", { 0, RLIMIT_CORE, 1 }, SECCOMP_FAIL(0) },
	/* From here on they are let through, and these are the kernel's own answers. */
#define LET_THROUGH 19
	{ "ioctl", { UINT64_MAX, TIOCGWINSZ }, SECCOMP_FAIL(EBADF) },
	{ "ioctl", { UINT64_MAX, 0x40049409 }, SECCOMP_FAIL(EBADF) },
	{ "setsockopt", { UINT64_MAX, IPPROTO_TCP, TCP_NODELAY }, SECCOMP_FAIL(EBADF) },
	{ "setrlimit", { RLIMIT_NOFILE, 1 }, SECCOMP_FAIL(EFAULT) },
	{ "personality", { 0 }, SECCOMP_FAIL(0) },
	{ "close", { UINT64_MAX }, SECCOMP_FAIL(EBADF) },
};

/* 0, or which of the calls was answered otherwise, from 1 on. */
static int make_real_calls(void *program)
{
	struct err e = { 0 };

	if (confine(program, &e) < 0)
		return 255;
	for (size_t i = 0; i < ARRAY_LEN(real_calls); i++) {
		const struct call *c = &real_calls[i];
		int nr = filter_number(FILTER_NATIVE, c->name);
		long r = syscall(nr, c->args[0], c->args[1], c->args[2], 0, 0, 0);
		uint32_t want = c->want & SECCOMP_RET_DATA;

		if (want == 0 ? r != 0 : r != -1 || errno != (int)want)
			return (int)i + 1;
	}
	return syscall(1000) == -1 && errno == ENOSYS ? 0 : 254;
}

static void the_kernel_agrees_with_the_simulator(void **state)
{
	struct fixture *f = *state;
	int failed = in_child(make_real_calls, &f->programs[FILTER_NATIVE]);

	if (failed != 0)
		fail_msg("%s was answered otherwise",
			 failed > 0 && failed <= (int)ARRAY_LEN(real_calls) ? real_calls[failed - 1].name : "something");
	for (size_t i = 0; i < ARRAY_LEN(real_calls); i++) {
		struct call c = real_calls[i];

		if (i >= LET_THROUGH)
			c.want = ALLOW;
		check_call(f, FILTER_NATIVE, &c);
	}
}

#if defined(__x86_64__)
static int call_by_x32(void *program)
{
	struct err e = { 0 };

	(void)confine(program, &e);
	(void)syscall(SECCOMP_X32_BIT | 39);
	return 0;
}

static int call_by_i386(void *program)
{
	struct err e = { 0 };
	long r = 20; /* getpid */

	(void)confine(program, &e);
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return 0;
}

static void foreign_calls_kill(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(in_child(call_by_x32, &f->programs[FILTER_NATIVE]), -1);
	assert_int_equal(in_child(call_by_i386, &f->programs[FILTER_NATIVE]), -1);
}
#endif

static int compare(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void loading_takes_its_time(void **state)
{
	struct fixture *f = *state;
	long took_ns[15];

	for (size_t i = 0; i < ARRAY_LEN(took_ns); i++) {
		struct timespec a, b;
		struct err e = { 0 };
		int ends[2], status;
		pid_t pid;

		assert_int_equal(pipe(ends), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			bool ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;

			(void)clock_gettime(CLOCK_MONOTONIC, &a);
			ok = ok && seccomp_load(&f->programs[FILTER_NATIVE], &e) == 0;
			(void)clock_gettime(CLOCK_MONOTONIC, &b);
			took_ns[i] = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
			_exit(ok && write(ends[1], &took_ns[i], sizeof(took_ns[i])) == sizeof(took_ns[i]) ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(read(ends[0], &took_ns[i], sizeof(took_ns[i])), sizeof(took_ns[i]));
		(void)close(ends[0]);
		(void)close(ends[1]);
	}
	qsort(took_ns, ARRAY_LEN(took_ns), sizeof(took_ns[0]), compare);
	print_message("loaded in %ld us (median)\n", took_ns[ARRAY_LEN(took_ns) / 2] / 1000);
}

/* ---- programs under the filter ----------------------------------------------------------------------------- */

static void run_program(struct fixture *f, char *const argv[], const char *want)
{
	struct spawn_spec sp = SPAWN_INIT(argv[0], argv);
	AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
	char path[] = "PATH=/usr/bin:/bin";
	char *env[] = { path, NULL };
	struct process_end end = { 0 };
	struct err e = { 0 };
	AUTO_FD pidfd = -1;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	sp.envp = env;
	sp.out = ends[1];
	sp.err = 2;
	sp.setup = confine;
	sp.setup_arg = &f->programs[FILTER_NATIVE];
	pidfd = process_spawn(&sp, NULL, &e);
	(void)close(ends[1]);
	if (pidfd < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(fd_read_all(ends[0], 64 * 1024, &b, &e), 0);
	(void)close(ends[0]);
	assert_int_equal(process_wait(pidfd, 30000, &end, &e), 0);
	if (!strstr(buf_z(&b), want))
		fail_msg("'%s' said '%s'", argv[0], buf_z(&b));
	assert_false(end.by_signal);
	assert_int_equal(end.code, 0);
}

#define RUN(f, want, ...) run_program((f), (char *[]){ __VA_ARGS__, NULL }, (want))
#define WORD(text) ((char[]){ text })

static void the_status_shows_a_filter(void **state)
{
	if (access("/usr/bin/grep", X_OK) < 0)
		skip();
	RUN(*state, "Seccomp:\t2", WORD("/usr/bin/grep"), WORD("Seccomp:"), WORD("/proc/self/status"));
}

static void threads_forks_and_execs_work(void **state)
{
	RUN(*state, "a thread, a child, a program\n", WORD("/proc/self/exe"), WORD("parent"));
}

static void a_shell_works(void **state)
{
	if (access("/bin/bash", X_OK) < 0)
		skip();
	RUN(*state, "cores 3 6\n", WORD("/bin/bash"), WORD("-ec"),
	    WORD("ulimit -c 0; x=$(echo 1 2 3 | wc -w); (exit 0) & wait; "
		 "t=$(mktemp); echo 6 >$t; y=$(<$t); rm $t; echo cores $x $y"));
}

static void python_works(void **state)
{
	if (access("/usr/bin/python3", X_OK) < 0)
		skip();
	RUN(*state, "b'hi\\n' 12 3", WORD("/usr/bin/python3"), WORD("-c"),
	    WORD("import subprocess, threading, resource, socket, asyncio, tempfile, multiprocessing\n"
		 "r = []\n"
		 "t = [threading.Thread(target=r.append, args=(i,)) for i in range(12)]\n"
		 "[x.start() for x in t]; [x.join() for x in t]\n"
		 "out = subprocess.run(['/bin/echo', 'hi'], capture_output=True, check=True).stdout\n"
		 "a, b = socket.socketpair(); a.send(b'x'); b.recv(1)\n"
		 "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)\n"
		 "before = resource.getrlimit(resource.RLIMIT_CORE)\n"
		 "resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))\n"
		 "assert resource.getrlimit(resource.RLIMIT_CORE) == before\n"
		 "asyncio.run(asyncio.sleep(0))\n"
		 "tempfile.TemporaryFile().write(b'x')\n"
		 "p = multiprocessing.get_context('fork').Pool(2)\n"
		 "n = sum(p.map(len, ['ab', 'c'])); p.terminate(); p.join()\n"
		 "print(out, len(r), n)\n"));
}

static void *in_a_thread(void *arg)
{
	*(bool *)arg = true;
	return NULL;
}

static int be_parent(void)
{
	bool ran = false;
	pthread_t thread;
	int status;
	pid_t pid;

	if (pthread_create(&thread, NULL, in_a_thread, &ran) != 0 || pthread_join(thread, NULL) != 0 || !ran)
		return 1;
	(void)!write(1, "a thread, ", 10);
	pid = fork();
	if (pid == 0) {
		(void)!write(1, "a child, ", 9);
		(void)execl("/proc/self/exe", "self", "leaf", (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_never_reachable_fails_with_eperm),
		cmocka_unit_test(what_programs_can_do_without_is_not_there),
		cmocka_unit_test(what_ordinary_programs_need_is_there),
		cmocka_unit_test(huge_pages_are_the_hosts),
		cmocka_unit_test(at_most_300_calls_are_allowed),
		cmocka_unit_test(numbers_are_those_of_the_headers),
		cmocka_unit_test(a_foreign_abi_is_the_end),
		cmocka_unit_test(clone_makes_no_namespaces),
		cmocka_unit_test(sockets_are_of_the_four_families),
		cmocka_unit_test(vsock_and_alg_are_closed),
		cmocka_unit_test(types_and_protocols_of_sockets_are_the_plain_ones),
		cmocka_unit_test(options_terminals_and_personalities_are_judged),
		cmocka_unit_test(nothing_of_the_stores_file_system_can_be_asked_for),
		cmocka_unit_test(the_limit_on_cores_seems_to_change),
		cmocka_unit_test(programs_do_what_the_policy_says_with_each_instruction),
		cmocka_unit_test(the_kernel_agrees_with_the_simulator),
#if defined(__x86_64__)
		cmocka_unit_test(foreign_calls_kill),
#endif
		cmocka_unit_test(loading_takes_its_time),
		cmocka_unit_test(the_status_shows_a_filter),
		cmocka_unit_test(threads_forks_and_execs_work),
		cmocka_unit_test(a_shell_works),
		cmocka_unit_test(python_works),
	};

	if (argc > 1 && strcmp(argv[1], "parent") == 0)
		return be_parent();
	if (argc > 1 && strcmp(argv[1], "leaf") == 0)
		return write(1, "a program\n", 10) == 10 ? 0 : 1;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
