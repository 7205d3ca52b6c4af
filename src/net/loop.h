// SPDX-License-Identifier: Apache-2.0
/* net/loop.h - the event loop: descriptors, timers and deferred work on one thread.
 *
 * Sources (struct io, struct timer, struct deferred) are embedded in the objects that own them and carry a
 * name for diagnostics. A source may be removed, and the object around it freed, from any callback, its own
 * included: the loop never touches a source after calling it and drops what was pending for a removed one.
 * Callbacks do not nest: to call back "later", defer. Time comes from the loop and stands still during a
 * turn. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct err;
struct loop;

typedef uint64_t clock_fn(void *arg);                           /* milliseconds, never going back */
typedef void slow_fn(const char *name, uint64_t ms, void *arg); /* a callback held the loop for that long */

struct loop *loop_new(struct err *e);
void loop_free(struct loop *l); /* all sources must be gone */
DEFINE_AUTO(struct loop *, loop_free)

void loop_set_clock(struct loop *l, clock_fn *now_ms, void *arg); /* for tests; default: CLOCK_BOOTTIME */
void loop_set_slow(struct loop *l, uint64_t threshold_ms, slow_fn *fn, void *arg);
uint64_t loop_now_ms(const struct loop *l);

/* For a loop that is turned by another one: what to watch for reading, and after how many milliseconds it
 * wants a turn even if nothing is to be read (-1: not by itself). Who sets timers between turns looks at the
 * clock first. */
int loop_fd(const struct loop *l);
int loop_due_ms(const struct loop *l);
void loop_look_at_clock(struct loop *l);

int loop_run(struct loop *l, struct err *e);                  /* until loop_stop() */
/* one wait and what follows from it; -1 ms: no limit */
int loop_turn(struct loop *l, int max_wait_ms, struct err *e);
void loop_stop(struct loop *l);

/* Descriptors, level-triggered. */
enum {
	IO_IN = 1,
	IO_OUT = 2,
	IO_HUP = 4, /* the peer ended its side; asked for like the others */
	IO_ERR = 8, /* the descriptor is dead; always delivered, together with all that was wanted */
};

typedef void io_fn(unsigned ready, void *arg);

struct io {
	struct loop *loop; /* NULL: not added */
	int fd;            /* not owned */
	unsigned want;
	/* what the kernel was asked for: all of want, and perhaps what was wanted before */
	unsigned armed;
	io_fn *fn;
	void *arg;
	const char *name;
};

int io_add(struct io *io, struct loop *l, int fd, unsigned want, io_fn *fn, void *arg, const char *name,
	   struct err *e);
void io_want(struct io *io, unsigned want);
void io_del(struct io *io); /* before closing the descriptor; fine when not added */

/* Timers. Setting one never fails: its place in the heap is taken with timer_init(). Moving a deadline
 * further away costs nothing, so an idle timeout can be renewed for every byte. */
typedef void timer_fn(void *arg);

struct timer {
	struct loop *loop; /* NULL: not initialised */
	uint64_t due_ms;   /* when it is to fire */
	uint64_t key_ms;   /* its place in the heap, never later than due_ms */
	size_t at;         /* index in the heap plus 1; 0: not armed */
	timer_fn *fn;
	void *arg;
	const char *name;
};

int timer_init(struct timer *t, struct loop *l, timer_fn *fn, void *arg, const char *name, struct err *e);
void timer_done(struct timer *t); /* fine when not initialised */
void timer_set(struct timer *t, uint64_t due_ms); /* absolute, in loop time */
void timer_in(struct timer *t, uint64_t delay_ms);
void timer_cancel(struct timer *t);

/* Work for the end of this turn. Deferring what is queued already changes nothing. */
typedef void deferred_fn(void *arg);

struct deferred {
	struct loop *loop; /* NULL: not queued */
	struct deferred *prev, *next;
	deferred_fn *fn;
	void *arg;
	const char *name;
};

void defer(struct deferred *d, struct loop *l, deferred_fn *fn, void *arg, const char *name);
void defer_cancel(struct deferred *d); /* fine when not queued */
