// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_warm.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/code/code_frame.h"
#include "execd/code/code_language.h"
#include "execd/execd.h"
#include "execd/io/drain.h"
#include "sys/passing.h"

#include "base/banned.h"

#define SPEC_BYTES_MAX ((size_t)512 * 1024)
#define IN_MAX ((size_t)512)
#define ORDER_MAX ((size_t)8 * 1024)

static const char *setting(const struct code_warm *w)
{
	const char *value = env_get(&w->host->config->env, STR("EXECD_CODE_WARM"));

	return value ? value : "";
}

/* ---- its end ---- */

static void forget_spec(struct code_warm *w)
{
	arena_done(&w->arena);
	budget_give(w->host->host.budget, w->granted);
	w->granted = 0;
}

static void let_go(struct code_warm *w)
{
	child_signal(&w->child, SIGKILL);
	child_forget(&w->child);
	io_del(&w->io);
	closep(&w->control);
	w->control = -1;
	buf_done(&w->in);
	forget_spec(w);
	w->left = 0;
	w->state = CODE_WARM_NONE;
	timer_cancel(&w->timer);
}

void code_warm_drop(struct code_warm *w)
{
	w->failures++;
	let_go(w);
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct code_warm *w = arg;
	struct end_text text;

	log_debug("what contexts are forked from has ended", LOG_S("how", end_text(end, &text)));
	code_warm_drop(w);
}

static void on_failed(const struct err *why, void *arg)
{
	struct code_warm *w = arg;

	log_debug("what contexts are forked from did not start", LOG_ERR(why));
	code_warm_drop(w);
}

static const struct child_ops child_ops = { .failed = on_failed, .ended = on_ended };

/* ---- its start ---- */

/* Names and dots are all that goes into its message: blanks separate. */
static void write_modules(const struct code_warm *w, struct buf *out)
{
	for (const char *p = setting(w); *p; p++) {
		bool is_name = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' || *p == '.';

		buf_add_char(out, is_name ? *p : ' ');
	}
}

static int send_modules(struct code_warm *w, struct err *e)
{
	AUTO(buf_done) struct buf names = BUF_INIT(CODE_WARM_MODULES_MAX);
	AUTO(buf_done) struct buf text = BUF_INIT(CODE_WARM_MODULES_MAX + 16);

	write_modules(w, &names);
	buf_addf(&text, "W%zu\n%s", names.n, buf_z(&names));
	if (names.failed || text.failed)
		return err_set(e, ERR_LIMIT, "EXECD_CODE_WARM is longer than %d bytes", CODE_WARM_MODULES_MAX);
	if (send(w->control, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)text.n)
		return err_sys(e, errno, "send the list of imports");
	w->state = CODE_WARM_IMPORTING;
	return 0;
}

/* It says twice that it is there: as any interpreter, and when it has imported. All else is what imports print. */
static int on_message(struct code_warm *w, const struct code_frame *f, struct err *e)
{
	w->left = f->length;
	if (f->type != 'H')
		return 0;
	if (w->state == CODE_WARM_STARTING)
		return send_modules(w, e);
	w->state = CODE_WARM_READY;
	w->failures = 0;
	w->orders = 1;
	timer_in(&w->timer, CODE_WARM_IDLE_MS);
	return 0;
}

static int take_messages(struct code_warm *w, struct err *e)
{
	struct code_frame f;
	size_t used;
	int r;

	for (;;) {
		size_t skipped = MIN(w->left, w->in.n);

		buf_consume(&w->in, skipped);
		w->left -= skipped;
		if (w->left > 0 || w->in.n == 0)
			return 0;
		r = code_frame_head(buf_str(&w->in), &f, &used, e);
		if (r <= 0)
			return r;
		buf_consume(&w->in, used);
		if (on_message(w, &f, e) < 0)
			return -1;
	}
}

static void on_control(unsigned ready, void *arg)
{
	struct code_warm *w = arg;
	struct err e = { 0 };
	char *p = buf_reserve(&w->in, IN_MAX - w->in.n);
	ssize_t n = p ? recv(w->control, p, IN_MAX - w->in.n, MSG_DONTWAIT) : 0;

	(void)ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_commit(&w->in, (size_t)n);
	if (n <= 0 || take_messages(w, &e) < 0)
		code_warm_drop(w);
}

static int start(struct code_warm *w, struct err *e)
{
	AUTO(code_ends_done) struct code_ends ends = CODE_ENDS_INIT;
	const struct code_start st = { code_language_of("python"), &w->spec, -1, &child_ops, w };

	if (code_start(&w->child, w->host, &st, &ends, e) < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		drains_take(w->host->host.drains, &ends.out[i]);
	ends.out[0] = ends.out[1] = -1;
	w->control = take_fd(&ends.control);
	w->state = CODE_WARM_STARTING;
	timer_in(&w->timer, CODE_WARM_START_MS);
	return io_add(&w->io, w->host->host.loop, w->control, IO_IN, on_control, w, "warm start", e);
}

static void on_timer(void *arg)
{
	struct code_warm *w = arg;
	struct err e = { 0 };

	if (w->state == CODE_WARM_READY)
		let_go(w); /* nobody wants it */
	else if (w->state != CODE_WARM_WANTED || start(w, &e) < 0)
		code_warm_drop(w);
}

/* ---- for contexts ---- */

static int copy_spec(struct code_warm *w, const struct code_spec *sp, struct err *e)
{
	w->env = (struct env){ 0 };
	if (env_copy(&w->env, &w->arena, sp->env->items, NULL, e) < 0)
		return -1;
	w->spec = (struct code_spec){ .language = "python", .env = &w->env, .cwd = "/" };
	if (sp->as) {
		w->as = *sp->as;
		w->spec.as = &w->as;
	}
	return 0;
}

static bool is_same(const struct code_spec *a, const struct code_spec *b)
{
	if (a->env->n != b->env->n || !a->as != !b->as || (a->as && memcmp(a->as, b->as, sizeof(*a->as)) != 0))
		return false;
	for (size_t i = 0; i < a->env->n; i++)
		if (strcmp(a->env->items[i], b->env->items[i]) != 0)
			return false;
	return true;
}

void code_warm_want(struct code_warm *w, const struct code_spec *sp)
{
	struct err e = { 0 };

	if (w->state == CODE_WARM_READY && !is_same(&w->spec, sp)) {
		if (w->orders == 0)
			let_go(w);
		w->orders = 0;
	}
	if (w->state != CODE_WARM_NONE || w->failures >= CODE_WARM_FAILURES_MAX || strcmp(setting(w), "off") == 0)
		return;
	if (copy_spec(w, sp, &e) < 0 || !budget_take_spare(w->host->host.budget, w->arena.used)) {
		forget_spec(w);
		return;
	}
	w->granted = w->arena.used;
	w->state = CODE_WARM_WANTED;
	timer_in(&w->timer, CODE_WARM_AFTER_MS);
}

bool code_warm_order(struct code_warm *w, const struct code_spec *sp, struct code_ends *ret)
{
	AUTO(code_ends_done) struct code_ends ours = CODE_ENDS_INIT, theirs = CODE_ENDS_INIT;
	AUTO(buf_done) struct buf text = BUF_INIT(ORDER_MAX);
	struct err e = { 0 };

	if (w->state != CODE_WARM_READY || !is_same(&w->spec, sp))
		return false;
	buf_addf(&text, "F\n%s", sp->cwd);
	if (text.failed || code_ends_open(&ours, &theirs, &e) < 0 || passing_want_sender(ours.control, &e) < 0)
		return false;
	if (passing_send(w->control, text.p, text.n, (const int[]){ theirs.control, theirs.out[0], theirs.out[1] }, 3, &e) <= 0)
		return false;
	timer_in(&w->timer, CODE_WARM_IDLE_MS);
	w->orders++;
	*ret = ours;
	ours = CODE_ENDS_INIT;
	return true;
}

int code_warm_init(struct code_warm *w, const struct code_host *host, struct err *e)
{
	*w = (struct code_warm){ .host = host, .control = -1, .arena = ARENA_INIT(SPEC_BYTES_MAX), .in = BUF_INIT(IN_MAX) };
	return timer_init(&w->timer, host->host.loop, on_timer, w, "warm start", e);
}

void code_warm_done(struct code_warm *w)
{
	if (!w->host)
		return;
	let_go(w);
	timer_done(&w->timer);
}
