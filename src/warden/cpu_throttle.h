// SPDX-License-Identifier: Apache-2.0
/* warden/cpu_throttle.h - lowers the CPU priority of sandboxes that compute all the time (G6).
 *
 * The kernel shares CPUs fairly. A short command beside a sandbox that computes all the time therefore waits
 * for a tick after each of its bursts. To avoid that, the warden samples the CPU demand of every sandbox: the
 * time that it used, and the time that it waited for a CPU. A sandbox that demands a whole CPU gets low
 * priority: it runs when no other sandbox wants to, still up to its limit. It gets normal priority back after
 * some calm samples.
 *
 * A client that sends one short command after the other creates the same demand, but waits for each of them.
 * Such a sandbox (at least half of its CPU time was used by commands that have ended) gets low priority only
 * after five seconds.
 *
 * A sandbox that also creates processes faster than programs do (a fork bomb) is capped to a tenth of its CPU
 * limit until it stops. Low priority does not help there, because the bomb holds locks of the kernel.
 *
 * While all sandboxes together are quiet, a sample costs two small files. See
 * decisions/0020-cpu-throttle.md. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct box;
struct err;
struct warden;

#define CPU_SAMPLE_MS 250       /* between two samples */
#define CPU_SAMPLE_BATCH 256    /* boxes per sample; with more boxes, each is sampled less often */
#define CPU_BUSY_MILLI 900      /* demand, in thousandths of a CPU, from which a sample counts as busy */
#define CPU_ENDED_MIN_US 100000 /* used before ended commands are looked at: their count is exact to two ticks */
#define CPU_BUSY_MS 5000        /* of busy samples, until a sandbox whose commands end gets low priority */
#define CPU_CALM_FACTOR 4       /* a calm millisecond takes back that many busy ones */
#define CPU_CALM_MILLI 500      /* demand below which a sample counts as calm */
#define CPU_CALM_SAMPLES 4      /* calm samples in a row that end low priority */
#define CPU_QUIET_MILLI 500     /* demand of all boxes together below which single boxes are not sampled */
#define CPU_GROWTH 128          /* new processes between two samples that make a fork bomb */
#define CPU_CALM_GROWTH 16

/* State of one box. */
struct cpu_throttle {
	uint64_t seen_us, seen_ms;  /* demand at the last sample and its time; 0: not sampled yet */
	uint64_t used_us, ended_us; /* counters when ended commands were last looked at */
	uint64_t busy_ms;
	bool is_busy;               /* at the last sample */
	unsigned calm;              /* calm samples in a row */
	uint64_t seen_pids;
	unsigned steady;            /* samples in a row with few new processes */
	bool is_low_priority;
	bool is_capped;             /* implies is_low_priority */
};

/* Counters of a box since its start. */
struct cpu_sample {
	uint64_t now_ms;
	uint64_t used_us, waited_us; /* see struct cgroup_cpu */
	uint64_t ended_us;           /* part of used_us: processes that execd has reaped */
};

void cpu_throttle_judge(struct cpu_throttle *h, const struct cpu_sample *l); /* updates `is_low_priority` */
/* Called after it, with the number of processes and the time since the last sample. Returns true when
 * `is_capped` has changed; a cap also lowers the priority. A capped box may double its processes before it
 * counts as growing again. */
bool cpu_throttle_judge_growth(struct cpu_throttle *h, uint64_t pids, uint64_t since_ms);

/* State of all boxes. */
struct cpu_throttles {
	struct timer timer;
	struct box *next; /* next to sample; NULL: the first */
	uint64_t seen_us, seen_ms;
	unsigned n_low_priority;
};

int cpu_throttles_open(struct warden *w, struct err *e);
void cpu_throttles_done(struct warden *w);
/* low priority until calm: the previous warden may have left it so */
void cpu_throttle_adopt(struct box *b);
void cpu_throttle_forget(struct box *b);  /* the box is about to be freed */
/* lifts the cap before a freeze or kill, for which its processes must run */
void cpu_throttle_release(struct box *b);
