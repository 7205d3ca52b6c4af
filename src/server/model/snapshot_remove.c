// SPDX-License-Identifier: Apache-2.0
/* How snapshots go, and what becomes of those that were cut off on their way. */
#include "base/log.h"
#include "server/model/snapshot_impl.h"

#include "base/banned.h"

/* It stays, as it is in memory. */
static void remove_failed(struct item *it, const struct fault *f)
{
	it->is_removing = false;
	snapshot_save(it);
	snapshot_tell(it, NULL, f);
}

static void on_deleted(const struct err *e, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		remove_failed(it, &f);
		return;
	}
	KILL_POINT("server.snapshot.deleted");
	log_info("snapshot removed", LOG_S("id", it->pub.row.id));
	snapshot_tell(it, NULL, NULL);
	snapshot_drop(it);
	KILL_POINT("server.snapshot.forgotten");
}

static void delete_row(struct item *it)
{
	struct store_tx *tx = store_tx_new();
	struct err e = { 0 };

	store_tx_snapshot_delete(tx, it->pub.row.id);
	if (store_submit(it->pub.set->spec.store, tx, on_deleted, it, &e) < 0)
		on_deleted(&e, it);
}

static void on_unrecorded(const struct runtime_failure *failure, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (failure && failure->err.code != ERR_NOT_FOUND) {
		(void)fault_of_runtime(&f, it->pub.set->spec.runtime, failure);
		remove_failed(it, &f);
		return;
	}
	KILL_POINT("server.snapshot.unrecorded");
	delete_row(it);
}

/* The copy of its record first: where there is no record, it would make the snapshot again. */
static void delete_now(struct item *it)
{
	struct runtime *rt = it->pub.set->spec.runtime;

	if (rt->ops->snapshot_record_set && it->pub.row.reference)
		rt->ops->snapshot_record_set(rt, it->pub.row.reference, STR(""), on_unrecorded, it);
	else
		delete_row(it);
}

static void on_marked(const struct err *e, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		remove_failed(it, &f);
		return;
	}
	KILL_POINT("server.snapshot.marked");
	if (!snapshot_has_sandbox(&it->pub)) {
		delete_now(it);
		return;
	}
	it->is_removing = false;
	(void)fault_set(&f, 409, "SNAPSHOT", "DELETE_CONFLICT", "a sandbox stands on snapshot '%s': delete that first", it->pub.row.id);
	snapshot_tell(it, NULL, &f);
}

int snapshot_remove(struct snapshot *sn, snapshot_fn *fn, void *arg, struct fault *f)
{
	struct item *it = item_of(sn);
	struct store_tx *tx;
	struct err e = { 0 };

	if (sn->row.state == SNAPSHOT_CREATING || it->is_removing || it->fn) /* it is not recorded yet */
		return fault_set(f, 409, "SNAPSHOT", "INVALID_STATE", "snapshot '%s' is %s", sn->row.id,
				 it->is_removing ? "being deleted" : "being taken");
	snapshot_set_state(it, SNAPSHOT_DELETING, "snapshot_delete_requested", "Snapshot deletion was asked for.");
	tx = store_tx_new();
	store_tx_snapshot_state(tx, &sn->row);
	it->is_removing = true;
	it->is_dirty = false;
	it->fn = fn;
	it->arg = arg;
	if (store_submit(sn->set->spec.store, tx, on_marked, it, &e) == 0)
		return 0;
	it->fn = NULL;
	(void)fault_of_store(f, &e);
	remove_failed(it, f);
	return -1;
}

/* ---- after a start ---- */

static bool lacks_record(const struct item *it, const struct runtime_snapshots *found)
{
	const char *reference = it->pub.row.reference;

	return reference && !it->is_removing && found->has_record && !found->has_record(found, reference);
}

static void settle(struct item *it, const struct runtime_snapshots *found)
{
	bool is_whole = !it->pub.row.reference || found->has(found, it->pub.row.reference);

	if (it->pub.row.state == SNAPSHOT_CREATING && is_whole) {
		snapshot_set_state(it, SNAPSHOT_READY, "snapshot_recovery_ready", "Snapshot was complete when the server came back.");
		snapshot_save(it);
	} else if ((it->pub.row.state == SNAPSHOT_CREATING || it->pub.row.state == SNAPSHOT_READY) && !is_whole) {
		log_error("a snapshot is not whole", LOG_S("id", it->pub.row.id));
		snapshot_set_state(it, SNAPSHOT_FAILED, "snapshot_recovery_missing_image", "Snapshot was not complete when the server came back.");
		snapshot_save(it);
		reference_let_go(it->pub.set, it->pub.row.reference);
	} else if (it->pub.row.state == SNAPSHOT_DELETING && !snapshot_has_sandbox(&it->pub)) {
		it->is_removing = true;
		delete_now(it);
	}
	if (is_whole && lacks_record(it, found)) /* of an earlier version, or of a server that was killed in between */
		snapshot_record_send(it);
}

void snapshots_settle(struct snapshots *s, const struct runtime_snapshots *found)
{
	for (struct snapshot *sn = s->newest, *older; sn; sn = older) {
		older = sn->older;
		settle(item_of(sn), found);
		KILL_POINT("server.recover.snapshot");
	}
}
