// SPDX-License-Identifier: Apache-2.0
#include "ingress/lookup.h"

#include <stdio.h>

#include "base/err.h"
#include "base/map.h"
#include "base/uuid.h"
#include "net/loop.h"

#include "base/banned.h"

struct lookup_entry {
	struct lookup_entry *newer, *older; /* by use */
	struct lookup *of;
	char id[ID_MAX + 1];
	struct search *search; /* NULL: nobody is being asked */
	struct lookup_waiter *waiters;
	bool is_telling; /* its waiters, and must not go meanwhile */
	bool has_finding;
	uint64_t found_ms;
	struct finding finding;
};

struct lookup {
	struct loop *loop;
	struct provider *provider;
	struct map entries;
	struct lookup_entry *newest, *oldest;
	struct lookup_counts counts;
};

struct lookup *lookup_new(struct loop *l, struct provider *p, struct err *e)
{
	struct lookup *k = calloc(1, sizeof(*k));

	if (!k) {
		(void)err_no_memory(e);
		return NULL;
	}
	k->loop = l;
	k->provider = p;
	return k;
}

static void unlink_entry(struct lookup_entry *x)
{
	struct lookup *l = x->of;

	*(x->newer ? &x->newer->older : &l->newest) = x->older;
	*(x->older ? &x->older->newer : &l->oldest) = x->newer;
	x->newer = x->older = NULL;
}

static void link_newest(struct lookup_entry *x)
{
	struct lookup *l = x->of;

	x->newer = NULL;
	x->older = l->newest;
	*(x->older ? &x->older->newer : &l->oldest) = x;
	l->newest = x;
}

static void entry_free(struct lookup_entry *x)
{
	struct lookup *l = x->of;

	if (x->search) {
		l->provider->ops->cancel(x->search);
		l->counts.searches--;
	}
	while (x->waiters)
		lookup_cancel(x->waiters);
	unlink_entry(x);
	(void)map_del(&l->entries, str_of(x->id));
	l->counts.entries--;
	secret_wipe(&x->finding, sizeof(x->finding));
	free(x);
}

void lookup_free(struct lookup *l)
{
	if (!l)
		return;
	while (l->newest)
		entry_free(l->newest);
	map_done(&l->entries);
	free(l);
}

struct lookup_counts lookup_counts(const struct lookup *l)
{
	return l->counts;
}

/* ---- waiting ---- */

void lookup_cancel(struct lookup_waiter *w)
{
	if (!w->entry)
		return;
	*(w->prev ? &w->prev->next : &w->entry->waiters) = w->next;
	if (w->next)
		w->next->prev = w->prev;
	w->prev = w->next = NULL;
	w->entry = NULL;
}

static void wait_for(struct lookup_entry *x, struct lookup_waiter *w)
{
	w->entry = x;
	w->prev = NULL;
	w->next = x->waiters;
	if (w->next)
		w->next->prev = w;
	x->waiters = w;
}

/* Whoever is called may cancel others, and ask anew: those wait for the next one. */
static void on_finding(const struct finding *f, void *arg)
{
	struct lookup_entry *x = arg;
	struct finding copy = *f; /* an entry may go while its waiters are told */

	x->search = NULL;
	x->of->counts.searches--;
	x->of->counts.failed += f->found == FOUND_FAILED;
	if (f->found == FOUND_FAILED && x->has_finding && x->finding.found == FOUND_READY && !x->waiters)
		return; /* what was known is better than nothing, for as long as it is kept */
	x->finding = copy;
	x->has_finding = true;
	x->found_ms = loop_now_ms(x->of->loop);
	x->is_telling = true;
	while (x->waiters) {
		struct lookup_waiter *w = x->waiters;

		lookup_cancel(w);
		w->fn(&copy, w->arg);
	}
	x->is_telling = false;
	secret_wipe(&copy, sizeof(copy));
}

static int ask(struct lookup_entry *x, struct err *e)
{
	struct lookup *l = x->of;

	if (x->search)
		return 0;
	if (l->counts.searches >= LOOKUP_SEARCHES_MAX)
		return err_set(e, ERR_LIMIT, "too many sandboxes are being looked up");
	x->search = l->provider->ops->find(l->provider, x->id, on_finding, x, e);
	if (!x->search)
		return -1;
	l->counts.searches++;
	l->counts.asked++;
	return 0;
}

/* ---- entries ---- */

static int make_room(struct lookup *l, struct err *e)
{
	struct lookup_entry *x = l->oldest;

	if (l->counts.entries < LOOKUP_ENTRIES_MAX)
		return 0;
	while (x && (x->search || x->is_telling))
		x = x->newer;
	if (!x)
		return err_set(e, ERR_LIMIT, "too many sandboxes are being looked up");
	entry_free(x);
	return 0;
}

static struct lookup_entry *entry_new(struct lookup *l, struct str id, struct err *e)
{
	struct lookup_entry *x = make_room(l, e) == 0 ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		if (e->code == ERR_NONE)
			(void)err_no_memory(e);
		return NULL;
	}
	x->of = l;
	memcpy(x->id, id.p, MIN(id.n, (size_t)ID_MAX));
	if (!map_put(&l->entries, str_of(x->id), x)) {
		free(x);
		(void)err_no_memory(e);
		return NULL;
	}
	link_newest(x);
	l->counts.entries++;
	return x;
}

static uint64_t age_of(const struct lookup_entry *x)
{
	return loop_now_ms(x->of->loop) - x->found_ms;
}

static bool is_usable(const struct lookup_entry *x)
{
	return x->has_finding && age_of(x) < (x->finding.found == FOUND_READY ? LOOKUP_KEEP_MS : LOOKUP_NO_MS);
}

int lookup_find(struct lookup *l, struct str id, struct lookup_waiter *w, const struct finding **ret, struct err *e)
{
	struct lookup_entry *x = map_get(&l->entries, id);

	if (!x)
		x = entry_new(l, id, e);
	if (!x)
		return -1;
	if (l->newest != x) {
		unlink_entry(x);
		link_newest(x);
	}
	if (is_usable(x)) {
		l->counts.hits++;
		if (x->finding.found == FOUND_READY && age_of(x) >= LOOKUP_FRESH_MS)
			(void)ask(x, &(struct err){ 0 }); /* in vain: the next request tries again */
		*ret = &x->finding;
		return 1;
	}
	if (ask(x, e) < 0)
		return -1;
	wait_for(x, w);
	return 0;
}
