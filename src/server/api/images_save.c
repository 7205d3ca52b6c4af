// SPDX-License-Identifier: Apache-2.0
/* /images/save: an image as an archive that others can read. */
#include <stdlib.h>

#include "base/err.h"
#include "server/api/api.h"
#include "server/api/archive.h"
#include "server/api/images.h"
#include "server/http/reply.h"
#include "server/images/pull.h"

#include "base/banned.h"

struct saving {
	struct plane_job job;
	struct reply *rp;
	struct pull op;
	struct archive archive;
};

static void saving_free(struct saving *s)
{
	pull_cancel(&s->op);
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

/* Descriptors now: the blobs may be swept the next moment. */
static int open_layers(struct puller *p, const struct pulled_image *im, struct archive_layer layers[MANIFEST_LAYERS_MAX], size_t *n,
		       struct err *e)
{
	for (; *n < im->n_layers; ++*n) {
		layers[*n] = (struct archive_layer){ .size = im->layers[*n].size, .fd = pull_open_blob(p, im->layers[*n].name, e) };
		layers[*n].digest = im->layers[*n].digest;
		if (layers[*n].fd < 0)
			return -1;
	}
	return 0;
}

static int collect(struct saving *s, const struct pulled_image *im, struct err *e)
{
	struct archive_layer layers[MANIFEST_LAYERS_MAX];
	struct archive_image as = { .name = im->name, .os = im->os, .arch = im->arch, .layers = layers };

	if (!digest_parse(str_of(im->digest), &as.digest))
		return err_set(e, ERR_INTERNAL, "'%s' is no digest", im->digest);
	images_documents(im, &as.manifest, &as.config);
	if (open_layers(s->job.plane->spec.puller, im, layers, &as.n_layers, e) == 0 && archive_fill(&s->archive, &as, e) == 0)
		return 0;
	while (as.n_layers > 0)
		closep(&layers[--as.n_layers].fd);
	return -1;
}

static int begin(struct saving *s, const struct pulled_image *im, struct err *e)
{
	return collect(s, im, e) < 0 ? -1 : archive_send(&s->archive, s->rp, on_hangup, s, e);
}

static void on_pulled(const struct pulled_image *im, const struct err *e, void *arg)
{
	struct saving *s = arg;
	struct err why = { 0 };
	unsigned status;

	if (im && begin(s, im, &why) == 0)
		return;
	if (e)
		why = *e;
	status = why.code == ERR_DENIED ? 403 : http_status_of(&why);
	plane_job_end(&s->job);
	(void)reply_error(s->rp, status, why.code == ERR_NOT_FOUND ? "IMAGES::NOT_FOUND" : "IMAGES::PULL_FAILED", "%s",
			  status >= 500 && !e ? "something went wrong" : why.msg);
	saving_free(s);
}

int images_save_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct puller *p = request_puller(rq, rp);
	struct image_request ir = { 0 };
	struct saving *s;
	int rc = p ? image_request_decode(rq, rp, &ir, e) : 1;

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
	pull_start(p, &(struct pull_order){ .uri = ir.uri, .username = ir.auth.username, .password = ir.auth.password,
					    .os = ir.platform.os, .arch = ir.platform.arch, .with_blobs = true },
		   &s->op, NULL, on_pulled, s);
	return 0;
}
