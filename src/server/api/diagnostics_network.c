// SPDX-License-Identifier: Apache-2.0
/* What a sandbox has tried to reach: as JSON (/sandboxes/:id/diagnostics/network), and as lines for people. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/api/diagnostics.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define TREE_MAX ((size_t)8 * 1024 * 1024)
#define ROWS_MAX 1024U

/* ---- lines ---- */

static void add_row(struct buf *b, const struct json *row)
{
	struct str name = json_text(row, "target"), address = json_text(row, "address"), why = json_text(row, "reason");
	uint64_t port = json_count(row, "port");

	text_utf8(b, json_text(row, "last"));
	buf_addf(b, " network ");
	text_utf8(b, json_text(row, "decision"));
	buf_add_char(b, ' ');
	text_utf8(b, json_text(row, "kind"));
	if (name.n > 0) {
		buf_add_char(b, ' ');
		text_utf8(b, name);
	}
	if (address.n > 0) {
		buf_add_char(b, ' ');
		text_utf8(b, address);
	}
	if (port > 0)
		buf_addf(b, " port %llu", (unsigned long long)port);
	buf_addf(b, ", %llu times", (unsigned long long)json_count(row, "count"));
	if (why.n > 0) {
		buf_addf(b, ": ");
		text_utf8(b, why);
	}
	buf_add_char(b, '\n');
}

/* The rows come with the most recent one first; people read downwards. */
void text_network(struct buf *b, struct str activity, unsigned limit)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	const struct json *v = json_parse(&a, activity, NULL, NULL, &(struct err){ 0 });
	const struct json *rows[ROWS_MAX];
	size_t n = 0;

	if (!v || v->type != JSON_OBJECT)
		return;
	for (const struct json *row = json_first(json_get(v, "recent")); row && n < MIN(limit, ROWS_MAX); row = row->next)
		if (row->type == JSON_OBJECT)
			rows[n++] = row;
	while (n > 0)
		add_row(b, rows[--n]);
}

void text_network_counts(struct buf *b, struct str activity)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	const struct json *v = json_parse(&a, activity, NULL, NULL, &(struct err){ 0 });
	const char *between = "";

	v = v && v->type == JSON_OBJECT ? json_get(v, "counters") : NULL;
	if (!json_first(v))
		return;
	buf_addf(b, "network_used: ");
	for (v = json_first(v); v; v = v->next) {
		if (v->type != JSON_INT)
			continue;
		buf_addf(b, "%s", between);
		text_utf8(b, v->key);
		buf_addf(b, " %lld", (long long)v->i);
		between = ", ";
	}
	buf_add_char(b, '\n');
}

/* ---- the route ---- */

struct looking {
	struct plane_job job;
	struct request *rq; /* NULL: gone */
	struct reply *rp;
	char id[ID_MAX + 1];
	enum runtime_network network;
	struct runtime_stats stats;
};

static void looking_drop(struct plane_job *job)
{
	free(container_of(job, struct looking, job));
}

static void write_traffic(struct json_out *o, const struct runtime_stats *s)
{
	json_key(o, "traffic"), json_open(o, '{');
	json_key(o, "receivedBytes"), json_uint(o, s->net_in_bytes);
	json_key(o, "receivedPackets"), json_uint(o, s->net_in_packets);
	json_key(o, "sentBytes"), json_uint(o, s->net_out_bytes);
	json_key(o, "sentPackets"), json_uint(o, s->net_out_packets);
	json_key(o, "refusedPackets"), json_uint(o, s->net_refused_packets);
	json_close(o, '}');
}

/* ACTIVITY is an object with members of its own, or nothing. */
static int reply_network(const struct looking *l, struct str activity)
{
	AUTO(buf_done) struct buf body = BUF_INIT(2 * RUNTIME_POLICY_MAX);
	struct json_out o = json_out(&body);

	json_open(&o, '{');
	json_key(&o, "network"), json_cstr(&o, row_network_name(l->network));
	write_traffic(&o, &l->stats);
	if (activity.n > 2) {
		buf_add_char(&body, ',');
		buf_add_str(&body, str_skip(activity, 1));
	} else {
		json_key(&o, "sandboxId"), json_cstr(&o, l->id);
		json_key(&o, "mode"), json_cstr(&o, "deny_all");
		json_key(&o, "counters"), json_open(&o, '{'), json_close(&o, '}');
		json_key(&o, "openFlows"), json_uint(&o, 0);
		json_key(&o, "learned"), json_uint(&o, 0);
		json_key(&o, "forgotten"), json_uint(&o, 0);
		json_key(&o, "recent"), json_open(&o, '['), json_close(&o, ']');
		json_close(&o, '}');
	}
	return reply_json(l->rp, 200, &body);
}

static void on_activity(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct looking *l = arg;
	struct fault f;

	(void)is_cut;
	plane_job_end(&l->job);
	if (l->rq && failure && failure->err.code != ERR_NOT_FOUND) {
		(void)fault_of_runtime(&f, plane_of(l->rq)->spec.runtime, failure);
		(void)reply_fault(l->rp, &f);
	} else if (l->rq) {
		(void)reply_network(l, failure ? STR("") : text);
	}
	free(l);
}

/* Of one that has ended there are none any more. */
static void on_stats(const struct runtime_stats *stats, const struct runtime_failure *failure, void *arg)
{
	struct looking *l = arg;
	struct plane *plane = l->job.plane;
	struct runtime *rt = plane->spec.runtime;

	plane_job_end(&l->job);
	if (!failure)
		l->stats = *stats;
	if (!l->rq) {
		free(l);
		return;
	}
	plane_job_begin(plane, &l->job, looking_drop);
	rt->ops->activity(rt, l->id, on_activity, l);
}

static void on_hangup(void *arg)
{
	struct looking *l = arg;

	l->rq = NULL;
}

int diagnostics_network_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct runtime *rt = plane->spec.runtime;
	const struct sandbox *sb = request_sandbox(rq, rp);
	struct looking *l;

	if (!sb)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_no_memory(e);
	l->rq = rq;
	l->rp = rp;
	l->network = sb->row.network;
	memcpy(l->id, sb->row.id, strlen(sb->row.id) + 1);
	if (l->network == RUNTIME_NET_NONE || !rt->ops->activity) {
		int rc = reply_network(l, STR(""));

		free(l);
		return rc;
	}
	plane_job_begin(plane, &l->job, looking_drop);
	(void)reply_hold(rp, on_hangup, l);
	if (rt->can.stats)
		rt->ops->stats(rt, l->id, on_stats, l);
	else
		rt->ops->activity(rt, l->id, on_activity, l);
	return 0;
}
