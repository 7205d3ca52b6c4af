// SPDX-License-Identifier: Apache-2.0
/* The life of the daemon: listen, start the entrypoint, be ready, serve, end. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/command/record.h"
#include "execd/duration.h"
#include "execd/execd.h"
#include "execd/io/events.h"

#include "base/banned.h"

#define STOP_GRACE_MS 5000 /* from a signal to SIGKILL for what still runs */
#define END_GRACE_MS 1000  /* for streams to be read to their end when all is over */
#define SLOW_CALLBACK_MS 100

/* ---- the end ---- */

static bool entrypoint_runs(const struct execd *x)
{
	return x->entrypoint.init != NULL;
}

static void on_drained(void *arg)
{
	struct execd *x = arg;

	if (entrypoint_runs(x))
		return;
	if (!x->config->argv) /* else that was recorded when it ended */
		record_exited(x->config->state_fd, &(struct process_end){ 0 }, false);
	loop_stop(x->loop);
}

static void signal_all(struct execd *x, int signo)
{
	commands_signal(&x->commands, signo);
	sessions_signal(&x->sessions, signo);
	ptys_signal(&x->ptys, signo);
}

/* Nothing is left to run for: whatever runs is killed, and streams get a moment to say so. */
static void end_all(struct execd *x, int exit_code)
{
	x->is_stopping = x->ptys.is_stopping = true;
	x->exit_code = exit_code;
	signal_all(x, SIGKILL);
	codes_stop(&x->codes);
	proxy_done(&x->proxy);
	metrics_stop(&x->metrics);
	http_server_drain(x->http, END_GRACE_MS, on_drained, x);
}

static void on_stop_deadline(void *arg)
{
	struct execd *x = arg;

	child_signal(&x->entrypoint, SIGKILL);
	signal_all(x, SIGKILL);
	proxy_done(&x->proxy);
}

static void on_stop(int signo, void *arg)
{
	struct execd *x = arg;

	if (x->is_stopping) {
		on_stop_deadline(x);
		return;
	}
	log_info("stopping", LOG_D("signal", signo), LOG_U("commands", x->commands.n));
	x->is_stopping = x->ptys.is_stopping = true;
	child_signal(&x->entrypoint, signo);
	commands_signal(&x->commands, SIGTERM);
	codes_stop(&x->codes);
	sessions_signal(&x->sessions, SIGKILL); /* a shell that is to read on would not go for less */
	ptys_signal(&x->ptys, SIGHUP); /* as when a terminal is closed */
	ptys_signal(&x->ptys, SIGCONT);
	proxy_stop_tunnels(&x->proxy);
	metrics_stop(&x->metrics);
	timer_in(&x->stop_timer, STOP_GRACE_MS);
	http_server_drain(x->http, STOP_GRACE_MS + END_GRACE_MS, on_drained, x);
}

/* ---- the entrypoint ---- */

/* The code of our start need not count as ours for as long as the sandbox lives: what is needed again is mapped again, from
 * pages that all sandboxes share. Nothing between our first page and the end of the code is ever written to. */
static void let_go_of_code(void)
{
	extern const char etext[]; /* the linker's */
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = getauxval(AT_PHDR) & ~(page - 1), to = (uintptr_t)etext & ~(page - 1);

	if (from > 0 && from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Whoever waits for the byte waits for nothing that can be done after it. */
static void become_ready(struct execd *x)
{
	record_write(x->config->state_fd, GUEST_READY, "");
	if (x->ready_fd >= 0 && write(x->ready_fd, "1", 1) < 0)
		log_warn("cannot report readiness, ignoring");
	closep(&x->ready_fd);
	x->ready_fd = -1;
	log_info("ready");
	let_go_of_code();
}

static void on_entry_started(void *arg)
{
	struct execd *x = arg;

	record_write(x->config->state_fd, GUEST_STARTED, "");
	become_ready(x);
}

static void fail_start(struct execd *x, const struct err *why)
{
	log_error("the entrypoint could not be started", LOG_ERR(why));
	record_failed(x->config->state_fd, why, false);
	x->exit_code = 1;
	loop_stop(x->loop);
}

static void on_entry_failed(const struct err *why, void *arg)
{
	struct execd *x = arg;
	struct err e = *why;

	(void)err_wrap(&e, "start '%s'", x->config->argv[0]);
	fail_start(x, &e);
}

static void on_entry_ended(const struct process_end *end, void *arg)
{
	struct execd *x = arg;
	bool is_oom = is_killed(end) && leaf_oom_kills(&x->config->leaf) > x->oom_before;

	output_collect(&x->output);
	record_exited(x->config->state_fd, end, is_oom);
	log_info("the entrypoint has ended", LOG_D("exit_code", exit_code_of(end)), LOG_B("oom_killed", is_oom));
	end_all(x, exit_code_of(end));
}

static const struct child_ops entry_ops = {
	.started = on_entry_started,
	.failed = on_entry_failed,
	.ended = on_entry_ended,
};

static int start_entrypoint(struct execd *x, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)1024 * 1024);
	AUTO_FD out = -1;
	AUTO_FD err = -1;
	const struct execd_config *config = x->config;
	struct launch launch = { .leaf = &config->leaf, .as = config->has_identity ? &config->as : NULL, .cwd_fd = -1 };
	struct spawn_spec sp = SPAWN_INIT(env_find_program(&config->env, &a, config->argv[0], e), config->argv);
	int fds[2] = { -1, -1 };

	if (!sp.path || output_open(&x->output, fds, e) < 0)
		return -1;
	out = fds[0];
	err = fds[1];
	sp.envp = config->env.items;
	sp.out = out;
	sp.err = err;
	sp.new_session = true;
	sp.setup = launch_setup;
	sp.setup_arg = &launch;
	x->oom_before = leaf_oom_kills(&config->leaf);
	return child_start(&x->entrypoint, &x->init, &sp, &entry_ops, x, e);
}

/* From inside the loop, so that failing is the same whenever it happens. */
static void start_payload(void *arg)
{
	struct execd *x = arg;
	struct err e = { 0 };

	if (!x->config->argv)
		become_ready(x);
	else if (start_entrypoint(x, &e) < 0)
		on_entry_failed(&e, x);
}

/* ---- the whole ---- */

static void on_slow(const char *name, uint64_t ms, void *arg)
{
	(void)arg;
	log_warn("the event loop was held up", LOG_S("by", name), LOG_MS("held", ms));
}

static const char *temp_dir(const struct env *env)
{
	const char *dir = env_get(env, STR("TMPDIR"));

	return dir && dir[0] == '/' ? dir : "/tmp";
}

/* EXECD_CODE_IDLE: after how long a context of code that runs nothing is deleted. */
static uint64_t code_idle_ms(const struct env *env)
{
	const char *text = env_get(env, STR("EXECD_CODE_IDLE"));
	uint64_t ms = 0;

	if (text && (!duration_ms(str_of(text), &ms) || ms == 0))
		log_warn("EXECD_CODE_IDLE is no duration such as 30m, ignoring");
	return ms > 0 ? ms : (uint64_t)CODE_IDLE_S * 1000;
}

static int start(struct execd *x, struct execd_config *config, struct err *e)
{
	x->ready_fd = take_fd(&config->ready_fd);
	x->loop = loop_new(e);
	if (!x->loop)
		return -1;
	loop_set_slow(x->loop, SLOW_CALLBACK_MS, on_slow, NULL);
	output_init(&x->output, x->loop, &config->segments);
	drains_init(&x->drains, x->loop, EXECD_DRAINS_MAX);
	x->budget.max = EXECD_BUDGET;
	x->commands = (struct commands){
		.host = { x->loop, &x->budget, &x->drains },
		.init = &x->init,
		.leaf = &config->leaf,
		.history.dir = temp_dir(&config->env),
		.max = EXECD_COMMANDS_MAX,
	};
	x->sessions = (struct sessions){
		.host = x->commands.host,
		.init = &x->init,
		.leaf = &config->leaf,
		.temp_dir = x->commands.history.dir,
	};
	x->codes = (struct codes){
		.host = { x->commands.host, &x->init, &config->leaf, config, &x->warm },
		.idle_ms = code_idle_ms(&config->env),
	};
	x->workers = (struct workers){ .loop = x->loop, .init = &x->init, .budget = &x->budget, .config = config };
	x->ptys = (struct ptys){
		.host = x->commands.host,
		.init = &x->init,
		.config = config,
		.temp_dir = x->commands.history.dir,
		.devpts = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	x->proxy = (struct proxy){ .loop = x->loop, .budget = &x->budget, .own_port = config->port };
	execd_service_init(&x->service, x);
	if (init_open(&x->init, x->loop, on_stop, x, e) < 0 ||
	    timer_init(&x->stop_timer, x->loop, on_stop_deadline, x, "stop", e) < 0 || workers_init(&x->workers, e) < 0 ||
	    code_warm_init(&x->warm, &x->codes.host, e) < 0 ||
	    metrics_init(&x->metrics, x->loop, &config->gauges, !config->is_guest, e) < 0)
		return -1;
	x->http = http_server_new(x->loop, &x->service, &service_limits, e);
	if (!x->http)
		return -1;
	return http_server_listen(x->http, &config->listen_fd, NULL, e);
}

/* A loop that fails is our own trouble: the payload is not to die of it. */
static void serve(struct execd *x)
{
	struct err e = { 0 };

	while (loop_run(x->loop, &e) < 0) {
		log_error("the event loop failed, going on", LOG_ERR(&e));
		(void)nanosleep(&(struct timespec){ .tv_nsec = NS_PER_S / 10 }, NULL);
	}
}

static void execd_done(struct execd *x)
{
	signal_all(x, SIGKILL);
	child_signal(&x->entrypoint, SIGKILL);
	ptys_done(&x->ptys);
	metrics_done(&x->metrics);
	proxy_done(&x->proxy);
	sessions_done(&x->sessions);
	codes_done(&x->codes);
	code_warm_done(&x->warm);
	commands_done(&x->commands);
	http_server_free(x->http);
	workers_done(&x->workers);
	drains_done(&x->drains);
	child_forget(&x->entrypoint);
	if (x->loop)
		output_done(&x->output);
	timer_done(&x->stop_timer);
	init_done(&x->init);
	closep(&x->ready_fd);
	log_limit_done(&x->strangers);
	loop_free(x->loop);
	free(x);
}
DEFINE_AUTO(struct execd *, execd_done)

int execd_run(struct execd_config *config, struct err *e)
{
	AUTO(execd_done) struct execd *x = calloc(1, sizeof(*x));
	struct deferred payload = { 0 };

	if (!x)
		return err_no_memory(e);
	x->config = config;
	x->init = INIT_INIT;
	x->strangers = LOG_LIMIT(LOG_LEVEL_INFO, "requests without the token, or malformed");
	x->ready_fd = -1;
	x->metrics.gauges = CGROUP_GAUGES_INIT;
	x->ptys.devpts = -1;
	if (start(x, config, e) < 0) {
		record_failed(config->state_fd, e, false);
		return -1;
	}
	defer(&payload, x->loop, start_payload, x, "payload");
	serve(x);
	log_info("stopped", LOG_D("exit_code", x->exit_code));
	return x->exit_code;
}
