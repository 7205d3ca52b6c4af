// SPDX-License-Identifier: Apache-2.0
#include "warden/hog.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "sys/process_stat.h"
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

static void mark(struct hog *h, const struct hog_look *l)
{
	h->used_us = l->used_us;
	h->ended_us = l->ended_us;
}

/* Most of what it has used lately was used by processes that go on. */
static bool is_lasting(struct hog *h, const struct hog_look *l)
{
	uint64_t used_us = l->used_us - h->used_us, ended_us = l->ended_us - h->ended_us;

	if (used_us < HOG_TELLING_US)
		return false;
	mark(h, l);
	return ended_us < used_us / 2;
}

static bool is_hog(struct hog *h, const struct hog_look *l, uint64_t milli, uint64_t ms)
{
	if (h->is_busy) {
		h->busy_ms += ms;
		return is_lasting(h, l) || h->busy_ms >= HOG_BUSY_MS;
	}
	mark(h, l);
	if (milli < HOG_CALM_MILLI)
		h->busy_ms -= MIN(h->busy_ms, HOG_REST * ms);
	return false;
}

void hog_judge(struct hog *h, const struct hog_look *l)
{
	bool was_seen = h->seen_ms != 0;
	uint64_t ms = l->now_ms - h->seen_ms, milli = share_milli(&h->seen_us, &h->seen_ms, l->used_us + l->waited_us, l->now_ms);

	h->is_busy = milli >= HOG_MILLI;
	if (!h->is_behind) {
		h->is_behind = is_hog(h, l, milli, ms);
		h->calm = 0;
		return;
	}
	mark(h, l);
	h->calm = was_seen && milli < HOG_CALM_MILLI ? h->calm + 1 : 0;
	h->is_behind = h->calm < HOG_CALM_LOOKS || h->is_choked;
	if (!h->is_behind)
		h->busy_ms = 0;
}

bool hog_judge_growth(struct hog *h, uint64_t pids, uint64_t since_ms)
{
	uint64_t more = pids > h->seen_pids ? (pids - h->seen_pids) * HOG_LOOK_MS : 0; /* in a look's time: how often that is depends */

	if (!h->is_choked) {
		h->seen_pids = pids;
		h->is_choked = (h->is_behind || h->is_busy) && more >= HOG_GROWTH * since_ms;
		h->is_behind = h->is_behind || h->is_choked;
		h->steady = 0;
		return h->is_choked;
	}
	h->seen_pids = MAX(h->seen_pids, pids);
	h->steady = more < HOG_CALM_GROWTH * since_ms ? h->steady + 1 : 0;
	h->is_choked = h->steady < HOG_CALM_LOOKS;
	return !h->is_choked;
}

/* Or back. */
static void put_behind(struct box *b)
{
	char name[16];
	struct err e;

	slot_name(b->slot.number, name);
	if (cgroup_put_behind(&b->w->host.top, name, b->hog.is_behind, &e) < 0)
		log_warn("cannot change whom a sandbox waits for, ignoring", LOG_S("id", b->file.id), LOG_ERR(&e));
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
	put_behind(b);
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
	uint64_t since_ms = now_ms - b->hog.seen_ms;
	struct process_stat init = { .collected_us = b->hog.ended_us };
	struct cgroup_cpu cpu;
	struct err e;
	bool was_behind = b->hog.is_behind;
	char name[16];

	if (b->file.stage != BOX_RUNNING) {
		count_out(b);
		return;
	}
	slot_name(b->slot.number, name);
	if (cgroup_cpu_read(&w->host.top, name, &cpu, &e) <= 0)
		return;
	(void)process_stat_read(b->file.pid, &init, &e); /* without it nothing more has ended */
	hog_judge(&b->hog, &(struct hog_look){ .now_ms = now_ms, .used_us = cpu.used_us, .waited_us = cpu.waited_us,
					       .ended_us = init.collected_us });
	look_at_growth(b, name, since_ms);
	if (b->hog.is_behind == was_behind)
		return;
	w->hogs.n_behind += b->hog.is_behind ? 1 : (unsigned)-1;
	log_debug("sandbox waits for others", LOG_S("id", b->file.id), LOG_B("behind", b->hog.is_behind));
	put_behind(b);
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
	uint64_t now = clock_mono_ms();
	struct cgroup_cpu cpu;

	timer_in(&h->timer, HOG_LOOK_MS);
	if (!w->boxes || cgroup_cpu_read(&w->host.top, ".", &cpu, &(struct err){ 0 }) <= 0)
		return;
	if (share_milli(&h->seen_us, &h->seen_ms, cpu.used_us + cpu.waited_us, now) >= HOG_QUIET_MILLI || h->n_behind > 0)
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
