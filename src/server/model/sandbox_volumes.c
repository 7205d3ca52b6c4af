// SPDX-License-Identifier: Apache-2.0
/* The volumes of one sandbox, as its record has them. */
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

int order_claim_volumes(struct sandboxes *s, const struct sandbox_order *o, struct arena *a, struct sandbox_row *row, struct fault *f)
{
	struct row_volume *copy = arena_array(a, o->n_volumes + 1, sizeof(*copy));

	if (!copy)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	for (size_t i = 0; i < o->n_volumes; i++)
		copy[i] = o->volumes[i];
	if (volumes_claim(s->volumes, copy, o->n_volumes, o->volume_sizes, f) < 0)
		return -1;
	row->volumes = copy;
	row->n_volumes = o->n_volumes;
	return 0;
}

void row_unclaim_volumes(struct sandboxes *s, const struct sandbox_row *row)
{
	volumes_release(s->volumes, row->volumes, row->n_volumes, NULL);
	volumes_released(s->volumes, row->volumes, row->n_volumes);
}

bool box_has_unmade_volumes(const struct box *b)
{
	size_t i = 0;

	return volumes_unmade(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes, &i) != NULL;
}

void box_keep_volumes(struct box *b, struct store_tx *tx)
{
	volumes_record(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes, true, tx);
}

void box_volumes_kept(struct box *b)
{
	volumes_ready(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes);
}

/* As the runtime wants them: those in others behind them. What lies in something has a longer name. */
size_t box_runtime_volumes(const struct box *b, struct runtime_volume ret[VOLUMES_OF_SANDBOX_MAX])
{
	const struct sandbox_row *r = &b->pub.row;
	size_t n = 0;

	for (size_t i = 0; i < r->n_volumes && n < VOLUMES_OF_SANDBOX_MAX; i++, n++) {
		const struct row_volume *v = &r->volumes[i];
		size_t at = n;

		for (; at > 0 && strcmp(ret[at - 1].mount_path, v->mount_path) > 0; at--)
			ret[at] = ret[at - 1];
		ret[at] = (struct runtime_volume){
			.kind = v->kind == ROW_VOLUME_HOST ? RUNTIME_VOLUME_HOST : RUNTIME_VOLUME_NAMED,
			.id = v->id, .path = v->path, .mount_path = v->mount_path, .is_read_only = v->is_read_only,
		};
	}
	return n;
}

int box_check_volumes(const struct box *b, struct fault *f)
{
	const struct sandbox_row *r = &b->pub.row;

	for (size_t i = 0; i < r->n_volumes; i++)
		if (r->volumes[i].is_nowhere)
			return fault_set(f, 400, "VOLUME", "HOST_PATH_NOT_ALLOWED",
					 "volume '%s' of the sandbox is in no folder that the operator allows", r->volumes[i].name);
	return 0;
}

void box_release_volumes(struct box *b, struct store_tx *tx)
{
	volumes_release(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes, tx);
}

void box_volumes_released(struct box *b)
{
	volumes_released(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes);
}
