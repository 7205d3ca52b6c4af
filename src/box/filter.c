// SPDX-License-Identifier: Apache-2.0
#include "box/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/own.h"

#include "base/banned.h"

#define NONE (-1) /* the architecture does not have it */

struct call {
	const char *name;
	short x86_64, aarch64; /* its number */
};

static const struct call allowed[] = {
	/* Reading and writing. */
	{ "read", 0, 63 }, { "write", 1, 64 }, { "readv", 19, 65 }, { "writev", 20, 66 },
	{ "pread64", 17, 67 }, { "pwrite64", 18, 68 }, { "preadv", 295, 69 }, { "pwritev", 296, 70 },
	{ "preadv2", 327, 286 }, { "pwritev2", 328, 287 }, { "lseek", 8, 62 }, { "sendfile", 40, 71 },
	{ "splice", 275, 76 }, { "tee", 276, 77 }, { "vmsplice", 278, 75 }, { "copy_file_range", 326, 285 },
	/* Descriptors, and waiting for them. */
	{ "close", 3, 57 }, { "close_range", 436, 436 }, { "dup", 32, 23 }, { "dup2", 33, NONE },
	{ "dup3", 292, 24 }, { "fcntl", 72, 25 }, { "flock", 73, 32 }, { "pipe", 22, NONE },
	{ "pipe2", 293, 59 }, { "select", 23, NONE }, { "pselect6", 270, 72 }, { "poll", 7, NONE },
	{ "ppoll", 271, 73 }, { "epoll_create", 213, NONE }, { "epoll_create1", 291, 20 },
	{ "epoll_ctl", 233, 21 }, { "epoll_wait", 232, NONE }, { "epoll_pwait", 281, 22 },
	{ "epoll_pwait2", 441, 441 }, { "eventfd", 284, NONE }, { "eventfd2", 290, 19 },
	{ "signalfd", 282, NONE }, { "signalfd4", 289, 74 }, { "timerfd_create", 283, 85 },
	{ "timerfd_settime", 286, 86 }, { "timerfd_gettime", 287, 87 }, { "inotify_init", 253, NONE },
	{ "inotify_init1", 294, 26 }, { "inotify_add_watch", 254, 27 }, { "inotify_rm_watch", 255, 28 },
	/* Files: opening and looking. Tools compare handles, which without open_by_handle_at are but names. */
	{ "open", 2, NONE }, { "openat", 257, 56 }, { "openat2", 437, 437 }, { "creat", 85, NONE },
	{ "name_to_handle_at", 303, 264 }, { "stat", 4, NONE }, { "fstat", 5, 80 }, { "lstat", 6, NONE },
	{ "newfstatat", 262, 79 }, { "statx", 332, 291 }, { "statfs", 137, 43 }, { "fstatfs", 138, 44 },
	{ "access", 21, NONE }, { "faccessat", 269, 48 }, { "faccessat2", 439, 439 },
	{ "readlink", 89, NONE }, { "readlinkat", 267, 78 }, { "getdents", 78, NONE },
	{ "getdents64", 217, 61 }, { "getcwd", 79, 17 },
	/* Files: changing. mknod is for FIFOs: devices need a capability that is not there. chroot does not lead
	 * out of a root that was pivoted to. */
	{ "truncate", 76, 45 }, { "ftruncate", 77, 46 }, { "fallocate", 285, 47 }, { "fsync", 74, 82 },
	{ "fdatasync", 75, 83 }, { "sync_file_range", 277, 84 }, { "fadvise64", 221, 223 }, { "readahead", 187, 213 },
	{ "mkdir", 83, NONE }, { "mkdirat", 258, 34 }, { "rmdir", 84, NONE }, { "mknod", 133, NONE },
	{ "mknodat", 259, 33 }, { "link", 86, NONE }, { "linkat", 265, 37 }, { "symlink", 88, NONE },
	{ "symlinkat", 266, 36 }, { "unlink", 87, NONE }, { "unlinkat", 263, 35 }, { "rename", 82, NONE },
	{ "renameat", 264, 38 }, { "renameat2", 316, 276 }, { "chdir", 80, 49 }, { "fchdir", 81, 50 },
	{ "chroot", 161, 51 }, { "umask", 95, 166 }, { "chmod", 90, NONE }, { "fchmod", 91, 52 },
	{ "fchmodat", 268, 53 }, { "fchmodat2", 452, 452 }, { "chown", 92, NONE }, { "fchown", 93, 55 },
	{ "lchown", 94, NONE }, { "fchownat", 260, 54 }, { "utime", 132, NONE }, { "utimes", 235, NONE },
	{ "futimesat", 261, NONE }, { "utimensat", 280, 88 },
	/* Extended attributes. */
	{ "setxattr", 188, 5 }, { "lsetxattr", 189, 6 }, { "fsetxattr", 190, 7 },
	{ "setxattrat", 463, 463 }, { "getxattr", 191, 8 }, { "lgetxattr", 192, 9 },
	{ "fgetxattr", 193, 10 }, { "getxattrat", 464, 464 }, { "listxattr", 194, 11 },
	{ "llistxattr", 195, 12 }, { "flistxattr", 196, 13 }, { "listxattrat", 465, 465 },
	{ "removexattr", 197, 14 }, { "lremovexattr", 198, 15 }, { "fremovexattr", 199, 16 },
	{ "removexattrat", 466, 466 },
	/* Memory. */
	{ "brk", 12, 214 }, { "munmap", 11, 215 }, { "mprotect", 10, 226 },
	{ "mremap", 25, 216 }, { "msync", 26, 227 }, { "mincore", 27, 232 }, { "madvise", 28, 233 },
	{ "mlock", 149, 228 }, { "mlock2", 325, 284 }, { "munlock", 150, 229 }, { "mlockall", 151, 230 },
	{ "munlockall", 152, 231 }, { "mseal", 462, 462 },
	{ "membarrier", 324, 283 }, { "pkey_mprotect", 329, 288 }, { "pkey_alloc", 330, 289 },
	{ "pkey_free", 331, 290 }, { "map_shadow_stack", 453, 453 }, { "get_mempolicy", 239, 236 },
	/* Shared memory, semaphores and queues: of the sandbox's own ipc namespace. */
	{ "shmat", 30, 196 }, { "shmdt", 67, 197 }, { "shmctl", 31, 195 },
	{ "semget", 64, 190 }, { "semop", 65, 193 }, { "semtimedop", 220, 192 }, { "semctl", 66, 191 },
	{ "msgget", 68, 186 }, { "msgsnd", 69, 189 }, { "msgrcv", 70, 188 }, { "msgctl", 71, 187 },
	{ "mq_open", 240, 180 }, { "mq_unlink", 241, 181 }, { "mq_timedsend", 242, 182 },
	{ "mq_timedreceive", 243, 183 }, { "mq_notify", 244, 184 }, { "mq_getsetattr", 245, 185 },
	/* Processes. The pid and user namespaces confine tracing, and reading and writing the memory of others. */
	{ "fork", 57, NONE }, { "vfork", 58, NONE }, { "execve", 59, 221 }, { "execveat", 322, 281 },
	{ "exit", 60, 93 }, { "exit_group", 231, 94 }, { "wait4", 61, 260 }, { "waitid", 247, 95 },
	{ "getpid", 39, 172 }, { "getppid", 110, 173 }, { "gettid", 186, 178 },
	{ "set_tid_address", 218, 96 }, { "pidfd_open", 434, 434 }, { "pidfd_send_signal", 424, 424 },
	{ "process_mrelease", 448, 448 }, { "ptrace", 101, 117 }, { "process_vm_readv", 310, 270 },
	{ "process_vm_writev", 311, 271 }, { "prctl", 157, 167 }, { "arch_prctl", 158, NONE },
	{ "setpgid", 109, 154 }, { "getpgid", 121, 155 }, { "getpgrp", 111, NONE }, { "setsid", 112, 157 },
	{ "getsid", 124, 156 },
	/* Threads. */
	{ "futex", 202, 98 }, { "futex_wait", 455, 455 }, { "futex_wake", 454, 454 },
	{ "futex_requeue", 456, 456 }, { "futex_waitv", 449, 449 }, { "set_robust_list", 273, 99 },
	{ "get_robust_list", 274, 100 }, { "rseq", 334, 293 }, { "getcpu", 309, 168 },
	/* Signals. */
	{ "kill", 62, 129 }, { "tkill", 200, 130 }, { "tgkill", 234, 131 }, { "rt_sigaction", 13, 134 },
	{ "rt_sigprocmask", 14, 135 }, { "rt_sigreturn", 15, 139 }, { "rt_sigpending", 127, 136 },
	{ "rt_sigsuspend", 130, 133 }, { "rt_sigtimedwait", 128, 137 }, { "rt_sigqueueinfo", 129, 138 },
	{ "rt_tgsigqueueinfo", 297, 240 }, { "sigaltstack", 131, 132 }, { "pause", 34, NONE },
	{ "restart_syscall", 219, 128 },
	/* Scheduling: the limits on nice and real time are 0. */
	{ "sched_yield", 24, 124 }, { "sched_setaffinity", 203, 122 }, { "sched_getaffinity", 204, 123 },
	{ "sched_setparam", 142, 118 }, { "sched_getparam", 143, 121 }, { "sched_setscheduler", 144, 119 },
	{ "sched_getscheduler", 145, 120 }, { "sched_setattr", 314, 274 }, { "sched_getattr", 315, 275 },
	{ "sched_get_priority_max", 146, 125 }, { "sched_get_priority_min", 147, 126 },
	{ "sched_rr_get_interval", 148, 127 }, { "setpriority", 141, 140 }, { "getpriority", 140, 141 },
	{ "ioprio_set", 251, 30 }, { "ioprio_get", 252, 31 },
	/* Time. */
	{ "time", 201, NONE }, { "gettimeofday", 96, 169 }, { "clock_gettime", 228, 113 },
	{ "clock_getres", 229, 114 }, { "nanosleep", 35, 101 }, { "clock_nanosleep", 230, 115 },
	{ "alarm", 37, NONE }, { "getitimer", 36, 102 }, { "setitimer", 38, 103 },
	{ "timer_create", 222, 107 }, { "timer_settime", 223, 110 }, { "timer_gettime", 224, 108 },
	{ "timer_getoverrun", 225, 109 }, { "timer_delete", 226, 111 }, { "times", 100, 153 },
	/* Users, groups and capabilities: all of the sandbox's own user namespace. */
	{ "getuid", 102, 174 }, { "geteuid", 107, 175 }, { "getgid", 104, 176 }, { "getegid", 108, 177 },
	{ "getresuid", 118, 148 }, { "getresgid", 120, 150 }, { "getgroups", 115, 158 },
	{ "setuid", 105, 146 }, { "setgid", 106, 144 }, { "setreuid", 113, 145 }, { "setregid", 114, 143 },
	{ "setresuid", 117, 147 }, { "setresgid", 119, 149 }, { "setfsuid", 122, 151 },
	{ "setfsgid", 123, 152 }, { "setgroups", 116, 159 }, { "capget", 125, 90 }, { "capset", 126, 91 },
	/* Sockets. One that exists is of a kind that was let through: socket and socketpair are judged below. */
	{ "connect", 42, 203 }, { "bind", 49, 200 }, { "listen", 50, 201 }, { "accept", 43, 202 },
	{ "accept4", 288, 242 }, { "shutdown", 48, 210 }, { "getsockname", 51, 204 },
	{ "getpeername", 52, 205 }, { "getsockopt", 55, 209 }, { "sendto", 44, 206 },
	{ "sendmsg", 46, 211 }, { "sendmmsg", 307, 269 }, { "recvfrom", 45, 207 }, { "recvmsg", 47, 212 },
	{ "recvmmsg", 299, 243 },
	/* Limits and the machine. */
	{ "getrlimit", 97, 163 }, { "getrusage", 98, 165 }, { "sysinfo", 99, 179 }, { "uname", 63, 160 },
	{ "getrandom", 318, 278 },
	/* What a program does to confine itself. */
	{ "seccomp", 317, 277 }, { "landlock_create_ruleset", 444, 444 }, { "landlock_add_rule", 445, 445 },
	{ "landlock_restrict_self", 446, 446 },
};

/* EPERM. */
static const struct call denied[] = {
	/* Whole kernels within the kernel: io_uring's operations pass by this filter, the others have a record of
	 * holes. */
	{ "io_uring_setup", 425, 425 }, { "io_uring_enter", 426, 426 }, { "io_uring_register", 427, 427 },
	{ "userfaultfd", 323, 282 }, { "bpf", 321, 280 }, { "perf_event_open", 298, 241 },
	/* Keys are not all in a namespace: a keyring of the host user with the same id could be found. */
	{ "add_key", 248, 217 }, { "request_key", 249, 218 }, { "keyctl", 250, 219 },
	/* Mounts and namespaces. */
	{ "mount", 165, 40 }, { "umount2", 166, 39 }, { "pivot_root", 155, 41 }, { "open_tree", 428, 428 },
	{ "open_tree_attr", 467, 467 }, { "move_mount", 429, 429 }, { "fsopen", 430, 430 },
	{ "fsconfig", 431, 431 }, { "fsmount", 432, 432 }, { "fspick", 433, 433 },
	{ "mount_setattr", 442, 442 }, { "setns", 308, 268 }, { "unshare", 272, 97 },
	/* The machine. Reading the clock's discipline (adjtimex) cannot be told from setting it. */
	{ "swapon", 167, 224 }, { "swapoff", 168, 225 }, { "reboot", 169, 142 }, { "kexec_load", 246, 104 },
	{ "kexec_file_load", 320, 294 }, { "create_module", 174, NONE }, { "init_module", 175, 105 },
	{ "finit_module", 313, 273 }, { "delete_module", 176, 106 }, { "query_module", 178, NONE },
	{ "acct", 163, 89 }, { "quotactl", 179, 60 }, { "quotactl_fd", 443, 443 },
	{ "settimeofday", 164, 170 }, { "clock_settime", 227, 112 }, { "adjtimex", 159, 171 },
	{ "clock_adjtime", 305, 266 }, { "iopl", 172, NONE }, { "ioperm", 173, NONE },
	{ "modify_ldt", 154, NONE }, { "syslog", 103, 116 }, { "vhangup", 153, 58 },
	{ "sethostname", 170, 161 }, { "setdomainname", 171, 162 },
	/* Ways around paths and permissions: files by handle, descriptors of others. */
	{ "open_by_handle_at", 304, 265 }, { "lookup_dcookie", 212, 18 }, { "fanotify_init", 300, 262 },
	{ "fanotify_mark", 301, 263 }, { "kcmp", 312, 272 }, { "pidfd_getfd", 438, 438 },
	{ "process_madvise", 440, 440 },
	/* Placement of memory, and memory that not even the kernel can see. */
	{ "mbind", 237, 235 }, { "migrate_pages", 256, 238 }, { "move_pages", 279, 239 },
	{ "set_mempolicy", 238, 237 }, { "set_mempolicy_home_node", 450, 450 },
	{ "memfd_secret", 447, 447 }, { "remap_file_pages", 216, 234 },
	/* Labels of security modules. */
	{ "lsm_get_self_attr", 459, 459 }, { "lsm_set_self_attr", 460, 460 },
	{ "lsm_list_modules", 461, 461 },
	/* Relics. */
	{ "ustat", 136, NONE }, { "sysfs", 139, NONE }, { "uselib", 134, NONE }, { "_sysctl", 156, NONE },
	{ "nfsservctl", 180, 42 },
};

/* ENOSYS, as on an older kernel, because programs then do without. clone3 has its flags in memory, where no filter
 * sees them; the others would add surface for nobody's benefit. */
static const struct call absent[] = {
	{ "clone3", 435, 435 }, { "cachestat", 451, 451 }, { "statmount", 457, 457 },
	{ "listmount", 458, 458 }, { "file_getattr", 468, 468 },
	{ "file_setattr", 469, 469 }, { "uprobe", 336, NONE }, { "uretprobe", 335, NONE },
	/* Asynchronous I/O of the old kind. The host has one number of requests for all (fs.aio-max-nr), which no control
	 * group counts: one sandbox could use it up for every other and for the host. Databases do without. */
	{ "io_setup", 206, 0 }, { "io_destroy", 207, 1 }, { "io_submit", 209, 2 }, { "io_cancel", 210, 3 },
	{ "io_getevents", 208, 4 }, { "io_pgetevents", 333, 292 },
};

/* Success, without an effect. sync would write back every file system of the host, the neighbours' data included, as
 * often as it is called, and syncfs on a volume the one of all sandboxes. What a sandbox has on its own disk does not outlive
 * the host in any case; what it has in a volume is written back by fsync, file by file. */
static const struct call idle[] = { { "sync", 162, 81 }, { "syncfs", 306, 267 } };

/* ---- calls that are judged by their arguments -------------------------------------------------------------- */

#define VALUES(...) \
	.n = sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), .values = { __VA_ARGS__ }
#define BITS_IN(arg_, mask_, ...) { .op = SECCOMP_ONE_OF, .arg = (arg_), .mask = (mask_), VALUES(__VA_ARGS__) }
#define BITS_NOT_IN(arg_, mask_, ...) \
	{ .op = SECCOMP_NONE_OF, .arg = (arg_), .mask = (mask_), VALUES(__VA_ARGS__) }
#define INT_IN(arg, ...) BITS_IN(arg, SECCOMP_INT, __VA_ARGS__)
#define INT_NOT_IN(arg, ...) BITS_NOT_IN(arg, SECCOMP_INT, __VA_ARGS__)
#define NOT_NULL(arg) BITS_NOT_IN(arg, SECCOMP_LONG, 0)

/* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. CLONE_NEWTIME is out of clone's reach: its
 * bit belongs to the exit signal here. */
#define CLONE_NEW_ANY 0x7e020000u
#define SOCK_TYPE_BITS 0xfu /* the kernel's SOCK_TYPE_MASK; flags are above */

static const struct seccomp_case clone_cases[] = {
	{ { BITS_NOT_IN(0, CLONE_NEW_ANY, 0) }, SECCOMP_FAIL(EPERM) },
};

static const struct seccomp_case socket_cases[] = {
	{ { INT_NOT_IN(0, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK) }, SECCOMP_FAIL(EAFNOSUPPORT) },
	{ { INT_IN(0, AF_NETLINK), INT_NOT_IN(2, NETLINK_ROUTE) }, SECCOMP_FAIL(EPROTONOSUPPORT) },
	{ { INT_IN(0, AF_NETLINK) }, SECCOMP_RET_ALLOW },
	/* An AF_INET socket of type SOCK_PACKET is an AF_PACKET socket. */
	{ { BITS_IN(1, SOCK_TYPE_BITS, SOCK_RAW, SOCK_PACKET) }, SECCOMP_FAIL(EPERM) },
	{ { INT_IN(0, AF_UNIX) }, SECCOMP_RET_ALLOW },
	{ { INT_NOT_IN(2, 0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6) },
	  SECCOMP_FAIL(EPROTONOSUPPORT) },
	/* Protocol 0 stands for whatever speaks the type: SCTP with SOCK_SEQPACKET, DCCP with SOCK_DCCP. */
	{ { BITS_NOT_IN(1, SOCK_TYPE_BITS, SOCK_STREAM, SOCK_DGRAM) }, SECCOMP_FAIL(ESOCKTNOSUPPORT) },
};

static const struct seccomp_case socketpair_cases[] = {
	{ { INT_NOT_IN(0, AF_UNIX) }, SECCOMP_FAIL(EAFNOSUPPORT) },
};

static const struct seccomp_case setsockopt_cases[] = {
	{ { INT_IN(1, IPPROTO_TCP), INT_IN(2, TCP_ULP) }, SECCOMP_FAIL(ENOPROTOOPT) },
};

/* What a request is of, by the kernel's own division of numbers. */
#define IOCTL_TYPE_BITS 0xff00u
#define IOCTL_BTRFS 0x9400u

/* Typing into a terminal on behalf of its reader, and loading line disciplines. Then L6: a volume is a folder of the store's
 * own file system, which takes requests there that overlayfs does not hand on. A subvolume has no limit, and keeps the volume
 * from being removed. The answer is that of a file system that is no btrfs. Three of its requests became everybody's: sharing
 * the content of files. */
static const struct seccomp_case ioctl_cases[] = {
	{ { BITS_IN(1, IOCTL_TYPE_BITS, IOCTL_BTRFS), INT_NOT_IN(1, FICLONE, FICLONERANGE, FIDEDUPERANGE) }, SECCOMP_FAIL(ENOTTY) },
	{ { INT_IN(1, TIOCSTI, TIOCLINUX, TIOCSETD) }, SECCOMP_FAIL(EPERM) },
};

/* PER_LINUX and PER_LINUX32, each also with UNAME26, and the query. All others loosen something: a fixed layout of
 * memory, readable memory that is executable, pages at 0. */
static const struct seccomp_case personality_cases[] = {
	{ { INT_NOT_IN(0, 0, 8, 0x20000, 0x20008, 0xffffffff) }, SECCOMP_FAIL(EPERM) },
};

/* Cores stay as the sandbox was given them, and nobody is told: programs that turn them off at their start would
 * take an error for a reason to stop. */
static const struct seccomp_case setrlimit_cases[] = {
	{ { INT_IN(0, RLIMIT_CORE) }, SECCOMP_FAIL(0) },
};

static const struct seccomp_case prlimit64_cases[] = {
	{ { INT_IN(1, RLIMIT_CORE), NOT_NULL(2) }, SECCOMP_FAIL(0) },
};

/* The host's pool of huge pages is not the sandbox's (L1), and no count of its memory has them. The answers are those of
 * a host without any. */
#define MAP_HUGETLB_BIT 0x40000u
#define MFD_HUGETLB_BIT 0x4u
#define SHM_HUGETLB_BIT 04000u

static const struct seccomp_case mmap_cases[] = {
	{ { BITS_NOT_IN(3, MAP_HUGETLB_BIT, 0) }, SECCOMP_FAIL(ENOMEM) },
};

static const struct seccomp_case memfd_create_cases[] = {
	{ { BITS_NOT_IN(1, MFD_HUGETLB_BIT, 0) }, SECCOMP_FAIL(EINVAL) },
};

static const struct seccomp_case shmget_cases[] = {
	{ { BITS_NOT_IN(2, SHM_HUGETLB_BIT, 0) }, SECCOMP_FAIL(EPERM) },
};

struct judged {
	struct call call;
	const struct seccomp_case *cases;
	size_t n_cases;
};

#define CASES(cases_) (cases_), ARRAY_LEN(cases_)

/* Allowed, unless one of the cases holds. */
static const struct judged judged[] = {
	{ { "clone", 56, 220 }, CASES(clone_cases) },
	{ { "ioctl", 16, 29 }, CASES(ioctl_cases) },
	{ { "memfd_create", 319, 279 }, CASES(memfd_create_cases) },
	{ { "mmap", 9, 222 }, CASES(mmap_cases) },
	{ { "personality", 135, 92 }, CASES(personality_cases) },
	{ { "prlimit64", 302, 261 }, CASES(prlimit64_cases) },
	{ { "setrlimit", 160, 164 }, CASES(setrlimit_cases) },
	{ { "shmget", 29, 194 }, CASES(shmget_cases) },
	{ { "setsockopt", 54, 208 }, CASES(setsockopt_cases) },
	{ { "socket", 41, 198 }, CASES(socket_cases) },
	{ { "socketpair", 53, 199 }, CASES(socketpair_cases) },
};

/* ---- the policy -------------------------------------------------------------------------------------------- */

_Static_assert(ARRAY_LEN(allowed) + ARRAY_LEN(denied) + ARRAY_LEN(absent) + ARRAY_LEN(idle) + ARRAY_LEN(judged) <=
		       FILTER_RULES_MAX,
	       "FILTER_RULES_MAX is too small");

static int call_number(enum filter_arch arch, const struct call *c)
{
	return arch == FILTER_X86_64 ? c->x86_64 : c->aarch64;
}

static void add_rule(struct seccomp_policy *p, struct seccomp_rule *rules, int nr, struct seccomp_rule rule)
{
	if (nr == NONE)
		return;
	rule.nr = (uint32_t)nr;
	rules[p->n_rules++] = rule;
}

static void add_calls(struct seccomp_policy *p, struct seccomp_rule *rules, enum filter_arch arch,
		      const struct call *calls, size_t n, uint32_t action)
{
	for (size_t i = 0; i < n; i++)
		add_rule(p, rules, call_number(arch, &calls[i]), (struct seccomp_rule){ .action = action });
}

struct seccomp_policy filter_policy(enum filter_arch arch, struct seccomp_rule rules[FILTER_RULES_MAX])
{
	struct seccomp_policy p = {
		.arch = arch == FILTER_X86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64,
		.has_x32 = arch == FILTER_X86_64,
		.foreign = SECCOMP_RET_KILL_PROCESS,
		.unknown = SECCOMP_FAIL(ENOSYS),
		.rules = rules,
	};

	add_calls(&p, rules, arch, allowed, ARRAY_LEN(allowed), SECCOMP_RET_ALLOW);
	add_calls(&p, rules, arch, denied, ARRAY_LEN(denied), SECCOMP_FAIL(EPERM));
	add_calls(&p, rules, arch, absent, ARRAY_LEN(absent), SECCOMP_FAIL(ENOSYS));
	add_calls(&p, rules, arch, idle, ARRAY_LEN(idle), SECCOMP_FAIL(0));
	for (size_t i = 0; i < ARRAY_LEN(judged); i++)
		add_rule(&p, rules, call_number(arch, &judged[i].call), (struct seccomp_rule){
			.action = SECCOMP_RET_ALLOW, .cases = judged[i].cases, .n_cases = judged[i].n_cases,
		});
	return p;
}

int filter_compile(enum filter_arch arch, struct seccomp_program *ret, struct err *e)
{
	struct seccomp_rule rules[FILTER_RULES_MAX];
	struct seccomp_policy policy = filter_policy(arch, rules);

	return seccomp_compile(&policy, ret, e);
}

static const struct call *find(const struct call *calls, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(calls[i].name, name) == 0)
			return &calls[i];
	return NULL;
}

int filter_number(enum filter_arch arch, const char *name)
{
	const struct call *c = find(allowed, ARRAY_LEN(allowed), name);

	if (!c)
		c = find(denied, ARRAY_LEN(denied), name);
	if (!c)
		c = find(absent, ARRAY_LEN(absent), name);
	if (!c)
		c = find(idle, ARRAY_LEN(idle), name);
	for (size_t i = 0; !c && i < ARRAY_LEN(judged); i++)
		c = find(&judged[i].call, 1, name);
	return c ? call_number(arch, c) : NONE;
}
