// SPDX-License-Identifier: Apache-2.0
/* /snapshots/ID/archive: a snapshot as an image of its own. The runtime makes its parts; then all of it is sent. */
#include <stdlib.h>

#include "base/err.h"
#include "server/api/api.h"
#include "server/api/archive.h"
#include "server/api/snapshots.h"
#include "server/http/reply.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define RETRY_S 10

struct exporting {
	struct plane_job job;
	struct reply *rp; /* NULL: nobody waits for it any more */
	struct archive archive;
};

static void exporting_drop(struct plane_job *job)
{
	struct exporting *x = container_of(job, struct exporting, job);

	archive_done(&x->archive);
	free(x);
}

static void finish(struct exporting *x)
{
	x->job.plane->exports--;
	plane_job_end(&x->job);
	exporting_drop(&x->job);
}

static void on_sent(void *arg)
{
	finish(arg);
}

/* The runtime writes on: it is let go when that is over. */
static void on_hangup(void *arg)
{
	struct exporting *x = arg;

	x->rp = NULL;
}

static void fail(struct exporting *x, const struct fault *f)
{
	if (x->rp)
		(void)reply_fault(x->rp, f);
	finish(x);
}

static bool on_parts(const struct runtime_image_parts *parts, const struct runtime_failure *failure, void *arg)
{
	struct exporting *x = arg;
	struct err e = { 0 };
	struct fault f;

	if (failure || !x->rp) {
		if (failure)
			(void)fault_of_runtime(&f, x->job.plane->spec.runtime, failure);
		fail(x, &f);
		return false;
	}
	if (archive_fill(&x->archive, parts, &e) < 0) {
		(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the archive cannot be sent");
		fail(x, &f);
		return false;
	}
	if (archive_send(&x->archive, x->rp, on_sent, x, &e) < 0) {
		(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "%s", e.code == ERR_UNAVAILABLE ? e.msg : "the archive cannot be sent");
		fail(x, &f);
	}
	return true;
}

static int begin(struct request *rq, struct reply *rp, const struct snapshot *sn, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct runtime *rt = plane->spec.runtime;
	struct exporting *x = calloc(1, sizeof(*x));

	if (!x)
		return err_no_memory(e);
	x->rp = rp;
	plane->exports++;
	plane_job_begin(plane, &x->job, exporting_drop);
	(void)reply_hold(rp, on_hangup, x);
	rt->ops->snapshot_export(rt, &(struct runtime_export){ .reference = sn->row.reference, .image_digest = sn->row.image_digest, .id = sn->row.id },
				 on_parts, x);
	return 0;
}

int snapshot_archive_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct snapshot *sn;
	struct fault f;

	if (!request_can(rq, rp, CAPABILITY_SNAPSHOT_EXPORT))
		return 0;
	sn = request_snapshot(rq, rp);
	if (!sn)
		return 0;
	if (snapshot_check_use(sn, &f) < 0)
		return reply_fault(rp, &f);
	if (plane_of(rq)->exports < RUNTIME_EXPORTS_AT_ONCE)
		return begin(rq, rp, sn, e);
	(void)fault_set(&f, 429, NULL, "TOO_MANY_REQUESTS", "too many snapshots are being exported");
	f.retry_s = RETRY_S;
	return reply_fault(rp, &f);
}
