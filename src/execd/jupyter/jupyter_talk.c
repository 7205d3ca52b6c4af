// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/jupyter_talk.h"

#include <stdio.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define TEXT_MAX ((size_t)64 * 1024) /* a piece of input, decoded, and what had no room before it */
#define CUT_TEXT "a value was left out: it is too large\n"
#define LOST_TEXT "output was left out: there is no memory for it\n"

static void on_text(enum event_stream stream, struct str text, void *arg)
{
	struct talk *t = arg;

	if (!talk_is_answer(&t->iopub, t->run))
		return;
	t->stream = stream;
	(void)buf_add_str(&t->text, text); /* out of memory: see tell_text() */
}

int talk_init(struct talk *t, struct code_context *c, struct budget *budget, talk_hang_up_fn *hang_up, void *arg, struct err *e)
{
	*t = (struct talk){ .context = c, .text = BUF_INIT(TEXT_MAX), .hang_up = hang_up, .arg = arg };
	t->shell.budget = t->iopub.budget = budget;
	t->iopub.on_text = t->shell.on_text = on_text;
	t->iopub.arg = t->shell.arg = t;
	jupyter_next(&t->shell);
	jupyter_next(&t->iopub);
	return uuid_text(NULL, t->session, e);
}

void talk_done(struct talk *t)
{
	if (!t->shell.budget)
		return;
	jupyter_next(&t->shell);
	jupyter_next(&t->iopub);
	buf_done(&t->text);
}

void talk_new_id(struct talk *t, char out[TALK_ID_MAX + 1])
{
	(void)snprintf(out, TALK_ID_MAX + 1, "%s_%u", t->session, ++t->n_requests);
}

void talk_begin(struct talk *t, const char *id)
{
	(void)snprintf(t->run, sizeof(t->run), "%s", id);
	t->has_reply = t->has_idle = t->has_error = false;
}

/* ---- telling ---- */

/* A line of our own. Who takes the beginning takes it all: it is short. */
static bool tell_note(struct talk *t, struct str note)
{
	return code_output(t->context, EVENT_STDERR, note) > 0;
}

static bool tell_text(struct talk *t)
{
	struct str rest = str_skip(buf_str(&t->text), t->text_at);

	if (rest.n > 0)
		t->text_at += code_output(t->context, t->stream, rest);
	if (t->text_at < t->text.n || (t->text.failed && !tell_note(t, STR(LOST_TEXT))))
		return false;
	buf_done(&t->text); /* there may be nothing more for hours */
	t->text_at = 0;
	return true;
}

static bool tell_values(struct talk *t)
{
	struct jupyter_values *v = t->iopub.values;
	struct code_mime mimes[CODE_MIMES_MAX];
	struct code_result r = { .mimes = mimes, .count = t->iopub.kind == JUPYTER_RESULT ? t->iopub.count : 0 };

	if (t->iopub.is_cut && !tell_note(t, STR(CUT_TEXT)))
		return false;
	t->iopub.is_cut = false;
	if (!v)
		return true;
	for (; r.n < v->n_mimes; r.n++)
		mimes[r.n] = (struct code_mime){ jupyter_text(v, v->types[r.n]), jupyter_text(v, v->mimes[r.n]) };
	return r.n == 0 || code_result(t->context, &r);
}

static bool tell_error(struct talk *t, const struct jupyter_in *in)
{
	struct str trace[CODE_TRACE_MAX];
	const struct jupyter_values *v = in->values;
	struct code_error er = { .name = STR("KernelError"), .value = STR(""), .trace = trace };

	if (v) {
		if (v->name.n > 0 && v->name.n != SIZE_MAX)
			er.name = jupyter_text(v, v->name);
		if (v->value.n != SIZE_MAX)
			er.value = jupyter_text(v, v->value);
		for (; er.n_trace < v->n_trace; er.n_trace++)
			trace[er.n_trace] = jupyter_text(v, v->trace[er.n_trace]);
	}
	if (er.value.n == 0 && str_is(er.name, "KernelError"))
		er.value = STR("the kernel says no more");
	if (!code_error(t->context, &er))
		return false;
	t->has_error = true;
	return true;
}

/* What the message in `iopub` says. False: no room. */
static bool tell_message(struct talk *t)
{
	switch (t->iopub.kind) {
	case JUPYTER_DISPLAY:
	case JUPYTER_RESULT:
		return tell_values(t);
	case JUPYTER_ERROR:
		return tell_error(t, &t->iopub);
	case JUPYTER_STATUS:
		t->has_idle |= t->iopub.is_idle;
		return true;
	case JUPYTER_OTHER:
	case JUPYTER_STREAM:
	case JUPYTER_REPLY:
	case JUPYTER_INFO:
	case JUPYTER_INPUT:
		break;
	}
	return true;
}

bool talk_proceed(struct talk *t)
{
	if (!tell_text(t))
		return false;
	if (!t->waits)
		return true;
	if (talk_is_answer(&t->iopub, t->run) && !tell_message(t))
		return false;
	t->waits = false;
	jupyter_next(&t->iopub);
	return true;
}

bool talk_piece(struct talk *t, bool is_whole)
{
	t->waits |= is_whole;
	return talk_proceed(t);
}

/* Its message stays until the end of the run: an error that it tells may be the only word of it. */
void talk_reply(struct talk *t)
{
	if (t->shell.kind == JUPYTER_REPLY && talk_is_answer(&t->shell, t->run))
		t->has_reply = true;
	else
		jupyter_next(&t->shell);
}

void talk_end_run(struct talk *t)
{
	if (!t->has_reply || !t->has_idle || !t->run[0])
		return;
	if (t->shell.is_error && !t->has_error && !tell_error(t, &t->shell))
		return;
	t->run[0] = '\0';
	jupyter_next(&t->shell);
	code_done(t->context);
}

/* ---- the end ---- */

void talk_die(struct talk *t, const struct err *why)
{
	if (t->is_dead)
		return;
	t->is_dead = true;
	t->hang_up(t->arg);
	code_died(t->context, why);
}

void talk_die_of(struct talk *t, const char *what)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_UNAVAILABLE, "%s", what);
	talk_die(t, &e);
}
