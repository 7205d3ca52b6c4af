// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_process_impl.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "execd/budget.h"
#include "execd/code/code_frame.h"
#include "execd/code/code_language.h"
#include "execd/code/code_warm.h"
#include "sys/fd.h"
#include "sys/passing.h"

#include "base/banned.h"

#define STAT_MAX ((size_t)1024)

/* ---- messages ---- */

void process_in_release(struct code_driver *d)
{
	budget_give(process_budget(d), d->granted);
	d->granted = 0;
	if (d->in.n == 0)
		buf_done(&d->in);
	d->in.max = PROCESS_IN_BASE;
}

/* Room for a message that must be there as a whole. */
static bool in_widen(struct code_driver *d, size_t size)
{
	size_t have = PROCESS_IN_BASE + d->granted;

	if (size > have && !budget_take_spare(process_budget(d), size - have))
		return false;
	d->granted += size > have ? size - have : 0;
	d->in.max = PROCESS_IN_BASE + d->granted;
	return true;
}

/* Nothing more of it is read. */
static bool damage(struct code_driver *d, const struct err *why)
{
	if (d->why.code == ERR_NONE)
		(void)err_set(&d->why, ERR_INVALID, "its messages make no sense: %s", why->msg);
	child_signal(&d->child, SIGKILL);
	return false;
}

static bool tell_value(struct code_driver *d, char type, struct str payload, struct err *e)
{
	struct code_mime mimes[CODE_MIMES_MAX];
	struct code_result r = { .mimes = mimes };
	struct str name, value;
	int more;

	while ((more = code_frame_item(&payload, &name, &value, e)) > 0 && r.n < ARRAY_LEN(mimes)) {
		if (str_eq(name, STR("count")))
			(void)str_to_u64(value, 0, INT64_MAX, &r.count);
		else
			mimes[r.n++] = (struct code_mime){ name, value };
	}
	if (type == 'D')
		r.count = 0;
	return more < 0 || r.n == 0 || code_result(d->context, &r);
}

static bool tell_error(struct code_driver *d, struct str payload, struct err *e)
{
	struct str trace[CODE_TRACE_MAX], name, value;
	struct code_error er = { .name = STR("Error"), .trace = trace };
	int more;

	while ((more = code_frame_item(&payload, &name, &value, e)) > 0) {
		if (str_eq(name, STR("name")))
			er.name = value;
		else if (str_eq(name, STR("value")))
			er.value = value;
		else if (er.n_trace < ARRAY_LEN(trace))
			trace[er.n_trace++] = value;
	}
	return more < 0 || code_error(d->context, &er);
}

static void on_up(struct code_driver *d)
{
	if (d->is_up)
		return;
	d->is_up = true;
	timer_cancel(&d->limit);
	code_ready(d->context);
	if (d->language->can_be_warm && !d->is_warm)
		code_warm_want(d->host->warm, d->spec);
}

void process_bound_pipes(struct code_driver *d)
{
	for (int i = 0; i < 2; i++) {
		struct code_pipe *p = &d->pipes[i];
		int there = 0;

		if (p->fd >= 0 && ioctl(p->fd, FIONREAD, &there) < 0)
			there = 0;
		p->is_bounded = true;
		p->left = (size_t)there;
	}
}

static void finish_run(struct code_driver *d, int status)
{
	if (!d->is_running)
		return;
	d->is_finishing = true;
	d->status = status;
	process_bound_pipes(d);
}

/* A whole message. False: there is no room for what it says. E is set when it makes no sense. */
static bool take_message(struct code_driver *d, char type, struct str payload, struct err *e)
{
	uint64_t status;

	switch (type) {
	case 'H':
		on_up(d);
		return true;
	case 'B':
		d->has_begun = true;
		if (d->wants_interrupt)
			child_signal(&d->child, SIGINT);
		d->wants_interrupt = false;
		return true;
	case 'R':
	case 'D':
		return tell_value(d, type, payload, e);
	case 'X':
		return tell_error(d, payload, e);
	case 'Z':
		finish_run(d, 0);
		return true;
	case 'S':
		if (str_to_u64(payload, 0, 255, &status))
			finish_run(d, (int)status);
		return true;
	case 'N':
		(void)err_set(&d->why, ERR_NOT_FOUND, "%.*s", STR_ARG(str_first(payload, 256)));
		return true;
	default:
		(void)err_set(e, ERR_INVALID, "there is no message '%c'", type);
		return true;
	}
}

static bool is_stream(char type)
{
	return type == 'O' || type == 'E';
}

/* The next piece of a message that is not collected. */
static bool take_piece(struct code_driver *d)
{
	struct str piece = str_first(buf_str(&d->in), d->left);
	size_t n = piece.n;

	if (is_stream(d->left_type))
		n = code_output(d->context, d->left_type == 'E' ? EVENT_STDERR : EVENT_STDOUT, piece);
	buf_consume(&d->in, n);
	d->left -= n;
	d->is_blocked = n < piece.n;
	return n > 0;
}

static void skip(struct code_driver *d, const struct code_frame *f)
{
	char note[96];
	int n = snprintf(note, sizeof(note), "[a result of %zu bytes was left out: there is no memory for it]\n", f->length);

	if (f->type == 'R' || f->type == 'D')
		(void)code_output(d->context, EVENT_STDERR, (struct str){ note, (size_t)n });
	d->left_type = 0;
	d->left = f->length;
}

bool process_take_next(struct code_driver *d)
{
	struct err e = { 0 };
	struct code_frame f;
	size_t used;
	int r;

	if (d->in.n == 0 || d->is_finishing || d->is_blocked || d->why.code == ERR_INVALID)
		return false;
	if (d->left > 0)
		return take_piece(d);
	r = code_frame_head(buf_str(&d->in), &f, &used, &e);
	if (r <= 0)
		return r < 0 && damage(d, &e);
	if (is_stream(f.type)) {
		buf_consume(&d->in, used);
		d->left_type = f.type;
		d->left = f.length;
		return true;
	}
	if (d->in.n < used + f.length) {
		if (in_widen(d, used + f.length))
			return false;
		buf_consume(&d->in, used);
		skip(d, &f);
		return true;
	}
	if (!take_message(d, f.type, str_first(str_skip(buf_str(&d->in), used), f.length), &e)) {
		d->is_blocked = true;
		return false;
	}
	buf_consume(&d->in, used + f.length);
	process_in_release(d);
	return e.code == ERR_NONE || damage(d, &e);
}

/* ---- messages that do not end ---- */

static bool is_half(const struct code_driver *d)
{
	return d->control >= 0 && !d->is_dead && !d->is_blocked && !d->is_finishing && d->why.code == ERR_NONE && (d->in.n > 0 || d->left > 0);
}

/* CPU time in field 14 and 15 of /proc/PID/stat, and whether the process sleeps. What is in front is a name that it has chosen. */
static bool stat_read(struct str text, uint64_t *ret_used)
{
	const char *at = text.n > 0 ? memrchr(text.p, ')', text.n) : NULL;
	struct str rest = at ? str_trim(str_skip(text, (size_t)(at + 1 - text.p))) : STR(""), word;
	bool sleeps = false;
	uint64_t n;

	*ret_used = 0;
	for (int field = 3; field <= 15 && str_cut(rest, ' ', &word, &rest); field++) {
		if (field == 3)
			sleeps = str_is(word, "S");
		else if (field >= 14 && str_to_u64(word, 0, INT64_MAX, &n))
			*ret_used += n;
	}
	return sleeps;
}

/* It sleeps and has done nothing since the last look. Otherwise the rest may yet come: it was stopped, or the thread that writes waits for
 * one that computes. */
static bool does_nothing(struct code_driver *d)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STAT_MAX);
	struct err ignored = { 0 };
	uint64_t used, before = d->used;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)d->child.pid);
	if (!d->child.init || fd_read_file(AT_FDCWD, path, STAT_MAX, &b, &ignored) < 0 || !stat_read(buf_str(&b), &used))
		return false;
	d->used = used;
	return used == before;
}

void process_watch_half(struct code_driver *d)
{
	bool was_half = d->is_half;

	d->is_half = is_half(d);
	if (!d->is_half) {
		timer_cancel(&d->half);
	} else if (!was_half) {
		d->n_silent = 0;
		timer_in(&d->half, PROCESS_HALF_MS);
	}
}

/* Without this a run whose end was taken for a part of such a message would go on for as long as its context. */
void process_on_half(void *arg)
{
	struct code_driver *d = arg;
	struct err e = { 0 };

	d->n_silent = does_nothing(d) ? d->n_silent + 1 : 0;
	if (d->n_silent < PROCESS_HALF_MAX) {
		timer_in(&d->half, PROCESS_HALF_MS);
		return;
	}
	(void)err_set(&e, ERR_INVALID, "one has begun and does not end");
	(void)damage(d, &e);
}

/* ---- what comes in ---- */

void process_control_ended(struct code_driver *d)
{
	if (d->is_warm && !d->is_up && !d->child.init && !d->is_dead) {
		process_start_cold(d);
		return;
	}
	io_del(&d->control_io);
	closep(&d->control);
	d->control = -1;
	if (!d->is_dead)
		timer_in(&d->limit, PROCESS_SILENT_MS);
}

/* The first message of a fork comes with its pid, which the kernel vouches for. */
static ssize_t read_first(struct code_driver *d, char *p, size_t n)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct err e = { 0 };
	int r = passing_recv(d->control, p, n, 0, &got, &e);

	if (r != PASSING_MESSAGE) {
		errno = EAGAIN;
		return r == PASSING_END ? 0 : -1;
	}
	if (!got.has_sender || got.sender.pid <= 1 || child_adopt(&d->child, d->host->init, got.sender.pid, &process_child_ops, d, &e) < 0)
		return 0;
	return (ssize_t)got.n;
}

bool process_fill_control(struct code_driver *d)
{
	size_t want = d->in.max - d->in.n;
	char *p = d->control >= 0 && want > 0 && !d->is_blocked && !d->is_finishing ? buf_reserve(&d->in, want) : NULL;
	ssize_t n;

	d->in.failed = false;
	if (!p)
		return false;
	n = d->is_warm && !d->child.init && !d->is_up ? read_first(d, p, want) : recv(d->control, p, want, MSG_DONTWAIT);
	if (n > 0) {
		buf_commit(&d->in, (size_t)n);
		d->n_silent = 0;
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		process_control_ended(d);
	if (d->in.n == 0)
		process_in_release(d);
	return false;
}

/* An interpreter that does not come to life gives the reason. */
static void keep_words(struct code_driver *d, struct str text)
{
	struct str last = str_skip(text, text.n > sizeof(d->words) / 2 ? text.n - sizeof(d->words) / 2 : 0);

	if (d->n_words + last.n > sizeof(d->words)) {
		memmove(d->words, d->words + d->n_words - sizeof(d->words) / 2, sizeof(d->words) / 2);
		d->n_words = sizeof(d->words) / 2;
	}
	memcpy(d->words + d->n_words, last.p, last.n);
	d->n_words += last.n;
}

static bool take_pipe(struct code_driver *d, struct code_pipe *p)
{
	enum event_stream kind = p == &d->pipes[1] ? EVENT_STDERR : EVENT_STDOUT;
	size_t n = p->in.n > 0 ? code_output(d->context, kind, buf_str(&p->in)) : 0;

	if (!d->is_up && n > 0)
		keep_words(d, buf_str(&p->in));
	d->is_blocked = n < p->in.n;
	buf_consume(&p->in, n);
	if (p->in.n == 0)
		buf_done(&p->in);
	return n > 0;
}

static void pipe_ended(struct code_pipe *p)
{
	io_del(&p->io);
	closep(&p->fd);
	p->fd = -1;
	p->left = 0;
}

static bool fill_pipe(struct code_pipe *p)
{
	size_t want = p->is_bounded ? MIN(p->left, PROCESS_PIPE_BASE) : PROCESS_PIPE_BASE;
	char *at = p->fd >= 0 && p->in.n == 0 && want > 0 ? buf_reserve(&p->in, want) : NULL;
	ssize_t n;

	p->in.failed = false;
	if (!at)
		return false;
	n = read(p->fd, at, want);
	if (n > 0) {
		buf_commit(&p->in, (size_t)n);
		p->left -= p->is_bounded ? (size_t)n : 0;
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		pipe_ended(p);
	else if (p->is_bounded)
		p->left = 0;
	if (p->in.n == 0)
		buf_done(&p->in);
	return false;
}

bool process_step_pipes(struct code_driver *d)
{
	bool any = false;

	for (int i = 0; i < 2 && !d->is_blocked; i++) {
		any |= fill_pipe(&d->pipes[i]);
		any |= take_pipe(d, &d->pipes[i]);
	}
	return any;
}
