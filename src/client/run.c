// SPDX-License-Identifier: Apache-2.0
#include "client/run.h"

#include "base/err.h"
#include "client/event.h"
#include "client/gather.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"
#include "client/stream_reader.h"

#include "base/banned.h"

struct run {
	struct stream_reader reader;
	struct gather gather;
	struct osb_execution *x; /* NULL: it was given out */
	osb_event_fn *events;
	void *arg;
};

/* ---- as the other SDKs show it ---- */

static void show_results(struct json_out *o, const struct osb_execution *x)
{
	json_open(o, '[');
	for (size_t i = 0; i < x->n_results; i++) {
		const struct osb_result *r = &x->results[i];

		json_open(o, '{');
		json_key(o, "text"), json_cstr(o, r->text);
		json_key(o, "timestamp"), json_int(o, r->timestamp_ms);
		json_key(o, "extra_properties"), json_open(o, '{');
		for (size_t k = 0; k < r->values.n; k++)
			if (!str_is(STR("text"), r->values.items[k].key))
				json_key(o, r->values.items[k].key), json_cstr(o, r->values.items[k].value);
		json_close(o, '}');
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void show_error(struct json_out *o, const struct osb_execution *x)
{
	if (!x->error_name) {
		json_null(o);
		return;
	}
	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, x->error_name);
	json_key(o, "value"), json_cstr(o, x->error_value);
	json_key(o, "timestamp"), json_int(o, x->error_timestamp_ms);
	json_key(o, "traceback"), json_open(o, '[');
	for (size_t i = 0; i < x->traceback.n; i++)
		json_cstr(o, x->traceback.items[i]);
	json_close(o, ']');
	json_close(o, '}');
}

static void show_complete(struct json_out *o, const struct osb_execution *x)
{
	if (x->complete_timestamp_ms < 0) {
		json_null(o);
		return;
	}
	json_open(o, '{');
	json_key(o, "timestamp"), json_int(o, x->complete_timestamp_ms);
	json_key(o, "execution_time_in_millis"), json_int(o, x->execution_time_ms);
	json_close(o, '}');
}

static void show_lines(struct json_out *o, const struct osb_text *lines, size_t n, bool is_error)
{
	json_open(o, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(o, '{');
		json_key(o, "text"), json_cstr(o, lines[i].text);
		json_key(o, "timestamp"), json_int(o, lines[i].timestamp_ms);
		json_key(o, "is_error"), json_bool(o, is_error);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static void show_number(struct json_out *o, bool is_there, int64_t n)
{
	if (is_there)
		json_int(o, n);
	else
		json_null(o);
}

static void show_execution(struct json_out *o, const void *p)
{
	const struct osb_execution *x = p;

	json_open(o, '{');
	json_key(o, "id"), json_cstr(o, x->id);
	json_key(o, "execution_count"), show_number(o, x->execution_count >= 0, x->execution_count);
	json_key(o, "result"), show_results(o, x);
	json_key(o, "error"), show_error(o, x);
	json_key(o, "complete"), show_complete(o, x);
	json_key(o, "exit_code"), show_number(o, x->has_exit_code, x->exit_code);
	json_key(o, "logs"), json_open(o, '{');
	json_key(o, "stdout"), show_lines(o, x->stdout_lines, x->n_stdout, false);
	json_key(o, "stderr"), show_lines(o, x->stderr_lines, x->n_stderr, true);
	json_close(o, '}');
	json_close(o, '}');
}

static const struct model execution_model = { .size = sizeof(struct osb_execution), .show = show_execution };

/* ---- the stream ---- */

static void on_end(struct op *op)
{
	struct run *run = op->state;

	stream_reader_done(&run->reader);
	osb_free(run->x);
	run->x = NULL;
}

/* The event lives here, and not in the operation: who is told of it may end that, and read on. */
static bool on_payload(struct str payload, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(EVENT_ARENA_MAX);
	struct op *op = arg;
	struct run *run = op->state;
	struct err e = { 0 };
	struct osb_event ev;
	int r = event_parse(payload, &a, &ev, &e);

	if (r == 0)
		return true;
	if (r < 0 || gather_add(&run->gather, &ev, &e) < 0) {
		op_fail_err(op, &e);
		return false;
	}
	if (run->events)
		run->events(&ev, run->arg);
	return !op_is_over(op);
}

static void on_data(struct op *op, struct str piece)
{
	struct run *run = op->state;
	struct err e = { 0 };

	if (stream_reader_feed(&run->reader, piece, on_payload, op, &e) < 0)
		op_fail_err(op, &e);
}

static void on_answer(struct op *op, const struct op_answer *a)
{
	struct run *run = op->state;
	struct err e = { 0 };

	(void)a;
	stream_reader_end(&run->reader, on_payload, op);
	if (op_is_over(op))
		return;
	if (!run->gather.is_complete)
		op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the stream has ended, and did not say how the execution did");
	else if (gather_finish(&run->gather, &e) < 0)
		op_fail_err(op, &e);
	if (op_is_over(op))
		return;
	op_result(op, take_ptr(&run->x), NULL);
	op_done(op);
}

void run_stream(struct op *op, const struct run_spec *spec)
{
	struct run *run = op_alloc(op, sizeof(*run));
	struct err e = { 0 };

	if (!run)
		return;
	*run = (struct run){ .reader = STREAM_READER_INIT, .events = spec->events, .arg = spec->arg };
	op->state = run;
	op->on_end = on_end;
	run->x = result_new(&execution_model, &e);
	if (!run->x) {
		op_fail_err(op, &e);
		return;
	}
	gather_init(&run->gather, result_arena(run->x), run->x);
	run->gather.is_lines = spec->is_lines;
	run->gather.has_exit = spec->has_exit;
	run->gather.skips = spec->skips;
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "POST", .path = spec->path, .accept = "text/event-stream",
				   .timeout_ms = spec->head_ms, .on_data = on_data, .on_answer = on_answer });
}
