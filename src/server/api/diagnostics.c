// SPDX-License-Identifier: Apache-2.0
/* /sandboxes/:id/diagnostics/...: plain text, or with a scope the same inside a JSON object.
 *
 * What the runtime has to be asked for is asked for one thing after the other, then all is put together. */
#include "server/api/diagnostics.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define TEXT_TYPE "text/plain; charset=utf-8"
#define OUTPUT_BIT (1U << EVENT_SCOPES)        /* beside the bits of events: what the sandbox wrote */
#define NETWORK_BIT (1U << (EVENT_SCOPES + 1)) /* and what it tried to reach */
#define EVERYTHING (SCOPES_ALL | OUTPUT_BIT | NETWORK_BIT)

enum kind { KIND_LOGS, KIND_INSPECT, KIND_EVENTS, KIND_SUMMARY };

struct diagnosis {
	struct plane_job job;
	struct request *rq; /* NULL: gone */
	struct reply *rp;
	enum kind kind;
	char id[ID_MAX + 1];
	unsigned tail, limit;
	uint64_t since_ms;
	unsigned scopes;   /* what is wanted */
	const char *scope; /* its name, a constant; NULL: plain text */
	bool wants_info, wants_stats, wants_logs, wants_network; /* still to be asked */
	struct buf inspect, logs, network;
	struct runtime_stats stats;
	bool has_stats, is_cut;
};

struct diagnosis_query {
	int64_t tail, limit, event_limit;
	const char *since, *scope;
	bool has_scope;
};

#define QUERY(member, kind, name, ...) FIELD(struct diagnosis_query, member, kind, name, __VA_ARGS__)
#define SCOPE QUERY(scope, FIELD_STRING, "scope", .has = HAS(struct diagnosis_query, has_scope))
#define TAIL QUERY(tail, FIELD_INT, "tail", .min = 1, .max = 10000)

static const struct field logs_fields[] = { TAIL, QUERY(since, FIELD_STRING, "since"), SCOPE, { 0 } };
static const struct field events_fields[] = { QUERY(limit, FIELD_INT, "limit", .min = 1, .max = 500), SCOPE, { 0 } };
static const struct field summary_fields[] = {
	TAIL, QUERY(event_limit, FIELD_INT, "event_limit", .min = 1, .max = 500), { 0 },
};
static const struct field inspect_fields[] = { { 0 } };

/* ---- scopes ---- */

static const struct scope {
	const char *name;
	unsigned bits; /* 0: known, not there */
} scopes[] = {
	{ "container", 1U << EVENT_CONTAINER | OUTPUT_BIT }, { "lifecycle", 1U << EVENT_LIFECYCLE },
	{ "runtime", 1U << EVENT_RUNTIME },                  { "all", EVERYTHING },
	{ "network", NETWORK_BIT },                          { "process", 0 },
};

static int take_scope(const struct diagnosis_query *q, struct diagnosis *d, struct fault *f)
{
	for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
		if (strcmp(q->scope, scopes[i].name) != 0)
			continue;
		if (scopes[i].bits == 0)
			return fault_set(f, 501, NULL, "DIAGNOSTICS_NOT_IMPLEMENTED", "scope '%s' is not supported here",
					 scopes[i].name);
		d->scope = scopes[i].name;
		d->scopes = scopes[i].bits;
		return 0;
	}
	return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "scope '%s': must be container, lifecycle, runtime, network or all",
			 SHOWN(str_of(q->scope)));
}

/* ---- putting it together ---- */

static void add_or(struct buf *b, const struct buf *part, const char *instead)
{
	if (part->n > 0)
		buf_add_str(b, buf_str(part));
	else
		buf_addf(b, "%s\n", instead);
}

static void add_events(struct buf *b, const struct diagnosis *d, const struct sandbox *sb)
{
	size_t before = b->n;

	text_events(b, sb, d->scopes, d->limit);
	text_network(b, buf_str(&d->network), d->limit);
	if (b->n == before)
		buf_addf(b, "(no notable events)\n");
}

static void add_logs(struct buf *b, const struct diagnosis *d, const struct sandbox *sb)
{
	/* With a scope that has no output of programs, the log is what was noted. */
	if (d->scope && (d->scopes & SCOPES_ALL) != 1U << EVENT_CONTAINER)
		text_events(b, sb, d->scopes & SCOPES_ALL, d->tail);
	text_network(b, buf_str(&d->network), d->tail);
	if (d->scopes & OUTPUT_BIT)
		add_or(b, &d->logs, b->n > 0 ? "" : "(no logs)");
	else if (b->n == 0)
		buf_addf(b, "(no logs)\n");
}

static void add_summary(struct buf *b, const struct diagnosis *d, const struct sandbox *sb)
{
	text_rule(b, '=', 72);
	buf_addf(b, "SANDBOX DIAGNOSTICS SUMMARY\n");
	buf_addf(b, "Sandbox ID: %s\n", sb->row.id);
	text_rule(b, '=', 72);
	buf_addf(b, "\nINSPECT\n");
	text_rule(b, '-', 40);
	buf_add_str(b, buf_str(&d->inspect));
	buf_addf(b, "\nEVENTS\n");
	text_rule(b, '-', 40);
	add_events(b, d, sb);
	buf_addf(b, "\nLOGS (last %u lines)\n", d->tail);
	text_rule(b, '-', 40);
	add_or(b, &d->logs, "(no logs)");
}

static int reply_scoped(const struct diagnosis *d, const struct buf *text)
{
	AUTO(buf_done) struct buf body = BUF_INIT(4 * DIAGNOSTICS_MAX);
	struct json_out o = json_out(&body);

	json_open(&o, '{');
	json_key(&o, "sandboxId"), json_cstr(&o, d->id);
	json_key(&o, "kind"), json_cstr(&o, d->kind == KIND_LOGS ? "logs" : "events");
	json_key(&o, "scope"), json_cstr(&o, d->scope);
	json_key(&o, "delivery"), json_cstr(&o, "inline");
	json_key(&o, "contentType"), json_cstr(&o, TEXT_TYPE);
	json_key(&o, "content"), json_str(&o, buf_str(text));
	json_key(&o, "contentLength"), json_uint(&o, text->n);
	json_key(&o, "truncated"), json_bool(&o, d->is_cut);
	json_close(&o, '}');
	return reply_json(d->rp, 200, &body);
}

static void diagnosis_free(struct diagnosis *d)
{
	buf_done(&d->inspect);
	buf_done(&d->logs);
	buf_done(&d->network);
	free(d);
}

static void finish(struct diagnosis *d)
{
	AUTO(buf_done) struct buf text = BUF_INIT(DIAGNOSTICS_MAX);
	const struct sandbox *sb = d->rq ? sandboxes_find(plane_of(d->rq)->sandboxes, str_of(d->id)) : NULL;

	if (d->rq && !sb)
		(void)reply_no_sandbox(d->rq, d->rp);
	if (!sb) {
		diagnosis_free(d);
		return;
	}
	switch (d->kind) {
	case KIND_LOGS:
		add_logs(&text, d, sb);
		break;
	case KIND_INSPECT:
		buf_add_str(&text, buf_str(&d->inspect));
		break;
	case KIND_EVENTS:
		add_events(&text, d, sb);
		break;
	case KIND_SUMMARY:
		add_summary(&text, d, sb);
		break;
	}
	if (!d->scope && (d->kind == KIND_LOGS || d->kind == KIND_EVENTS))
		(void)reply_header(d->rp, "Deprecation", STR("true"));
	if (text.failed)
		(void)reply_error(d->rp, 500, CODE_UNKNOWN_ERROR, "the answer does not fit");
	else if (d->scope)
		(void)reply_scoped(d, &text);
	else
		(void)reply_buf(d->rp, 200, TEXT_TYPE, &text);
	diagnosis_free(d);
}

/* ---- asking ---- */

static void ask_next(struct diagnosis *d);

static void on_logs(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct diagnosis *d = arg;

	plane_job_end(&d->job);
	if (!failure) { /* of one that has ended long ago there may be none */
		text_utf8(&d->logs, text);
		d->is_cut = is_cut || d->logs.failed;
	}
	ask_next(d);
}

static void on_info(const struct runtime_info *info, const struct runtime_failure *failure, void *arg)
{
	struct diagnosis *d = arg;
	const struct sandbox *sb = d->rq ? sandboxes_find(plane_of(d->rq)->sandboxes, str_of(d->id)) : NULL;

	plane_job_end(&d->job);
	if (sb)
		text_inspect(&d->inspect, sb, failure ? NULL : info, d->has_stats ? &d->stats : NULL);
	text_network_counts(&d->inspect, buf_str(&d->network));
	ask_next(d);
}

static void on_stats(const struct runtime_stats *stats, const struct runtime_failure *failure, void *arg)
{
	struct diagnosis *d = arg;

	plane_job_end(&d->job);
	d->has_stats = !failure;
	if (!failure)
		d->stats = *stats;
	ask_next(d);
}

static void on_network(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct diagnosis *d = arg;

	(void)is_cut;
	plane_job_end(&d->job);
	if (!failure)
		buf_add_str(&d->network, text);
	ask_next(d);
}

static void diagnosis_drop(struct plane_job *j)
{
	diagnosis_free(container_of(j, struct diagnosis, job));
}

static void ask_next(struct diagnosis *d)
{
	struct runtime_log_query query = { .tail = d->tail, .since_ms = d->since_ms };
	struct plane *p = d->job.plane;
	struct runtime *rt = p->spec.runtime;

	if (!d->rq || (!d->wants_stats && !d->wants_info && !d->wants_logs && !d->wants_network)) {
		finish(d);
		return;
	}
	plane_job_begin(p, &d->job, diagnosis_drop);
	if (d->wants_network) {
		d->wants_network = false;
		rt->ops->activity(rt, d->id, on_network, d);
	} else if (d->wants_stats) {
		d->wants_stats = false;
		rt->ops->stats(rt, d->id, on_stats, d);
	} else if (d->wants_info) {
		d->wants_info = false;
		rt->ops->inspect(rt, d->id, on_info, d);
	} else {
		d->wants_logs = false;
		rt->ops->logs(rt, d->id, &query, on_logs, d);
	}
}

static void on_hangup(void *arg)
{
	struct diagnosis *d = arg;

	d->rq = NULL;
}

static int start(struct request *rq, struct reply *rp, const struct diagnosis *from, struct err *e)
{
	struct diagnosis *d = malloc(sizeof(*d));

	if (!d)
		return err_no_memory(e);
	*d = *from;
	d->job.plane = plane_of(rq);
	d->rq = rq;
	d->rp = rp;
	d->inspect = BUF_INIT(DIAGNOSTICS_MAX);
	d->logs = BUF_INIT(3 * RUNTIME_LOG_MAX);
	d->network = BUF_INIT(RUNTIME_POLICY_MAX);
	(void)reply_hold(rp, on_hangup, d);
	ask_next(d);
	return 0;
}

/* ---- the routes ---- */

static int diagnose(struct request *rq, struct reply *rp, enum kind kind, const struct field *fields, struct err *e)
{
	struct diagnosis_query q = { .tail = kind == KIND_SUMMARY ? 50 : 100, .limit = 50, .event_limit = 20 };
	struct diagnosis d = { .kind = kind, .scopes = EVERYTHING };
	const struct sandbox *sb;
	struct fault f;
	const struct runtime *rt = plane_of(rq)->spec.runtime;
	int rc = kind == KIND_LOGS && !request_can(rq, rp, CAPABILITY_LOGS) ? 1 : request_query(rq, rp, fields, &q, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	if (q.has_scope && take_scope(&q, &d, &f) < 0)
		return reply_fault(rp, &f);
	memcpy(d.id, sb->row.id, strlen(sb->row.id) + 1);
	d.tail = (unsigned)q.tail;
	d.limit = (unsigned)(kind == KIND_SUMMARY ? q.event_limit : q.limit);
	d.since_ms = q.since ? text_since_ms(str_of(q.since)) : 0;
	d.wants_info = kind == KIND_INSPECT || kind == KIND_SUMMARY;
	d.wants_stats = d.wants_info && rt->can.stats;
	d.wants_logs = (kind == KIND_LOGS || kind == KIND_SUMMARY) && (d.scopes & OUTPUT_BIT) && rt->can.logs;
	d.wants_network = sb->row.network != RUNTIME_NET_NONE && rt->ops->activity &&
			  ((d.scope && (d.scopes & NETWORK_BIT)) || (!d.scope && kind != KIND_LOGS));
	return start(rq, rp, &d, e);
}

int diagnostics_logs_get(struct request *rq, struct reply *rp, struct err *e)
{
	return diagnose(rq, rp, KIND_LOGS, logs_fields, e);
}

int diagnostics_inspect_get(struct request *rq, struct reply *rp, struct err *e)
{
	return diagnose(rq, rp, KIND_INSPECT, inspect_fields, e);
}

int diagnostics_events_get(struct request *rq, struct reply *rp, struct err *e)
{
	return diagnose(rq, rp, KIND_EVENTS, events_fields, e);
}

int diagnostics_summary_get(struct request *rq, struct reply *rp, struct err *e)
{
	return diagnose(rq, rp, KIND_SUMMARY, summary_fields, e);
}
