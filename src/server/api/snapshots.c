// SPDX-License-Identifier: Apache-2.0
/* /snapshots, and taking one of a sandbox. */
#include <stdio.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "net/http/url.h"
#include "server/api/api.h"
#include "server/api/images.h"
#include "server/api/snapshots.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define SNAPSHOT_BODY_MAX ((size_t)64 * 1024)
#define LIST_BODY_MAX ((size_t)16 * 1024 * 1024)

/* ---- objects ---- */

static void write_snapshot(struct json_out *o, const struct snapshot *sn)
{
	const struct snapshot_row *r = &sn->row;

	json_open(o, '{');
	json_key(o, "id"), json_cstr(o, r->id);
	json_key(o, "sandboxId"), json_cstr(o, r->sandbox_id);
	if (r->name)
		json_key(o, "name"), json_cstr(o, r->name);
	json_key(o, "status"), json_open(o, '{');
	json_key(o, "state"), json_cstr(o, snapshot_state_name(r->state));
	json_key(o, "reason"), json_cstr(o, r->reason);
	json_key(o, "message"), json_cstr(o, r->message);
	write_time(o, "lastTransitionAt", r->changed_us);
	json_close(o, '}');
	write_time(o, "createdAt", r->created_us);
	json_close(o, '}');
}

int reply_snapshot(struct reply *rp, unsigned status, const struct snapshot *sn)
{
	AUTO(buf_done) struct buf body = BUF_INIT(SNAPSHOT_BODY_MAX);
	struct json_out o = json_out(&body);

	write_snapshot(&o, sn);
	return reply_json(rp, status, &body);
}

struct snapshot *request_snapshot(const struct request *rq, struct reply *rp)
{
	struct snapshot *sn = snapshots_find(plane_of(rq)->snapshots, rq->params[0]);

	if (!sn)
		(void)reply_error(rp, 404, "SNAPSHOT::NOT_FOUND", "snapshot '%s' not found", SHOWN(rq->params[0]));
	return sn;
}

/* ---- waiting ---- */

struct wait {
	struct request *rq; /* NULL: gone */
	struct reply *rp;
};

static void on_hangup(void *arg)
{
	struct wait *w = arg;

	w->rq = NULL; /* what was begun goes on */
}

static struct wait *wait_new(struct request *rq, struct reply *rp, struct err *e)
{
	struct wait *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)err_no_memory(e);
		return NULL;
	}
	*w = (struct wait){ rq, rp };
	(void)reply_hold(rp, on_hangup, w);
	return w;
}

/* ---- taking ---- */

static void on_accepted(struct snapshot *sn, const struct fault *f, void *arg)
{
	AUTO(free) struct wait *w = arg;
	char location[sizeof("/v1/snapshots/") + ID_MAX];

	if (!w->rq)
		return;
	if (f) {
		(void)reply_fault(w->rp, f);
		return;
	}
	(void)snprintf(location, sizeof(location), "/v1/snapshots/%s", sn->row.id);
	(void)reply_header(w->rp, "Location", str_of(location));
	service_note(w->rq, sn->row.id);
	(void)reply_snapshot(w->rp, 202, sn);
}

struct taking {
	const char *name;
};

static const struct field taking_fields[] = {
	FIELD(struct taking, name, FIELD_STRING, "name", .min = 1, .max = SNAPSHOT_NAME_MAX),
	{ 0 },
};

/* Clients send nothing at all, null, or an object. */
static int decode_taking(struct request *rq, struct reply *rp, struct taking *ret, struct err *e)
{
	struct str body = str_trim(rq->body);
	struct decode d;

	if (body.n == 0 || str_is(body, "null"))
		return 0;
	return service_decode(rq, rp, taking_fields, ret, &d, e);
}

int sandbox_snapshots_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct taking t = { 0 };
	struct sandbox *sb;
	struct wait *w;
	struct fault f;
	int rc = request_can(rq, rp, CAPABILITY_SNAPSHOTS) ? decode_taking(rq, rp, &t, e) : 1;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	rc = request_check_room(rq, rp, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	w = wait_new(rq, rp, e);
	if (!w)
		return -1;
	if (snapshots_take(plane_of(rq)->snapshots, sb, t.name, on_accepted, w, &f) == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}

/* ---- reading ---- */

int snapshot_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct snapshot *sn = request_snapshot(rq, rp);

	(void)e;
	return sn ? reply_snapshot(rp, 200, sn) : 0;
}

/* Case matters here, unlike with sandboxes. */
static bool matches(const struct query *q, const struct snapshot *sn)
{
	const struct query_pair *of = query_get(q, "sandboxId"), *p = query_get(q, "state");
	bool has_state = !p;

	for (; p && !has_state; p = query_next(q, "state", p))
		has_state = str_is(p->value, snapshot_state_name(sn->row.state));
	return has_state && (!of || str_is(of->value, sn->row.sandbox_id));
}

int snapshots_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(LIST_BODY_MAX);
	struct json_out o = json_out(&body);
	struct paging paging = PAGING_INIT;
	struct query q;
	size_t total = 0;
	int rc = request_query(rq, rp, paging_fields, &paging, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (query_parse(rq->query, rq->arena, &q, e) < 0)
		return -1;
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (const struct snapshot *sn = snapshots_newest(plane_of(rq)->snapshots); sn; sn = sn->older) {
		if (!matches(&q, sn))
			continue;
		if (paging_has(&paging, total++))
			write_snapshot(&o, sn);
	}
	json_close(&o, ']');
	write_pagination(&o, &paging, total);
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}

/* ---- removing ---- */

static void on_removed(struct snapshot *sn, const struct fault *f, void *arg)
{
	AUTO(free) struct wait *w = arg;

	(void)sn;
	if (w->rq && f)
		(void)reply_fault(w->rp, f);
	else if (w->rq)
		(void)reply_empty(w->rp, 204);
}

int snapshot_delete(struct request *rq, struct reply *rp, struct err *e)
{
	struct snapshot *sn = request_snapshot(rq, rp);
	struct wait *w;
	struct fault f;

	if (!sn)
		return 0;
	w = wait_new(rq, rp, e);
	if (!w)
		return -1;
	if (snapshot_remove(sn, on_removed, w, &f) == 0)
		return 0;
	free(w);
	return reply_fault(rp, &f);
}
