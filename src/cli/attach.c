// SPDX-License-Identifier: Apache-2.0
#include "cli/attach.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/keys.h"
#include "cli/terminal.h"
#include "sys/signals.h"

#include "base/banned.h"

#define INPUT_PIECE 16384
#define OUTPUT_MAX ((size_t)4 * 1024 * 1024) /* that comes before a pause is heard */
#define PIPE_PIECE 4096 /* what a pipe that is ready takes without waiting */
#define STATUS_TIMEOUT 124
#define STATUS_SIGNAL 128

struct tie {
	const struct attach_spec *spec;
	struct attach_result *result;
	struct osb_client *client;
	struct osb_pty *pty;
	struct terminal terminal;
	struct keys keys;
	struct buf pending;  /* input that the connection has no room for yet */
	struct buf out, err; /* output that nobody has read yet */
	bool is_over, has_no_more_input, owes_end, is_paused, has_exit;
	int exit_code;
	uint64_t renew_at_ms;
};

static void end(struct tie *t, enum attach_end how, int code)
{
	if (t->is_over)
		return;
	t->is_over = true;
	t->result->end = how;
	t->result->code = code;
}

/* ---- signals ---- */

static void say_size(struct tie *t)
{
	unsigned columns, rows;

	if (t->spec->is_terminal && terminal_size(STDIN_FILENO, &columns, &rows))
		osb_pty_resize(t->pty, columns, rows);
}

static void on_signal(struct tie *t, int signo)
{
	struct err e = { 0 };

	if (signo == SIGWINCH) {
		if (t->pty)
			say_size(t);
		return;
	}
	if (signo != SIGTSTP) {
		end(t, ATTACH_SIGNAL, signo);
		return;
	}
	if (terminal_suspend(&t->terminal, &e) < 0)
		end(t, ATTACH_SIGNAL, SIGHUP); /* the terminal has gone meanwhile */
	if (t->pty)
		say_size(t);
}

static void read_signals(struct tie *t)
{
	struct err e = { 0 };
	int signo;

	while (!t->is_over && signals_read(t->spec->signals, &signo, NULL, &e) == 1)
		on_signal(t, signo);
}

/* ---- output ---- */

static bool is_writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

/* As much as the reader takes without making us wait: renewals and signals must go on. */
static void flush_stream(struct tie *t, int fd, struct buf *b)
{
	while (b->n > 0 && !t->is_over && is_writable(fd)) {
		ssize_t n = write(fd, b->p, b->n < PIPE_PIECE ? b->n : PIPE_PIECE);

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (n < 0)
			end(t, ATTACH_CLOSED, 0);
		else
			buf_consume(b, (size_t)n);
	}
}

static void flush_output(struct tie *t)
{
	bool was_full = t->is_paused;

	flush_stream(t, STDOUT_FILENO, &t->out);
	flush_stream(t, STDERR_FILENO, &t->err);
	t->is_paused = t->out.n > 0 || t->err.n > 0;
	if (t->is_paused && !was_full)
		osb_pty_pause(t->pty);
	else if (!t->is_paused && was_full && !t->has_exit)
		osb_pty_resume(t->pty);
	if (t->has_exit && !t->is_paused)
		end(t, ATTACH_EXIT, t->exit_code);
}

static void on_output(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg)
{
	struct tie *t = arg;

	t->pty = p; /* output may come in the same turn as the connection */
	if (t->is_over)
		return;
	if (!buf_add(is_stderr ? &t->err : &t->out, data, n)) {
		(void)snprintf(t->result->error.message, sizeof(t->result->error.message), "more output than was asked for");
		end(t, ATTACH_LOST, 0);
		return;
	}
	flush_output(t);
}

static void on_exit_code(struct osb_pty *p, int code, void *arg)
{
	struct tie *t = arg;

	t->pty = p;
	t->has_exit = true;
	t->exit_code = code;
	flush_output(t);
}

static void on_lost(struct osb_pty *p, const struct osb_error *e, void *arg)
{
	struct tie *t = arg;

	(void)p;
	if (!t->is_over && !t->has_exit && e)
		t->result->error = *e;
	if (!t->has_exit)
		end(t, ATTACH_LOST, 0);
}

/* ---- input ---- */

static void flush_input(struct tie *t)
{
	while (t->pending.n > 0) {
		size_t n = osb_pty_write(t->pty, t->pending.p, t->pending.n);

		if (n == 0)
			return;
		buf_consume(&t->pending, n);
	}
	if (t->owes_end && osb_pty_end_input(t->pty) == 0)
		t->owes_end = false;
}

static void on_drained(struct osb_pty *p, void *arg)
{
	(void)p;
	flush_input(arg);
}

static void say_keys(void)
{
	static const char text[] = "\r\n~.  leave, and end the shell\r\n~d  leave it running\r\n~~  a '~'\r\n~?  this\r\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1); /* help that cannot be shown is no help */
}

static void take_keys(struct tie *t, const char *data, size_t n)
{
	while (n > 0 && !t->is_over) {
		size_t used;

		switch (keys_feed(&t->keys, data, n, &t->pending, &used)) {
		case KEYS_END:
			end(t, ATTACH_LEFT, 0);
			break;
		case KEYS_DETACH:
			end(t, ATTACH_DETACHED, 0);
			break;
		case KEYS_HELP:
			say_keys();
			break;
		case KEYS_NONE:
			break;
		}
		data += used;
		n -= used;
	}
}

static void read_input(struct tie *t)
{
	char piece[INPUT_PIECE];
	ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));

	if (n > 0) {
		take_keys(t, piece, (size_t)n);
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		t->has_no_more_input = true;
		if (t->spec->is_terminal)
			end(t, ATTACH_SIGNAL, SIGHUP); /* it was hung up */
		else
			t->owes_end = true;
	}
	flush_input(t);
}

/* ---- until it is over ---- */

static int timeout_ms(const struct tie *t)
{
	uint64_t now = clock_mono_ms(), at = UINT64_MAX;
	int ms = osb_client_timeout_ms(t->client);

	if (t->spec->deadline_ms)
		at = t->spec->deadline_ms;
	if (t->renew_at_ms && t->renew_at_ms < at)
		at = t->renew_at_ms;
	if (at == UINT64_MAX)
		return ms;
	at = at > now ? at - now : 0;
	return ms >= 0 && (uint64_t)ms < at ? ms : (int)(at < INT32_MAX ? at : INT32_MAX);
}

static void look_at_clock(struct tie *t)
{
	uint64_t now = clock_mono_ms();

	if (t->spec->deadline_ms && now >= t->spec->deadline_ms)
		end(t, ATTACH_TIMEOUT, 0);
	if (t->renew_at_ms && now >= t->renew_at_ms) {
		t->renew_at_ms = now + t->spec->renew_ms;
		t->spec->renew(t->spec->arg);
	}
}

static void run(struct tie *t)
{
	while (!t->is_over) {
		bool reads = !t->has_no_more_input && !t->spec->no_input && !t->has_exit && t->pending.n == 0;
		struct pollfd p[] = {
			{ .fd = osb_client_fd(t->client), .events = POLLIN },
			{ .fd = t->spec->signals, .events = POLLIN },
			{ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN },
			{ .fd = t->out.n > 0 ? STDOUT_FILENO : -1, .events = POLLOUT },
			{ .fd = t->err.n > 0 ? STDERR_FILENO : -1, .events = POLLOUT },
		};

		if (poll(p, ARRAY_LEN(p), timeout_ms(t)) < 0 && errno != EINTR)
			end(t, ATTACH_LOST, 0);
		if (p[1].revents)
			read_signals(t);
		if (!t->is_over && p[2].revents)
			read_input(t);
		if (!t->is_over && (p[3].revents || p[4].revents))
			flush_output(t);
		if (osb_client_dispatch(t->client, 0) < 0)
			end(t, ATTACH_LOST, 0);
		look_at_clock(t);
	}
}

static void on_opened(struct osb_call *call, void *arg)
{
	(void)call;
	(void)arg; /* who waits sees that it is not busy any more */
}

/* Signals count from the first moment on: a sandbox that does not answer is no reason to be deaf. */
static int wait_open(struct tie *t, struct osb_call *call)
{
	while (osb_call_is_busy(call)) {
		struct pollfd p[] = { { .fd = osb_client_fd(t->client), .events = POLLIN }, { .fd = t->spec->signals, .events = POLLIN } };

		if (poll(p, ARRAY_LEN(p), osb_client_timeout_ms(t->client)) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			read_signals(t);
		if (t->is_over)
			osb_call_cancel(call);
		if (osb_client_dispatch(t->client, 0) < 0)
			break;
	}
	return osb_call_error(call)->kind == OSB_OK ? 0 : -1;
}

static int open_pty(struct tie *t, struct osb_error *e)
{
	static const struct osb_pty_ops ops = { on_output, on_drained, on_exit_code, on_lost };
	struct osb_call *call = osb_call_new(t->client);
	struct osb_pty_options o = t->spec->options;
	int rc;

	if (!call) {
		*e = (struct osb_error){ .kind = OSB_MEMORY, .message = "out of memory" };
		return -1;
	}
	o.pipes = !t->spec->is_terminal;
	if (t->spec->is_terminal)
		(void)terminal_size(STDIN_FILENO, &o.columns, &o.rows);
	osb_call_on_done(call, on_opened, t);
	(void)osb_pty_open(t->spec->sandbox, &o, &ops, t, &t->pty, call);
	rc = wait_open(t, call);
	*e = *osb_call_error(call);
	osb_call_free(call);
	return rc;
}

static void tie_done(struct tie *t)
{
	buf_done(&t->pending);
	buf_done(&t->out);
	buf_done(&t->err);
}

int attach(const struct attach_spec *spec, struct attach_result *ret, struct osb_error *e)
{
	struct tie t = { .spec = spec, .result = ret, .client = osb_sandbox_client(spec->sandbox), .terminal = TERMINAL_INIT,
			 .keys = { .is_off = !spec->has_keys }, .pending = BUF_INIT(2 * INPUT_PIECE), .out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX) };
	struct err why = { 0 };

	*ret = (struct attach_result){ .end = ATTACH_LOST };
	if (open_pty(&t, e) < 0) {
		tie_done(&t);
		return t.is_over ? 0 : -1; /* a signal ended it, which is no failure */
	}
	(void)snprintf(ret->session, sizeof(ret->session), "%s", osb_pty_id(t.pty) ? osb_pty_id(t.pty) : "");
	if (spec->renew_ms)
		t.renew_at_ms = clock_mono_ms() + spec->renew_ms;
	if (spec->no_input)
		t.owes_end = !spec->is_terminal;
	if (spec->is_terminal && terminal_raw(&t.terminal, STDIN_FILENO, &why) < 0)
		end(&t, ATTACH_SIGNAL, SIGHUP);
	say_size(&t); /* it may have changed while the connection was made */
	flush_input(&t);
	run(&t);
	terminal_restore(&t.terminal);
	if (spec->is_terminal && ret->end != ATTACH_EXIT)
		(void)!write(STDOUT_FILENO, terminal_reset, strlen(terminal_reset)); /* who ran there could not clean up */
	osb_pty_free(t.pty);
	tie_done(&t);
	return 0;
}

int attach_status(const struct attach_result *r)
{
	switch (r->end) {
	case ATTACH_EXIT:
		return r->code < 0 ? ATTACH_STATUS_FAILED : r->code & 0xff;
	case ATTACH_SIGNAL:
		return STATUS_SIGNAL + r->code;
	case ATTACH_CLOSED:
		return STATUS_SIGNAL + SIGPIPE;
	case ATTACH_TIMEOUT:
		return STATUS_TIMEOUT;
	case ATTACH_LEFT:
	case ATTACH_DETACHED:
		return 0;
	case ATTACH_LOST:
		break;
	}
	return ATTACH_STATUS_FAILED;
}
