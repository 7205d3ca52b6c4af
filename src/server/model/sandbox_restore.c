// SPDX-License-Identifier: Apache-2.0
/* At a start: the records of the database against the copies that the runtime keeps with what runs. A database may have been
 * damaged, or replaced by an older one, without anything in it that shows; a sandbox that runs does not end for that. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define ASK_AT_ONCE 32
#define UNKNOWN "unknown" /* of what no record and no copy says */

/* ---- reading the copies ---- */

static void on_record(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg);

static bool may_have_record(const struct found *f)
{
	return f->box.state != RUNTIME_STARTING;
}

static void ask(struct recovery *r)
{
	struct runtime *rt = r->set->spec.runtime;

	if (r->is_asking) /* an answer that came during the call */
		return;
	r->is_asking = true;
	while (r->next < r->n && r->pending < ASK_AT_ONCE) {
		struct found *f = &r->at[r->next++];

		if (!rt->ops->record_get || !may_have_record(f))
			continue;
		r->pending++;
		rt->ops->record_get(rt, f->box.id, on_record, f);
	}
	r->is_asking = false;
	if (r->pending == 0)
		defer(&r->later, r->set->spec.loop, r->fn, r->set, "records");
}

/* A runtime that went away is asked for everything again; one copy that cannot be read is only one copy. */
static void on_record(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct found *f = arg;
	struct recovery *r = f->of;
	struct err e = { 0 };

	(void)is_cut;
	r->pending--;
	if (failure && failure->err.code != ERR_NOT_FOUND && failure->err.code != ERR_INVALID)
		r->has_failed = true;
	else if (failure && failure->err.code == ERR_INVALID) /* not found: it is of a version before there were copies */
		log_error("the copy of a record is damaged", LOG_S("id", f->id), LOG_ERR(&failure->err));
	else if (!failure && (sandbox_record_load(text, &f->arena, &f->record, &e) < 0 || strcmp(f->record.row.id, f->id) != 0))
		log_error("the copy of a record cannot be read", LOG_S("id", f->id), LOG_ERR(&e));
	else
		f->has_record = !failure;
	ask(r);
}

int recovery_begin(struct sandboxes *s, const struct runtime_box *boxes, size_t n, void (*fn)(void *), struct err *e)
{
	struct recovery *r = calloc(1, sizeof(*r) + n * sizeof(r->at[0]));

	if (!r)
		return err_no_memory(e);
	recovery_free(s);
	s->recovery = r;
	r->set = s;
	r->fn = fn;
	for (; r->n < n; r->n++) {
		struct found *f = &r->at[r->n];

		*f = (struct found){ .of = r, .box = boxes[r->n], .arena = ARENA_INIT(BOX_ARENA_MAX) };
		memcpy(f->id, boxes[r->n].id, strlen(boxes[r->n].id) + 1);
		f->box.id = f->id;
	}
	ask(r);
	return 0;
}

void recovery_free(struct sandboxes *s)
{
	struct recovery *r = take_ptr(&s->recovery);

	if (!r)
		return;
	defer_cancel(&r->later);
	for (size_t i = 0; i < r->n; i++)
		arena_done(&r->at[i].arena);
	free(r);
}

/* ---- taking them for the records ---- */

/* Whoever asked with this key may ask again. */
static void put_key(struct sandboxes *s, const struct key *k, struct store_tx *tx)
{
	if (!k->hex[0] || k->expires_us <= sandboxes_wall_us(s) || key_find(s, k->hex) || key_add(s, k, &(struct err){ 0 }) < 0)
		return;
	key_record(k, tx);
}

static struct box *put(struct sandboxes *s, const struct found *f, const struct sandbox_row *row, bool is_new, const char *says, struct err *e)
{
	struct box *b = box_load(s, row, e);
	struct store_tx *tx;

	if (!b)
		return NULL;
	tx = store_tx_new();
	if (is_new)
		store_tx_insert(tx, &b->pub.row);
	store_tx_restore(tx, &b->pub.row);
	if (f->has_record)
		put_key(s, &f->record.key, tx);
	box_event(b, tx, EVENT_RUNTIME, "Recovered", "%s", says);
	if (store_submit(s->spec.store, tx, NULL, NULL, e) < 0) /* the next start does all of this again */
		log_error("a record that was made anew could not be written", LOG_S("id", b->id), LOG_ERR(e));
	return b;
}

/* Nothing but that it runs is known. */
static struct sandbox_row bare_row(const struct sandboxes *s, const char *id)
{
	static const char *entrypoint[] = { UNKNOWN };

	return (struct sandbox_row){
		.id = id, .image = UNKNOWN, .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.created_us = sandboxes_wall_us(s), .changed_us = sandboxes_wall_us(s), .state = SANDBOX_RUNNING,
		.reason = "CONTAINER_RECOVERED", .message = "The record of this sandbox was lost and made anew.",
	};
}

static int add_lost(struct sandboxes *s, const struct found *f, struct err *e)
{
	static const char whole[] = "The record of this sandbox was lost, and made anew from the copy beside it.";
	static const char bare[] = "The record of this sandbox was lost, and so was the copy beside it: only that it runs is known.";
	const struct sandbox_row row = f->has_record ? f->record.row : bare_row(s, f->id);
	struct box *b = put(s, f, &row, true, f->has_record ? whole : bare, e);

	if (!b)
		return -1;
	log_error("the record of a sandbox was lost, and is made anew", LOG_S("id", b->id), LOG_B("from_copy", f->has_record));
	if (f->has_record)
		b->record_revision = row.revision;
	volumes_count_user(s->volumes, b->pub.row.volumes, b->pub.row.n_volumes);
	return 0;
}

/* An intent that the older record names was over before the copy was written, but for the last one of all. */
static enum sandbox_intent intent_of(const struct box *b, const struct sandbox_row *copy)
{
	if (b->pub.row.intent == INTENT_REMOVE || copy->revision == b->pub.row.revision)
		return b->pub.row.intent;
	return INTENT_NONE;
}

static int replace(struct box *old, const struct found *f, struct err *e)
{
	static const char says[] = "The record of this sandbox was damaged or older than the copy beside it, which is used instead.";
	struct sandboxes *s = old->pub.set;
	struct sandbox_row row = f->record.row;
	struct box *b;

	row.intent = intent_of(old, &row);
	row.state = old->pub.row.state;
	row.reason = old->reason;
	row.message = old->message;
	row.changed_us = old->pub.row.changed_us;
	box_unlink(old);
	b = put(s, f, &row, false, says, e);
	if (!b) {
		if (box_link(old, &(struct err){ 0 }) < 0) /* there was room a moment ago */
			box_free(old);
		return -1;
	}
	log_error("the record of a sandbox was damaged or older than its copy, which is used", LOG_S("id", b->id));
	b->record_revision = row.revision;
	box_prepend_events(b, old);
	box_free(old);
	return 0;
}

/* The copy has a sum, the record has none: of two with the same revision, the copy is right. */
static int compare_one(struct box *b, const struct found *f, struct err *e)
{
	uint64_t mine = b->pub.row.revision;

	if (!f->has_record || f->record.row.revision < mine)
		return 0; /* written anew once it is settled */
	if (f->record.row.revision == mine && sandbox_record_same(&f->record.row, &b->pub.row)) {
		b->record_revision = mine;
		return 0;
	}
	return replace(b, f, e);
}

int recovery_restore(struct sandboxes *s, struct err *e)
{
	for (size_t i = 0; i < s->recovery->n; i++) {
		struct found *f = &s->recovery->at[i];
		struct box *b = map_get(&s->by_id, str_of(f->id));

		if (!b && f->box.state == RUNTIME_STARTING)
			orphan_remove(s, f->id); /* nobody was ever told of it */
		else if (!b && add_lost(s, f, e) < 0)
			return -1;
		else if (b && compare_one(b, f, e) < 0)
			return -1;
		KILL_POINT("server.recover.restored");
	}
	return 0;
}
