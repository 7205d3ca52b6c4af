// SPDX-License-Identifier: Apache-2.0
#include "sys/spawn_child.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

#define SIGNAL_MAX 64

struct child {
	const struct spawn_spec *sp;
	pid_t parent;
	int report;
	int above;         /* first number that the program does not use */
	int cwd_fd;        /* the spec's, where no mapped number is in its way */
	struct err *setup; /* for the setup callback's words */
};

/* SIGKILL, SIGSTOP and those that libc keeps to itself refuse, which is what they should do. */
static void reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int i = 1; i <= SIGNAL_MAX; i++)
		(void)sigaction(i, &dfl, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int child_session(struct child *c)
{
	if (c->sp->new_session)
		return setsid() < 0 ? -1 : 0;
	return c->sp->new_group ? setpgid(0, 0) : 0;
}

/* A copy above every number that the program will use; of what leads nowhere for -1. */
static int lift(const struct child *c, int fd)
{
	int copy, null;

	fd = fd >= 0 ? fd : c->sp->null;
	if (fd >= 0)
		return fcntl(fd, F_DUPFD_CLOEXEC, c->above);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -1;
	copy = fcntl(null, F_DUPFD_CLOEXEC, c->above);
	(void)close(null);
	return copy;
}

/* First every source goes out of the way, then each goes to its number: no order of the two can collide. The
 * rest is close-on-exec by then; dup2() clears that flag on the mapped ones alone. */
static int child_fds(struct child *c)
{
	const struct spawn_spec *sp = c->sp;
	int from[SPAWN_FDS_MAX + 3], to[SPAWN_FDS_MAX + 3] = { 0, 1, 2 };
	const int stdio[3] = { sp->in, sp->out, sp->err };
	struct err scratch;

	c->above = 3;
	for (size_t i = 0; i < sp->n_fds; i++)
		c->above = MAX(c->above, sp->fds[i].number + 1);
	for (size_t i = 0; i < sp->n_fds + 3; i++) {
		from[i] = lift(c, i < 3 ? stdio[i] : sp->fds[i - 3].fd);
		if (from[i] < 0)
			return -1;
		if (i >= 3)
			to[i] = sp->fds[i - 3].number;
	}
	c->report = lift(c, c->report);
	c->cwd_fd = sp->cwd_fd >= 0 ? lift(c, sp->cwd_fd) : -1;
	if (c->report < 0 || (sp->cwd_fd >= 0 && c->cwd_fd < 0))
		return -1;
	if (cloexec_from(3, &scratch) < 0) {
		errno = scratch.sys;
		return -1;
	}
	for (size_t i = 0; i < sp->n_fds + 3; i++)
		if (dup2(from[i], to[i]) < 0)
			return -1;
	return 0;
}

static int child_limits(struct child *c)
{
	if (c->sp->umask != SPAWN_KEEP_UMASK)
		(void)umask(c->sp->umask);
	for (size_t i = 0; i < c->sp->n_limits; i++) {
		const struct spawn_limit *l = &c->sp->limits[i];

		if (prlimit(0, l->resource, &l->value, NULL) < 0)
			return -1;
	}
	return 0;
}

/* libc's set*id() would tell all threads of the parent's image, of which the child has but one: the kernel's
 * own calls, groups first, the uid last because it takes the right to change the others. */
static int child_ids(struct child *c)
{
	const struct spawn_spec *sp = c->sp;

	if (sp->keep_ids)
		return 0;
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, sp->gid, sp->gid, sp->gid) < 0)
		return -1;
	return syscall(SYS_setresuid, sp->uid, sp->uid, sp->uid) < 0 ? -1 : 0;
}

static int child_cwd(struct child *c)
{
	if (c->cwd_fd >= 0 && fchdir(c->cwd_fd) < 0)
		return -1;
	return c->sp->cwd ? chdir(c->sp->cwd) : 0;
}

/* After the ids: a change of them clears the signal. The parent may be gone by now, and then it never comes. */
static int child_death_signal(struct child *c)
{
	if (c->sp->death_signal == 0)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, c->sp->death_signal, 0, 0, 0) < 0)
		return -1;
	if (getppid() == c->parent)
		return 0;
	errno = ESRCH;
	return -1;
}

static int child_setup(struct child *c)
{
	return c->sp->setup ? c->sp->setup(c->sp->setup_arg, c->setup) : 0;
}

static int child_exec(struct child *c)
{
	static char *const empty[] = { NULL };

	return execve(c->sp->path, c->sp->argv, c->sp->envp ? c->sp->envp : empty);
}

_Noreturn void spawn_child(const struct spawn_spec *sp, pid_t parent, int report)
{
	static int (*const stages[])(struct child *) = {
		[SPAWN_SESSION] = child_session, [SPAWN_FDS] = child_fds, [SPAWN_LIMITS] = child_limits,
		[SPAWN_IDS] = child_ids,         [SPAWN_CWD] = child_cwd, [SPAWN_DEATH_SIGNAL] = child_death_signal,
		[SPAWN_SETUP] = child_setup,     [SPAWN_EXEC] = child_exec,
	};
	struct spawn_report r = { 0 };
	struct child c = { .sp = sp, .parent = parent, .report = report, .cwd_fd = -1, .setup = &r.setup };

	reset_signals();
	for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
		if (stages[i](&c) == 0)
			continue;
		r.stage = (enum spawn_stage)i;
		r.sys = errno;
		(void)!write(c.report >= 0 ? c.report : report, &r, sizeof(r));
		break;
	}
	_exit(127);
}

int spawn_report_read(const struct spawn_report *report, const struct spawn_spec *sp, struct err *e)
{
	static const char *const names[] = {
		[SPAWN_SESSION] = "new session",   [SPAWN_FDS] = "descriptors", [SPAWN_LIMITS] = "resource limits",
		[SPAWN_IDS] = "user and group ids", [SPAWN_CWD] = "",           [SPAWN_DEATH_SIGNAL] = "parent",
		[SPAWN_SETUP] = "",                 [SPAWN_EXEC] = "exec",
	};

	if (report->stage == SPAWN_SETUP) {
		*e = report->setup;
		return -1;
	}
	if (report->stage == SPAWN_CWD)
		return err_sys(e, report->sys, "change directory to '%s'", sp->cwd ? sp->cwd : ".");
	return err_sys(e, report->sys, "%s", names[report->stage]);
}
