// SPDX-License-Identifier: Apache-2.0
#include "execd/io/events.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json_out.h"
#include "base/own.h"
#include "execd/code/code_driver.h"
#include "sys/process.h"

#include "base/banned.h"

#define ERROR_NAME "CommandExecError"

static struct json_out event_open(struct buf *b, const char *type)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, type);
	return o;
}

/* json_out writes one physical line, so the framing is just the empty line behind it. */
static void event_close(struct json_out *o)
{
	json_key(o, "timestamp"), json_int(o, clock_wall_us() / 1000);
	json_close(o, '}');
	buf_add(o->b, "\n\n", 2);
}

void event_init(struct buf *b, struct str id)
{
	struct json_out o = event_open(b, "init");

	json_key(&o, "text"), json_str(&o, id);
	event_close(&o);
}

void event_ping(struct buf *b)
{
	struct json_out o = event_open(b, "ping");

	json_key(&o, "text"), json_str(&o, STR("pong"));
	event_close(&o);
}

void event_stamp(struct event_stamp *ret)
{
	int n = snprintf(ret->z, sizeof(ret->z), ",\"timestamp\":%lld}\n\n", (long long)(clock_wall_us() / 1000));

	assert(n > 0 && (size_t)n < sizeof(ret->z));
	ret->n = (size_t)n;
}

/* There are very many of these: all but the text is ready. */
void event_text(struct buf *b, enum event_stream stream, struct str text, const struct event_stamp *stamp)
{
	struct json_out o = json_out(b);

	if (stream == EVENT_STDERR)
		buf_add_str(b, STR("{\"type\":\"stderr\",\"text\":"));
	else
		buf_add_str(b, STR("{\"type\":\"stdout\",\"text\":"));
	json_str(&o, text);
	buf_add(b, stamp->z, stamp->n);
}

void event_complete(struct buf *b, uint64_t took_ms)
{
	struct json_out o = event_open(b, "execution_complete");

	json_key(&o, "execution_time"), json_uint(&o, took_ms);
	event_close(&o);
}

void event_error(struct buf *b, const struct code_error *er)
{
	struct json_out o = event_open(b, "error");

	json_key(&o, "error"), json_open(&o, '{');
	json_key(&o, "ename"), json_str(&o, er->name);
	json_key(&o, "evalue"), json_str(&o, er->value);
	json_key(&o, "traceback"), json_open(&o, '[');
	for (size_t i = 0; i < er->n_trace; i++)
		json_str(&o, er->trace[i]);
	json_close(&o, ']');
	json_close(&o, '}');
	event_close(&o);
}

static void event_count(struct buf *b, uint64_t count)
{
	struct json_out o = event_open(b, "execution_count");

	json_key(&o, "execution_count"), json_uint(&o, count);
	event_close(&o);
}

/* Plain text has two names, because some clients look for one and some for the other. */
void event_result(struct buf *b, const struct code_result *r)
{
	struct json_out o;

	if (r->count > 0)
		event_count(b, r->count);
	o = event_open(b, "result");
	json_key(&o, "results"), json_open(&o, '{');
	for (size_t i = 0; i < r->n; i++) {
		if (str_eq(r->mimes[i].type, STR("text/plain")))
			json_key(&o, "text"), json_str(&o, r->mimes[i].value);
		json_key_str(&o, r->mimes[i].type), json_str(&o, r->mimes[i].value);
	}
	json_close(&o, '}');
	event_close(&o);
}

static void event_failed(struct buf *b, const char *value, const char *trace, const char *more)
{
	const struct str lines[] = { str_of(trace), str_of(more) };

	event_error(b, &(struct code_error){ STR(ERROR_NAME), str_of(value), lines, more ? 2 : 1 });
}

void event_not_started(struct buf *b, const char *why)
{
	event_failed(b, why, why, NULL);
}

struct signal_text {
	char z[48];
};

/* "killed" for SIGKILL; "signal 42" for one without a name. */
static const char *signal_text(int signo, struct signal_text *out)
{
	static const char *const names[] = {
		[SIGHUP] = "hangup",
		[SIGINT] = "interrupt",
		[SIGQUIT] = "quit",
		[SIGILL] = "illegal instruction",
		[SIGTRAP] = "trace/breakpoint trap",
		[SIGABRT] = "aborted",
		[SIGBUS] = "bus error",
		[SIGFPE] = "floating point exception",
		[SIGKILL] = "killed",
		[SIGUSR1] = "user defined signal 1",
		[SIGSEGV] = "segmentation fault",
		[SIGUSR2] = "user defined signal 2",
		[SIGPIPE] = "broken pipe",
		[SIGALRM] = "alarm clock",
		[SIGTERM] = "terminated",
		[SIGXCPU] = "CPU time limit exceeded",
		[SIGXFSZ] = "file size limit exceeded",
		[SIGSYS] = "bad system call",
	};

	if (signo > 0 && (size_t)signo < ARRAY_LEN(names) && names[signo])
		(void)snprintf(out->z, sizeof(out->z), "%s", names[signo]);
	else
		(void)snprintf(out->z, sizeof(out->z), "signal %d", signo);
	return out->z;
}

int exit_code_of(const struct process_end *end)
{
	return end->by_signal ? 128 + end->code : end->code;
}

bool is_killed(const struct process_end *end)
{
	return exit_code_of(end) == 128 + SIGKILL;
}

const char *end_text(const struct process_end *end, struct end_text *out)
{
	struct signal_text name;

	if (end->by_signal)
		(void)snprintf(out->z, sizeof(out->z), "signal: %s%s", signal_text(end->code, &name),
			       end->dumped_core ? " (core dumped)" : "");
	else
		(void)snprintf(out->z, sizeof(out->z), "exit status %d", end->code);
	return out->z;
}

void event_end(struct buf *b, const struct process_end *end, uint64_t took_ms, bool is_oom)
{
	struct end_text trace;
	char value[16];

	if (!end->by_signal && end->code == 0) {
		event_complete(b, took_ms);
		return;
	}
	(void)snprintf(value, sizeof(value), "%d", exit_code_of(end));
	event_failed(b, value, end_text(end, &trace), is_oom ? "oom_killed" : NULL);
}
