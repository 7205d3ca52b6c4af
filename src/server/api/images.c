// SPDX-License-Identifier: Apache-2.0
/* /images: what is there, pulling ahead of time, removing. */
#include <stdlib.h>

#include "base/err.h"
#include "base/json_out.h"
#include "image/reference.h"
#include "net/http/sse.h"
#include "server/api/api.h"
#include "server/api/images.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define LIST_MAX ((size_t)64 * 1024 * 1024)
#define EVENT_MAX ((size_t)64 * 1024)
#define IMAGE_SECRET_MAX 8192 /* of a user name, of a password */

int request_check_room(const struct request *rq, struct reply *rp, struct err *e)
{
	struct runtime *rt = plane_of(rq)->spec.runtime;

	if (!rt->ops->check_room || rt->ops->check_room(rt, e) == 0)
		return 0;
	if (e->sys != ENOSPC)
		return -1;
	return reply_error(rp, 507, "INSUFFICIENT_STORAGE", "%s", e->msg) < 0 ? -1 : 1;
}

/* ---- images as JSON ---- */

void write_image(struct json_out *o, const struct runtime_image *im)
{
	json_open(o, '{');
	json_key(o, "uri"), json_cstr(o, im->name);
	json_key(o, "digest"), json_cstr(o, im->digest);
	json_key(o, "platform"), json_open(o, '{');
	json_key(o, "os"), json_cstr(o, im->os);
	json_key(o, "arch"), json_cstr(o, im->arch);
	json_close(o, '}');
	json_key(o, "size"), json_uint(o, im->size);
	json_key(o, "layers"), json_open(o, '[');
	for (size_t i = 0; i < im->layers.n; i++)
		json_cstr(o, im->layers.items[i]);
	json_close(o, ']');
	json_key(o, "private"), json_bool(o, im->is_private);
	json_key(o, "kept"), json_bool(o, im->is_kept);
	write_time(o, "pulledAt", im->pulled_us);
	json_close(o, '}');
}

/* A request that waits for an answer of the runtime about images. */
struct asking {
	struct plane_job job;
	struct reply *rp; /* NULL: gone */
};

static void asking_drop(struct plane_job *job)
{
	free(container_of(job, struct asking, job));
}

static void on_asking_hangup(void *arg)
{
	struct asking *q = arg;

	q->rp = NULL;
}

static struct asking *asking_new(struct request *rq, struct reply *rp, struct err *e)
{
	struct asking *q = calloc(1, sizeof(*q));

	if (!q) {
		(void)err_no_memory(e);
		return NULL;
	}
	q->rp = rp;
	plane_job_begin(plane_of(rq), &q->job, asking_drop);
	(void)reply_hold(rp, on_asking_hangup, q);
	return q;
}

static int reply_unavailable(struct reply *rp, const struct plane *p, const struct runtime_failure *failure)
{
	struct fault f;

	(void)fault_of_runtime(&f, p->spec.runtime, failure);
	return reply_fault(rp, &f);
}

static void on_images(const struct runtime_image *images, size_t n, const struct runtime_failure *failure, void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(LIST_MAX);
	AUTO(free) struct asking *q = arg;
	struct json_out o = json_out(&b);

	plane_job_end(&q->job);
	if (!q->rp)
		return;
	if (failure) {
		(void)reply_unavailable(q->rp, q->job.plane, failure);
		return;
	}
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (size_t i = 0; i < n; i++)
		write_image(&o, &images[i]);
	json_close(&o, ']');
	json_close(&o, '}');
	(void)reply_json(q->rp, 200, &b);
}

int images_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct runtime *rt = plane_of(rq)->spec.runtime;
	struct asking *q;

	if (!request_can(rq, rp, CAPABILITY_IMAGES))
		return 0;
	q = asking_new(rq, rp, e);
	if (!q)
		return -1;
	rt->ops->images(rt, on_images, q);
	return 0;
}

/* ---- removing ---- */

struct image_query {
	const char *uri;
};

static const struct field image_query_fields[] = {
	FIELD(struct image_query, uri, FIELD_STRING, "uri", .required = true, .min = 1, .max = 1024),
	{ 0 },
};

static void on_removed(const struct runtime_failure *failure, void *arg)
{
	AUTO(free) struct asking *q = arg;

	plane_job_end(&q->job);
	if (!q->rp)
		return;
	if (!failure)
		(void)reply_empty(q->rp, 204);
	else if (failure->err.code == ERR_CONFLICT)
		(void)reply_error(q->rp, 409, "IMAGES::IN_USE", "%s", failure->err.msg);
	else if (failure->err.code == ERR_NOT_FOUND)
		(void)reply_error(q->rp, 404, "IMAGES::NOT_FOUND", "%s", failure->err.msg);
	else if (failure->err.code == ERR_INVALID)
		(void)reply_error(q->rp, 400, "IMAGES::INVALID_REFERENCE", "%s", failure->err.msg);
	else
		(void)reply_unavailable(q->rp, q->job.plane, failure);
}

int images_delete(struct request *rq, struct reply *rp, struct err *e)
{
	struct runtime *rt = plane_of(rq)->spec.runtime;
	struct image_query q = { 0 };
	struct asking *a;
	int rc = request_can(rq, rp, CAPABILITY_IMAGES) ? request_query(rq, rp, image_query_fields, &q, e) : 1;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	service_note(rq, q.uri);
	a = asking_new(rq, rp, e);
	if (!a)
		return -1;
	rt->ops->image_remove(rt, q.uri, on_removed, a);
	return 0;
}

/* ---- pulling ---- */

#define PULL(member, kind, name, ...) FIELD(struct image_request, member, kind, name, __VA_ARGS__)

static const char *check_os(const void *value)
{
	return str_is(str_of(*(const char *const *)value), "linux") ? NULL : "must be linux";
}

static const char *check_arch(const void *value)
{
	struct str arch = str_of(*(const char *const *)value);

	return str_is(arch, "amd64") || str_is(arch, "arm64") ? NULL : "must be amd64 or arm64";
}

static const struct field auth_fields[] = {
	FIELD(struct image_auth, username, FIELD_STRING, "username", .required = true, .max = IMAGE_SECRET_MAX, .secret = true),
	FIELD(struct image_auth, password, FIELD_STRING, "password", .required = true, .max = IMAGE_SECRET_MAX, .secret = true),
	{ 0 },
};

static const struct field platform_fields[] = {
	FIELD(struct image_platform, os, FIELD_STRING, "os", .required = true, .check = check_os),
	FIELD(struct image_platform, arch, FIELD_STRING, "arch", .required = true, .check = check_arch),
	{ 0 },
};

static const struct field pull_fields[] = {
	PULL(uri, FIELD_STRING, "uri", .required = true, .min = 1, .max = 1024),
	PULL(auth, FIELD_OBJECT, "auth", .fields = auth_fields, .secret = true),
	PULL(platform, FIELD_OBJECT, "platform", .fields = platform_fields),
	PULL(refresh, FIELD_BOOL, "refresh"),
	{ 0 },
};

int image_request_decode(struct request *rq, struct reply *rp, struct image_request *ret, struct err *e)
{
	struct reference ref;
	struct decode d;
	int rc = service_decode(rq, rp, pull_fields, ret, &d, e);

	if (rc != 0)
		return rc;
	service_note(rq, ret->uri);
	if (reference_parse(str_of(ret->uri), &ref, e) == 0)
		return 0;
	(void)reply_error(rp, 400, "IMAGES::INVALID_REFERENCE", "%s", e->msg);
	return 1;
}

/* A pull whose progress somebody reads. */
struct watching {
	struct plane_job job;
	struct reply *rp;
};

static void watching_drop(struct plane_job *job)
{
	struct watching *w = container_of(job, struct watching, job);
	struct runtime *rt = job->plane->spec.runtime;

	rt->ops->image_cancel(rt, w);
	free(w);
}

static void on_hangup(void *arg)
{
	struct watching *w = arg;

	plane_job_end(&w->job);
	watching_drop(&w->job);
}

static void send_event(struct reply *rp, struct buf *json)
{
	AUTO(buf_done) struct buf event = BUF_INIT(EVENT_MAX + 64);

	if (!json->failed && sse_event(&event, &(struct sse_event){ .data = buf_str(json) }))
		reply_write(rp, buf_str(&event));
}

static void on_progress(const struct runtime_progress *p, void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
	struct json_out o = json_out(&b);
	const struct watching *w = arg;

	if (reply_room(w->rp) == 0)
		return;
	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "progress");
	json_key(&o, "phase"), json_cstr(&o, p->phase);
	json_key(&o, "bytes"), json_uint(&o, p->bytes);
	json_key(&o, "total"), json_uint(&o, p->total);
	json_key(&o, "layersDone"), json_uint(&o, p->layers_done);
	json_key(&o, "layers"), json_uint(&o, p->layers);
	json_close(&o, '}');
	send_event(w->rp, &b);
}

static void on_done(const struct runtime_image *im, const struct runtime_failure *failure, void *arg)
{
	const struct err *e = failure ? &failure->err : NULL;
	AUTO(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
	struct json_out o = json_out(&b);
	struct watching *w = arg;

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, im ? "done" : "error");
	if (im) {
		json_key(&o, "image"), write_image(&o, im);
	} else {
		json_key(&o, "code"), json_cstr(&o, err_code_name(e->code));
		json_key(&o, "message"), json_cstr(&o, e->code == ERR_INTERNAL || e->code == ERR_IO ? "something went wrong" : e->msg);
	}
	json_close(&o, '}');
	send_event(w->rp, &b);
	reply_end(w->rp);
	plane_job_end(&w->job);
	free(w);
}

/* Progress that has no room is not missed. */
static void no_proceed(void *arg)
{
	(void)arg;
}

int images_pull_post(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { .proceed = no_proceed, .stop = on_hangup };
	struct runtime *rt = plane_of(rq)->spec.runtime;
	struct image_request pr = { .refresh = true };
	struct watching *w;
	int rc = request_can(rq, rp, CAPABILITY_IMAGES) ? image_request_decode(rq, rp, &pr, e) : 1;

	if (rc == 0)
		rc = request_check_room(rq, rp, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_no_memory(e);
	w->rp = rp;
	if (reply_event_stream(rp, &source, w, e) < 0) {
		free(w);
		return -1;
	}
	plane_job_begin(plane_of(rq), &w->job, watching_drop);
	rt->ops->image_pull(rt, &(struct runtime_image_order){ .uri = pr.uri, .username = pr.auth.username, .password = pr.auth.password,
							       .os = pr.platform.os, .arch = pr.platform.arch, .refresh = pr.refresh },
			    on_progress, on_done, w);
	return 0;
}
