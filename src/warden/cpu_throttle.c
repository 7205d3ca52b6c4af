// SPDX-License-Identifier: Apache-2.0
#include "warden/cpu_throttle.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/cgroup_limits.h"
#include "sys/cgroup_stats.h"
#include "sys/process_stat.h"
#include "warden/box.h"
#include "warden/warden.h"

#include "base/banned.h"

/* ---- one ---- */

/* Microseconds per millisecond are thousandths of a CPU. */
static uint64_t share_milli(uint64_t *seen_us, uint64_t *seen_ms, uint64_t used_us, uint64_t now_ms)
{
	uint64_t ms = now_ms - *seen_ms, us = used_us > *seen_us ? used_us - *seen_us : 0;
	bool is_first = *seen_ms == 0;

	*seen_us = used_us;
	*seen_ms = now_ms;
	return is_first || ms == 0 ? 0 : us / ms;
}

static void mark(struct cpu_throttle *h, const struct cpu_sample *l)
{
	h->used_us = l->used_us;
	h->ended_us = l->ended_us;
}

/* Most of the recent CPU time was used by processes that still run. */
static bool is_lasting(struct cpu_throttle *h, const struct cpu_sample *l)
{
	uint64_t used_us = l->used_us - h->used_us, ended_us = l->ended_us - h->ended_us;

	if (used_us < CPU_ENDED_MIN_US)
		return false;
	mark(h, l);
	return ended_us < used_us / 2;
}

static bool is_excessive(struct cpu_throttle *h, const struct cpu_sample *l, uint64_t milli, uint64_t ms)
{
	if (h->is_busy) {
		h->busy_ms += ms;
		return is_lasting(h, l) || h->busy_ms >= CPU_BUSY_MS;
	}
	mark(h, l);
	if (milli < CPU_CALM_MILLI)
		h->busy_ms -= MIN(h->busy_ms, CPU_CALM_FACTOR * ms);
	return false;
}

void cpu_throttle_judge(struct cpu_throttle *h, const struct cpu_sample *l)
{
	bool was_seen = h->seen_ms != 0;
	uint64_t ms = l->now_ms - h->seen_ms;
	uint64_t milli = share_milli(&h->seen_us, &h->seen_ms, l->used_us + l->waited_us, l->now_ms);

	h->is_busy = milli >= CPU_BUSY_MILLI;
	if (!h->is_low_priority) {
		h->is_low_priority = is_excessive(h, l, milli, ms);
		h->calm = 0;
		return;
	}
	mark(h, l);
	h->calm = was_seen && milli < CPU_CALM_MILLI ? h->calm + 1 : 0;
	h->is_low_priority = h->calm < CPU_CALM_SAMPLES || h->is_capped;
	if (!h->is_low_priority)
		h->busy_ms = 0;
}

bool cpu_throttle_judge_growth(struct cpu_throttle *h, uint64_t pids, uint64_t since_ms)
{
	/* scaled to one interval */
	uint64_t more = pids > h->seen_pids ? (pids - h->seen_pids) * CPU_SAMPLE_MS : 0;

	if (!h->is_capped) {
		h->seen_pids = pids;
		h->is_capped = (h->is_low_priority || h->is_busy) && more >= CPU_GROWTH * since_ms;
		h->is_low_priority = h->is_low_priority || h->is_capped;
		h->steady = 0;
		return h->is_capped;
	}
	h->seen_pids = MAX(h->seen_pids, pids);
	h->steady = more < CPU_CALM_GROWTH * since_ms ? h->steady + 1 : 0;
	h->is_capped = h->steady < CPU_CALM_SAMPLES;
	return !h->is_capped;
}

static void apply_priority(struct box *b)
{
	char name[16];
	struct err e;

	slot_name(b->slot.number, name);
	if (cgroup_set_low_priority(&b->w->host.top, name, b->throttle.is_low_priority, &e) < 0)
		log_warn("cannot change the CPU priority of a sandbox, ignoring", LOG_S("id", b->file.id),
			 LOG_ERR(&e));
}

static void apply_cap(struct box *b, bool capped)
{
	char name[16];
	struct err e;

	slot_name(b->slot.number, name);
	if (cgroup_cap_cpu(&b->w->host.top, name, capped, &e) < 0)
		log_warn("cannot change the CPU cap of a sandbox, ignoring", LOG_S("id", b->file.id),
			 LOG_ERR(&e));
}

void cpu_throttle_release(struct box *b)
{
	if (b->throttle.is_capped)
		apply_cap(b, false);
	b->throttle.is_capped = false;
}

void cpu_throttle_adopt(struct box *b)
{
	b->throttle = (struct cpu_throttle){ .is_low_priority = true };
	b->w->throttles.n_low_priority++;
	apply_priority(b);
	apply_cap(b, false);
}

static void count_out(struct box *b)
{
	b->w->throttles.n_low_priority -= b->throttle.is_low_priority;
	b->throttle.is_low_priority = b->throttle.is_capped = false;
}

void cpu_throttle_forget(struct box *b)
{
	if (b->w->throttles.next == b)
		b->w->throttles.next = b->next;
	count_out(b);
}

/* ---- all ---- */

static void sample_growth(struct box *b, const char *name, uint64_t since_ms)
{
	uint64_t pids;

	if (cgroup_pids_count(&b->w->host.top, name, &pids, &(struct err){ 0 }) <= 0)
		return;
	if (!cpu_throttle_judge_growth(&b->throttle, pids, since_ms))
		return;
	log_debug("CPU cap of a sandbox changed", LOG_S("id", b->file.id),
		  LOG_B("capped", b->throttle.is_capped));
	apply_cap(b, b->throttle.is_capped);
}

/* A box that has ended is not sampled any more. */
static void sample(struct box *b, uint64_t now_ms)
{
	struct warden *w = b->w;
	uint64_t since_ms = now_ms - b->throttle.seen_ms;
	struct process_stat init = { .collected_us = b->throttle.ended_us };
	struct cgroup_cpu cpu;
	struct err e;
	bool was_low_priority = b->throttle.is_low_priority;
	char name[16];

	if (b->file.stage != BOX_RUNNING) {
		count_out(b);
		return;
	}
	slot_name(b->slot.number, name);
	if (cgroup_cpu_read(&w->host.top, name, &cpu, &e) <= 0)
		return;
	(void)process_stat_read(b->file.pid, &init, &e); /* on failure: nothing more has ended */
	cpu_throttle_judge(&b->throttle, &(struct cpu_sample){ .now_ms = now_ms, .used_us = cpu.used_us,
							       .waited_us = cpu.waited_us,
					       .ended_us = init.collected_us });
	sample_growth(b, name, since_ms);
	if (b->throttle.is_low_priority == was_low_priority)
		return;
	w->throttles.n_low_priority += b->throttle.is_low_priority ? 1 : (unsigned)-1;
	log_debug("CPU priority of a sandbox changed", LOG_S("id", b->file.id),
		  LOG_B("low_priority", b->throttle.is_low_priority));
	apply_priority(b);
}

static void sample_some(struct warden *w, uint64_t now_ms)
{
	struct box *b = w->throttles.next ? w->throttles.next : w->boxes;

	for (int i = 0; b && i < CPU_SAMPLE_BATCH; i++, b = b->next)
		sample(b, now_ms);
	w->throttles.next = b;
}

static void on_sample(void *arg)
{
	struct warden *w = arg;
	struct cpu_throttles *h = &w->throttles;
	uint64_t now = clock_mono_ms();
	struct cgroup_cpu cpu;

	timer_in(&h->timer, CPU_SAMPLE_MS);
	if (!w->boxes || cgroup_cpu_read(&w->host.top, ".", &cpu, &(struct err){ 0 }) <= 0)
		return;
	if (share_milli(&h->seen_us, &h->seen_ms, cpu.used_us + cpu.waited_us, now) >= CPU_QUIET_MILLI ||
	    h->n_low_priority > 0)
		sample_some(w, now);
}

int cpu_throttles_open(struct warden *w, struct err *e)
{
	if (timer_init(&w->throttles.timer, w->loop, on_sample, w, "cpu throttle", e) < 0)
		return -1;
	timer_in(&w->throttles.timer, CPU_SAMPLE_MS);
	return 0;
}

void cpu_throttles_done(struct warden *w)
{
	timer_done(&w->throttles.timer);
}
