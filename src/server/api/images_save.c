// SPDX-License-Identifier: Apache-2.0
/* /images/save: an image as an archive that others can read. */
#include <stdlib.h>

#include "base/err.h"
#include "server/api/api.h"
#include "server/api/archive.h"
#include "server/api/images.h"
#include "server/http/reply.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

struct saving {
	struct plane_job job;
	struct reply *rp;
	struct archive archive;
};

static void saving_free(struct saving *s)
{
	struct runtime *rt = s->job.plane->spec.runtime;

	rt->ops->image_cancel(rt, s);
	archive_done(&s->archive);
	free(s);
}

static void saving_drop(struct plane_job *job)
{
	saving_free(container_of(job, struct saving, job));
}

static void on_hangup(void *arg)
{
	struct saving *s = arg;

	plane_job_end(&s->job);
	saving_free(s);
}

/* Which takes the descriptors when it succeeds. */
static int begin(struct saving *s, const struct runtime_image_parts *parts, struct err *e)
{
	return archive_fill(&s->archive, parts, e) < 0 ? -1 : archive_send(&s->archive, s->rp, on_hangup, s, e);
}

static bool on_parts(const struct runtime_image_parts *parts, const struct runtime_failure *failure, void *arg)
{
	struct saving *s = arg;
	struct err why = { 0 };
	bool is_taken;
	unsigned status;

	if (parts && begin(s, parts, &why) == 0)
		return true;
	is_taken = s->archive.n > 0; /* what could not be sent goes with it */
	if (failure)
		why = failure->err;
	status = why.code == ERR_DENIED ? 403 : http_status_of(&why);
	plane_job_end(&s->job);
	(void)reply_error(s->rp, status, why.code == ERR_NOT_FOUND ? "IMAGES::NOT_FOUND" : "IMAGES::PULL_FAILED", "%s",
			  status >= 500 && !failure ? "something went wrong" : why.msg);
	saving_free(s);
	return is_taken;
}

int images_save_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct runtime *rt = plane_of(rq)->spec.runtime;
	struct image_request ir = { 0 };
	struct saving *s;
	int rc = request_can(rq, rp, CAPABILITY_IMAGE_ARCHIVES) ? image_request_decode(rq, rp, &ir, e) : 1;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_no_memory(e);
	s->rp = rp;
	rc = reply_hold(rp, on_hangup, s);
	if (rc < 0) {
		free(s);
		return -1;
	}
	plane_job_begin(plane_of(rq), &s->job, saving_drop);
	rt->ops->image_save(rt, &(struct runtime_image_order){ .uri = ir.uri, .username = ir.auth.username, .password = ir.auth.password,
							       .os = ir.platform.os, .arch = ir.platform.arch }, on_parts, s);
	return 0;
}
