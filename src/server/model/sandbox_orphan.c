// SPDX-License-Identifier: Apache-2.0
/* Sandboxes that nobody has a record of, or only the store: they are removed until it works. */
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

static void orphan_free(struct orphan *o)
{
	timer_done(&o->retry);
	free(o);
}

static void orphan_retry(struct orphan *o)
{
	timer_in(&o->retry, op_back_off(&o->pause_ms));
}

static void orphan_end(struct orphan *o)
{
	list_remove(&o->set->orphans, &o->at);
	orphan_free(o);
}

static void on_orphan_forgotten(const struct err *e, void *arg)
{
	struct orphan *o = arg;

	KILL_POINT("server.remove.forgotten");
	if (!e) {
		orphan_end(o);
		return;
	}
	log_warn("a sandbox that is gone is not forgotten yet, trying again", LOG_S("id", o->id), LOG_ERR(e));
	orphan_retry(o);
}

/* O: NULL when there is no memory for another try; then the next start does it. */
static void submit_delete(struct sandboxes *s, const char *id, struct orphan *o)
{
	struct store_tx *tx = store_tx_new();
	struct err e;

	store_tx_delete(tx, id);
	if (store_submit(s->spec.store, tx, o ? on_orphan_forgotten : NULL, o, &e) < 0 && o)
		orphan_retry(o);
}

static void on_orphan_removed(const struct runtime_failure *failure, void *arg)
{
	struct orphan *o = arg;

	if (failure) {
		log_error("a sandbox without a record could not be removed, trying again", LOG_S("id", o->id),
			  LOG_ERR(&failure->err));
		orphan_retry(o);
	} else if (o->has_record) {
		submit_delete(o->set, o->id, o);
	} else {
		log_info("a sandbox without a record was removed", LOG_S("id", o->id));
		orphan_end(o);
	}
}

static void on_orphan_due(void *arg)
{
	struct orphan *o = arg;
	struct runtime *rt = o->set->spec.runtime;

	rt->ops->remove(rt, o->id, on_orphan_removed, o);
}

bool is_orphan(const struct sandboxes *s, const char *id)
{
	LIST_EACH (const struct orphan, o, &s->orphans, at)
		if (strcmp(o->id, id) == 0)
			return true;
	return false;
}

static struct orphan *orphan_new(struct sandboxes *s, const char *id)
{
	struct orphan *o = calloc(1, sizeof(*o));
	struct err e;

	if (!o || !id_valid(str_of(id)) || timer_init(&o->retry, s->spec.loop, on_orphan_due, o, "orphan", &e) < 0) {
		free(o);
		return NULL;
	}
	o->set = s;
	o->pause_ms = OP_PAUSE_FIRST_MS;
	memcpy(o->id, id, strlen(id) + 1);
	list_append(&s->orphans, &o->at);
	return o;
}

void orphan_remove(struct sandboxes *s, const char *id)
{
	struct orphan *o = is_orphan(s, id) ? NULL : orphan_new(s, id);

	if (o)
		timer_in(&o->retry, 0);
	else if (!is_orphan(s, id))
		log_error("a sandbox without a record stays", LOG_S("id", id));
}

void orphan_forget(struct sandboxes *s, const char *id)
{
	struct orphan *o = orphan_new(s, id);

	if (o)
		o->has_record = true;
	submit_delete(s, id, o);
}

void orphans_free(struct sandboxes *s)
{
	struct orphan *o;

	while ((o = LIST_TAKE(&s->orphans, struct orphan, at)))
		orphan_free(o);
}

/* ---- what was removed ---- */

void removed_note(struct sandboxes *s, const char *id)
{
	memcpy(s->removed.ids[s->removed.n++ % REMOVED_MAX], id, strlen(id) + 1);
}

bool was_removed(const struct sandboxes *s, const char *id)
{
	for (size_t i = 0; i < s->removed.n && i < REMOVED_MAX; i++)
		if (strcmp(s->removed.ids[i], id) == 0)
			return true;
	return false;
}
