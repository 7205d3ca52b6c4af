// SPDX-License-Identifier: Apache-2.0
#include "execd/init.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/guest.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/signals.h"
#include "sys/spawn_child.h"

#include "base/banned.h"

#define REAP_BURST 256 /* before others get their turn */

int init_protect(struct err *e)
{
	/* The kernel's own call: libc's would have to tell threads, of which there are none. */
	if (syscall(SYS_setresgid, 0, 0, GUEST_ID_MAX) < 0)
		return err_sys(e, errno, "set the saved group id");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(e, errno, "become undumpable");
	return 0;
}

/* ---- collecting ---- */

static struct child *child_find(struct init *in, pid_t pid)
{
	struct child *c = in->children;

	while (c && c->pid != pid)
		c = c->next;
	return c;
}

void child_forget(struct child *c)
{
	struct init *in = c->init;

	if (!in)
		return;
	io_del(&c->io);
	closep(&c->report);
	c->report = -1;
	*(c->prev ? &c->prev->next : &in->children) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->init = NULL;
}

/* Reads the child's report without waiting: 1 it runs the program, 0 not known yet, -1 it never will. */
static int read_report(struct child *c, struct err *e)
{
	struct spawn_report report;
	ssize_t n = read(c->report, &report, sizeof(report));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == 0)
		return 1;
	if (n != (ssize_t)sizeof(report))
		return err_set(e, ERR_INTERNAL, "report of the child cut short");
	return spawn_report_read(&report, &(struct spawn_spec){ 0 }, e);
}

static void tell_failed(struct child *c, const struct err *why)
{
	const struct child_ops *ops = c->ops;
	void *arg = c->arg;

	child_forget(c);
	ops->failed(why, arg);
}

/* True when it is settled that the program runs. C may be gone otherwise. */
static bool settle(struct child *c)
{
	struct err e = { 0 };
	int r = c->has_started ? 1 : read_report(c, &e);

	if (r < 0)
		tell_failed(c, &e);
	if (r <= 0)
		return false;
	if (!c->has_started) {
		c->has_started = true;
		io_del(&c->io);
		closep(&c->report);
		c->report = -1;
		if (c->ops->started)
			c->ops->started(c->arg);
	}
	return true;
}

static void on_report(unsigned ready, void *arg)
{
	(void)ready;
	(void)settle(arg);
}

/* The report of a dead child is there for the reading, so settle() knows: it runs, and has ended, or it failed. */
static void child_collected(struct init *in, const siginfo_t *si)
{
	struct child *c = child_find(in, si->si_pid);
	struct process_end end = {
		.by_signal = si->si_code != CLD_EXITED,
		.dumped_core = si->si_code == CLD_DUMPED,
		.code = si->si_status,
	};

	if (c && settle(c) && c->init) {
		const struct child_ops *ops = c->ops;
		void *of = c->arg;

		child_forget(c);
		ops->ended(&end, of);
	}
}

static void reap(void *arg)
{
	struct init *in = arg;

	for (int i = 0; i < REAP_BURST; i++) {
		siginfo_t si = { 0 };

		/* EINTR cannot be: nothing waits. ECHILD is the end, as is a si_pid of 0. */
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) < 0 || si.si_pid == 0)
			return;
		child_collected(in, &si);
	}
	defer(&in->again, in->loop, reap, in, "reap more");
}

/* ---- signals ---- */

/* Of two signals of one number only the first is kept until it is read: one from inside may hide one from outside for
 * that moment. Whoever must end a sandbox for certain kills its cgroup. */
static void on_signal(unsigned ready, void *arg)
{
	struct init *in = arg;
	struct err e = { 0 };
	pid_t sender = 0;
	int signo, rc;

	(void)ready;
	while ((rc = signals_read(in->signal_fd, &signo, &sender, &e)) > 0) {
		if (signo == SIGCHLD)
			reap(in);
		else if (in->is_pid1 && sender != 0)
			log_debug("signal from inside, ignoring", LOG_D("signal", signo), LOG_D("sender", sender));
		else
			in->stop(signo, in->arg);
	}
	if (rc < 0)
		log_error("signals cannot be read", LOG_ERR(&e));
}

static int open_null(struct err *e)
{
	AUTO_FD fd = open("/dev/null", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_sys(e, errno, "open '/dev/null'");
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		return err_set(e, ERR_UNAVAILABLE, "'/dev/null' is not the null device");
	return fd_set_nonblock(fd, false, e) < 0 ? -1 : take_fd(&fd);
}

int init_open(struct init *in, struct loop *l, void (*stop)(int signo, void *arg), void *arg, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGCHLD);

	in->loop = l;
	in->stop = stop;
	in->arg = arg;
	in->is_pid1 = getpid() == 1;
	if (!in->is_pid1) /* as PID 1 we are it anyhow */
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	in->null_fd = open_null(e);
	if (in->null_fd < 0 || signals_block(&set, e) < 0)
		return -1;
	in->signal_fd = signals_open(&set, e);
	if (in->signal_fd < 0)
		return -1;
	return io_add(&in->io, l, in->signal_fd, IO_IN, on_signal, in, "signals", e);
}

void init_done(struct init *in)
{
	while (in->children)
		child_forget(in->children);
	defer_cancel(&in->again);
	io_del(&in->io);
	closep(&in->signal_fd);
	closep(&in->null_fd);
	in->signal_fd = in->null_fd = -1;
}

/* ---- starting ---- */

/* All signals are blocked over the fork: none may be handled twice. */
static pid_t fork_child(const struct spawn_spec *sp, int report)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		spawn_child(sp, parent, report);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static void child_add(struct child *c, struct init *in, pid_t pid)
{
	c->pid = pid;
	c->init = in;
	c->next = in->children;
	if (c->next)
		c->next->prev = c;
	in->children = c;
}

int child_start(struct child *c, struct init *in, const struct spawn_spec *sp, const struct child_ops *ops, void *arg,
		struct err *e)
{
	AUTO_FD rd = -1;
	AUTO_FD wr = -1;
	struct spawn_spec full = *sp;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	rd = ends[0];
	wr = ends[1];
	if (fcntl(rd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, errno, "report of the child");
	*c = (struct child){ .report = -1, .ops = ops, .arg = arg };
	if (io_add(&c->io, in->loop, rd, IO_IN, on_report, c, "child report", e) < 0)
		return -1;
	full.null = in->null_fd;
	pid = fork_child(&full, wr);
	if (pid < 0) {
		(void)err_sys(e, errno, "fork");
		io_del(&c->io);
		return -1;
	}
	c->report = take_fd(&rd);
	child_add(c, in, pid);
	return 0;
}

int child_adopt(struct child *c, struct init *in, pid_t pid, const struct child_ops *ops, void *arg, struct err *e)
{
	if (kill(pid, 0) < 0)
		return err_sys(e, errno, "process %d", (int)pid);
	*c = (struct child){ .report = -1, .has_started = true, .ops = ops, .arg = arg };
	child_add(c, in, pid);
	return 0;
}

/* By number: it cannot be another's, because nobody but us collects it and then it is forgotten here. The group exists
 * only once the child has made it. */
void child_signal(const struct child *c, int signo)
{
	if (!c->init)
		return;
	if (kill(-c->pid, signo) < 0)
		(void)kill(c->pid, signo);
}
