// SPDX-License-Identifier: Apache-2.0
/* What a create asks for: whether it can be had, and what of it is written down before the box is given anything. */
#include <sys/stat.h>

#include "sys/cgroup_limits.h"
#include "sys/process_stat.h"
#include "warden/box_impl.h"
#include "warden/box_record.h"
#include "warden/warden.h"

#include "base/banned.h"

/* What a request may ask for: beyond it the sums of set_limits() would mean something else. */
#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(1) << 50)
#define PIDS_MAX (UINT64_C(1) << 22)

int box_check_create(const struct warden *w, const struct wire_request *rq, struct err *e)
{
	const struct wire_limits *l = &rq->limits;

	if (w->is_stopping)
		return err_set(e, ERR_UNAVAILABLE, "stopping");
	if (map_get(&w->by_id, str_of(rq->id)))
		return err_set(e, ERR_CONFLICT, "there is a sandbox '%s'", rq->id);
	if (l->memory_bytes < MEMORY_MIN || l->memory_bytes > MEMORY_MAX || l->pids > PIDS_MAX ||
	    l->cpu_milli > CGROUP_CPU_MILLI_MAX || l->disk_bytes < STORE_LIMIT_MIN || l->disk_bytes > STORE_LIMIT_MAX)
		return err_set(e, ERR_INVALID, "a limit that cannot be set");
	return 0;
}

struct slot_limits box_limits_of(const struct wire_request *rq)
{
	return (struct slot_limits){ .memory_bytes = rq->limits.memory_bytes, .cpu_milli = rq->limits.cpu_milli,
				     .pids = rq->limits.pids, .disk_bytes = rq->limits.disk_bytes };
}

/* Anything but one layer with nothing below or above it has no name. */
void box_find_like(struct box *b, const struct wire_request *rq, const struct image_use *use, int spec)
{
	bool is_layer = use->layer[0] && !use->dir.path && rq->n_layers == 0;
	struct stat st;

	b->like = (struct slot_guess){ .limits = box_limits_of(rq), .has_host_usr = use->has_host_usr, .has_address = b->net != NULL };
	b->like.is_eager = is_layer && !b->volumes && fstat(spec, &st) == 0 && st.st_size <= SLOT_EAGER_SPEC_MAX;
	if (is_layer)
		memcpy(b->like.layer, use->layer, sizeof(b->like.layer));
}

/* Whose the slot is, written down before anything of it is given away. */
int box_claim(struct box *b, const struct wire_request *rq, const struct image_use *use, int record, struct err *e)
{
	struct process_stat stat = { .start = b->slot.pid_start };

	stack_done(&b->stack);
	if (stack_find(b->w, rq, use->has_host_usr, &b->stack, e) < 0 || stack_write(b->slot.dir, &b->stack, e) < 0)
		return -1;
	b->file.pid = b->slot.pid;
	memcpy(b->file.layer, use->layer, sizeof(b->file.layer));
	if (stat.start == 0 && process_stat_read(b->slot.pid, &stat, e) < 0)
		return -1;
	b->file.pid_start = stat.start;
	if (box_file_write(b->slot.dir, &b->file, e) < 0) /* first: a record without it is one of a box that runs */
		return -1;
	return box_record_write(b->slot.dir, &b->file, &b->stack, record, e);
}
