// SPDX-License-Identifier: Apache-2.0
/* Pausing and resuming a box. */
#include "base/clock.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/box_impl.h"
#include "warden/snapshot.h"
#include "warden/warden.h"

#include "base/banned.h"

#define THAWS_MAX 3 /* workers in a row */
/* Whoever asks for a pause waits a minute for the answer, and FREEZE_MS (box/slot.c) come after this. */
#define PAUSE_TURN_MS 30000 /* for its turn */
#define PAUSES_WAITING_MAX 1024

static void refuse(struct box *b, const struct ticket *t, enum err_code code, const char *what)
{
	struct err e;

	(void)err_set(&e, code, "sandbox '%s' %s", b->file.id, what);
	answer(b->w, t, &e);
}

static int freeze_work(void *arg, struct err *e)
{
	struct box *b = arg;

	KILL_POINT("warden.pause.begun");
	if (clock_mono_ms() - b->pause_ms > PAUSE_TURN_MS)
		return err_set(e, ERR_UNAVAILABLE, "too many sandboxes are being paused");
	if (snapshot_let_go(&b->w->host, &b->slot, e) < 0) /* or it would be taken for what froze it */
		return -1;
	if (slot_freeze(&b->w->host, &b->slot, e) < 0)
		return -1;
	KILL_POINT("warden.pause.frozen");
	return 0;
}

static int thaw_work(void *arg, struct err *e)
{
	struct box *b = arg;

	KILL_POINT("warden.resume.begun");
	if (slot_thaw(&b->w->host, &b->slot, e) < 0)
		return -1;
	KILL_POINT("warden.resume.thawed");
	return 0;
}

/* ---- letting go on ---- */

static int let_go_work(void *arg, struct err *e)
{
	struct box *b = arg;

	return snapshot_thaw(&b->w->host, &b->slot, e);
}

static void on_let_go(const struct err *failure, void *arg)
{
	struct box *b = arg;
	box_fn *then = take_ptr(&b->thawed);

	b->needs_thaw = failure && b->file.stage == BOX_RUNNING;
	if (b->needs_thaw) {
		log_error("a sandbox is frozen and cannot be let go on, trying again", LOG_S("id", b->file.id), LOG_ERR(failure));
		box_retry_later(b);
	} else {
		b->tries = 0;
	}
	if (then)
		then(b);
	else
		box_next_work(b);
}

void box_thaw_again(struct box *b)
{
	if (!b->needs_thaw || b->file.stage != BOX_RUNNING)
		return;
	if (worker_is_busy(&b->worker))
		box_retry_later(b);
	else
		worker_start(&b->worker, &b->w->workers, let_go_work, on_let_go, b, -1);
}

void box_let_go_on(struct box *b, box_fn *then)
{
	if (b->file.stage != BOX_RUNNING) {
		then(b);
		return;
	}
	b->needs_thaw = true;
	b->thawed = then;
	box_thaw_again(b);
}

/* ---- pausing and resuming ---- */

static void on_switched(struct box *b, bool is_paused, const struct err *failure)
{
	uint32_t call = is_paused ? WIRE_PAUSE : WIRE_RESUME;
	struct err over;

	if (!failure && b->file.stage != BOX_RUNNING) {
		(void)err_set(&over, ERR_CONFLICT, "sandbox '%s' has ended", b->file.id);
		failure = &over;
	}
	if (!failure) {
		b->is_paused = is_paused;
		b->needs_thaw = false;
	}
	b->thaws = 0;
	KILL_POINT("warden.switch.done");
	box_answer_waiters(b, call, failure);
	KILL_POINT("warden.switch.told");
	box_next_work(b);
}

static void tell_not_paused(struct box *b)
{
	on_switched(b, true, &b->failure);
}

/* A worker that was cut off may have frozen it. */
static void on_frozen(const struct err *failure, void *arg)
{
	struct box *b = arg;

	if (!failure) {
		on_switched(b, true, NULL);
		return;
	}
	b->failure = *failure;
	box_let_go_on(b, tell_not_paused);
}

/* A worker that was cut off may have thawed it: what is told must be so. */
static void on_thawed(const struct err *failure, void *arg)
{
	struct box *b = arg;

	if (failure && b->file.stage == BOX_RUNNING && ++b->thaws < THAWS_MAX)
		worker_start(&b->worker, &b->w->workers, thaw_work, on_thawed, b, -1);
	else
		on_switched(b, false, failure);
}

static void switch_to(struct box *b, bool is_paused, const struct ticket *t)
{
	struct err e;

	if (b->file.stage != BOX_RUNNING) {
		refuse(b, t, ERR_CONFLICT, "does not run");
	} else if (b->is_paused == is_paused) {
		refuse(b, t, ERR_CONFLICT, is_paused ? "is paused already" : "is not paused");
	} else if (worker_is_busy(&b->worker)) {
		refuse(b, t, ERR_CONFLICT, "is being paused or resumed");
	} else if (is_paused && b->w->freezers.waiting >= PAUSES_WAITING_MAX) {
		refuse(b, t, ERR_UNAVAILABLE, "cannot be paused now: too many others are");
	} else if (box_add_waiter(b, t, &e) < 0) {
		answer(b->w, t, &e);
	} else if (is_paused) {
		cpu_throttle_release(b);
		b->pause_ms = clock_mono_ms();
		worker_start(&b->worker, &b->w->freezers, freeze_work, on_frozen, b, -1);
	} else {
		worker_start(&b->worker, &b->w->workers, thaw_work, on_thawed, b, -1);
	}
}

void box_pause(struct box *b, const struct ticket *t)
{
	switch_to(b, true, t);
}

void box_resume(struct box *b, const struct ticket *t)
{
	switch_to(b, false, t);
}
