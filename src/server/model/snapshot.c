// SPDX-License-Identifier: Apache-2.0
/* The set of snapshots: taking, removing, recovering. */
#include "server/model/snapshot.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/model/snapshot_impl.h"

#include "base/banned.h"

#define SAVE_AGAIN_MS 2000

static int64_t snapshots_wall_us(const struct snapshots *s);

/* ---- one of them ---- */

static void item_free(struct item *it)
{
	if (it)
		arena_done(&it->arena);
	free(it);
}
DEFINE_AUTO(struct item *, item_free)

static const char *copy(struct arena *a, const char *z, bool *failed)
{
	const char *c = z ? arena_dup(a, str_of(z)) : NULL;

	*failed |= z && !c;
	return c;
}

static bool copy_row(struct item *it, const struct snapshot_row *row)
{
	struct snapshot_row *r = &it->pub.row;
	bool failed = false;

	*r = *row;
	r->id = copy(&it->arena, row->id, &failed);
	r->sandbox_id = copy(&it->arena, row->sandbox_id, &failed);
	r->name = copy(&it->arena, row->name, &failed);
	r->image = copy(&it->arena, row->image, &failed);
	r->image_digest = copy(&it->arena, row->image_digest, &failed);
	r->policy = copy(&it->arena, row->policy, &failed);
	r->reference = copy(&it->arena, row->reference, &failed);
	(void)snprintf(it->reason, sizeof(it->reason), "%s", row->reason);
	(void)snprintf(it->message, sizeof(it->message), "%s", row->message);
	r->reason = it->reason;
	r->message = it->message;
	return !failed;
}

static struct item *item_new(struct snapshots *s, const struct snapshot_row *row, struct err *e)
{
	AUTO(item_free) struct item *it = calloc(1, sizeof(*it));

	if (it)
		it->arena = ARENA_INIT(ITEM_ARENA_MAX);
	if (!it || !copy_row(it, row)) {
		(void)err_no_memory(e);
		return NULL;
	}
	it->pub.set = s;
	return take_ptr(&it);
}

static bool is_newer(const struct snapshot_row *a, const struct snapshot_row *b)
{
	return a->created_us != b->created_us ? a->created_us > b->created_us : strcmp(a->id, b->id) > 0;
}

static int item_link(struct item *it, struct err *e)
{
	struct snapshots *s = it->pub.set;
	struct snapshot *sn = &it->pub, *older = s->newest;

	if (!map_put(&s->by_id, str_of(sn->row.id), it))
		return err_no_memory(e);
	while (older && is_newer(&older->row, &sn->row))
		older = older->older;
	sn->older = older;
	sn->newer = older ? older->newer : s->oldest;
	*(sn->older ? &sn->older->newer : &s->oldest) = sn;
	*(sn->newer ? &sn->newer->older : &s->newest) = sn;
	return 0;
}

static void item_unlink(struct item *it)
{
	struct snapshots *s = it->pub.set;
	struct snapshot *sn = &it->pub;

	(void)map_del(&s->by_id, str_of(sn->row.id));
	*(sn->older ? &sn->older->newer : &s->oldest) = sn->newer;
	*(sn->newer ? &sn->newer->older : &s->newest) = sn->older;
}

void snapshot_set_state(struct item *it, enum snapshot_state state, const char *reason, const char *fmt, ...)
{
	int64_t now = snapshots_wall_us(it->pub.set);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(it->message, sizeof(it->message), fmt, ap);
	va_end(ap);
	(void)snprintf(it->reason, sizeof(it->reason), "%s", reason);
	it->pub.row.state = state;
	it->pub.row.changed_us = MAX(now, it->pub.row.changed_us);
}

/* ---- saving without anybody waiting for it ---- */

static void on_saved(const struct err *e, void *arg)
{
	struct item *it = arg;

	it->is_saving = false;
	it->is_dirty |= e != NULL;
	if (it->is_dirty)
		timer_in(&it->pub.set->flush, SAVE_AGAIN_MS);
}

void snapshot_save(struct item *it)
{
	struct snapshots *s = it->pub.set;
	struct store_tx *tx;
	struct err e = { 0 };

	if (it->is_removing) /* that writes all that is left to write */
		return;
	if (it->is_saving) {
		it->is_dirty = true;
		timer_in(&s->flush, 0);
		return;
	}
	tx = store_tx_new();
	store_tx_snapshot_state(tx, &it->pub.row);
	it->is_dirty = false;
	it->is_saving = true;
	if (store_submit(s->spec.store, tx, on_saved, it, &e) < 0)
		on_saved(&e, it);
}

static void on_flush(void *arg)
{
	struct snapshots *s = arg;

	for (struct snapshot *sn = s->newest; sn; sn = sn->older) {
		if (item_of(sn)->is_dirty && !item_of(sn)->is_saving)
			snapshot_save(item_of(sn));
		if (item_of(sn)->is_record_due)
			snapshot_record_send(item_of(sn));
	}
}

/* ---- taking ---- */

/* Good news need not wait for the commit: what is cut off now is found by the next start, and as good then. */
static void on_taken(struct sandbox *sb, const struct fault *f, void *arg)
{
	struct item *it = arg;

	if (!it->pub.set->sandboxes) /* nothing goes on any more; the next start sees what came of it */
		return;
	if (f && f->status == 504)
		snapshot_set_state(it, SNAPSHOT_FAILED, "snapshot_runtime_timeout", "Snapshot was not taken in time.");
	else if (f)
		snapshot_set_state(it, SNAPSHOT_FAILED, "snapshot_runtime_failed", "Snapshot could not be taken: %s.", f->message);
	else
		snapshot_set_state(it, SNAPSHOT_READY, "snapshot_runtime_ready", "Snapshot created successfully.");
	log_info("snapshot finished", LOG_S("id", it->pub.row.id), LOG_S("of", it->pub.row.sandbox_id),
		 LOG_S("state", snapshot_state_name(it->pub.row.state)), LOG_U("flush_us", sb ? sb->made.flush_us : 0),
		 LOG_U("frozen_us", sb ? sb->made.frozen_us : 0));
	snapshot_save(it);
	snapshot_record_send(it);
	KILL_POINT("server.snapshot.saved");
	if (f) /* nobody knows whether there is one */
		reference_let_go(it->pub.set, it->pub.row.reference);
}

void snapshot_tell(struct item *it, struct snapshot *sn, const struct fault *f)
{
	snapshot_fn *fn = take_ptr(&it->fn);

	if (fn)
		fn(sn, f, it->arg);
}

void snapshot_drop(struct item *it)
{
	struct snapshots *s = it->pub.set;

	item_unlink(it);
	if (it->pub.row.reference)
		reference_let_go(s, it->pub.row.reference);
	item_free(it);
}

/* What the source may reach, for who is made from the snapshot. Its record follows what egress has, as of a read. */
static int note_network(struct item *it, const struct sandbox *sb, struct fault *f)
{
	struct snapshot_row *r = &it->pub.row;
	bool failed = false;

	if (sb->row.policy && (!r->policy || strcmp(r->policy, sb->row.policy) != 0))
		r->policy = copy(&it->arena, sb->row.policy, &failed);
	if (failed)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	r->knows_network = true;
	r->network = sb->row.network;
	if (r->network != RUNTIME_NET_POLICY)
		r->policy = NULL;
	return 0;
}

static void on_policy(struct sandbox *sb, const struct fault *failure, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (failure || !it->pub.set->sandboxes)
		on_taken(NULL, failure, it);
	else if (note_network(it, sb, &f) < 0 || sandbox_snapshot(sb, it->pub.row.reference, on_taken, it, &f) < 0)
		on_taken(NULL, &f, it);
}

static void begin_taking(struct item *it)
{
	struct sandbox *sb = sandboxes_find(it->pub.set->sandboxes, str_of(it->pub.row.sandbox_id));
	struct fault f;

	if (!sb)
		(void)fault_set(&f, 404, NULL, "NOT_FOUND", "the sandbox is gone");
	if (!sb || sandbox_read_policy(sb, on_policy, it, &f) < 0)
		on_taken(NULL, &f, it);
}

static void on_recorded(const struct err *e, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		snapshot_tell(it, NULL, &f);
		snapshot_drop(it);
		return;
	}
	KILL_POINT("server.snapshot.recorded");
	snapshot_tell(it, &it->pub, NULL);
	KILL_POINT("server.snapshot.told");
	begin_taking(it);
}

static int check_take(const struct snapshots *s, const struct sandbox *sb, struct fault *f)
{
	enum sandbox_state state = sb->row.state;

	if (state != SANDBOX_RUNNING && state != SANDBOX_PAUSED)
		return fault_set(f, 409, "SNAPSHOT", "INVALID_SOURCE_STATE", "sandbox '%s' is %s, neither Running nor Paused", sb->row.id,
				 sandbox_state_name(state));
	if (s->by_id.n >= SNAPSHOTS_MAX)
		return fault_set(f, 429, "SNAPSHOT", "LIMIT_REACHED", "this server has %d snapshots already", SNAPSHOTS_MAX);
	return 0;
}

static int make_item(struct snapshots *s, const struct sandbox *sb, const char *name, struct item **ret, struct fault *f)
{
	AUTO(buf_done) struct buf reference = BUF_INIT(RUNTIME_REFERENCE_MAX + 1);
	char id[UUID_LEN + 1];
	int64_t now = snapshots_wall_us(s);
	struct snapshot_row row = {
		.id = id, .sandbox_id = sb->row.id, .name = name, .image = sb->row.image, .image_digest = sb->row.image_digest,
		.knows_network = true, .network = sb->row.network, .policy = sb->row.policy,
		.state = SNAPSHOT_CREATING, .reason = "snapshot_accepted", .message = "Snapshot creation accepted.", .created_us = now,
		.changed_us = now,
	};
	struct err e = { 0 };

	if (uuid_text(&s->random, id, &e) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	if (snapshot_find_reference(s, id, sb, &reference, f) < 0)
		return -1;
	row.reference = buf_z(&reference);
	*ret = item_new(s, &row, &e);
	return *ret ? 0 : fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
}

int snapshots_take(struct snapshots *s, struct sandbox *sb, const char *name, snapshot_fn *fn, void *arg, struct fault *f)
{
	AUTO(item_free) struct item *it = NULL;
	struct store_tx *tx;
	struct err e = { 0 };

	if (check_take(s, sb, f) < 0)
		return -1;
	if (make_item(s, sb, name, &it, f) < 0)
		return -1;
	it->fn = fn;
	it->arg = arg;
	tx = store_tx_new();
	store_tx_snapshot(tx, &it->pub.row);
	if (item_link(it, &e) < 0) {
		store_tx_free(tx);
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	}
	if (store_submit(s->spec.store, tx, on_recorded, it, &e) < 0) {
		item_unlink(it);
		return fault_of_store(f, &e);
	}
	(void)take_ptr(&it);
	KILL_POINT("server.snapshot.queued");
	return 0;
}

static void on_kept(const struct err *e, void *arg)
{
	struct item *it = arg;
	struct fault f;

	if (!e) {
		snapshot_record_send(it);
		snapshot_tell(it, &it->pub, NULL);
		return;
	}
	(void)fault_of_store(&f, e);
	snapshot_tell(it, NULL, &f);
	snapshot_drop(it);
}

/* Of something that is there already. */
static int record(struct snapshots *s, struct snapshot_row *row, snapshot_fn *fn, void *arg, struct fault *f)
{
	AUTO(item_free) struct item *it = NULL;
	struct store_tx *tx;
	struct err e = { 0 };

	row->state = SNAPSHOT_READY;
	row->created_us = row->changed_us = snapshots_wall_us(s);
	if (s->by_id.n >= SNAPSHOTS_MAX)
		return fault_set(f, 429, "SNAPSHOT", "LIMIT_REACHED", "this server has %d snapshots already", SNAPSHOTS_MAX);
	it = item_new(s, row, &e);
	if (!it || item_link(it, &e) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	it->fn = fn;
	it->arg = arg;
	tx = store_tx_new();
	store_tx_snapshot(tx, &it->pub.row);
	if (store_submit(s->spec.store, tx, on_kept, it, &e) < 0) {
		item_unlink(it);
		return fault_of_store(f, &e);
	}
	(void)take_ptr(&it);
	return 0;
}

int snapshots_keep(struct snapshots *s, const struct sandbox *source, const char *name, const struct snapshot_pin *pin, snapshot_fn *fn,
		   void *arg, struct fault *f)
{
	struct snapshot_row row = {
		.id = pin->id, .sandbox_id = source->row.id, .name = name, .image = source->row.image,
		.image_digest = source->row.image_digest, .reference = pin->reference, .reason = "snapshot_runtime_ready",
		.message = "Snapshot created successfully.", .knows_network = true, .network = source->row.network,
		.policy = source->row.policy,
	};

	return record(s, &row, fn, arg, f);
}

int snapshots_import(struct snapshots *s, const char *name, const char *image, const char *digest, snapshot_fn *fn, void *arg,
		     struct fault *f)
{
	char id[UUID_LEN + 1];
	struct snapshot_row row = {
		.id = id, .sandbox_id = id, .name = name, .image = image, .image_digest = digest, .reason = "snapshot_imported",
		.message = "Snapshot was imported from an archive.",
	};

	if (uuid_text(&s->random, id, &(struct err){ 0 }) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	return record(s, &row, fn, arg, f);
}

int snapshot_check_use(const struct snapshot *sn, struct fault *f)
{
	if (sn->row.state == SNAPSHOT_READY)
		return 0;
	return fault_set(f, 409, "SNAPSHOT", "NOT_READY", "snapshot '%s' is %s", sn->row.id, snapshot_state_name(sn->row.state));
}

/* ---- after a start ---- */

static int load(const struct snapshot_row *row, void *arg, struct err *e)
{
	struct item *it = item_new(arg, row, e);

	if (!it)
		return -1;
	if (item_link(it, e) == 0)
		return 0;
	item_free(it);
	return -1;
}

int snapshot_adopt(struct snapshots *s, const struct snapshot_row *row, struct err *e)
{
	struct item *it;
	struct store_tx *tx;

	if (map_get(&s->by_id, str_of(row->id)) || s->by_id.n >= SNAPSHOTS_MAX)
		return err_set(e, ERR_LIMIT, "a snapshot too many");
	if (load(row, s, e) < 0)
		return -1;
	it = map_get(&s->by_id, str_of(row->id));
	tx = store_tx_new();
	store_tx_snapshot(tx, &it->pub.row);
	if (store_submit(s->spec.store, tx, NULL, NULL, e) < 0) /* the next start does this again */
		log_error("a record that was made anew could not be written", LOG_S("id", row->id), LOG_ERR(e));
	return 0;
}

/* ---- the set ---- */

bool snapshots_have_image(const struct snapshots *s, const char *digest)
{
	for (const struct snapshot *sn = s->newest; sn; sn = sn->older)
		if (sn->row.state != SNAPSHOT_FAILED && sn->row.image_digest && strcmp(sn->row.image_digest, digest) == 0)
			return true;
	return false;
}

struct snapshot *snapshots_find(const struct snapshots *s, struct str id)
{
	struct item *it = id_valid(id) ? map_get(&s->by_id, id) : NULL;

	return it ? &it->pub : NULL;
}

struct snapshot *snapshots_newest(const struct snapshots *s)
{
	return s->newest;
}

static int64_t snapshots_wall_us(const struct snapshots *s)
{
	return s->spec.wall_us ? s->spec.wall_us(s->spec.wall_arg) : clock_wall_us();
}

void snapshots_stop(struct snapshots *s)
{
	struct fault f;

	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the server is stopping");
	for (struct snapshot *sn = s->newest; sn; sn = sn->older)
		snapshot_tell(item_of(sn), NULL, &f);
	s->sandboxes = NULL;
}

void snapshots_free(struct snapshots *s)
{
	if (!s)
		return;
	while (s->newest) {
		struct item *it = item_of(s->newest);

		item_unlink(it);
		item_free(it);
	}
	map_done(&s->by_id);
	timer_done(&s->flush);
	timer_done(&s->again);
	random_pool_done(&s->random);
	free(s);
}

struct snapshots *snapshots_new(const struct snapshots_spec *spec, enum store_fault *ret_fault, struct err *e)
{
	AUTO(snapshots_free) struct snapshots *s = calloc(1, sizeof(*s));
	char value[STORE_META_MAX];
	size_t boot = 0, keep = 0;

	*ret_fault = STORE_FAILED;
	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->spec = *spec;
	if (timer_init(&s->flush, spec->loop, on_flush, s, "snapshot states", e) < 0 ||
	    timer_init(&s->again, spec->loop, snapshots_ask, s, "snapshots of the runtime", e) < 0 ||
	    store_meta_get(spec->store, "boot_id", value, &boot, e) < 0 ||
	    store_meta_get(spec->store, STORE_KEEP_LAYERS, value, &keep, e) < 0 ||
	    store_load_snapshots(spec->store, load, s, ret_fault, e) < 0)
		return NULL;
	s->keeps_unknown = keep > 0;
	s->is_new = boot == 0;
	return take_ptr(&s);
}
