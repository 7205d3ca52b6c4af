// SPDX-License-Identifier: Apache-2.0
/* /snapshots/import: the image of an archive as a snapshot, which sandboxes are made from. It is read as any archive of images
 * is, and unpacked as any image is when a sandbox needs it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "server/api/api.h"
#include "server/api/images.h"
#include "server/api/snapshots.h"
#include "server/http/reply.h"
#include "server/runtime/image.h"

#include "base/banned.h"

#define IMAGE_NAME "localhost/snapshot:import" /* of no registry; it is known by its digest at once */

struct importing {
	struct loading loading; /* first */
	char name[SNAPSHOT_NAME_MAX + 1]; /* "": none */
};

static void on_recorded(struct snapshot *sn, const struct fault *f, void *arg)
{
	struct importing *im = arg;
	struct reply *rp = im->loading.rp;
	char location[sizeof("/v1/snapshots/") + ID_MAX];

	KILL_POINT("server.import.recorded");
	if (rp && f) {
		(void)reply_fault(rp, f);
	} else if (rp) {
		(void)snprintf(location, sizeof(location), "/v1/snapshots/%s", sn->row.id);
		(void)reply_header(rp, "Location", str_of(location));
		service_note(im->loading.rq, sn->row.id);
		(void)reply_snapshot(rp, 201, sn);
	}
	loading_free(&im->loading);
}

static void on_loaded(struct loading *l, const struct runtime_image *images, size_t n, const struct err *e)
{
	struct importing *im = container_of(l, struct importing, loading);
	const char *name = im->name[0] ? im->name : NULL;
	struct snapshots *set = plane_of(l->rq)->snapshots;
	struct fault f;

	if (e) {
		(void)loading_failed(l->rp, e);
	} else if (n != 1) {
		(void)reply_error(l->rp, 400, "IMAGES::BAD_ARCHIVE", "the archive has %zu images, a snapshot is one", n);
	} else {
		KILL_POINT("server.import.loaded");
		if (snapshots_import(set, name, images[0].name, images[0].digest, on_recorded, im, &f) == 0)
			return;
		(void)reply_fault(l->rp, &f);
	}
	loading_free(l);
}

struct import_query {
	const char *name;
};

static const struct field import_query_fields[] = {
	FIELD(struct import_query, name, FIELD_STRING, "name", .min = 1, .max = SNAPSHOT_NAME_MAX),
	{ 0 },
};

int snapshots_import_post(struct request *rq, struct reply *rp, struct err *e)
{
	const struct runtime_image_load order = { .name = IMAGE_NAME, .is_kept = true };
	struct import_query q = { 0 };
	struct importing *im;
	int rc = request_can(rq, rp, CAPABILITY_IMAGE_ARCHIVES) ? request_query(rq, rp, import_query_fields, &q, e) : 1;

	if (rc == 0)
		rc = request_check_room(rq, rp, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	im = calloc(1, sizeof(*im));
	if (!im)
		return err_no_memory(e);
	(void)snprintf(im->name, sizeof(im->name), "%s", q.name ? q.name : "");
	im->loading.done = on_loaded;
	return loading_begin(&im->loading, rq, rp, &order, e);
}
