// SPDX-License-Identifier: Apache-2.0
#include "warden/guard.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "box/store.h"
#include "warden/warden.h"

#include "base/banned.h"

static int apply_work(void *arg, struct err *e)
{
	const struct warden *w = arg;

	return store_guard_apply(&w->host.store, &w->guard.plan, e);
}

static void on_applied(const struct err *failure, void *arg)
{
	struct warden *w = arg;
	struct guard *g = &w->guard;

	if (!failure) {
		store_guard_note(&g->state, &g->plan, clock_mono_ms());
		g->is_settling = g->plan.trims;
		return;
	}
	log_warn("the disk of all sandboxes is not looked after as it should be, trying again", LOG_ERR(failure));
	timer_in(&g->timer, GUARD_LOOK_MS);
}

static void tell(struct guard *g, const struct store_look *l)
{
	uint64_t room = store_look_room(l);

	if (room == 0 && !g->is_told)
		log_error("the host's disk is full: sandboxes cannot write until something is removed", LOG_U("free", l->free));
	if (room > 0 && g->is_told)
		log_info("the host's disk has room for sandboxes again", LOG_U("free", l->free));
	g->is_told = room == 0;
}

/* Somebody was refused: not more often than the disk can bear. One that comes too soon waits. */
static bool take_wish(struct guard *g)
{
	bool is_due = g->is_wanted && store_guard_may_hurry(&g->state, clock_mono_ms());

	g->is_wanted = g->is_wanted && !is_due;
	return is_due;
}

/* How soon to look again. */
static uint64_t act(struct warden *w, const struct store_look *l)
{
	struct guard *g = &w->guard;

	if (g->is_settling)
		store_guard_settle(&g->state, l);
	g->is_settling = false;
	tell(g, l);
	g->plan = store_guard_plan(&g->state, l, clock_mono_ms());
	g->plan.hurries |= take_wish(g);
	if (!store_plan_is_empty(&g->plan))
		worker_start(&g->worker, &g->pool, apply_work, on_applied, w, -1);
	return l->free > 4 * l->reserve ? GUARD_LOOK_MS : GUARD_CLOSE_LOOK_MS;
}

/* A file system of the operator's is looked after by him. */
static void hurry_in_place(struct warden *w)
{
	struct guard *g = &w->guard;

	if (!g->is_wanted)
		return;
	g->plan = (struct store_plan){ .hurries = !worker_is_busy(&g->worker) && take_wish(g) };
	if (g->plan.hurries)
		worker_start(&g->worker, &g->pool, apply_work, on_applied, w, -1);
	else
		timer_in(&g->timer, GUARD_LOOK_MS);
}

static void on_look(void *arg)
{
	struct warden *w = arg;
	struct guard *g = &w->guard;
	struct store_look look;
	struct err e = { 0 };
	uint64_t next_ms = GUARD_CLOSE_LOOK_MS;

	if (!store_is_guarded(&w->host.store)) {
		hurry_in_place(w);
		return;
	}
	if (!worker_is_busy(&g->worker)) {
		if (store_look(&w->host.store, &look, &e) == 0)
			next_ms = act(w, &look);
		else
			log_warn("cannot look at the disk of all sandboxes, ignoring", LOG_ERR(&e));
	}
	timer_in(&g->timer, next_ms);
}

int guard_check(struct warden *w, struct err *e)
{
	struct guard *g = &w->guard;

	if (box_store_check_room(&w->host.store, e) == 0)
		return 0;
	if (box_store_has_limits(&w->host.store) && !g->is_wanted) {
		g->is_wanted = true;
		timer_in(&g->timer, 0);
	}
	return -1;
}

int guard_open(struct warden *w, struct err *e)
{
	struct guard *g = &w->guard;

	g->worker = WORKER_INIT;
	if (!box_store_has_limits(&w->host.store))
		return 0;
	g->pool = (struct workers){ .loop = w->loop, .max = 1 };
	if (timer_init(&g->timer, w->loop, on_look, w, "disk", e) < 0)
		return -1;
	if (store_is_guarded(&w->host.store))
		timer_in(&g->timer, 0);
	return 0;
}

void guard_done(struct warden *w)
{
	worker_forget(&w->guard.worker);
	timer_done(&w->guard.timer);
}
