// SPDX-License-Identifier: Apache-2.0
#include "execd/command/session.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/command/session_shell.h"
#include "execd/env.h"
#include "execd/init.h"
#include "execd/io/drain.h"
#include "execd/io/tail_file.h"
#include "execd/launch.h"
#include "net/http/server.h"

#include "base/banned.h"

#define ENV_BYTES_MAX ((size_t)2 * 1024 * 1024)
#define SCRIPT_BYTES_MAX ((size_t)2 * 1024 * 1024) /* the longest command, each byte of it quoted */
#define STATUS_BYTES_MAX 16

struct run {
	struct run *next;
	struct session *of;
	struct execution x;
	struct buf script;
	struct timer timeout;
	uint64_t timeout_ms;
	uint64_t oom_before;
	size_t granted; /* for the script */
	bool has_begun; /* the shell has it */
	bool has_ended; /* the shell is done with it */
};

struct session {
	struct sessions *of;
	struct session *prev, *next;
	char id[UUID_LEN + 1];
	struct arena arena; /* for what it is made from */
	const char *shell;
	char *argv[5];
	struct env env;
	struct identity as;
	bool has_identity;

	struct child child;
	bool is_up;
	int go;            /* to the shell */
	int done;          /* from it */
	struct io done_io;
	char status[STATUS_BYTES_MAX];
	size_t n_status;
	int script, state; /* files */
	int pipes[2];      /* what it writes, between two runs; -1: with a run, or at its end */
	struct io idle[2];

	struct run *runs;  /* the first one has the shell */
	unsigned n_runs;
	bool is_deleted;
	struct deferred next_turn;
};

static void advance(void *arg);

/* ---- between runs ---- */

/* What is left running may write: it is read and dropped. */
static void on_idle(unsigned ready, struct session *s, int which)
{
	ssize_t n = read(s->pipes[which], s->of->host.drains->scratch, DRAIN_PIECE);

	(void)ready;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		io_del(&s->idle[which]);
		closep(&s->pipes[which]);
		s->pipes[which] = -1;
	}
}

static void on_idle_stdout(unsigned ready, void *arg)
{
	on_idle(ready, arg, 0);
}

static void on_idle_stderr(unsigned ready, void *arg)
{
	on_idle(ready, arg, 1);
}

static void rest(struct session *s, int which, int fd)
{
	struct err e;

	s->pipes[which] = fd;
	if (fd >= 0 && io_add(&s->idle[which], s->of->host.loop, fd, IO_IN, which == 0 ? on_idle_stdout : on_idle_stderr, s,
			      "idle session", &e) < 0)
		log_warn("what a session writes between runs is not read, ignoring", LOG_ERR(&e));
}

/* ---- the end of a shell ---- */

static void let_go(struct session *s)
{
	io_del(&s->done_io);
	closep(&s->go);
	closep(&s->done);
	s->go = s->done = -1;
	s->n_status = 0;
	for (int i = 0; i < 2; i++) {
		io_del(&s->idle[i]);
		if (s->pipes[i] >= 0)
			drains_take(s->of->host.drains, &s->pipes[i]);
		s->pipes[i] = -1;
	}
	s->is_up = false;
}

static void forget_script(struct run *r)
{
	buf_done(&r->script);
	budget_give(r->of->of->host.budget, r->granted);
	r->granted = 0;
}

static void run_free(struct run *r)
{
	forget_script(r);
	timer_done(&r->timeout);
	execution_done(&r->x);
	free(r);
}

static void session_free(struct session *s)
{
	struct sessions *ss = s->of;

	while (s->runs) {
		struct run *r = s->runs;

		s->runs = r->next;
		ss->host.budget->runs--;
		run_free(r);
	}
	child_forget(&s->child);
	let_go(s);
	defer_cancel(&s->next_turn);
	closep(&s->script);
	closep(&s->state);
	*(s->prev ? &s->prev->next : &ss->first) = s->next;
	if (s->next)
		s->next->prev = s->prev;
	ss->n--;
	arena_done(&s->arena);
	free(s);
}

void sessions_done(struct sessions *ss)
{
	while (ss->first)
		session_free(ss->first);
	random_pool_done(&ss->random);
}

void sessions_signal(struct sessions *ss, int signo)
{
	for (struct session *s = ss->first; s; s = s->next)
		child_signal(&s->child, signo);
}

/* ---- the end of a run ---- */

static void on_run_done(void *arg)
{
	struct run *r = arg;
	struct session *s = r->of;

	for (int i = 0; i < 2; i++) {
		int fd = stream_take(&r->x.streams[i]);

		if (fd >= 0 && s->is_up)
			rest(s, i, fd);
		else if (fd >= 0)
			drains_take(s->of->host.drains, &fd);
	}
	s->runs = r->next;
	s->n_runs--;
	s->of->host.budget->runs--;
	run_free(r);
	defer(&s->next_turn, s->of->host.loop, advance, s, "session");
}

/* The shell has said how it went, or has ended over it. */
static void end_run(struct session *s, const struct process_end *end)
{
	struct run *r = s->runs;
	bool is_oom = is_killed(end) && leaf_oom_kills(s->of->leaf) > r->oom_before;

	r->has_ended = true;
	timer_cancel(&r->timeout);
	execution_end(&r->x, end, is_oom);
}

/* One that waits for its turn has none, then. */
static void on_reader_gone(void *arg)
{
	struct run *r = arg;

	if (r->has_begun)
		child_signal(&r->of->child, SIGKILL);
}

static void on_status(unsigned ready, void *arg)
{
	struct session *s = arg;
	ssize_t n = read(s->done, s->status + s->n_status, sizeof(s->status) - s->n_status);
	struct str line = { s->status, s->n_status }, rest_;
	uint64_t code;

	(void)ready;
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			io_want(&s->done_io, 0); /* its end is told by its exit */
		return;
	}
	s->n_status += (size_t)n;
	line.n = s->n_status;
	if (!str_cut(line, '\n', &line, &rest_)) {
		if (s->n_status == sizeof(s->status))
			s->n_status = 0; /* not from our driver */
		return;
	}
	s->n_status = 0;
	if (str_to_u64(line, 0, 255, &code) && s->runs && s->runs->has_begun && !s->runs->has_ended)
		end_run(s, &(struct process_end){ .code = (int)code });
}

/* ---- the shell ---- */

static void on_ended(const struct process_end *end, void *arg)
{
	struct session *s = arg;

	(void)kill(-s->child.pid, SIGKILL); /* what it ran in its group; just collected, the number is still its own */
	let_go(s);
	if (s->runs && s->runs->has_begun && !s->runs->has_ended)
		end_run(s, end);
	defer(&s->next_turn, s->of->host.loop, advance, s, "session");
}

static void on_failed(const struct err *why, void *arg)
{
	struct session *s = arg;
	struct run *r = s->runs;

	let_go(s);
	if (r && r->has_begun && !r->has_ended) {
		r->has_ended = true;
		execution_fail(&r->x, why);
	}
	defer(&s->next_turn, s->of->host.loop, advance, s, "session");
}

static const struct child_ops child_ops = { .failed = on_failed, .ended = on_ended };

struct shell_pipes {
	int go[2], done[2], out[2], err[2];
};

static void shell_pipes_done(struct shell_pipes *p)
{
	int *const all[] = { p->go, p->done, p->out, p->err };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		closep(&all[i][0]);
		closep(&all[i][1]);
	}
}
DEFINE_AUTO_DONE(struct shell_pipes, shell_pipes_done)

static int shell_pipes_open(struct shell_pipes *p, struct err *e)
{
	int *const all[] = { p->go, p->done, p->out, p->err };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (pipe2(all[i], O_CLOEXEC) < 0)
			return err_sys(e, errno, "create a pipe");
	if (fcntl(p->done[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(p->out[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(p->err[0], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe non-blocking");
	return 0;
}

static int start_shell(struct session *s, struct err *e)
{
	AUTO(shell_pipes_done) struct shell_pipes p = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	struct launch launch = { .leaf = s->of->leaf, .as = s->has_identity ? &s->as : NULL, .cwd_fd = -1 };
	struct spawn_spec sp = SPAWN_INIT(s->shell, s->argv);
	int base = shell_fds(s->shell);
	struct spawn_fd fds[] = {
		{ s->script, base + SHELL_SCRIPT }, { s->state, base + SHELL_STATE }, { -1, base + SHELL_GO },
		{ -1, base + SHELL_DONE },          { s->of->init->null_fd, base + SHELL_NULL },
	};

	if (shell_pipes_open(&p, e) < 0)
		return -1;
	fds[2].fd = p.go[0];
	fds[3].fd = p.done[1];
	sp.envp = s->env.items;
	sp.out = p.out[1];
	sp.err = p.err[1];
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.new_session = true;
	sp.setup = launch_setup;
	sp.setup_arg = &launch;
	if (io_add(&s->done_io, s->of->host.loop, p.done[0], IO_IN, on_status, s, "session status", e) < 0)
		return -1;
	s->done = take_fd(&p.done[0]);
	s->go = take_fd(&p.go[1]);
	s->pipes[0] = take_fd(&p.out[0]);
	s->pipes[1] = take_fd(&p.err[0]);
	s->is_up = true;
	if (child_start(&s->child, s->of->init, &sp, &child_ops, s, e) == 0)
		return 0;
	let_go(s);
	return -1;
}

/* ---- a run ---- */

static void on_timeout(void *arg)
{
	struct run *r = arg;

	child_signal(&r->of->child, SIGKILL);
}

static int give_script(struct session *s, struct run *r, struct err *e)
{
	if (ftruncate(s->script, 0) < 0 || pwrite(s->script, r->script.p, r->script.n, 0) != (ssize_t)r->script.n)
		return err_sys(e, errno, "write the command");
	forget_script(r);
	return write(s->go, "\n", 1) == 1 ? 0 : err_sys(e, errno, "tell the shell");
}

static int begin_run(struct session *s, struct run *r, struct err *e)
{
	r->has_begun = true;
	r->oom_before = leaf_oom_kills(s->of->leaf);
	if (!s->is_up && start_shell(s, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++) {
		int fd = s->pipes[i];

		io_del(&s->idle[i]);
		s->pipes[i] = -1;
		if (fd >= 0 && execution_pipe(&r->x, i, fd, e) < 0)
			return -1;
	}
	timer_in(&r->timeout, r->timeout_ms);
	return give_script(s, r, e);
}

/* From the loop: whoever is next gets the shell. */
static void advance(void *arg)
{
	struct session *s = arg;
	struct run *r = s->runs;
	struct err e = { 0 };

	if (s->is_deleted && !s->child.init && !r) {
		session_free(s);
		return;
	}
	if (!r || r->has_begun)
		return;
	if (s->is_deleted)
		(void)err_set(&e, ERR_NOT_FOUND, "the session was deleted");
	else if (!r->x.rp) /* nobody waits for it any more */
		(void)err_set(&e, ERR_UNAVAILABLE, "the client went away");
	else if (begin_run(s, r, &e) == 0)
		return;
	r->has_begun = r->has_ended = true;
	timer_cancel(&r->timeout);
	execution_fail(&r->x, &e);
}

static int write_script(struct run *r, const struct session_command *cmd, struct err *e)
{
	shell_script(&r->script, cmd->text, cmd->cwd);
	if (r->script.failed)
		return err_no_memory(e);
	if (!budget_take(r->of->of->host.budget, r->script.cap))
		return err_set(e, ERR_UNAVAILABLE, "no room for the command");
	r->granted = r->script.cap;
	return 0;
}

int session_run(struct session *s, const struct session_command *cmd, struct reply *rp, struct err *e)
{
	struct run *r, **at = &s->runs;

	if (s->n_runs >= SESSION_QUEUE_MAX || s->of->host.budget->runs >= EXECD_RUNS_MAX)
		return err_set(e, ERR_LIMIT, "%u runs of this session wait", s->n_runs);
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_no_memory(e);
	*r = (struct run){ .of = s, .script = BUF_INIT(SCRIPT_BYTES_MAX),
			   .timeout_ms = cmd->timeout_ms ? cmd->timeout_ms : SESSION_TIMEOUT_MS };
	if (write_script(r, cmd, e) < 0 || timer_init(&r->timeout, s->of->host.loop, on_timeout, r, "session run", e) < 0 ||
	    execution_begin(&r->x, &s->of->host, str_of(s->id), NULL, rp, e) < 0) {
		run_free(r);
		return -1;
	}
	r->x.done = on_run_done;
	r->x.gone = on_reader_gone;
	r->x.arg = r;
	while (*at)
		at = &(*at)->next;
	*at = r;
	s->n_runs++;
	s->of->host.budget->runs++;
	defer(&s->next_turn, s->of->host.loop, advance, s, "session");
	return 0;
}

/* ---- a session ---- */

static bool is_shell_name(struct str item)
{
	struct str name, value;

	if (!str_cut(item, '=', &name, &value) || name.n == 0 || (name.p[0] >= '0' && name.p[0] <= '9'))
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
			return false;
	}
	return true;
}

static int copy_env(struct session *s, const struct session_spec *sp, struct err *e)
{
	if (env_copy(&s->env, &s->arena, NULL, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < sp->env->n; i++) {
		struct str item = str_of(sp->env->items[i]), name, value;

		if (is_shell_name(item) && str_cut(item, '=', &name, &value) &&
		    env_set(&s->env, &s->arena, name, value, e) < 0)
			return -1;
	}
	return 0;
}

static int write_first_state(const struct session *s, const char *cwd, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(SCRIPT_BYTES_MAX);

	shell_first_state(&text, cwd);
	if (text.failed)
		return err_no_memory(e);
	return pwrite(s->state, text.p, text.n, 0) == (ssize_t)text.n ? 0 : err_sys(e, errno, "write a session's directory");
}

/* As another user the shell must still be able to open its own files. */
static int open_files(struct session *s, struct err *e)
{
	int *const files[] = { &s->script, &s->state };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		*files[i] = unnamed_file(s->of->temp_dir, e);
		if (*files[i] < 0)
			return -1;
		if (s->has_identity && fchown(*files[i], s->as.uid, s->as.gid) < 0)
			return err_sys(e, errno, "give a file to the session's user");
	}
	return 0;
}

static int fill(struct session *s, const struct session_spec *sp, struct err *e)
{
	const char *const argv[] = { strrchr(sp->shell, '/') + 1, shell_is_bash(sp->shell) ? "--norc" : "-c",
				     shell_is_bash(sp->shell) ? "-c" : shell_driver(sp->shell),
				     shell_is_bash(sp->shell) ? shell_driver(sp->shell) : NULL };

	s->shell = arena_dup(&s->arena, str_of(sp->shell));
	for (size_t i = 0; s->shell && i < ARRAY_LEN(argv) && argv[i]; i++) {
		s->argv[i] = arena_dup(&s->arena, str_of(argv[i]));
		if (!s->argv[i])
			return err_no_memory(e);
	}
	if (!s->shell)
		return err_no_memory(e);
	if (sp->as) {
		s->as = *sp->as;
		s->has_identity = true;
	}
	if (copy_env(s, sp, e) < 0 || open_files(s, e) < 0 || write_first_state(s, sp->cwd, e) < 0)
		return -1;
	return uuid_text(&s->of->random, s->id, e);
}

struct session *session_new(struct sessions *ss, const struct session_spec *sp, struct err *e)
{
	struct session *s;

	if (ss->n >= SESSIONS_MAX) {
		(void)err_set(e, ERR_LIMIT, "there are %u sessions", ss->n);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	*s = (struct session){ .of = ss, .next = ss->first, .arena = ARENA_INIT(ENV_BYTES_MAX), .go = -1, .done = -1,
			       .script = -1, .state = -1, .pipes = { -1, -1 } };
	if (s->next)
		s->next->prev = s;
	ss->first = s;
	ss->n++;
	if (fill(s, sp, e) < 0) {
		session_free(s);
		return NULL;
	}
	return s;
}

struct session *session_find(const struct sessions *ss, struct str id)
{
	struct session *s = ss->first;

	while (s && (s->is_deleted || !str_is(id, s->id)))
		s = s->next;
	return s;
}

const char *session_id(const struct session *s)
{
	return s->id;
}

void session_delete(struct session *s)
{
	s->is_deleted = true;
	child_signal(&s->child, SIGKILL);
	defer(&s->next_turn, s->of->host.loop, advance, s, "session");
}
