// SPDX-License-Identifier: Apache-2.0
/* References of the runtime: how they come, who has them, and what is said to the runtime about them. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/model/snapshot_impl.h"

#include "base/banned.h"

#define ASK_AGAIN_MS 200

int snapshot_find_reference(const struct snapshots *s, const char *id, const struct sandbox *sb, struct buf *ret, struct fault *f)
{
	struct runtime *rt = s->spec.runtime;
	struct err e = { 0 };

	if (rt->ops->snapshot_reference(rt, id, sb->row.base, ret, &e) == 0 && !ret->failed)
		return 0;
	if (e.code != ERR_LIMIT)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	return fault_set(f, 409, "SNAPSHOT", "LIMIT_REACHED", "sandbox '%s' %s", sb->row.id, e.msg);
}

/* ---- pins ---- */

int snapshot_repin(struct snapshot_pin *p, const struct sandbox *sb, struct fault *f)
{
	AUTO(buf_done) struct buf reference = BUF_INIT(RUNTIME_REFERENCE_MAX + 1);

	if (snapshot_find_reference(p->set, p->id, sb, &reference, f) < 0)
		return -1;
	free(p->reference);
	p->reference = take_ptr(&reference.p);
	reference = BUF_INIT(0);
	return 0;
}

int snapshot_pin(struct snapshots *s, const struct sandbox *sb, struct snapshot_pin *p, struct fault *f)
{
	struct snapshot_pin pin = { .set = s, .next = s->pins };

	if (uuid_text(&s->random, pin.id, &(struct err){ 0 }) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	if (snapshot_repin(&pin, sb, f) < 0)
		return -1;
	*p = pin;
	if (p->next)
		p->next->prev = p;
	s->pins = p;
	return 0;
}

void snapshot_unpin(struct snapshot_pin *p)
{
	if (!p->set)
		return;
	*(p->prev ? &p->prev->next : &p->set->pins) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	reference_let_go(p->set, p->reference);
	free(p->reference);
	p->set = NULL;
}

/* ---- who has them ---- */

void snapshots_each_reference(const struct snapshots *s, runtime_reference_fn *fn, void *arg)
{
	for (const struct snapshot *sn = s->newest; sn; sn = sn->older)
		if (sn->row.state != SNAPSHOT_FAILED && sn->row.reference)
			fn(sn->row.reference, arg);
	for (const struct snapshot_pin *p = s->pins; p; p = p->next)
		fn(p->reference, arg);
}

void snapshots_each_recorded(const struct snapshots *s, runtime_reference_fn *fn, void *arg)
{
	for (const struct snapshot *sn = s->newest; sn; sn = sn->older)
		if (sn->row.reference)
			fn(sn->row.reference, arg);
}

struct search {
	struct runtime *rt;
	const char *reference;
	bool is_found;
};

static void compare(const char *reference, void *arg)
{
	struct search *q = arg;

	q->is_found |= q->rt->ops->snapshot_is_below(q->rt, q->reference, reference);
}

/* What was imported has no reference that would tell, only a name. */
bool snapshot_has_sandbox(const struct snapshot *sn)
{
	struct search q = { .rt = sn->set->spec.runtime, .reference = sn->row.reference };

	if (!q.reference)
		return sandboxes_have_snapshot(sn->set->sandboxes, sn->row.id);
	sandboxes_each_reference(sn->set->sandboxes, compare, &q);
	return q.is_found;
}

/* ---- the runtime ---- */

static void on_let_go(const struct runtime_failure *failure, void *arg)
{
	(void)arg;
	if (failure) /* the next start says it again */
		log_warn("a snapshot could not be let go", LOG_ERR(&failure->err));
}

void reference_let_go(const struct snapshots *s, const char *reference)
{
	struct runtime *rt = s->spec.runtime;

	if (s->sandboxes) /* else nothing goes on any more */
		rt->ops->snapshot_remove(rt, reference, on_let_go, NULL);
}

/* A database that knows nothing may stand beside the snapshots of another one: those are not ours to remove, now or later. */
static void keep_unknown(struct snapshots *s, size_t n)
{
	struct store_tx *tx;

	if (!s->is_new || n == 0 || s->keeps_unknown)
		return;
	s->keeps_unknown = true;
	log_warn("the database is new, but there are snapshots: they are left alone", LOG_U("layers", n));
	tx = store_tx_new();
	store_tx_meta(tx, STORE_KEEP_LAYERS, STR("1"));
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
}

static void on_snapshots(const struct runtime_snapshots *found, const struct runtime_failure *failure, void *arg)
{
	struct snapshots *s = arg;

	if (failure && failure->err.code == ERR_UNAVAILABLE) {
		timer_in(&s->again, ASK_AGAIN_MS);
		return;
	}
	if (!failure) {
		keep_unknown(s, found->n_unknown);
		snapshots_settle(s, found);
	}
	s->recovered(failure ? &failure->err : NULL, s->recovered_arg);
}

void snapshots_ask(void *arg)
{
	struct snapshots *s = arg;
	struct runtime *rt = s->spec.runtime;

	rt->ops->snapshots(rt, s->keeps_unknown || s->is_new, on_snapshots, s);
}

void snapshots_recover(struct snapshots *s, struct sandboxes *sandboxes, recovered_fn *fn, void *arg)
{
	s->sandboxes = sandboxes;
	s->recovered = fn;
	s->recovered_arg = arg;
	if (s->spec.runtime->can.snapshots)
		snapshots_ask(s);
	else
		fn(NULL, arg);
}
