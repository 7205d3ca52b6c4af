// SPDX-License-Identifier: Apache-2.0
#include "warden/hog.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "warden/box.h"
#include "warden/warden.h"

#include "base/banned.h"

/* ---- one ---- */

/* Microseconds of a millisecond are thousandths of a processor. */
static uint64_t share_milli(uint64_t *seen_us, uint64_t *seen_ms, uint64_t used_us, uint64_t now_ms)
{
	uint64_t ms = now_ms - *seen_ms, us = used_us > *seen_us ? used_us - *seen_us : 0;
	bool is_first = *seen_ms == 0;

	*seen_us = used_us;
	*seen_ms = now_ms;
	return is_first || ms == 0 ? 0 : us / ms;
}

bool hog_judge(struct hog *h, uint64_t used_us, uint64_t now_ms)
{
	bool was_seen = h->seen_ms != 0;
	uint64_t milli = share_milli(&h->seen_us, &h->seen_ms, used_us, now_ms);

	if (!h->is_behind) {
		h->is_behind = milli >= HOG_MILLI;
		h->calm = 0;
		return h->is_behind;
	}
	h->calm = was_seen && milli < HOG_CALM_MILLI ? h->calm + 1 : 0;
	h->is_behind = h->calm < HOG_CALM_LOOKS || h->is_choked;
	return !h->is_behind;
}

bool hog_judge_growth(struct hog *h, uint64_t pids, uint64_t since_ms)
{
	uint64_t grown = pids > h->seen_pids ? (pids - h->seen_pids) * HOG_LOOK_MS : 0; /* in a look's time: how often that is depends */

	if (!h->is_choked) {
		h->seen_pids = pids;
		h->is_choked = h->is_behind && grown >= HOG_GROWTH * since_ms;
		h->steady = 0;
		return h->is_choked;
	}
	h->seen_pids = MAX(h->seen_pids, pids);
	h->steady = grown < HOG_CALM_GROWTH * since_ms ? h->steady + 1 : 0;
	h->is_choked = h->steady < HOG_CALM_LOOKS;
	return !h->is_choked;
}

static void choke(struct box *b, bool choked)
{
	char name[16];
	struct err e;

	slot_name(b->slot.number, name);
	if (cgroup_choke(&b->w->host.top, name, choked, &e) < 0)
		log_warn("cannot change what a sandbox gets of a processor, ignoring", LOG_S("id", b->file.id), LOG_ERR(&e));
}

void hog_let_go(struct box *b)
{
	if (b->hog.is_choked)
		choke(b, false);
	b->hog.is_choked = false;
}

void hog_adopt(struct box *b)
{
	b->hog = (struct hog){ .is_behind = true };
	b->w->hogs.n_behind++;
	choke(b, false);
}

static void count_out(struct box *b)
{
	b->w->hogs.n_behind -= b->hog.is_behind;
	b->hog.is_behind = b->hog.is_choked = false;
}

void hog_forget(struct box *b)
{
	if (b->w->hogs.next == b)
		b->w->hogs.next = b->next;
	count_out(b);
}

/* ---- all ---- */

static void look_at_growth(struct box *b, const char *name, uint64_t since_ms)
{
	uint64_t pids;

	if (cgroup_pids_count(&b->w->host.top, name, &pids, &(struct err){ 0 }) <= 0 || !hog_judge_growth(&b->hog, pids, since_ms))
		return;
	log_debug("sandbox makes many processes", LOG_S("id", b->file.id), LOG_B("choked", b->hog.is_choked));
	choke(b, b->hog.is_choked);
}

/* One that is over has nobody in it, and is not waited for. */
static void look(struct box *b, uint64_t now_ms)
{
	struct warden *w = b->w;
	uint64_t used_us, since_ms = now_ms - b->hog.seen_ms;
	struct err e;
	bool is_news;
	char name[16];

	if (b->file.stage != BOX_RUNNING) {
		count_out(b);
		return;
	}
	slot_name(b->slot.number, name);
	if (cgroup_cpu_demand(&w->host.top, name, &used_us, &e) <= 0)
		return;
	is_news = hog_judge(&b->hog, used_us, now_ms);
	look_at_growth(b, name, since_ms);
	if (!is_news)
		return;
	w->hogs.n_behind += b->hog.is_behind ? 1 : (unsigned)-1;
	log_debug("sandbox waits for others", LOG_S("id", b->file.id), LOG_B("behind", b->hog.is_behind));
	if (cgroup_put_behind(&w->host.top, name, b->hog.is_behind, &e) < 0)
		log_warn("cannot change whom a sandbox waits for, ignoring", LOG_S("id", b->file.id), LOG_ERR(&e));
}

static void look_at_some(struct warden *w, uint64_t now_ms)
{
	struct box *b = w->hogs.next ? w->hogs.next : w->boxes;

	for (int i = 0; b && i < HOG_BATCH; i++, b = b->next)
		look(b, now_ms);
	w->hogs.next = b;
}

static void on_look(void *arg)
{
	struct warden *w = arg;
	struct hogs *h = &w->hogs;
	uint64_t now = clock_mono_ms(), used_us = 0;

	timer_in(&h->timer, HOG_LOOK_MS);
	if (!w->boxes || cgroup_cpu_demand(&w->host.top, ".", &used_us, &(struct err){ 0 }) <= 0)
		return;
	if (share_milli(&h->seen_us, &h->seen_ms, used_us, now) >= HOG_QUIET_MILLI || h->n_behind > 0)
		look_at_some(w, now);
}

int hogs_open(struct warden *w, struct err *e)
{
	if (timer_init(&w->hogs.timer, w->loop, on_look, w, "busy sandboxes", e) < 0)
		return -1;
	timer_in(&w->hogs.timer, HOG_LOOK_MS);
	return 0;
}

void hogs_done(struct warden *w)
{
	timer_done(&w->hogs.timer);
}
