// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_process.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/code/code_language.h"
#include "execd/code/code_process_impl.h"
#include "execd/code/code_warm.h"
#include "execd/io/drain.h"
#include "execd/launch.h"

#include "base/banned.h"

#define WARM_MS 3000                 /* for a fork to say that it is there */
#define TURN_STEPS 128               /* of a few KiB each, before others get their turn */
#define IDLE_STEPS 16                /* what says more than this while nothing runs is heard again after a rest */
#define REST_MS 20
#define ARENA_MAX ((size_t)64 * 1024)

static void pump(struct code_driver *d);

/* ---- the ends: of a run, of the process ---- */

static bool pipes_are_said(const struct code_driver *d)
{
	for (int i = 0; i < 2; i++)
		if (d->pipes[i].in.n > 0 || (d->pipes[i].fd >= 0 && (!d->pipes[i].is_bounded || d->pipes[i].left > 0)))
			return false;
	return true;
}

/* Memory was what it ended for. */
static bool was_oom(const struct code_driver *d, const struct process_end *end)
{
	return is_killed(end) && leaf_oom_kills(d->host->leaf) > d->oom_before;
}

/* A shell's run that did not end well is an error of that number. False: no room for it. */
static bool tell_status(struct code_driver *d, const struct process_end *end)
{
	struct end_text trace;
	struct str lines[] = { str_of(end_text(end, &trace)), STR("oom_killed") };
	char number[16];
	struct code_error er = { .name = STR("CommandExecError"), .trace = lines, .n_trace = was_oom(d, end) ? 2 : 1 };
	int n = snprintf(number, sizeof(number), "%d", exit_code_of(end));

	er.value = (struct str){ number, (size_t)n };
	return exit_code_of(end) == 0 || code_error(d->context, &er);
}

static void over(struct code_driver *d)
{
	d->is_running = d->is_finishing = d->has_begun = d->wants_interrupt = false;
	d->pipes[0].is_bounded = d->pipes[1].is_bounded = d->is_dead;
	code_done(d->context);
}

static bool end_run(struct code_driver *d)
{
	if (!d->is_finishing || !pipes_are_said(d))
		return false;
	if (!tell_status(d, &(struct process_end){ .code = d->status })) {
		d->is_blocked = true;
		return false;
	}
	over(d);
	return true;
}

static void let_go(struct code_driver *d)
{
	io_del(&d->control_io);
	closep(&d->control);
	d->control = -1;
	buf_done(&d->in);
	process_in_release(d);
	buf_done(&d->out);
	budget_give(process_budget(d), d->out_granted);
	d->out_granted = d->out_at = d->left = 0;
	for (int i = 0; i < 2; i++) {
		io_del(&d->pipes[i].io);
		if (d->pipes[i].fd >= 0)
			drains_take(d->host->host.drains, &d->pipes[i].fd);
		d->pipes[i].fd = -1;
		buf_done(&d->pipes[i].in);
	}
}

/* A shell's next run gets a new one that begins where the last run had ended. */
static bool end_shell(struct code_driver *d)
{
	if (d->is_running && !tell_status(d, &d->end)) {
		d->is_blocked = true;
		return false;
	}
	let_go(d);
	d->is_dead = false;
	if (d->is_running)
		over(d);
	return true;
}

/* All that it has said has been told: now that it is gone. */
static bool end_process(struct code_driver *d)
{
	struct end_text text;

	if (!d->is_dead || d->is_told || d->is_blocked || d->is_finishing || d->control >= 0 || !pipes_are_said(d))
		return false;
	if (d->language->keeps_state && d->is_up && d->why.code == ERR_NONE)
		return end_shell(d);
	d->is_told = true;
	if (d->why.code == ERR_NONE && was_oom(d, &d->end))
		(void)err_set(&d->why, ERR_LIMIT, "%s", end_text(&d->end, &text));
	else if (d->why.code == ERR_NONE && !d->is_up && d->n_words > 0)
		(void)err_set(&d->why, ERR_UNAVAILABLE, "%s: %.*s", end_text(&d->end, &text),
			      STR_ARG(str_trim((struct str){ d->words, d->n_words })));
	else if (d->why.code == ERR_NONE)
		(void)err_set(&d->why, ERR_UNAVAILABLE, "%s", end_text(&d->end, &text));
	code_died(d->context, &d->why);
	return false;
}

/* ---- the loop ---- */

static void on_control(unsigned ready, void *arg)
{
	(void)ready;
	pump(arg);
}

static void on_pipe(unsigned ready, void *arg)
{
	struct code_pipe *p = arg;

	(void)ready;
	pump(p->of);
}

static void on_again(void *arg)
{
	pump(arg);
}

/* Not by asking for nothing: that the other side is gone is told all the time, whether anybody wants to know or not. */
static void watch(struct code_driver *d, struct io *io, int fd, unsigned want, io_fn *fn, void *arg)
{
	struct err e = { 0 };

	if (fd < 0 || want == 0)
		io_del(io);
	else if (io->loop)
		io_want(io, want);
	else if (io_add(io, process_loop(d), fd, want, fn, arg, "code", &e) < 0)
		log_warn("a context is not heard for a while, ignoring", LOG_ERR(&e));
}

static void watch_all(struct code_driver *d)
{
	bool listens = !d->is_blocked && !d->is_finishing && !d->is_resting;

	watch(d, &d->control_io, d->control, (listens ? IO_IN : 0) | (d->out.n > d->out_at ? IO_OUT : 0), on_control, d);
	for (int i = 0; i < 2; i++)
		watch(d, &d->pipes[i].io, d->pipes[i].fd, listens ? IO_IN : 0, on_pipe, &d->pipes[i]);
}

static void send_code(struct code_driver *d)
{
	while (d->control >= 0 && d->out_at < d->out.n) {
		ssize_t n = send(d->control, d->out.p + d->out_at, d->out.n - d->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n <= 0)
			break; /* its end is told when it is read from */
		d->out_at += (size_t)n;
	}
	if (d->out_at < d->out.n && d->control >= 0)
		return;
	buf_done(&d->out);
	d->out_at = 0;
	budget_give(process_budget(d), d->out_granted);
	d->out_granted = 0;
}

/* Messages first; of the pipes only what is left when there are none. */
static bool step(struct code_driver *d)
{
	return process_take_next(d) || process_fill_control(d) || process_step_pipes(d) || end_run(d) || end_process(d);
}

/* What a context says between runs is dropped, at a pace that costs next to no time of ours. */
static void rest(struct code_driver *d)
{
	d->is_resting = true;
	timer_in(&d->rest, REST_MS);
}

static void on_rested(void *arg)
{
	struct code_driver *d = arg;

	d->is_resting = false;
	pump(d);
}

static void pump(struct code_driver *d)
{
	unsigned steps = 0, max = d->is_running || d->is_dead || !d->is_up ? TURN_STEPS : IDLE_STEPS;

	send_code(d);
	while (steps < max && step(d))
		steps++;
	if (steps == max && max == IDLE_STEPS)
		rest(d);
	else if (steps == max)
		defer(&d->again, process_loop(d), on_again, d, "code");
	if (d->is_dead && d->control >= 0 && !d->is_blocked && steps < max) {
		process_control_ended(d); /* somebody else may hold its other side: nothing of that counts */
		buf_done(&d->in);
		defer(&d->again, process_loop(d), on_again, d, "code");
	}
	watch_all(d);
	process_watch_half(d);
}

/* ---- the process ---- */

/* A run that was over but for its pipes still ends as such; one that was not is told how it ended, after what it had said. */
static void on_dead(struct code_driver *d, const struct process_end *end)
{
	bool was_over = d->is_finishing;

	if (d->child.pid > 1)
		(void)kill(-d->child.pid, SIGKILL); /* what it ran in its group; just collected, the number is still its own */
	timer_cancel(&d->limit);
	d->is_dead = true;
	d->end = *end;
	if (!was_over)
		process_bound_pipes(d);
	pump(d);
}

static void on_ended(const struct process_end *end, void *arg)
{
	on_dead(arg, end);
}

static void on_failed(const struct err *why, void *arg)
{
	struct code_driver *d = arg;

	d->why = *why;
	on_dead(d, &(struct process_end){ .code = 127 });
}

const struct child_ops process_child_ops = { .failed = on_failed, .ended = on_ended };

static void on_limit(void *arg)
{
	struct code_driver *d = arg;

	if (d->child.init && kill(d->child.pid, SIGKILL) == 0) { /* it has closed its socket: nothing can be said to it any more */
		timer_in(&d->limit, PROCESS_SILENT_MS);
		return;
	}
	if (d->is_warm && !d->is_up && !d->child.init) {
		process_start_cold(d);
		return;
	}
	child_forget(&d->child); /* it ended before we knew of it */
	on_dead(d, &(struct process_end){ .by_signal = true, .code = SIGKILL });
}

static int start_child(struct code_driver *d, struct err *e)
{
	const struct code_start st = { d->language, d->spec, d->state_fd, &process_child_ops, d };
	struct code_ends ends;

	if (code_start(&d->child, d->host, &st, &ends, e) < 0)
		return -1;
	d->control = ends.control;
	d->pipes[0].fd = ends.out[0];
	d->pipes[1].fd = ends.out[1];
	d->pipes[0].is_bounded = d->pipes[1].is_bounded = false;
	watch_all(d);
	return 0;
}

/* By a fork of a process that is there already. False: there is none, or it cannot. */
static bool start_warm(struct code_driver *d)
{
	struct code_ends ends;

	if (!d->language->can_be_warm || !code_warm_order(d->host->warm, d->spec, &ends))
		return false;
	d->is_warm = true;
	d->control = ends.control;
	d->pipes[0].fd = ends.out[0];
	d->pipes[1].fd = ends.out[1];
	timer_in(&d->limit, WARM_MS);
	watch_all(d);
	return true;
}

/* A fork that never said that it is there. */
void process_start_cold(struct code_driver *d)
{
	struct err e = { 0 };

	code_warm_drop(d->host->warm);
	let_go(d);
	timer_cancel(&d->limit);
	d->is_warm = false;
	if (start_child(d, &e) < 0) {
		d->why = e;
		d->is_dead = true;
		defer(&d->again, process_loop(d), on_again, d, "code");
	}
}

/* ---- as a driver ---- */

static int process_offers(const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	const struct code_language *l = code_language_of(sp->language);

	(void)host;
	(void)e;
	return l && !sp->kernel && code_language_program(l, sp, &a);
}

static void process_end(struct code_driver *d)
{
	child_signal(&d->child, SIGKILL);
	child_forget(&d->child);
	let_go(d);
	closep(&d->state_fd);
	defer_cancel(&d->again);
	timer_done(&d->limit);
	timer_done(&d->rest);
	timer_done(&d->half);
	free(d);
}
DEFINE_AUTO(struct code_driver *, process_end)

static struct code_driver *process_start(struct code_context *c, const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(process_end) struct code_driver *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	*d = (struct code_driver){ .context = c, .host = host, .spec = sp, .language = code_language_of(sp->language), .state_fd = -1,
				   .control = -1, .in = BUF_INIT(PROCESS_IN_BASE), .out = BUF_INIT(CODE_TEXT_MAX + 16),
				   .oom_before = leaf_oom_kills(host->leaf) };
	for (int i = 0; i < 2; i++)
		d->pipes[i] = (struct code_pipe){ .of = d, .fd = -1, .in = BUF_INIT(PROCESS_PIPE_BASE) };
	if (timer_init(&d->limit, process_loop(d), on_limit, d, "code process", e) < 0 ||
	    timer_init(&d->rest, process_loop(d), on_rested, d, "code process", e) < 0 ||
	    timer_init(&d->half, process_loop(d), process_on_half, d, "code process", e) < 0)
		return NULL;
	if (d->language->keeps_state) {
		d->state_fd = memfd_create("state", MFD_CLOEXEC);
		if (d->state_fd < 0) {
			(void)err_sys(e, errno, "create a file in memory");
			return NULL;
		}
	}
	return start_warm(d) || start_child(d, e) == 0 ? take_ptr(&d) : NULL;
}

static int process_run(struct code_driver *d, struct str code, struct err *e)
{
	if (d->is_running || d->out.n > 0)
		return err_set(e, ERR_INTERNAL, "the process is busy");
	if (!budget_take(process_budget(d), code.n + 17))
		return err_set(e, ERR_UNAVAILABLE, "no room for the code");
	d->out_granted = code.n + 17;
	buf_addf(&d->out, "R%zu\n", code.n);
	buf_add_str(&d->out, code);
	if (d->out.failed || (d->language->keeps_state && !d->child.init && start_child(d, e) < 0)) {
		bool is_full = d->out.failed;

		buf_done(&d->out);
		budget_give(process_budget(d), d->out_granted);
		d->out_granted = 0;
		return is_full ? err_no_memory(e) : -1;
	}
	d->is_running = true;
	d->is_resting = false;
	timer_cancel(&d->rest);
	d->oom_before = leaf_oom_kills(d->host->leaf);
	send_code(d);
	watch_all(d);
	return 0;
}

static void process_interrupt(struct code_driver *d)
{
	if (d->has_begun && !d->is_finishing)
		child_signal(&d->child, SIGINT);
	else if (d->is_running && !d->is_finishing)
		d->wants_interrupt = true;
}

static void process_proceed(struct code_driver *d)
{
	d->is_blocked = false;
	pump(d);
}

const struct code_driver_type code_process = {
	.name = "process",
	.offers = process_offers,
	.start = process_start,
	.run = process_run,
	.interrupt = process_interrupt,
	.proceed = process_proceed,
	.end = process_end,
};
