// SPDX-License-Identifier: Apache-2.0
/* Shells of terminals. The child begins a session of its own, makes the terminal its controlling one, enters the `user`
 * leaf and has nothing open but its standard streams. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "base/err.h"
#include "base/own.h"
#include "execd/command/session_shell.h"
#include "execd/execd.h"
#include "execd/io/drain.h"
#include "execd/pty/pty_impl.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define FIRST_COLS 80
#define FIRST_ROWS 24
#define START_ARENA_MAX ((size_t)4 * 1024 * 1024)

/* Both ends of what is between us and a shell. */
struct ends {
	int in, out, err;                    /* ours */
	int child_in, child_out, child_err;  /* of a terminal all the same */
	bool is_pipe;
};

static void ends_done(struct ends *s)
{
	closep(&s->in);
	closep(&s->out);
	closep(&s->err);
	closep(&s->child_in);
	if (s->is_pipe) {
		closep(&s->child_out);
		closep(&s->child_err);
	}
}
DEFINE_AUTO_DONE(struct ends, ends_done)

#define ENDS_INIT ((struct ends){ -1, -1, -1, -1, -1, -1, false })

/* ---- pipes ---- */

static int open_pipe(int *rd, int *wr, int *ours, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	*rd = ends[0];
	*wr = ends[1];
	return fd_set_nonblock(*ours, true, e);
}

static int open_pipes(struct ends *s, struct err *e)
{
	s->is_pipe = true;
	return open_pipe(&s->child_in, &s->in, &s->in, e) < 0 || open_pipe(&s->out, &s->child_out, &s->out, e) < 0 ||
			       open_pipe(&s->err, &s->child_err, &s->err, e) < 0
		       ? -1
		       : 0;
}

/* ---- the terminal ---- */

static int open_ptmx_at(int dir, const char *name)
{
	AUTO_FD fd = openat(dir, name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(5, 2))
		return take_fd(&fd);
	errno = ENODEV; /* AUTO_FD keeps it */
	return -1;
}

/* What is in /dev is the sandbox's choice; from the file system of terminals nobody can remove. */
static int open_ptmx(int devpts, struct err *e)
{
	int fd = open_ptmx_at(AT_FDCWD, "/dev/ptmx");

	if (fd < 0 && devpts >= 0)
		fd = open_ptmx_at(devpts, "ptmx");
	return fd < 0 ? err_sys(e, errno, "open '/dev/ptmx'") : fd;
}

static void set_size(int fd, unsigned short cols, unsigned short rows)
{
	struct winsize size = { .ws_col = cols, .ws_row = rows };

	(void)ioctl(fd, TIOCSWINSZ, &size); /* a terminal takes any size */
}

/* Erasing takes whole characters; and who runs the shell may open its terminal by name. */
static void dress(int terminal, const struct execd_config *config)
{
	struct termios t;

	if (tcgetattr(terminal, &t) == 0) {
		t.c_iflag |= IUTF8;
		(void)tcsetattr(terminal, TCSANOW, &t);
	}
	if (config->has_identity)
		(void)!fchown(terminal, config->as.uid, (gid_t)-1); /* most programs do without */
}

static int open_terminal(struct ends *s, const struct ptys *of, struct err *e)
{
	int unlocked = 0;

	s->out = open_ptmx(of->devpts, e);
	if (s->out < 0)
		return -1;
	if (ioctl(s->out, TIOCSPTLCK, &unlocked) < 0)
		return err_sys(e, errno, "unlock a terminal");
	s->child_in = s->child_out = s->child_err = ioctl(s->out, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s->child_in < 0)
		return err_sys(e, errno, "open a terminal");
	s->in = fcntl(s->out, F_DUPFD_CLOEXEC, 3);
	if (s->in < 0)
		return err_sys(e, errno, "copy a descriptor");
	set_size(s->out, FIRST_COLS, FIRST_ROWS);
	dress(s->child_in, of->config);
	return 0;
}

/* ---- the process ---- */

struct start {
	struct launch launch;
	bool has_terminal;
};

/* In the child: it leads a session already, and 0 is the terminal. */
static int setup(void *arg, struct err *e)
{
	struct start *s = arg;

	if (s->has_terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		return err_sys(e, errno, "take the terminal");
	return launch_setup(&s->launch, e);
}

static void on_started(void *arg)
{
	struct pty *p = arg;

	p->state = PTY_UP;
	if (p->client)
		client_feed(p->client);
	pty_pump(p);
}

static void on_failed(const struct err *why, void *arg)
{
	pty_failed(arg, why);
}

static void on_ended(const struct process_end *end, void *arg)
{
	pty_ended(arg, end);
}

static int make_env(const struct execd_config *config, bool is_pipe, struct arena *a, struct env *ret, struct err *e)
{
	if (execd_env(config, a, ret, e) < 0)
		return -1;
	if (!is_pipe && !env_get(ret, STR("TERM")))
		return env_set(ret, a, STR("TERM"), STR("xterm-256color"), e);
	return 0;
}

static int make_argv(const struct pty *p, const char *shell, struct arena *a, char *argv[6], struct err *e)
{
	bool is_bash = shell_is_bash(shell);
	const char *const words[] = { strrchr(shell, '/') + 1, is_bash ? "--norc" : NULL, is_bash ? "--noprofile" : NULL,
				      p->command ? "-c" : NULL, p->command };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!words[i])
			continue;
		argv[n] = arena_dup(a, str_of(words[i]));
		if (!argv[n++])
			return err_no_memory(e);
	}
	argv[n] = NULL;
	return 0;
}

static void keep_ends(struct pty *p, struct ends *s)
{
	p->in = take_fd(&s->in);
	p->out[0].fd = take_fd(&s->out);
	p->out[1].fd = take_fd(&s->err);
	p->is_pipe = s->is_pipe;
}

int pty_shell_start(struct pty *p, struct err *e)
{
	static const struct child_ops ops = { .started = on_started, .failed = on_failed, .ended = on_ended };
	const struct execd_config *config = p->of->config;
	AUTO(arena_done) struct arena a = ARENA_INIT(START_ARENA_MAX);
	AUTO(ends_done) struct ends ends = ENDS_INIT;
	AUTO_FD cwd = launch_open_made(p->cwd, e);
	bool is_pipe = p->client && p->client->how.is_pipe;
	struct start start = { { &config->leaf, config->has_identity ? &config->as : NULL, cwd }, !is_pipe };
	const char *shell = launch_shell(&config->env, &a);
	struct spawn_spec sp;
	struct env env;
	char *argv[6];

	if (cwd < 0 || make_env(config, is_pipe, &a, &env, e) < 0 || make_argv(p, shell, &a, argv, e) < 0)
		return -1;
	if (is_pipe ? open_pipes(&ends, e) < 0 : open_terminal(&ends, p->of, e) < 0)
		return -1;
	sp = SPAWN_INIT(shell, argv);
	sp.envp = env.items;
	sp.in = ends.child_in;
	sp.out = ends.child_out;
	sp.err = ends.child_err;
	sp.new_session = true;
	sp.setup = setup;
	sp.setup_arg = &start;
	if (child_start(&p->child, p->of->init, &sp, &ops, p, e) < 0)
		return -1;
	keep_ends(p, &ends);
	p->state = PTY_STARTING;
	timer_cancel(&p->idle);
	return 0;
}

/* What a terminal's keys would reach: the job in front of its shell, or the shell itself. */
void pty_shell_signal(const struct pty *p, int signo)
{
	pid_t front = -1;

	if (!p->child.init)
		return;
	if (!p->is_pipe && p->out[0].fd >= 0)
		front = tcgetpgrp(p->out[0].fd);
	if (front <= 1 || kill(-front, signo) < 0)
		child_signal(&p->child, signo);
}

void pty_shell_kill(const struct pty *p)
{
	pty_shell_signal(p, SIGKILL);
	child_signal(&p->child, SIGKILL);
}

void pty_shell_resize(const struct pty *p, uint16_t cols, uint16_t rows)
{
	if (!p->is_pipe && p->out[0].fd >= 0)
		set_size(p->out[0].fd, cols, rows);
}

/* Of a session that is deleted nothing is to go on: its terminal hangs up. */
void pty_shell_release(struct pty *p)
{
	io_del(&p->in_io);
	closep(&p->in);
	p->in = -1;
	for (int i = 0; i < 2; i++) {
		io_del(&p->out[i].io);
		if (p->is_deleted)
			closep(&p->out[i].fd);
		else if (p->out[i].fd >= 0)
			drains_take(p->of->host.drains, &p->out[i].fd);
		p->out[i].fd = -1;
	}
}
