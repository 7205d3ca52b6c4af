// SPDX-License-Identifier: Apache-2.0
#include "server/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/quantity.h"
#include "server/confine.h"
#include "server/native.h"
#include "server/serve.h"
#include "sys/process.h"
#include "sys/signals.h"

#include "base/banned.h"

#define WARDEN_FD 3          /* its listening socket */
#define SETTLED_MS 10000     /* a child that lived this long is started again at once */
#define PAUSE_MS 100U         /* before the next try, doubled with each that fails */
#define PAUSE_MAX_MS 5000U
#define PREDECESSORS_MS 15000 /* what a killed supervisor has left behind ends within this time */

struct child {
	const char *name;
	int pidfd; /* -1: does not run */
	uint64_t started_ms, again_ms;
	unsigned pause_ms;
};

struct supervisor {
	pid_t pid;
	const struct serve_spec *spec;
	struct serve_sockets sockets; /* for clients */
	struct native native;
	struct child warden, server;
	int signals;
	int ready; /* read end: a byte, once the server serves for the first time; then -1 */
	uint64_t begun_ms;
	bool is_stopping;
	int status; /* to end with */
};

/* ---- the warden ---- */

struct arguments {
	const char *argv[32 + 2 * CONFIG_IMAGES_MAX];
	size_t n;
	char uid[24], slots[24], disk_size[24];
};

static void add(struct arguments *a, const char *option, const char *value)
{
	a->argv[a->n++] = option;
	if (value)
		a->argv[a->n++] = value;
	a->argv[a->n] = NULL;
}

static void make_arguments(const struct supervisor *s, struct arguments *a)
{
	const struct config *c = s->spec->config;
	uint64_t disk_size;

	(void)snprintf(a->uid, sizeof(a->uid), "%u", s->native.uid);
	(void)snprintf(a->slots, sizeof(a->slots), "%lld", (long long)c->native.slots);
	a->n = 0;
	add(a, "opensandbox-warden", NULL);
	add(a, "--state-dir", c->native.state_dir);
	add(a, "--prefix", c->native.prefix);
	add(a, "--execd", s->native.execd);
	add(a, "--socket-fd", "3");
	add(a, "--server-uid", a->uid);
	add(a, "--slots", a->slots);
	add(a, "--log-level", c->log.level);
	if (c->log.format == LOG_FORMAT_JSON)
		add(a, "--log-json", NULL);
	if (c->native.disk_size && quantity_storage(str_of(c->native.disk_size), &disk_size, &(struct err){ 0 }) == 0) {
		(void)snprintf(a->disk_size, sizeof(a->disk_size), "%llu", (unsigned long long)disk_size);
		add(a, "--disk-size", a->disk_size);
	}
	if (c->native.unsafe_no_disk_limit)
		add(a, "--unsafe-no-disk-limit", NULL);
	for (size_t i = 0; i < c->native.images.n; i++) /* numbered by their order, for the server as well */
		add(a, "--image", c->native.images.items[i].value);
}

static int start_warden(struct supervisor *s, struct err *e)
{
	const struct spawn_fd fds[] = { { s->native.listener, WARDEN_FD } };
	struct arguments a;
	struct spawn_spec sp = SPAWN_INIT(s->native.warden, (char *const *)(uintptr_t)a.argv);

	make_arguments(s, &a);
	sp.err = STDERR_FILENO;
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.new_group = true; /* a terminal's Ctrl-C is for us */
	sp.death_signal = SIGTERM;
	s->warden.pidfd = process_spawn(&sp, NULL, e);
	return s->warden.pidfd < 0 ? -1 : 0;
}

/* ---- the server ---- */

/* For serve(): what only root can open has been opened. */
static int drop_rights(void *arg, struct err *e)
{
	const struct supervisor *s = arg;

	if (confine_server(s->native.uid, s->native.gid, e) < 0)
		return -1;
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0) /* after the ids: a change of them clears it */
		return err_sys(e, errno, "follow the supervisor");
	return getppid() == s->pid ? 0 : err_set(e, ERR_UNAVAILABLE, "the supervisor has ended");
}

/* In the child. Everything of the supervisor's but the sockets for clients goes, then every right. */
static _Noreturn void run_server(struct supervisor *s, int ready)
{
	struct serve_spec spec = *s->spec;
	int status = SERVE_FAILED;
	struct err e = { 0 };

	spec.sockets = &s->sockets;
	spec.state_dir = s->native.server_dir;
	spec.drop_rights = drop_rights;
	spec.drop_arg = s;
	spec.ready_fd = ready;
	spec.ret_status = &status;
	closep(&s->signals);
	closep(&s->warden.pidfd);
	closep(&s->ready);
	native_done(&s->native);
	(void)setpgid(0, 0);
	if (serve(&spec, &e) == 0)
		status = EXIT_SUCCESS;
	else
		(void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
	confine_end();
	exit(status);
}

static int start_server(struct supervisor *s, struct err *e)
{
	AUTO_FD ready = -1;
	AUTO_FD told = -1;
	pid_t pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	ready = ends[0];
	told = ends[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "start the server");
	if (pid == 0) {
		(void)close(take_fd(&ready));
		run_server(s, take_fd(&told));
	}
	s->server.pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* it stays its own until it is collected */
	if (s->server.pidfd < 0) {
		(void)err_sys(e, errno, "follow the server");
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return -1;
	}
	closep(&s->ready);
	s->ready = take_fd(&ready);
	return 0;
}

/* ---- both ---- */

static void start(struct supervisor *s, struct child *c)
{
	struct err e = { 0 };

	c->started_ms = clock_mono_ms();
	if ((c == &s->warden ? start_warden(s, &e) : start_server(s, &e)) == 0)
		return;
	log_error("cannot start a process", LOG_S("name", c->name), LOG_ERR(&e));
	c->pause_ms = MIN(MAX(c->pause_ms * 2, PAUSE_MS), PAUSE_MAX_MS);
	c->again_ms = c->started_ms + c->pause_ms;
}

static void signal_child(const struct child *c, int signo)
{
	struct err e;

	if (c->pidfd >= 0 && process_signal(c->pidfd, signo, &e) < 0)
		log_warn("cannot signal a process", LOG_S("name", c->name), LOG_ERR(&e));
}

static void stop(struct supervisor *s, int status)
{
	if (!s->is_stopping)
		s->status = status;
	s->is_stopping = true;
	serve_sockets_done(&s->sockets); /* the server closes its own: nobody waits for who does not come */
	signal_child(&s->server, SIGTERM);
	if (s->server.pidfd < 0)
		signal_child(&s->warden, SIGTERM);
}

/* Whether the end of C, with CODE, is the end of everything: it never came up, and trying again would not help. */
static bool is_final(const struct supervisor *s, const struct child *c, const struct process_end *end)
{
	if (c == &s->server && !end->by_signal && end->code == SERVE_DAMAGED)
		return true;
	if (s->begun_ms == 0 || end->by_signal) /* everything has been up once; or somebody killed it */
		return false;
	if (end->code == SERVE_RUNNING)
		return clock_mono_ms() - s->begun_ms > PREDECESSORS_MS;
	return true;
}

static void plan_again(struct child *c, const struct process_end *end)
{
	uint64_t now = clock_mono_ms();

	c->pause_ms = now - c->started_ms >= SETTLED_MS ? 0 : MIN(MAX(c->pause_ms * 2, PAUSE_MS), PAUSE_MAX_MS);
	c->again_ms = now + c->pause_ms;
	if (end->code != SERVE_RUNNING || end->by_signal)
		log_error("a process has ended, starting it again", LOG_S("name", c->name),
			  LOG_D(end->by_signal ? "signal" : "status", end->code), LOG_MS("in", c->pause_ms));
}

static void on_end(struct supervisor *s, struct child *c)
{
	struct process_end end = { 0 };
	struct err e;

	if (process_wait(c->pidfd, 0, &end, &e) < 0) {
		log_error("cannot collect a process", LOG_S("name", c->name), LOG_ERR(&e));
		end.code = SERVE_FAILED;
	}
	closep(&c->pidfd);
	c->pidfd = -1;
	if (s->is_stopping) {
		if (c == &s->server) {
			s->status = s->status ? s->status : end.by_signal ? SERVE_FAILED : end.code;
			signal_child(&s->warden, SIGTERM);
		}
		return;
	}
	if (is_final(s, c, &end))
		stop(s, end.by_signal ? SERVE_FAILED : end.code);
	else
		plan_again(c, &end);
}

static void on_signals(struct supervisor *s)
{
	struct err e = { 0 };
	int signo;

	while (signals_read(s->signals, &signo, NULL, &e) > 0) {
		if (signo == SIGHUP)
			signal_child(&s->server, SIGHUP);
		else
			stop(s, 0);
	}
}

static void on_ready(struct supervisor *s)
{
	char byte;

	if (read(s->ready, &byte, 1) == 1)
		s->begun_ms = 0;
	closep(&s->ready);
	s->ready = -1;
}

/* How long until a child is to be started again; starts those whose time has come. */
static int next_start(struct supervisor *s)
{
	struct child *both[] = { &s->warden, &s->server };
	uint64_t now = clock_mono_ms(), least = UINT64_MAX;

	for (size_t i = 0; i < ARRAY_LEN(both) && !s->is_stopping; i++) {
		if (both[i]->pidfd < 0 && both[i]->again_ms <= now)
			start(s, both[i]);
		if (both[i]->pidfd < 0)
			least = MIN(least, both[i]->again_ms);
	}
	return least == UINT64_MAX ? -1 : (int)(least - MIN(least, now));
}

static void run(struct supervisor *s)
{
	while (!s->is_stopping || s->server.pidfd >= 0 || s->warden.pidfd >= 0) {
		int wait = next_start(s);
		struct pollfd p[] = {
			{ .fd = s->signals, .events = POLLIN }, { .fd = s->ready, .events = POLLIN },
			{ .fd = s->server.pidfd, .events = POLLIN }, { .fd = s->warden.pidfd, .events = POLLIN },
		};

		if (poll(p, ARRAY_LEN(p), wait) < 0)
			continue; /* EINTR, or no memory for a moment */
		if (p[0].revents)
			on_signals(s);
		if (p[1].revents)
			on_ready(s);
		if (p[2].revents)
			on_end(s, &s->server);
		if (p[3].revents)
			on_end(s, &s->warden);
	}
}

static int begin(struct supervisor *s, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);
	bool is_taken = false;

	if (native_prepare(s->spec->config, &s->native, &is_taken, e) < 0) {
		s->status = is_taken ? SERVE_RUNNING : SERVE_FAILED;
		return -1;
	}
	if (serve_listen(s->spec->config, &s->sockets, e) < 0 || signals_block(&set, e) < 0)
		return -1;
	s->signals = signals_open(&set, e);
	return s->signals < 0 ? -1 : 0;
}

static void supervisor_done(struct supervisor *s)
{
	serve_sockets_done(&s->sockets);
	native_done(&s->native);
	closep(&s->signals);
	closep(&s->ready);
}
DEFINE_AUTO_DONE(struct supervisor, supervisor_done)

int supervise(const struct serve_spec *spec, struct err *e)
{
	AUTO(supervisor_done) struct supervisor s = {
		.pid = getpid(), .spec = spec, .native = NATIVE_INIT, .signals = -1, .ready = -1, .status = SERVE_FAILED,
		.warden = { .name = "warden", .pidfd = -1 }, .server = { .name = "server", .pidfd = -1 },
		.begun_ms = clock_mono_ms(),
	};
	int r = begin(&s, e);

	if (r == 0)
		run(&s);
	*spec->ret_status = s.status;
	return r;
}
