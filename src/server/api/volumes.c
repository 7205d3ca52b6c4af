// SPDX-License-Identifier: Apache-2.0
/* /volumes: the named ones, which creates make, and which outlive sandboxes. */
#include "server/model/volumes.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define LIST_BODY_MAX ((size_t)16 * 1024 * 1024)

static void write_volume(struct json_out *o, const struct volume *v)
{
	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, v->name);
	json_key(o, "state"), json_cstr(o, v->row.state == VOLUME_MAKING   ? "Creating" :
				       v->row.state == VOLUME_REMOVING ? "Deleting" : "Ready");
	if (v->row.size_bytes > 0)
		json_key(o, "sizeBytes"), json_uint(o, v->row.size_bytes);
	json_key(o, "sandboxes"), json_uint(o, v->users);
	write_time(o, "createdAt", v->row.created_us);
	json_close(o, '}');
}

static int by_name(const void *a, const void *b)
{
	const struct volume *one = *(const struct volume *const *)a, *two = *(const struct volume *const *)b;
	int order = strcmp(one->name, two->name);

	return order != 0 ? order : strcmp(one->id, two->id);
}

int volumes_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(LIST_BODY_MAX);
	const struct volumes *set = sandboxes_volumes(plane_of(rq)->sandboxes);
	AUTO(free) struct volume **all = calloc(volumes_count(set) + 1, sizeof(struct volume *));
	struct json_out o = json_out(&body);
	size_t n = 0;

	if (!all)
		return err_no_memory(e);
	for (size_t i = 0; (all[n] = volumes_next(set, &i)); n++)
		;
	qsort(all, n, sizeof(struct volume *), by_name);
	json_open(&o, '{');
	json_key(&o, "items"), json_open(&o, '[');
	for (size_t i = 0; i < n; i++)
		write_volume(&o, all[i]);
	json_close(&o, ']');
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}

/* A reply that waits for the removal. The request may go before it: then nobody is answered. */
struct deletion {
	struct reply *rp; /* NULL: gone */
};

static void on_hangup(void *arg)
{
	struct deletion *d = arg;

	d->rp = NULL;
}

static void on_deleted(const struct fault *f, void *arg)
{
	struct deletion *d = arg;

	if (d->rp && f)
		(void)reply_fault(d->rp, f);
	else if (d->rp)
		(void)reply_empty(d->rp, 204);
	free(d);
}

int volume_delete_route(struct request *rq, struct reply *rp, struct err *e)
{
	const struct volumes *set = sandboxes_volumes(plane_of(rq)->sandboxes);
	struct volume *v = volumes_find(set, rq->params[0]);
	struct deletion *d;
	struct fault f;

	if (!v) /* requests in parallel get the same answer */
		v = volumes_find_going(set, rq->params[0]);
	if (!v) {
		(void)fault_set(&f, 404, "VOLUME", "NOT_FOUND", "volume '%s' not found", SHOWN(rq->params[0]));
		return reply_fault(rp, &f);
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return err_no_memory(e);
	d->rp = rp;
	if (volume_delete(v, on_deleted, d, &f) < 0) {
		free(d);
		return reply_fault(rp, &f);
	}
	(void)reply_hold(rp, on_hangup, d);
	return 0;
}
