// SPDX-License-Identifier: Apache-2.0
/* Pausing and resuming a box. */
#include "base/kill_point.h"
#include "warden/box_impl.h"
#include "warden/snapshot.h"
#include "warden/warden.h"

#include "base/banned.h"

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

static void on_switched(struct box *b, bool is_paused, const struct err *failure)
{
	uint32_t call = is_paused ? WIRE_PAUSE : WIRE_RESUME;
	struct err over;

	if (!failure && b->file.stage != BOX_RUNNING) {
		(void)err_set(&over, ERR_CONFLICT, "sandbox '%s' has ended", b->file.id);
		failure = &over;
	}
	if (!failure)
		b->is_paused = is_paused;
	KILL_POINT("warden.switch.done");
	box_answer_waiters(b, call, failure);
	KILL_POINT("warden.switch.told");
	box_next_work(b);
}

static void on_frozen(const struct err *failure, void *arg)
{
	on_switched(arg, true, failure);
}

static void on_thawed(const struct err *failure, void *arg)
{
	on_switched(arg, false, failure);
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
	} else if (box_add_waiter(b, t, &e) < 0) {
		answer(b->w, t, &e);
	} else if (is_paused) {
		hog_let_go(b);
		worker_start(&b->worker, &b->w->workers, freeze_work, on_frozen, b, -1);
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
