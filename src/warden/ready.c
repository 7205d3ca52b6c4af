// SPDX-License-Identifier: Apache-2.0
#include "warden/ready.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "warden/box.h"
#include "warden/network.h"
#include "warden/warden.h"

#include "base/banned.h"

#define REFILL_MS 2 /* of quiet before the next ones are made */
#define DEATHS_MAX 16 /* of makers in a row, before those who wait are told */
#define PAUSE_MIN_MS 500
#define PAUSE_MAX_MS 30000
#define UNLIKE_MAX 16 /* boxes in a row, before eager slots are made for what they are */

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
		network_number_taken(w, n);
		return (int)n;
	}
	return err_set(e, ERR_LIMIT, "all %d boxes of this host are in use", SLOT_NUMBER_MAX);
}

void number_freed(struct warden *w, unsigned number)
{
	w->is_taken[number] = false;
	sweep_note_freed(w, number);
}

void number_free(struct warden *w, unsigned number)
{
	if (!network_number_leaves(w, number))
		number_freed(w, number);
}

/* ---- slots that wait ---- */

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
	struct err why;

	(void)ready;
	(void)slot_failure(&p->slot, &why);
	log_warn("a slot that was ready has ended, ignoring", LOG_U("number", p->slot.number), LOG_ERR(&why));
	unlink_parked(p);
	box_sweep_slot(w, &p->slot, NULL);
	free(p);
	pause_refill(w);
}

/* Takes SLOT. */
static void park(struct warden *w, struct slot *slot)
{
	struct parked *p = calloc(1, sizeof(*p));
	struct err e = { 0 };

	if (!p)
		(void)err_no_memory(&e);
	if (!p || io_add(&p->end, w->loop, slot->pidfd, IO_IN, on_parked_end, p, "parked slot", &e) < 0) {
		log_warn("a slot cannot be kept", LOG_ERR(&e));
		free(p);
		box_sweep_slot(w, slot, NULL);
		pause_refill(w);
		return;
	}
	p->w = w;
	p->slot = *slot;
	p->next = w->parked;
	w->parked = p;
	w->n_parked++;
	KILL_POINT("warden.slot.ready");
}

/* How well it does for a box like LIKE: 0 for not at all. */
static int rate(const struct slot *s, const struct slot_guess *like)
{
	if (!slot_fits(s, like))
		return 0;
	return 1 + (memcmp(&s->limits, &like->limits, sizeof(like->limits)) == 0) + 2 * s->made_for.is_eager;
}

bool ready_take(struct warden *w, const struct slot_guess *like, struct slot *ret)
{
	struct parked *best = NULL;

	for (struct parked *p = w->parked; p; p = p->next)
		if (rate(&p->slot, like) > (best ? rate(&best->slot, like) : 0))
			best = p;
	if (!best)
		return false;
	unlink_parked(best);
	*ret = best->slot;
	free(best);
	return true;
}

/* ---- guessing ---- */

/* Of images only that of the host is guessed: its layer is there as long as we are, and its name never comes back. Eager slots
 * are good for nothing else, so they do not follow every single box. */
void ready_guess(struct warden *w, const struct slot_guess *like)
{
	w->guess = *like;
	w->guess.is_eager = false;
	if (strcmp(like->layer, w->host_layer) != 0) {
		w->guess.has_host_usr = false;
		memset(w->guess.layer, 0, sizeof(w->guess.layer));
	}
	w->n_unlike = like->is_eager && slot_is_alike(&w->guess, &w->eager) ? 0 : w->n_unlike + 1;
	if (w->n_unlike > 0 && w->n_unlike < UNLIKE_MAX)
		return;
	w->n_unlike = 0;
	w->eager = w->guess;
	w->eager.is_eager = like->is_eager && w->guess.layer[0];
}

static bool is_stale(const struct warden *w, const struct slot *s)
{
	return s->made_for.is_eager && (!w->eager.is_eager || !slot_is_alike(&s->made_for, &w->eager));
}

struct counts {
	unsigned eager, plain;
};

static void count(struct counts *n, bool is_eager)
{
	if (is_eager)
		n->eager++;
	else
		n->plain++;
}

/* Of slots that wait, without those that are good for nothing any more. */
static struct counts count_parked(const struct warden *w)
{
	struct counts n = { 0 };

	for (const struct parked *p = w->parked; p; p = p->next)
		if (!is_stale(w, &p->slot))
			count(&n, p->slot.made_for.is_eager);
	return n;
}

static struct counts count_asked(const struct warden *w)
{
	struct counts n = { 0 };

	for (unsigned i = 0; i < w->maker.n_asked; i++)
		count(&n, w->maker.asked[i].guess.is_eager);
	return n;
}

/* Of creates that wait, by what they can use. */
static struct counts count_waiting(const struct warden *w)
{
	struct counts n = { 0 };

	for (const struct box *b = w->waiting; b; b = b->next_waiting)
		count(&n, b->like.is_eager && slot_is_alike(&b->like, &w->eager));
	return n;
}

/* Where there are any, every fourth slot is none. */
static struct counts want_of(const struct warden *w, unsigned n)
{
	unsigned plain = w->eager.is_eager ? (n + 3) / 4 : n;

	return (struct counts){ .eager = n - plain, .plain = plain };
}

/* ---- creates that wait ---- */

void ready_forget(struct warden *w, struct box *b)
{
	struct box **at = &w->waiting;

	for (; *at && *at != b; at = &(*at)->next_waiting)
		;
	if (!*at)
		return;
	*at = b->next_waiting;
	b->next_waiting = NULL;
	b->is_waiting = false;
	w->n_waiting--;
}

/* SLOT: that it can have; NULL for any. */
static struct box *first_waiting(struct warden *w, const struct slot *slot)
{
	struct box *b = w->waiting;

	while (b && slot && !slot_fits(slot, &b->like))
		b = b->next_waiting;
	if (b)
		ready_forget(w, b);
	return b;
}

/* ---- making ---- */

static unsigned n_useful(const struct warden *w)
{
	const struct counts n = count_parked(w);

	return n.eager + n.plain;
}

/* How many there should be: all of them while nothing else goes on, otherwise one more as long as there are few. */
static unsigned wanted(const struct warden *w)
{
	if (w->is_stopping)
		return w->n_waiting;
	if (w->n_starting == 0)
		return w->n_waiting + w->want_parked;
	return w->n_waiting + MIN(n_useful(w) + 1, (w->want_parked + 1) / 2);
}

/* Whoever waits for a plain one is not helped by the eager ones that there are. */
static bool is_one_missing(const struct warden *w)
{
	return n_useful(w) + w->maker.n_asked < wanted(w) || count_waiting(w).plain > count_asked(w).plain;
}

/* Those who wait come first, and whoever needs a plain one can use no other. */
static bool is_next_eager(const struct warden *w)
{
	const struct counts parked = count_parked(w), asked = count_asked(w), waiting = count_waiting(w);

	if (!w->eager.is_eager || waiting.plain > asked.plain)
		return false;
	return parked.eager + asked.eager < waiting.eager + want_of(w, w->want_parked).eager;
}

static int ask_one(struct warden *w, struct err *e)
{
	const struct slot_guess *guess = is_next_eager(w) ? &w->eager : &w->guess;
	int number = number_take(w, e);

	if (number < 0)
		return -1;
	if (maker_ask(&w->maker, (unsigned)number, guess, e) == 0)
		return 0;
	number_free(w, (unsigned)number);
	return -1;
}

static void fail_waiting(struct warden *w, const struct err *why)
{
	struct box *b;

	while ((b = first_waiting(w, NULL)))
		box_fail_start(b, why);
}

static void refill(struct warden *w)
{
	struct err e = { 0 };

	while (is_one_missing(w) && w->maker.n_asked < MAKER_ASKED_MAX) {
		if (ask_one(w, &e) == 0)
			continue;
		log_warn("cannot make a slot", LOG_ERR(&e));
		pause_refill(w);
		fail_waiting(w, &e);
		return;
	}
}

static void on_refill(void *arg)
{
	refill(arg);
}

/* For those who wait it is tried again when it was only the maker that died. */
static void on_failed(struct warden *w, unsigned number, const struct err *why)
{
	bool is_death = w->maker.deaths > 0 && w->maker.deaths <= DEATHS_MAX;
	struct box *b = is_death ? NULL : first_waiting(w, NULL);

	log_warn("cannot make a slot", LOG_ERR(why));
	box_sweep(w, number, NULL); /* it may have left something behind */
	pause_refill(w);
	if (b)
		box_fail_start(b, why);
	else if (w->n_waiting > 0)
		refill(w);
}

/* Takes SLOT, in the place of one that is good for nothing any more if there is no other. */
static void keep(struct warden *w, struct slot *slot)
{
	const struct counts parked = count_parked(w), want = want_of(w, w->want_parked);
	struct parked *stale = w->parked;

	if (slot->made_for.is_eager ? is_stale(w, slot) || parked.eager >= want.eager : parked.plain >= want.plain) {
		box_sweep_slot(w, slot, NULL); /* it was made for one that has gone meanwhile */
		return;
	}
	while (stale && !is_stale(w, &stale->slot))
		stale = stale->next;
	if (stale && w->n_parked >= w->want_parked) {
		unlink_parked(stale);
		box_sweep_slot(w, &stale->slot, NULL);
		free(stale);
	}
	park(w, slot);
}

static void on_made(unsigned number, struct slot *slot, const struct err *failure, void *arg)
{
	struct warden *w = arg;
	struct box *b;

	if (failure) {
		on_failed(w, number, failure);
		return;
	}
	w->refill_pause_ms = 0;
	b = first_waiting(w, slot);
	if (b)
		box_start(b, slot);
	else
		keep(w, slot);
	ready_note(w);
}

void ready_wait(struct warden *w, struct box *b)
{
	struct box **at = &w->waiting;

	for (; *at; at = &(*at)->next_waiting)
		;
	*at = b;
	b->is_waiting = true;
	w->n_waiting++;
	timer_in(&w->refill, 0); /* also in a pause: somebody wants to know. Not from here, where its failure would end B. */
}

void ready_note(struct warden *w)
{
	if (w->refill_pause_ms > 0 || !is_one_missing(w))
		return;
	if (w->n_starting > 0)
		refill(w);
	else
		timer_in(&w->refill, REFILL_MS);
}

/* Of children: those that are collected by somebody. A worker is told by no number, so while one runs any may be its. */
static bool is_known(pid_t pid, void *arg)
{
	const struct warden *w = arg;

	if (w->workers.running > 0 || w->freezers.running > 0 || w->removers.running > 0 || images_are_busy(w) || volumes_are_busy(w) ||
	    sweep_is_busy(w) || w->network.lookers.running > 0)
		return true;
	for (const struct box *b = w->boxes; b; b = b->next)
		if (b->slot.pid == pid)
			return true;
	for (const struct parked *p = w->parked; p; p = p->next)
		if (p->slot.pid == pid)
			return true;
	return false;
}

int ready_open(struct warden *w, struct err *e)
{
	w->eager = SLOT_GUESS_DEFAULT;
	w->eager.has_host_usr = true;
	w->eager.is_eager = w->host_layer[0] != '\0'; /* a start with boxes goes on without */
	w->eager.has_address = w->host.network.is_on;
	memcpy(w->eager.layer, w->host_layer, sizeof(w->eager.layer));
	w->guess = w->eager;
	w->guess.is_eager = false;
	if (timer_init(&w->refill, w->loop, on_refill, w, "refill", e) < 0 ||
	    maker_init(&w->maker, &w->host, w->loop, on_made, is_known, w, e) < 0)
		return -1;
	(void)maker_start(&w->maker, &(struct err){ 0 }); /* the first order tries again, and tells */
	timer_in(&w->refill, 0);
	return 0;
}

static void destroy(struct warden *w, struct slot *slot)
{
	struct err e;

	if (slot_destroy(&w->host, slot, &e) < 0)
		log_warn("a slot is left for the next start to remove", LOG_ERR(&e));
	slot_done(slot);
}

static void end_maker(struct warden *w)
{
	unsigned asked[MAKER_ASKED_MAX];
	size_t n = maker_done(&w->maker, asked);

	for (size_t i = 0; i < n; i++) {
		struct slot half = SLOT_INIT;

		half.number = asked[i];
		destroy(w, &half);
	}
}

void ready_done(struct warden *w)
{
	struct parked *p;

	timer_done(&w->refill);
	w->want_parked = 0; /* nothing more is made when boxes are dropped after this */
	w->waiting = NULL;
	w->n_waiting = 0;
	end_maker(w);
	while ((p = w->parked)) {
		unlink_parked(p);
		destroy(w, &p->slot);
		free(p);
	}
}
