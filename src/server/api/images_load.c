// SPDX-License-Identifier: Apache-2.0
/* /images/load: an archive comes as the body, and goes through a pipe to the fetcher that reads it. */
#include <stdlib.h>

#include "base/err.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/api/images.h"
#include "server/http/reply.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define ANSWER_MAX ((size_t)4 * 1024 * 1024)
#define WAITING_MAX ((size_t)1024 * 1024) /* bytes that the pipe had no room for; the body is paused before that */

static void hang_up(struct loading *l)
{
	io_del(&l->io);
	closep(&l->pipe);
	l->pipe = -1;
}

void loading_free(struct loading *l)
{
	hang_up(l);
	buf_done(&l->waiting);
	free(l);
}

static void loading_drop(struct plane_job *job)
{
	struct loading *l = container_of(job, struct loading, job);
	struct runtime *rt = job->plane->spec.runtime;

	rt->ops->image_cancel(rt, l);
	loading_free(l);
}

static void on_hangup(void *arg)
{
	struct loading *l = arg;

	l->rp = NULL;
	if (l->is_over) /* what was begun since goes on */
		return;
	plane_job_end(&l->job);
	loading_drop(&l->job);
}

/* ---- into the pipe ---- */

/* What does not fit waits. A reader that is gone has said why, or will: what comes is dropped until then. */
static void flush(struct loading *l)
{
	while (l->pipe >= 0 && l->waiting.n > 0) {
		ssize_t n = write(l->pipe, l->waiting.p, l->waiting.n);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			hang_up(l);
		else
			buf_consume(&l->waiting, (size_t)n);
	}
	if (l->pipe < 0)
		buf_clear(&l->waiting);
	if (l->waiting.n > 0) {
		io_want(&l->io, IO_OUT);
		return;
	}
	if (l->has_ended)
		hang_up(l);
	else if (l->pipe >= 0)
		io_want(&l->io, 0);
}

static void on_room(unsigned ready, void *arg)
{
	struct loading *l = arg;

	if (ready & IO_ERR) /* nobody reads it any more; why will be told */
		hang_up(l);
	flush(l);
	if (l->waiting.n == 0 && !l->has_ended)
		request_resume(l->rq);
}

static int on_data(struct str piece, void *arg, struct err *e)
{
	struct loading *l = arg;

	if (l->pipe < 0)
		return 0;
	if (!buf_add_str(&l->waiting, piece))
		return err_no_memory(e);
	flush(l);
	if (l->waiting.n > 0)
		request_pause(l->rq);
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	struct loading *l = arg;

	(void)e;
	l->has_ended = true;
	flush(l);
	return 0;
}

/* ---- the answer ---- */

static int reply_images(struct reply *rp, const struct runtime_image *images, size_t n)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (size_t i = 0; i < n; i++)
		write_image(&o, &images[i]);
	json_close(&o, ']');
	json_close(&o, '}');
	return reply_json(rp, 200, &b);
}

static unsigned status_of(const struct err *e)
{
	return e->code == ERR_INVALID || e->code == ERR_NOT_FOUND ? 400 : http_status_of(e);
}

int loading_failed(struct reply *rp, const struct err *e)
{
	bool is_ours = e->code == ERR_INTERNAL || e->code == ERR_IO;

	return reply_error(rp, status_of(e), "IMAGES::BAD_ARCHIVE", "%s", is_ours ? "something went wrong" : e->msg);
}

static void on_done(const struct runtime_image *images, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct loading *l = arg;

	l->is_over = true;
	plane_job_end(&l->job);
	l->done(l, images, n, failure ? &failure->err : NULL);
}

static void on_loaded(struct loading *l, const struct runtime_image *images, size_t n, const struct err *e)
{
	if (!e)
		(void)reply_images(l->rp, images, n);
	else
		(void)loading_failed(l->rp, e);
	loading_free(l);
}

struct load_query {
	const char *name;
};

static const struct field load_query_fields[] = {
	FIELD(struct load_query, name, FIELD_STRING, "name", .min = 1, .max = 1024),
	{ 0 },
};

int loading_begin(struct loading *l, struct request *rq, struct reply *rp, const struct runtime_image_load *o, struct err *e)
{
	static const struct body_sink sink = { .data = on_data, .end = on_end };
	struct runtime *rt = plane_of(rq)->spec.runtime;

	l->rq = rq;
	l->rp = rp;
	l->pipe = -1;
	l->waiting = BUF_INIT(WAITING_MAX);
	if (rt->ops->image_load(rt, o, &l->pipe, on_done, l, e) < 0 || io_add(&l->io, request_loop(rq), l->pipe, 0, on_room, l, "archive", e) < 0) {
		rt->ops->image_cancel(rt, l);
		loading_free(l);
		return -1;
	}
	plane_job_begin(plane_of(rq), &l->job, loading_drop);
	request_read(rq, &sink, l);
	return reply_hold(rp, on_hangup, l);
}

int images_load_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct load_query q = { 0 };
	struct loading *l;
	int rc = request_can(rq, rp, CAPABILITY_IMAGE_ARCHIVES) ? request_query(rq, rp, load_query_fields, &q, e) : 1;

	if (rc == 0)
		rc = request_check_room(rq, rp, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	service_note(rq, q.name ? q.name : "");
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_no_memory(e);
	l->done = on_loaded;
	if (loading_begin(l, rq, rp, &(struct runtime_image_load){ .name = q.name }, e) == 0)
		return 0;
	return e->code == ERR_INVALID ? reply_error(rp, 400, "IMAGES::INVALID_REFERENCE", "%s", e->msg) : -1;
}
