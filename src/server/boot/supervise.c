// SPDX-License-Identifier: Apache-2.0
#include "server/boot/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/quantity.h"
#include "box/egress_start.h"
#include "box/network.h"
#include "image/fetch.h"
#include "net/pulse.h"
#include "server/boot/confine.h"
#include "server/boot/serve.h"
#include "server/boot/start_egress.h"
#include "server/native/children.h"
#include "sys/process.h"
#include "sys/signals.h"

#include "base/banned.h"

#define WARDEN_FD 3          /* its listening socket */
#define SETTLED_MS 500        /* a child that lived this long is none that cannot start */
#define PAUSE_MS 50U          /* before a child is started again, doubled with each that did not settle */
#define PAUSE_MAX_MS 1000U
#define PREDECESSORS_MS 15000 /* what a killed supervisor has left behind ends within this time */
#define PORT_MS 2000          /* and its server lets go of the ports within this one */
#define PORT_AGAIN_MS 50
#define STOP_SPARE_MS 5000U   /* beyond the time that a child takes for its own end; then it is killed */
#define WARDEN_STOP_MS 10000U
#define EGRESS_STOP_MS 1000U
#define FDS_MAX 4
#define WARDEN_FD_PULSE 6
#define WARDEN_FD_PULSE_TEXT "6"
/* Seconds without a sign of life (net/pulse.h), after which a child is killed and started anew. Changes of policies and creates wait
 * for egress, and are to be answered within 10 s; the warden may be at work on thousands of boxes. */
#define EGRESS_SILENT_S 5
#define SERVER_SILENT_S 10
#define WARDEN_SILENT_S 15
#define SERVER_NICE (-10)
#define SERVER_NICE_TEXT "-10"
#define FETCHERS_MAX 16       /* at once; further orders wait in the socket */
#define FETCHERS_AT 6         /* in the array for poll(): behind what there is one of */

struct child {
	const char *name;
	int pidfd; /* -1: does not run */
	uint64_t started_ms, again_ms;
	uint64_t kill_ms; /* it was told to end: when that was long enough. 0: it was not */
	unsigned pause_ms;
	int pulse;         /* read end of its signs of life; -1: none are awaited */
	bool is_heard;     /* there was one: from then on they are counted */
	unsigned silent_s; /* for so long there was none, */
	unsigned silent_max_s; /* and so long there may be none */
	uint64_t look_ms;  /* when to look again */
};

struct supervisor {
	pid_t pid;
	const struct serve_spec *spec;
	struct serve_sockets sockets; /* for clients */
	struct native native;
	struct child warden, server;
	struct child egress; /* does not run where it is not installed */
	int fetchers[FETCHERS_MAX]; /* pidfds of those at work, or -1 */
	int signals;
	int ready; /* read end: a byte, once the server serves; then -1 */
	uint64_t begun_ms; /* 0: everything has been up */
	int kill_points; /* of test builds, else -1 */
	bool is_stopping;
	bool has_egress; /* it is installed, and sandboxes have networks */
	const char *network_lacks; /* see runtime.h */
	int status; /* to end with */
};

/* ---- the warden ---- */

struct arguments {
	const char *argv[40 + 2 * CONFIG_IMAGES_MAX + 2 * CONFIG_HOST_PATHS_MAX + 2 * CONFIG_PRIVATE_MAX];
	size_t n;
	char uid[24], egress_uid[24], slots[24], disk_size[24], disk_reserve[24];
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
	(void)snprintf(a->egress_uid, sizeof(a->egress_uid), "%u", s->native.egress_uid);
	(void)snprintf(a->slots, sizeof(a->slots), "%lld", (long long)c->native.slots);
	a->n = 0;
	add(a, "opensandbox-warden", NULL);
	add(a, "--state-dir", c->native.state_dir);
	add(a, "--prefix", c->native.prefix);
	add(a, "--execd", s->native.execd);
	add(a, "--socket-fd", "3");
	add(a, "--server-uid", a->uid);
	add(a, "--pulse-fd", WARDEN_FD_PULSE_TEXT);
	if (s->has_egress) {
		add(a, "--egress-fd", WARDEN_FD_EGRESS_TEXT);
		add(a, "--egress-uid", a->egress_uid);
	} else {
		add(a, "--no-network", NULL);
	}
	add(a, "--slots", a->slots);
	add(a, "--log-level", c->log.level);
	if (c->log.format == LOG_FORMAT_JSON)
		add(a, "--log-json", NULL);
	if (c->native.disk_size && quantity_storage(str_of(c->native.disk_size), &disk_size, &(struct err){ 0 }) == 0) {
		(void)snprintf(a->disk_size, sizeof(a->disk_size), "%llu", (unsigned long long)disk_size);
		add(a, "--disk-size", a->disk_size);
	}
	if (config_disk_reserve(c) > 0) {
		(void)snprintf(a->disk_reserve, sizeof(a->disk_reserve), "%llu", (unsigned long long)config_disk_reserve(c));
		add(a, "--disk-reserve", a->disk_reserve);
	}
	if (c->native.unsafe_no_disk_limit)
		add(a, "--unsafe-no-disk-limit", NULL);
	if (c->native.network_range && c->native.network_range[0])
		add(a, "--network-range", c->native.network_range);
	for (size_t i = 0; i < c->egress.allow_private.n; i++)
		add(a, "--network-open", c->egress.allow_private.items[i]);
	for (size_t i = 0; i < c->native.images.n; i++) /* numbered by their order, for the server as well */
		add(a, "--image", c->native.images.items[i].value);
	for (size_t i = 0; i < c->storage.allowed_host_paths.n; i++) /* likewise */
		add(a, "--volume-prefix", c->storage.allowed_host_paths.items[i]);
}

static bool is_job(const struct supervisor *s)
{
	return s->spec->job != NULL;
}

/* The environment of the warden: none, but for what test builds need. */
static char *const *warden_env(const struct supervisor *s, struct spawn_fd *fd, size_t *n_fds)
{
#ifdef KILL_POINTS
	static const char *const env[] = { KILL_POINT_FD_ENV "=4", NULL };

	if (s->kill_points >= 0) {
		*fd = (struct spawn_fd){ s->kill_points, WARDEN_FD + 1 };
		(*n_fds)++;
		return (char *const *)(uintptr_t)env;
	}
#endif
	(void)s, (void)fd, (void)n_fds;
	return NULL;
}

/* Makes the pipe of a child's signs of life; *ret_pulse is its end. */
static int expect_pulse(struct child *c, int *ret_pulse, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	closep(&c->pulse);
	c->pulse = ends[0];
	c->is_heard = false;
	*ret_pulse = ends[1];
	return 0;
}

static int start_warden(struct supervisor *s, struct err *e)
{
	AUTO_FD pulse = -1;
	struct spawn_fd fds[FDS_MAX] = { { s->native.listener, WARDEN_FD }, { s->native.egress_warden_listener, WARDEN_FD_EGRESS } };
	struct arguments a;
	struct spawn_spec sp = SPAWN_INIT(s->native.warden, (char *const *)(uintptr_t)a.argv);

	make_arguments(s, &a);
	sp.err = STDERR_FILENO;
	if (expect_pulse(&s->warden, &pulse, e) < 0)
		return -1;
	fds[2] = (struct spawn_fd){ pulse, WARDEN_FD_PULSE };
	sp.fds = fds;
	sp.n_fds = 3;
	sp.envp = warden_env(s, &fds[3], &sp.n_fds);
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
	/* After the ids: a change of them clears it. There is nothing to drain for: who is started next must have the ports and
	 * the database at once. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, errno, "follow the supervisor");
	return getppid() == s->pid ? 0 : err_set(e, ERR_UNAVAILABLE, "the supervisor has ended");
}

/* Whoever calls waits for the server in every sandbox's name: it goes before what runs in them, which would otherwise make it
 * wait for a tick. Kernels that group processes by session (autogroup) weigh sessions first, so it has one of its own. Where
 * neither may be set, it is as all others are. */
static void go_first(void)
{
	AUTO_FD group = -1;

	(void)setsid();
	(void)setpriority(PRIO_PROCESS, 0, SERVER_NICE);
	group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (group >= 0)
		(void)!write(group, SERVER_NICE_TEXT, strlen(SERVER_NICE_TEXT));
}

/* In the child. Everything of the supervisor's but the sockets for clients goes, then every right. */
static _Noreturn void run_server(struct supervisor *s, int ready)
{
	struct serve_spec spec = *s->spec;
	int status = SERVE_FAILED;
	struct err e = { 0 };

	spec.sockets = &s->sockets;
	spec.state_dir = s->native.server_dir;
	spec.has_network = s->has_egress;
	spec.network_lacks = s->network_lacks;
	spec.drop_rights = drop_rights;
	spec.drop_arg = s;
	spec.ready_fd = ready;
	spec.ret_status = &status;
#ifdef KILL_POINTS
	kill_point_open(s->kill_points);
#endif
	closep(&s->signals);
	closep(&s->warden.pidfd);
	closep(&s->egress.pidfd);
	closep(&s->server.pulse); /* of the one before */
	closep(&s->warden.pulse);
	closep(&s->egress.pulse);
	closep(&s->ready);
	for (size_t i = 0; i < FETCHERS_MAX; i++)
		closep(&s->fetchers[i]);
	native_done(&s->native);
	go_first();
	if ((is_job(s) ? spec.job : serve)(&spec, &e) == 0)
		status = EXIT_SUCCESS;
	else
		(void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
	if (status == SERVE_DAMAGED)
		(void)fputs("opensandbox-server: nothing was changed; 'opensandbox-server recover' makes a new database from what "
			    "is left of it and from the sandboxes that run\n", stderr);
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
	closep(&s->server.pulse);
	s->server.pulse = -1;
	return 0;
}

/* ---- fetchers ---- */

static int find_fetcher(const struct supervisor *s, bool is_busy)
{
	for (int i = 0; i < FETCHERS_MAX; i++)
		if ((s->fetchers[i] >= 0) == is_busy)
			return i;
	return -1;
}

/* One for each connection that the server makes: what it says there is none of our business. */
static int start_fetcher(struct supervisor *s, int *ret_pidfd, struct err *e)
{
	AUTO_FD order = accept4(s->native.fetch_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	AUTO_FD program = open(s->native.fetch, O_PATH | O_CLOEXEC);
	const char *argv[] = { "opensandbox-fetch", NULL };
	/* By its descriptor: the folders above it need not be open to the fetcher's user. */
	struct spawn_fd fds[] = { { order, FETCH_FD_ASKER }, { s->native.blobs, FETCH_FD_BLOBS }, { program, FETCH_FD_PROGRAM } };
	struct spawn_spec sp = SPAWN_INIT("/proc/self/fd/" FETCH_FD_PROGRAM_TEXT, (char *const *)(uintptr_t)argv);

	if (order < 0)
		return errno == EAGAIN ? 0 : err_sys(e, errno, "take an order");
	if (program < 0)
		return err_sys(e, errno, "open '%s'", s->native.fetch);
	sp.err = STDERR_FILENO;
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.keep_ids = false;
	sp.uid = s->native.fetch_uid;
	sp.gid = s->native.fetch_gid;
	sp.new_group = true;
	sp.death_signal = SIGKILL;
	*ret_pidfd = process_spawn(&sp, NULL, e);
	return *ret_pidfd < 0 ? -1 : 0;
}

static void on_order(struct supervisor *s)
{
	int free = find_fetcher(s, false);
	struct err e = { 0 };

	if (free >= 0 && start_fetcher(s, &s->fetchers[free], &e) < 0)
		log_error("cannot start a process", LOG_S("name", "fetcher"), LOG_ERR(&e)); /* its asker sees the end */
}

static void on_fetched(struct supervisor *s, size_t i)
{
	struct process_end end = { 0 };
	struct err e;

	if (process_wait(s->fetchers[i], 0, &end, &e) < 0)
		log_error("cannot collect a process", LOG_S("name", "fetcher"), LOG_ERR(&e));
	else if (end.by_signal)
		log_warn("a fetcher was killed", LOG_D("signal", end.code));
	closep(&s->fetchers[i]);
	s->fetchers[i] = -1;
}

static void kill_fetchers(const struct supervisor *s)
{
	for (size_t i = 0; i < FETCHERS_MAX; i++)
		if (s->fetchers[i] >= 0)
			(void)process_signal(s->fetchers[i], SIGKILL, &(struct err){ 0 }); /* it may have ended meanwhile */
}

/* ---- all of them ---- */

static void signal_child(const struct child *c, int signo)
{
	struct err e;

	if (c->pidfd >= 0 && process_signal(c->pidfd, signo, &e) < 0)
		log_warn("cannot signal a process", LOG_S("name", c->name), LOG_ERR(&e));
}

static void end_child(struct child *c, uint64_t within_ms)
{
	signal_child(c, SIGTERM);
	if (c->kill_ms == 0)
		c->kill_ms = clock_mono_ms() + within_ms + STOP_SPARE_MS;
}

/* Once the server is gone. */
static void end_others(struct supervisor *s)
{
	kill_fetchers(s);
	end_child(&s->egress, EGRESS_STOP_MS);
	end_child(&s->warden, WARDEN_STOP_MS);
}

/* A server that does not serve yet has nothing to drain, and may be waiting for a warden that never comes: it is killed. */
static void stop(struct supervisor *s, int status)
{
	bool is_serving = s->ready < 0 && !is_job(s);

	if (!s->is_stopping)
		s->status = status;
	s->is_stopping = true;
	serve_sockets_done(&s->sockets); /* the server closes its own: nobody waits for who does not come */
	if (s->server.pidfd < 0)
		end_others(s);
	else if (is_serving)
		end_child(&s->server, (uint64_t)s->spec->config->limits.drain_seconds * 1000);
	else
		signal_child(&s->server, SIGKILL);
}

static void add_pause(struct child *c, bool has_settled)
{
	c->pause_ms = has_settled ? PAUSE_MS : MIN(MAX(c->pause_ms * 2, PAUSE_MS), PAUSE_MAX_MS);
	c->again_ms = clock_mono_ms() + c->pause_ms;
}

static int start_egress(struct supervisor *s, struct err *e)
{
	AUTO_FD pulse = -1;

	if (expect_pulse(&s->egress, &pulse, e) < 0)
		return -1;
	s->egress.pidfd = egress_start(s->spec->config, &s->native, pulse, e);
	return s->egress.pidfd < 0 ? -1 : 0;
}

/* What cannot be started at all, not even once, is no reason to wait for better times. */
static void start(struct supervisor *s, struct child *c)
{
	struct err e = { 0 };

	c->started_ms = clock_mono_ms();
	if ((c == &s->warden ? start_warden(s, &e) : c == &s->egress ? start_egress(s, &e) : start_server(s, &e)) == 0)
		return;
	log_error("cannot start a process", LOG_S("name", c->name), LOG_ERR(&e));
	add_pause(c, false);
	if (s->begun_ms != 0)
		stop(s, SERVE_FAILED);
}

/* Whether the end of C, with CODE, is the end of everything: it never came up, and trying again would not help. */
static bool is_final(const struct supervisor *s, const struct child *c, const struct process_end *end)
{
	if (c == &s->server && (is_job(s) || (!end->by_signal && end->code == SERVE_DAMAGED)))
		return true;
	if (s->begun_ms == 0 || end->by_signal) /* everything has been up once; or somebody killed it */
		return false;
	if (end->code == SERVE_RUNNING)
		return clock_mono_ms() - s->begun_ms > PREDECESSORS_MS;
	return true;
}

static void plan_again(struct child *c, const struct process_end *end)
{
	add_pause(c, clock_mono_ms() - c->started_ms >= SETTLED_MS);
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
			if (s->status == 0 && s->ready < 0) /* else it was killed before it served */
				s->status = end.by_signal ? SERVE_FAILED : end.code;
			end_others(s);
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

/* What comes after this byte are signs of life. */
static void on_ready(struct supervisor *s)
{
	char byte;

	if (read(s->ready, &byte, 1) == 1) {
		s->begun_ms = s->server.pause_ms = s->warden.pause_ms = s->egress.pause_ms = 0; /* it needs them */
		s->server.pulse = take_fd(&s->ready);
		s->server.is_heard = true;
		s->server.silent_s = 0;
		s->server.look_ms = clock_mono_ms() + PULSE_MS;
	}
	closep(&s->ready);
	s->ready = -1;
}

/* Counts looks, not time: while we are stopped ourselves, or the whole machine is, nobody is silent. When to look again. */
static uint64_t listen_to(struct child *c)
{
	char bytes[64];
	bool is_heard = false;

	if (c->look_ms > clock_mono_ms())
		return c->look_ms;
	while (read(c->pulse, bytes, sizeof(bytes)) > 0)
		is_heard = true;
	c->silent_s = is_heard || !c->is_heard ? 0 : c->silent_s + 1;
	c->is_heard |= is_heard;
	c->look_ms = clock_mono_ms() + PULSE_MS;
	if (c->silent_s < c->silent_max_s)
		return c->look_ms;
	log_error("a process gives no sign of life, killing it", LOG_S("name", c->name), LOG_U("seconds", c->silent_s));
	signal_child(c, SIGKILL);
	c->silent_s = 0;
	return c->look_ms;
}

/* When something is to be done about C, which is done if the time has come; UINT64_MAX: never. */
static uint64_t look_after(struct supervisor *s, struct child *c)
{
	if (c->pidfd < 0 && !s->is_stopping) {
		if (c->again_ms <= clock_mono_ms())
			start(s, c);
		return c->pidfd < 0 && !s->is_stopping ? c->again_ms : UINT64_MAX;
	}
	if (c->pidfd >= 0 && c->pulse >= 0 && !s->is_stopping)
		return listen_to(c);
	if (c->pidfd < 0 || c->kill_ms == 0)
		return UINT64_MAX;
	if (c->kill_ms <= clock_mono_ms()) {
		log_error("a process does not end, killing it", LOG_S("name", c->name));
		signal_child(c, SIGKILL);
		c->kill_ms = UINT64_MAX;
	}
	return c->kill_ms;
}

static int next_wait(struct supervisor *s)
{
	uint64_t warden = look_after(s, &s->warden), server = look_after(s, &s->server);
	uint64_t egress = s->has_egress ? look_after(s, &s->egress) : UINT64_MAX;
	uint64_t least = MIN(warden, server), now = clock_mono_ms();

	least = MIN(least, egress);
	return least == UINT64_MAX ? -1 : (int)(least - MIN(least, now));
}

static bool is_over(const struct supervisor *s)
{
	return s->is_stopping && s->server.pidfd < 0 && s->warden.pidfd < 0 && s->egress.pidfd < 0 && find_fetcher(s, true) < 0;
}

static bool takes_orders(const struct supervisor *s)
{
	return !s->is_stopping && !is_job(s) && find_fetcher(s, false) >= 0;
}

static void run(struct supervisor *s)
{
	while (!is_over(s)) {
		int wait = next_wait(s);
		struct pollfd p[FETCHERS_AT + FETCHERS_MAX] = {
			{ .fd = s->signals, .events = POLLIN },
			{ .fd = s->is_stopping ? -1 : s->ready, .events = POLLIN },
			{ .fd = s->server.pidfd, .events = POLLIN }, { .fd = s->warden.pidfd, .events = POLLIN },
			{ .fd = takes_orders(s) ? s->native.fetch_listener : -1, .events = POLLIN },
			{ .fd = s->egress.pidfd, .events = POLLIN },
		};

		for (size_t i = 0; i < FETCHERS_MAX; i++)
			p[FETCHERS_AT + i] = (struct pollfd){ .fd = s->fetchers[i], .events = POLLIN };

		if (is_over(s) || poll(p, ARRAY_LEN(p), wait) < 0)
			continue; /* nothing could be started; or EINTR, or no memory for a moment */
		if (p[1].revents) /* first: who serves is not killed but told to end */
			on_ready(s);
		if (p[0].revents)
			on_signals(s);
		if (p[2].revents)
			on_end(s, &s->server);
		if (p[3].revents)
			on_end(s, &s->warden);
		if (p[5].revents)
			on_end(s, &s->egress);
		for (size_t i = 0; i < FETCHERS_MAX; i++)
			if (p[FETCHERS_AT + i].revents)
				on_fetched(s, i);
		if (p[4].revents && !s->is_stopping)
			on_order(s);
	}
}

/* A server whose supervisor was killed a moment ago goes with it, but not in the same instant. */
static int listen_soon(struct supervisor *s, struct err *e)
{
	uint64_t until = clock_mono_ms() + PORT_MS;

	if (is_job(s))
		return 0;
	while (serve_listen(s->spec->config, &s->sockets, e) < 0) {
		if (e->sys != EADDRINUSE || clock_mono_ms() >= until)
			return -1;
		(void)poll(NULL, 0, PORT_AGAIN_MS);
		*e = (struct err){ 0 };
	}
	return 0;
}

static void find_egress(struct supervisor *s)
{
	bool is_wanted = !is_job(s) && s->spec->config->native.network != NETWORK_NONE;

	s->has_egress = is_wanted && egress_is_installed(&s->native);
	if (is_wanted && !s->has_egress)
		log_warn("opensandbox-egress is not installed: sandboxes have no network");
	if (!s->has_egress || box_network_has_program())
		return;
	s->network_lacks = "the program 'nft' is not installed";
	log_error("the program 'nft' is not installed: no sandbox with a network can be made");
}

static int begin(struct supervisor *s, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);
	bool is_taken = false;

	if (native_prepare(s->spec->config, &s->native, &is_taken, e) < 0) {
		s->status = is_taken ? SERVE_RUNNING : SERVE_FAILED;
		return -1;
	}
#ifdef KILL_POINTS
	s->kill_points = kill_point_env();
#endif
	find_egress(s);
	if (listen_soon(s, e) < 0 || signals_block(&set, e) < 0)
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
	closep(&s->warden.pulse);
	closep(&s->server.pulse);
	closep(&s->egress.pulse);
}
DEFINE_AUTO_DONE(struct supervisor, supervisor_done)

int supervise(const struct serve_spec *spec, struct err *e)
{
	AUTO(supervisor_done) struct supervisor s = {
		.pid = getpid(), .spec = spec, .native = NATIVE_INIT, .signals = -1, .ready = -1, .status = SERVE_FAILED,
		.warden = { .name = "warden", .pidfd = -1, .pulse = -1, .silent_max_s = WARDEN_SILENT_S },
		.server = { .name = "server", .pidfd = -1, .pulse = -1, .silent_max_s = SERVER_SILENT_S },
		.egress = { .name = "egress", .pidfd = -1, .pulse = -1, .silent_max_s = EGRESS_SILENT_S },
		.begun_ms = clock_mono_ms(), .kill_points = -1, .sockets = { .gateway_socket = -1 },
	};
	int r;

	for (size_t i = 0; i < FETCHERS_MAX; i++)
		s.fetchers[i] = -1;
	r = begin(&s, e);
	if (r == 0)
		run(&s);
	*spec->ret_status = s.status;
	return r;
}
