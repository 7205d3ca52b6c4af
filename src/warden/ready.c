// SPDX-License-Identifier: Apache-2.0
#include "warden/ready.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "sys/process.h"
#include "warden/box.h"
#include "warden/warden.h"

#include "base/banned.h"

#define REFILL_MS 3 /* of quiet before the next one is made: a burst of creates comes first */
#define PAUSE_MIN_MS 500
#define PAUSE_MAX_MS 30000

struct parked {
	struct warden *w;
	struct parked *next;
	struct slot slot;
	struct io end; /* the child waits for its order: when it ends instead, something is wrong */
};

/* ---- numbers ---- */

/* Round and round, so that a number that was just freed is the last to come back. */
int number_take(struct warden *w, struct err *e)
{
	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++) {
		unsigned n = (w->next_number + i) % SLOT_NUMBER_MAX;

		if (w->is_taken[n])
			continue;
		w->is_taken[n] = true;
		w->next_number = n + 1;
		return (int)n;
	}
	return err_set(e, ERR_LIMIT, "all %d boxes of this host are in use", SLOT_NUMBER_MAX);
}

void number_free(struct warden *w, unsigned number)
{
	w->is_taken[number] = false;
}

/* ---- making ---- */

static int make(struct warden *w, struct slot *ret, struct err *e)
{
	int number = number_take(w, e);

	if (number < 0)
		return -1;
	if (slot_make(&w->host, (unsigned)number, ret, e) == 0)
		return 0;
	box_sweep(w, (unsigned)number, NULL); /* it may have left something behind */
	return -1;
}

static void unlink_parked(struct parked *p)
{
	struct parked **at = &p->w->parked;

	for (; *at != p; at = &(*at)->next)
		;
	*at = p->next;
	p->w->n_parked--;
	io_del(&p->end);
}

static void pause_refill(struct warden *w)
{
	w->refill_pause_ms = w->refill_pause_ms ? MIN(w->refill_pause_ms * 2, (uint64_t)PAUSE_MAX_MS) : PAUSE_MIN_MS;
	timer_in(&w->refill, w->refill_pause_ms);
}

static void on_parked_end(unsigned ready, void *arg)
{
	struct parked *p = arg;
	struct warden *w = p->w;

	(void)ready;
	log_warn("a slot that was ready has ended, ignoring", LOG_U("number", p->slot.number));
	unlink_parked(p);
	box_sweep_slot(w, &p->slot, NULL);
	free(p);
	pause_refill(w);
}

static int add_parked(struct warden *w, struct err *e)
{
	struct parked *p = calloc(1, sizeof(*p));

	if (!p)
		return err_no_memory(e);
	p->w = w;
	if (make(w, &p->slot, e) < 0) {
		free(p);
		return -1;
	}
	if (io_add(&p->end, w->loop, p->slot.pidfd, IO_IN, on_parked_end, p, "parked slot", e) < 0) {
		box_sweep_slot(w, &p->slot, NULL);
		free(p);
		return -1;
	}
	p->next = w->parked;
	w->parked = p;
	w->n_parked++;
	KILL_POINT("warden.slot.ready");
	return 0;
}

static void on_refill(void *arg)
{
	struct warden *w = arg;
	struct err e;

	if (w->is_stopping || w->n_parked >= w->want_parked)
		return;
	if (add_parked(w, &e) < 0) {
		log_warn("cannot make a slot", LOG_ERR(&e));
		pause_refill(w);
		return;
	}
	w->refill_pause_ms = 0;
	timer_in(&w->refill, REFILL_MS);
}

int ready_open(struct warden *w, struct err *e)
{
	if (timer_init(&w->refill, w->loop, on_refill, w, "refill", e) < 0)
		return -1;
	timer_in(&w->refill, 0);
	return 0;
}

int ready_take(struct warden *w, struct slot *ret, struct err *e)
{
	struct parked *p = w->parked;

	if (w->refill_pause_ms == 0)
		timer_in(&w->refill, REFILL_MS);
	if (!p)
		return make(w, ret, e);
	unlink_parked(p);
	*ret = p->slot;
	free(p);
	return 0;
}

void ready_done(struct warden *w)
{
	struct parked *p;
	struct err e;

	timer_done(&w->refill);
	while ((p = w->parked)) {
		unlink_parked(p);
		if (slot_destroy(&w->host, &p->slot, &e) < 0)
			log_warn("a slot is left for the next start to remove", LOG_ERR(&e));
		slot_done(&p->slot);
		free(p);
	}
}
