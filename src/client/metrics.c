// SPDX-License-Identifier: Apache-2.0
/* Whether a sandbox answers, and how much it uses: once, and again and again. */
#include "base/err.h"
#include "base/json.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"
#include "client/stream_reader.h"

#include "base/banned.h"

#define SAMPLE_ARENA_MAX ((size_t)256 * 1024)
#define SAMPLE_ERROR_MAX 512

/* Servers have two sets of names; either will do. */
static int read_real(struct model_reader *r, const struct json *v, const char *name, const char *other, double *out)
{
	const struct json *n = json_get(v, name);

	if (!n)
		n = json_get(v, other);
	if (n && n->type == JSON_INT)
		*out = (double)n->i;
	else if (n && n->type == JSON_REAL)
		*out = n->d;
	else
		return model_bad(r, n ? "a number is none" : "a number is missing");
	return 0;
}

static int read_metrics(struct model_reader *r, const struct json *v, void *out)
{
	struct osb_metrics *m = out;
	double at = 0;

	if (v->type != JSON_OBJECT)
		return model_bad(r, "it is no object");
	if (read_real(r, v, "cpu_count", "cpu_count", &m->cpu_count) < 0 ||
	    read_real(r, v, "cpu_used_pct", "cpu_used_percentage", &m->cpu_used_percentage) < 0 ||
	    read_real(r, v, "mem_total_mib", "memory_total_in_mib", &m->memory_total_mib) < 0 ||
	    read_real(r, v, "mem_used_mib", "memory_used_in_mib", &m->memory_used_mib) < 0 ||
	    read_real(r, v, "timestamp", "timestamp", &at) < 0)
		return -1;
	m->timestamp_ms = at > 0 && at < 9e15 ? (int64_t)at : 0;
	return 0;
}

static const struct model_field metrics_fields[] = {
	MODEL(struct osb_metrics, cpu_count, MODEL_REAL, NULL),
	MODEL(struct osb_metrics, cpu_used_percentage, MODEL_REAL, NULL),
	{ .name = "memory_total_in_mib", .kind = MODEL_REAL, .offset = offsetof(struct osb_metrics, memory_total_mib) },
	{ .name = "memory_used_in_mib", .kind = MODEL_REAL, .offset = offsetof(struct osb_metrics, memory_used_mib) },
	{ .name = "timestamp", .kind = MODEL_INT, .offset = offsetof(struct osb_metrics, timestamp_ms) },
};
static const struct model metrics_model = MODEL_OF(struct osb_metrics, metrics_fields, .read = read_metrics);

int osb_sandbox_ping(struct osb_sandbox *s, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "ping sandbox", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .path = "/ping" });
	return op_run(op);
}

int osb_metrics_get(struct osb_sandbox *s, struct osb_metrics **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get metrics", ret);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .path = "/metrics", .model = &metrics_model });
	return op_run(op);
}

/* ---- watching ---- */

struct watching {
	struct stream_reader reader;
	osb_metrics_fn *fn;
	void *arg;
};

static void on_end(struct op *op)
{
	stream_reader_done(&((struct watching *)op->state)->reader);
}

static bool on_sample(struct str payload, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(SAMPLE_ARENA_MAX);
	struct op *op = arg;
	const struct watching *w = op->state;
	struct err e = { 0 };
	const struct json *v = json_parse(&a, payload, NULL, NULL, &e), *failed = json_get(v, "error");
	struct osb_metrics *m;

	if (failed) {
		w->fn(NULL, failed->type == JSON_STRING ? arena_dup(&a, str_first(failed->s, SAMPLE_ERROR_MAX)) : "", w->arg);
		return !op_is_over(op);
	}
	m = v ? model_read(&metrics_model, v, &e) : NULL;
	if (m)
		w->fn(m, NULL, w->arg);
	osb_free(m);
	return !op_is_over(op);
}

static void on_data(struct op *op, struct str piece)
{
	struct watching *w = op->state;
	struct err e = { 0 };

	if (stream_reader_feed(&w->reader, piece, on_sample, op, &e) < 0)
		op_fail_err(op, &e);
}

static void on_answer(struct op *op, const struct op_answer *a)
{
	(void)a;
	op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the stream has ended");
}

int osb_metrics_watch(struct osb_sandbox *s, osb_metrics_fn *fn, void *arg, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "watch metrics", NULL);
	struct watching *w;

	if (!op)
		return -1;
	w = op_alloc(op, sizeof(*w));
	if (!w || !op_need(op, fn, "a callback is needed"))
		return op_run(op);
	*w = (struct watching){ .reader = STREAM_READER_INIT, .fn = fn, .arg = arg };
	op->state = w;
	op->on_end = on_end;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "GET", .path = "/metrics/watch", .accept = "text/event-stream",
				   .on_data = on_data, .on_answer = on_answer });
	return op_run(op);
}
