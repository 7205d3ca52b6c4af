// SPDX-License-Identifier: Apache-2.0
#include "execd/command/command.h"

#include <fcntl.h>
#include <signal.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/uuid.h"
#include "execd/init.h"
#include "execd/io/input.h"
#include "execd/launch.h"
#include "net/http/server.h"

#include "base/banned.h"

/* Somebody who waits for the end that they asked for. */
struct waiter {
	struct waiter *next;
	struct command *c;
	struct reply *rp;
};

struct command {
	struct commands *of;
	struct command *prev, *next;
	struct command_record *record;
	struct execution run;    /* what it writes */
	struct execution answer; /* in the background: what the client is told */
	bool is_background;
	bool is_answered;        /* `answer` is done with, or not needed */
	bool is_over;            /* `run` is */
	bool has_ended;          /* the process has, or never was */
	bool must_go;            /* whatever its group still has dies with it */
	struct child child;
	struct input input;
	struct timer timeout, grace;
	uint64_t oom_before;
	struct waiter *waiters;
	unsigned n_waiters;
};

/* ---- the end ---- */

static void answer_waiters(struct command *c)
{
	while (c->waiters) {
		struct waiter *w = c->waiters;

		c->waiters = w->next;
		(void)reply_empty(w->rp, 200);
		free(w);
	}
	c->n_waiters = 0;
}

static void command_free(struct command *c)
{
	struct commands *cs = c->of;

	answer_waiters(c);
	if (c->record)
		c->record->user = NULL;
	if (c->run.lingers)
		cs->lingering--;
	if (!c->has_ended)
		cs->n--;
	execution_done(&c->run);
	execution_done(&c->answer);
	input_done(&c->input);
	timer_done(&c->timeout);
	timer_done(&c->grace);
	child_forget(&c->child);
	*(c->prev ? &c->prev->next : &cs->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
}

void commands_done(struct commands *cs)
{
	while (cs->first)
		command_free(cs->first);
	history_done(&cs->history);
	random_pool_done(&cs->random);
}

void commands_signal(struct commands *cs, int signo)
{
	for (struct command *c = cs->first; c; c = c->next)
		child_signal(&c->child, signo);
}

static void on_forgotten(struct command_record *p)
{
	struct command *c = p->user;

	c->record = NULL;
	c->run.streams[0].tail = c->run.streams[1].tail = NULL;
	command_free(c);
}

/* In the background what is left running may write on, and that is kept as long as the record is. */
static bool stays(struct command *c)
{
	if (c->run.lingers || !c->is_background || c->run.streams[0].fd < 0 || c->of->lingering >= COMMANDS_LINGERING_MAX)
		return false;
	c->run.lingers = true;
	c->of->lingering++;
	return true;
}

static void on_run_done(void *arg)
{
	struct command *c = arg;

	c->is_over = true;
	if (c->is_answered && !stays(c))
		command_free(c);
}

static void on_answer_done(void *arg)
{
	struct command *c = arg;

	c->is_answered = true;
	if (c->is_over && !c->run.lingers && !stays(c))
		command_free(c);
}

/* ---- the process ---- */

static void note_end(struct command *c, int exit_code, const char *error)
{
	c->has_ended = true;
	c->of->n--;
	input_done(&c->input);
	timer_cancel(&c->timeout);
	timer_cancel(&c->grace);
	if (c->record)
		history_end(c->record, exit_code, error, loop_now_ms(c->of->host.loop));
	answer_waiters(c);
}

static void on_started(void *arg)
{
	struct command *c = arg;

	if (c->is_background)
		execution_end(&c->answer, &(struct process_end){ 0 }, false);
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct command *c = arg;
	bool is_oom = is_killed(end) && leaf_oom_kills(c->of->leaf) > c->oom_before;
	struct end_text text;

	/* The leader has just been collected: its number names its group and nothing else yet. */
	if (c->must_go)
		(void)kill(-c->child.pid, SIGKILL);
	log_debug("command ended", LOG_S("id", c->record ? c->record->id : ""),
		  LOG_D("exit_code", exit_code_of(end)));
	note_end(c, exit_code_of(end), end->by_signal || end->code != 0 ? end_text(end, &text) : "");
	execution_end(&c->run, end, is_oom);
}

static void on_failed(const struct err *why, void *arg)
{
	struct command *c = arg;

	log_info("a command could not be started", LOG_S("id", c->record ? c->record->id : ""), LOG_ERR(why));
	note_end(c, 255, why->msg);
	if (c->is_background)
		execution_fail(&c->answer, why);
	execution_fail(&c->run, why);
}

static const struct child_ops child_ops = { .started = on_started, .failed = on_failed, .ended = on_ended };

static void on_deadline(void *arg)
{
	struct command *c = arg;

	c->must_go = true;
	child_signal(&c->child, SIGKILL);
}

/* ---- the start ---- */

static int make_pipe(struct execution *x, int which, int *ret_write, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	*ret_write = ends[1];
	return execution_pipe(x, which, ends[0], e);
}

/* In the background both go the same way, so that they stay in order. */
static int command_spawn(struct command *c, const struct command_spec *cmd, int in, struct err *e)
{
	AUTO_FD out = -1;
	AUTO_FD err = -1;
	struct spawn_spec sp = SPAWN_INIT(cmd->path, cmd->argv);
	struct launch launch = { .leaf = c->of->leaf, .as = cmd->as, .cwd_fd = cmd->cwd_fd };

	if (make_pipe(&c->run, 0, &out, e) < 0 || (!cmd->is_background && make_pipe(&c->run, 1, &err, e) < 0))
		return -1;
	sp.envp = cmd->envp;
	sp.in = in;
	sp.out = out;
	sp.err = cmd->is_background ? out : err;
	sp.new_session = true;
	sp.setup = launch_setup;
	sp.setup_arg = &launch;
	return child_start(&c->child, c->of->init, &sp, &child_ops, c, e);
}

static struct command *command_new(struct commands *cs, struct err *e)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->of = cs;
	c->input = INPUT_INIT;
	c->oom_before = leaf_oom_kills(cs->leaf);
	c->next = cs->first;
	if (c->next)
		c->next->prev = c;
	cs->first = c;
	cs->n++;
	if (timer_init(&c->timeout, cs->host.loop, on_deadline, c, "command timeout", e) < 0 ||
	    timer_init(&c->grace, cs->host.loop, on_deadline, c, "command grace", e) < 0) {
		command_free(c);
		return NULL;
	}
	return c;
}

static int remember(struct command *c, const struct command_spec *sp, struct err *e)
{
	struct commands *cs = c->of;
	char id[UUID_HEX_LEN + 1];

	if (uuid_hex32(&cs->random, id, e) < 0)
		return -1;
	c->record = history_add(&cs->history, str_of(id), sp->content, loop_now_ms(cs->host.loop), e);
	if (!c->record)
		return -1;
	c->record->user = c;
	c->record->forget = on_forgotten;
	return 0;
}

static int open_input(struct command *c, struct str text, int *ret, struct err *e)
{
	const struct execution_host *host = &c->of->host;

	return text.n == 0 ? 0 : input_open(&c->input, host->loop, host->budget, text, ret, e);
}

static int begin(struct command *c, struct reply *rp, struct err *e)
{
	const struct execution_host *host = &c->of->host;
	struct str id = str_of(c->record->id);

	c->is_answered = !c->is_background;
	if (!c->is_background)
		return execution_begin(&c->run, host, id, &c->record->output, rp, e);
	if (execution_begin_unheard(&c->run, host, &c->record->output, e) < 0)
		return -1;
	return execution_begin(&c->answer, host, id, NULL, rp, e);
}

int command_run(struct commands *cs, const struct command_spec *sp, struct reply *rp, struct err *e)
{
	AUTO_FD in = -1;
	struct err why = { 0 };
	struct command *c;

	if (cs->n >= cs->max)
		return err_set(e, ERR_LIMIT, "%u commands are running", cs->n);
	c = command_new(cs, e);
	if (!c)
		return -1;
	c->is_background = sp->is_background;
	if (open_input(c, sp->input, &in, e) < 0 || remember(c, sp, e) < 0 || begin(c, rp, e) < 0) {
		if (c->record)
			history_end(c->record, 255, "it was never started", loop_now_ms(cs->host.loop));
		command_free(c);
		return -1;
	}
	c->run.done = on_run_done;
	c->answer.done = on_answer_done;
	c->run.arg = c->answer.arg = c;
	if (sp->timeout_ms > 0)
		timer_in(&c->timeout, sp->timeout_ms);
	if (command_spawn(c, sp, in, &why) < 0) {
		note_end(c, 255, why.msg);
		execution_fail_later(&c->run, &why); /* the stream says so when it proceeds */
		if (c->is_background) {
			c->is_over = true;
			execution_fail_later(&c->answer, &why);
		}
	}
	return 0;
}

/* ---- being asked to end ---- */

static void on_waiter_gone(void *arg)
{
	struct waiter *w = arg, **at = &w->c->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->c->n_waiters--;
	free(w);
}

int command_interrupt(struct commands *cs, struct str id, struct reply *rp, struct err *e)
{
	struct command_record *p = history_find(&cs->history, id, loop_now_ms(cs->host.loop));
	struct command *c = p ? p->user : NULL;
	struct waiter *w;

	if (!p)
		return err_set(e, ERR_NOT_FOUND, "no such command");
	if (!p->is_running || !c)
		return err_set(e, ERR_CONFLICT, "the command is not running");
	if (c->n_waiters >= COMMAND_WAITERS_MAX)
		return err_set(e, ERR_LIMIT, "too many wait for the end of this command");
	w = malloc(sizeof(*w));
	if (!w)
		return err_no_memory(e);
	*w = (struct waiter){ c->waiters, c, rp };
	c->waiters = w;
	c->n_waiters++;
	c->must_go = true;
	child_signal(&c->child, SIGTERM);
	timer_in(&c->grace, COMMAND_GRACE_MS);
	return reply_hold(rp, on_waiter_gone, w);
}
