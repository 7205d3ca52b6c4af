// SPDX-License-Identifier: Apache-2.0
/* warden/hog.h - sandboxes that use up processors wait for those that do not (G6).
 *
 * The kernel shares processors fairly, which is not what somebody wants who runs a short command beside a sandbox that computes
 * all the time: after each burst of its own it has had more than its share, and waits for a tick. So the warden looks at how
 * much each sandbox computes, or would if there were nobody else. One that wants a whole processor is put behind the others: it
 * gets what they leave, up to its limit as before, and anybody who wakes runs at once. It comes back when it has been calm.
 *
 * A client that gives it one short command after the other makes it want as much, and waits for each of them. So it matters who
 * used it: where at least half went to commands that have ended, the sandbox is put behind only after five seconds of that.
 *
 * One that also makes processes faster than programs do, by hundreds between two looks, gets a tenth of its processor time until it has
 * stopped that: waiting does not help against a fork bomb, because what it holds up are locks of the kernel.
 *
 * Looking costs two small files while sandboxes as a whole do little. decisions/0020-busy-sandboxes-wait.md tells more. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct box;
struct err;
struct warden;

#define HOG_LOOK_MS 250   /* between two looks */
#define HOG_BATCH 256     /* boxes at a time: with more of them each is looked at less often */
#define HOG_MILLI 900     /* of a processor: who wants that much is put behind */
#define HOG_TELLING_US 100000 /* used, until it is asked who has ended: counts of that are exact to two ticks */
#define HOG_BUSY_MS 5000  /* with that much, until one is put behind whose commands end */
#define HOG_REST 4        /* milliseconds of being busy are forgotten for each of being calm */
#define HOG_CALM_MILLI 500
#define HOG_CALM_LOOKS 4  /* with less than that, until it comes back */
#define HOG_QUIET_MILLI 500 /* of all boxes together: no look at each */
#define HOG_GROWTH 128    /* processes between two looks: who makes that many is choked */
#define HOG_CALM_GROWTH 16

/* Of one box. */
struct hog {
	uint64_t seen_us, seen_ms; /* its demand so far, at the last look; 0: there was none */
	uint64_t used_us, ended_us; /* when it was last asked who has ended */
	uint64_t busy_ms;
	bool is_busy;  /* at the last look */
	unsigned calm; /* looks in a row */
	uint64_t seen_pids;
	unsigned steady; /* looks in a row */
	bool is_behind;
	bool is_choked;  /* and behind as long as that */
};

/* Processor time of its processes so far. */
struct hog_look {
	uint64_t now_ms;
	uint64_t used_us, waited_us; /* see struct cgroup_cpu */
	uint64_t ended_us;           /* of what was used, by those that execd has collected */
};

void hog_judge(struct hog *h, const struct hog_look *l); /* says whether it `is_behind` */
/* Then: it has so many processes, SINCE_MS after the last look. True when `is_choked` has changed, which puts it behind. Who is choked may
 * have as many again as it had before. */
bool hog_judge_growth(struct hog *h, uint64_t pids, uint64_t since_ms);

/* Of all. */
struct hogs {
	struct timer timer;
	struct box *next; /* to look at; NULL: the first */
	uint64_t seen_us, seen_ms;
	unsigned n_behind;
};

int hogs_open(struct warden *w, struct err *e);
void hogs_done(struct warden *w);
void hog_adopt(struct box *b);  /* puts it behind, as whoever was the warden before may have done, until it is seen to be calm */
void hog_forget(struct box *b); /* it is about to go */
void hog_let_go(struct box *b); /* it is about to be frozen or killed, for which its processes have to run once more */
