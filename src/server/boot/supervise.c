// SPDX-License-Identifier: Apache-2.0
#include "server/boot/supervise.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "net/pulse.h"
#include "server/boot/supervise_impl.h"
#include "sys/process.h"
#include "sys/signals.h"

#include "base/banned.h"

#define SETTLED_MS 500        /* a child that lived this long is none that cannot start */
#define PAUSE_MS 50U          /* before a child is started again, doubled with each that did not settle */
#define PAUSE_MAX_MS 1000U
#define PREDECESSORS_MS 15000 /* what a killed supervisor has left behind ends within this time */
#define PORT_MS 2000          /* and its server lets go of the ports within this one */
#define PORT_AGAIN_MS 50
#define STOP_SPARE_MS 5000U   /* beyond the time that a child takes for its own end; then it is killed */
#define SERVER_SILENT_S 10    /* seconds without a sign of life (net/pulse.h), after which it is killed and started anew */
/* Places in the array for poll(). */
enum { POLL_SIGNALS, POLL_READY, POLL_HELPER, POLL_CHILDREN, POLL_HELPERS = POLL_CHILDREN + 1 + RUNTIME_CHILDREN_MAX,
       POLL_ALL = POLL_HELPERS + HELPERS_MAX };

/* ---- children ---- */

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

/* ---- helpers ---- */

static int find_helper(const struct supervisor *s, bool is_busy)
{
	for (int i = 0; i < HELPERS_MAX; i++)
		if ((s->helpers[i] >= 0) == is_busy)
			return i;
	return -1;
}

static void on_order(struct supervisor *s)
{
	int free = find_helper(s, false);
	struct err e = { 0 };

	if (free >= 0 && s->helper.start(s->host, &s->helpers[free], &e) < 0)
		log_error("cannot start a process", LOG_S("name", s->helper.name), LOG_ERR(&e)); /* its asker sees the end */
}

static void on_helped(struct supervisor *s, size_t i)
{
	struct process_end end = { 0 };
	struct err e;

	if (process_wait(s->helpers[i], 0, &end, &e) < 0)
		log_error("cannot collect a process", LOG_S("name", s->helper.name), LOG_ERR(&e));
	else if (end.by_signal)
		log_warn("a helper was killed", LOG_S("name", s->helper.name), LOG_D("signal", end.code));
	closep(&s->helpers[i]);
	s->helpers[i] = -1;
}

static void kill_helpers(const struct supervisor *s)
{
	for (size_t i = 0; i < HELPERS_MAX; i++)
		if (s->helpers[i] >= 0)
			(void)process_signal(s->helpers[i], SIGKILL, &(struct err){ 0 }); /* it may have ended meanwhile */
}

/* ---- all of them ---- */

static void signal_child(const struct child *c, int signo)
{
	struct err e;

	if (c->pidfd >= 0 && process_signal(c->pidfd, signo, &e) < 0)
		log_warn("cannot signal a process", LOG_S("name", c->of.name), LOG_ERR(&e));
}

static void end_child(struct child *c)
{
	signal_child(c, SIGTERM);
	if (c->kill_ms == 0)
		c->kill_ms = clock_mono_ms() + c->of.stop_ms + STOP_SPARE_MS;
}

/* Once the server is gone. */
static void end_others(struct supervisor *s)
{
	kill_helpers(s);
	for (size_t i = s->n_children; i > 1; i--)
		end_child(&s->children[i - 1]);
}

/* A server that does not serve yet has nothing to drain, and may be waiting for a warden that never comes: it is killed. */
static void stop(struct supervisor *s, int status)
{
	bool is_serving = s->ready < 0 && !is_job(s);

	if (!s->is_stopping)
		s->status = status;
	s->is_stopping = true;
	serve_sockets_done(&s->sockets); /* the server closes its own: nobody waits for who does not come */
	if (server_of(s)->pidfd < 0)
		end_others(s);
	else if (is_serving)
		end_child(server_of(s));
	else
		signal_child(server_of(s), SIGKILL);
}

static void add_pause(struct child *c, bool has_settled)
{
	c->pause_ms = has_settled ? PAUSE_MS : MIN(MAX(c->pause_ms * 2, PAUSE_MS), PAUSE_MAX_MS);
	c->again_ms = clock_mono_ms() + c->pause_ms;
}

static int start_other(struct supervisor *s, struct child *c, struct err *e)
{
	AUTO_FD pulse = -1;

	if (expect_pulse(c, &pulse, e) < 0)
		return -1;
	c->pidfd = c->of.start(s->host, pulse, e);
	return c->pidfd < 0 ? -1 : 0;
}

/* What cannot be started at all, not even once, is no reason to wait for better times. */
static void start(struct supervisor *s, struct child *c)
{
	struct err e = { 0 };

	c->started_ms = clock_mono_ms();
	if ((is_server(s, c) ? supervise_start_server(s, &e) : start_other(s, c, &e)) == 0)
		return;
	log_error("cannot start a process", LOG_S("name", c->of.name), LOG_ERR(&e));
	add_pause(c, false);
	if (s->begun_ms != 0)
		stop(s, SERVE_FAILED);
}

/* Whether the end of C, with CODE, is the end of everything: it never came up, and trying again would not help. */
static bool is_final(const struct supervisor *s, const struct child *c, const struct process_end *end)
{
	if (is_server(s, c) && (is_job(s) || (!end->by_signal && end->code == SERVE_DAMAGED)))
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
		log_error("a process has ended, starting it again", LOG_S("name", c->of.name),
			  LOG_D(end->by_signal ? "signal" : "status", end->code), LOG_MS("in", c->pause_ms));
}

static void on_end(struct supervisor *s, struct child *c)
{
	struct process_end end = { 0 };
	struct err e;

	if (process_wait(c->pidfd, 0, &end, &e) < 0) {
		log_error("cannot collect a process", LOG_S("name", c->of.name), LOG_ERR(&e));
		end.code = SERVE_FAILED;
	}
	closep(&c->pidfd);
	c->pidfd = -1;
	if (s->is_stopping) {
		if (is_server(s, c)) {
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
			signal_child(server_of(s), SIGHUP);
		else
			stop(s, 0);
	}
}

/* What comes after this byte are signs of life. */
static void on_ready(struct supervisor *s)
{
	struct child *server = server_of(s);
	char byte;

	if (read(s->ready, &byte, 1) == 1) {
		s->begun_ms = 0;
		for (size_t i = 0; i < s->n_children; i++)
			s->children[i].pause_ms = 0; /* it needs them */
		server->pulse = take_fd(&s->ready);
		server->is_heard = true;
		server->silent_s = 0;
		server->look_ms = clock_mono_ms() + PULSE_MS;
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
	if (c->silent_s < c->of.silent_max_s)
		return c->look_ms;
	log_error("a process gives no sign of life, killing it", LOG_S("name", c->of.name), LOG_U("seconds", c->silent_s));
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
		log_error("a process does not end, killing it", LOG_S("name", c->of.name));
		signal_child(c, SIGKILL);
		c->kill_ms = UINT64_MAX;
	}
	return c->kill_ms;
}

static int next_wait(struct supervisor *s)
{
	uint64_t least = UINT64_MAX, now;

	for (size_t i = s->n_children; i > 0; i--) {
		uint64_t next = look_after(s, &s->children[i - 1]);

		least = MIN(least, next);
	}
	now = clock_mono_ms();
	return least == UINT64_MAX ? -1 : (int)(least - MIN(least, now));
}

static bool is_over(const struct supervisor *s)
{
	for (size_t i = 0; i < s->n_children; i++)
		if (s->children[i].pidfd >= 0)
			return false;
	return s->is_stopping && find_helper(s, true) < 0;
}

static bool takes_orders(const struct supervisor *s)
{
	return s->helper.name && !s->is_stopping && !is_job(s) && find_helper(s, false) >= 0;
}

static void watch(const struct supervisor *s, struct pollfd p[POLL_ALL])
{
	for (size_t i = 0; i < POLL_ALL; i++)
		p[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
	p[POLL_SIGNALS].fd = s->signals;
	p[POLL_READY].fd = s->is_stopping ? -1 : s->ready;
	p[POLL_HELPER].fd = takes_orders(s) ? s->helper.listener : -1;
	for (size_t i = 0; i < s->n_children; i++)
		p[POLL_CHILDREN + i].fd = s->children[i].pidfd;
	for (size_t i = 0; i < HELPERS_MAX; i++)
		p[POLL_HELPERS + i].fd = s->helpers[i];
}

static void run(struct supervisor *s)
{
	struct pollfd p[POLL_ALL];

	while (!is_over(s)) {
		int wait = next_wait(s);

		watch(s, p);
		if (is_over(s) || poll(p, ARRAY_LEN(p), wait) < 0)
			continue; /* nothing could be started; or EINTR, or no memory for a moment */
		if (p[POLL_READY].revents) /* first: who serves is not killed but told to end */
			on_ready(s);
		if (p[POLL_SIGNALS].revents)
			on_signals(s);
		for (size_t i = 0; i < s->n_children; i++)
			if (p[POLL_CHILDREN + i].revents)
				on_end(s, &s->children[i]);
		for (size_t i = 0; i < HELPERS_MAX; i++)
			if (p[POLL_HELPERS + i].revents)
				on_helped(s, i);
		if (p[POLL_HELPER].revents && !s->is_stopping)
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

static void add_children(struct supervisor *s)
{
	struct runtime_children others;

	s->spec->kind->children(s->host, &others);
	for (size_t i = 0; i < others.n; i++)
		s->children[s->n_children++] = (struct child){ .of = others.items[i], .pidfd = -1, .pulse = -1 };
	s->helper = others.helper;
}

static int begin(struct supervisor *s, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);
	bool is_taken = false;

	s->host = s->spec->kind->prepare(s->spec->config, is_job(s), &is_taken, e);
	if (!s->host) {
		s->status = is_taken ? SERVE_RUNNING : SERVE_FAILED;
		return -1;
	}
#ifdef KILL_POINTS
	s->host->kill_points = s->kill_points = kill_point_env();
#endif
	s->about = *s->host;
	add_children(s);
	if (listen_soon(s, e) < 0 || signals_block(&set, e) < 0)
		return -1;
	s->signals = signals_open(&set, e);
	return s->signals < 0 ? -1 : 0;
}

static void supervisor_done(struct supervisor *s)
{
	serve_sockets_done(&s->sockets);
	s->spec->kind->release(s->host);
	closep(&s->signals);
	closep(&s->ready);
	for (size_t i = 0; i < s->n_children; i++)
		closep(&s->children[i].pulse);
}
DEFINE_AUTO_DONE(struct supervisor, supervisor_done)

int supervise(const struct serve_spec *spec, struct err *e)
{
	AUTO(supervisor_done) struct supervisor s = {
		.pid = getpid(), .spec = spec, .signals = -1, .ready = -1, .status = SERVE_FAILED,
		.children = { { .of = { "server", SERVER_SILENT_S, (unsigned)spec->config->limits.drain_seconds * 1000, NULL },
				.pidfd = -1, .pulse = -1 } },
		.n_children = 1, .begun_ms = clock_mono_ms(), .kill_points = -1, .sockets = { .gateway_socket = -1 },
	};
	int r;

	for (size_t i = 0; i < HELPERS_MAX; i++)
		s.helpers[i] = -1;
	r = begin(&s, e);
	if (r == 0)
		run(&s);
	*spec->ret_status = s.status;
	return r;
}
