// SPDX-License-Identifier: Apache-2.0
#include "net/loop.h"

#include <assert.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/err.h"

#include "base/banned.h"

#define BATCH 128
#define WAIT_MAX_MS 60000

struct loop {
	int epfd;
	uint64_t now_ms;
	clock_fn *clock;
	void *clock_arg;
	uint64_t slow_ms;
	slow_fn *slow;
	void *slow_arg;
	struct timer **heap; /* binary, smallest key first */
	size_t heap_n, heap_cap;
	size_t timers;                   /* initialised ones: heap_cap never falls below this */
	struct deferred *first, *last;
	struct epoll_event batch[BATCH]; /* what epoll_wait returned; entries of removed sources are cleared */
	int batch_n, batch_at;
	bool is_stopping;
};

static uint64_t boot_ms(void *arg)
{
	struct timespec ts;

	(void)arg;
	(void)clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

struct loop *loop_new(struct err *e)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l) {
		(void)err_no_memory(e);
		return NULL;
	}
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0) {
		(void)err_sys(e, errno, "create epoll");
		free(l);
		return NULL;
	}
	loop_set_clock(l, boot_ms, NULL);
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	assert(l->timers == 0 && !l->first);
	(void)close(l->epfd);
	free(l->heap);
	free(l);
}

void loop_set_clock(struct loop *l, clock_fn *now_ms, void *arg)
{
	l->clock = now_ms;
	l->clock_arg = arg;
	l->now_ms = now_ms(arg);
}

void loop_set_slow(struct loop *l, uint64_t threshold_ms, slow_fn *fn, void *arg)
{
	l->slow_ms = threshold_ms;
	l->slow = fn;
	l->slow_arg = arg;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

void loop_look_at_clock(struct loop *l)
{
	l->now_ms = l->clock(l->clock_arg);
}

int loop_fd(const struct loop *l)
{
	return l->epfd;
}

void loop_stop(struct loop *l)
{
	l->is_stopping = true;
}

/* Called after each callback; the source may be gone, so only its name is looked at. */
static void watch_slow(struct loop *l, const char *name, uint64_t *began_ms)
{
	uint64_t now;

	if (!l->slow)
		return;
	now = boot_ms(NULL);
	if (now - *began_ms > l->slow_ms)
		l->slow(name, now - *began_ms, l->slow_arg);
	*began_ms = now;
}

/* ---- descriptors ---- */

static uint32_t to_epoll(unsigned want)
{
	return (want & IO_IN ? EPOLLIN : 0U) | (want & IO_OUT ? EPOLLOUT : 0U) | (want & IO_HUP ? EPOLLRDHUP : 0U);
}

static unsigned from_epoll(uint32_t ev, unsigned want)
{
	unsigned ready = (ev & EPOLLIN ? IO_IN : 0U) | (ev & EPOLLOUT ? IO_OUT : 0U) | (ev & EPOLLRDHUP ? IO_HUP : 0U);

	return ev & (EPOLLERR | EPOLLHUP) ? want | IO_ERR : ready;
}

int io_add(struct io *io, struct loop *l, int fd, unsigned want, io_fn *fn, void *arg, const char *name, struct err *e)
{
	struct epoll_event ev = { .events = to_epoll(want), .data.ptr = io };

	assert(!io->loop);
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_sys(e, errno, "watch %s", name);
	*io = (struct io){ .loop = l, .fd = fd, .want = want, .armed = want, .fn = fn, .arg = arg, .name = name };
	return 0;
}

static void io_arm(struct io *io, unsigned armed)
{
	struct epoll_event ev = { .events = to_epoll(armed), .data.ptr = io };
	int r;

	if (armed == io->armed)
		return;
	r = epoll_ctl(io->loop->epfd, EPOLL_CTL_MOD, io->fd, &ev);
	assert(r == 0); /* only a closed or foreign descriptor makes this fail, and that is a mistake of ours */
	(void)r;
	io->armed = armed;
}

/* What a peer does next is not wanted for a moment, again and again, and mostly it does nothing then: the kernel is told to
 * look away only when it had something to report. A descriptor that can be written to always has. */
void io_want(struct io *io, unsigned want)
{
	io->want = want;
	if ((want & ~io->armed) != 0 || (io->armed & ~want & IO_OUT))
		io_arm(io, want | (io->armed & (IO_IN | IO_HUP)));
}

void io_del(struct io *io)
{
	struct loop *l = io->loop;

	if (!l)
		return;
	(void)epoll_ctl(l->epfd, EPOLL_CTL_DEL, io->fd, NULL);
	for (int i = l->batch_at; i < l->batch_n; i++)
		if (l->batch[i].data.ptr == io)
			l->batch[i].data.ptr = NULL;
	io->loop = NULL;
}

static void run_io(struct loop *l, uint64_t *began_ms)
{
	for (l->batch_at = 0; l->batch_at < l->batch_n;) {
		const struct epoll_event *ev = &l->batch[l->batch_at++];
		struct io *io = ev->data.ptr;
		const char *name;
		unsigned ready;

		if (!io)
			continue;
		ready = from_epoll(ev->events, io->want) & (io->want | IO_ERR);
		if (ready == 0) {
			io_arm(io, io->want);
			continue;
		}
		name = io->name;
		io->fn(ready, io->arg);
		watch_slow(l, name, began_ms);
	}
	l->batch_n = 0;
}

/* ---- timers ---- */

static void heap_put(struct loop *l, size_t i, struct timer *t)
{
	l->heap[i] = t;
	t->at = i + 1;
}

static void sift_up(struct loop *l, size_t i)
{
	struct timer *t = l->heap[i];

	while (i > 0 && l->heap[(i - 1) / 2]->key_ms > t->key_ms) {
		heap_put(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_put(l, i, t);
}

static void sift_down(struct loop *l, size_t i)
{
	struct timer *t = l->heap[i];

	for (;;) {
		size_t kid = 2 * i + 1;

		if (kid + 1 < l->heap_n && l->heap[kid + 1]->key_ms < l->heap[kid]->key_ms)
			kid++;
		if (kid >= l->heap_n || l->heap[kid]->key_ms >= t->key_ms)
			break;
		heap_put(l, i, l->heap[kid]);
		i = kid;
	}
	heap_put(l, i, t);
}

int timer_init(struct timer *t, struct loop *l, timer_fn *fn, void *arg, const char *name, struct err *e)
{
	if (l->timers == l->heap_cap) {
		size_t cap = MAX(l->heap_cap * 2, (size_t)16);
		struct timer **heap = reallocarray(l->heap, cap, sizeof(struct timer *));

		if (!heap)
			return err_no_memory(e);
		l->heap = heap;
		l->heap_cap = cap;
	}
	l->timers++;
	*t = (struct timer){ .loop = l, .fn = fn, .arg = arg, .name = name };
	return 0;
}

void timer_done(struct timer *t)
{
	if (!t->loop)
		return;
	timer_cancel(t);
	t->loop->timers--;
	t->loop = NULL;
}

void timer_set(struct timer *t, uint64_t due_ms)
{
	struct loop *l = t->loop;

	t->due_ms = due_ms;
	if (t->at > 0 && due_ms >= t->key_ms)
		return; /* it moves when its old place comes up */
	t->key_ms = due_ms;
	if (t->at == 0)
		heap_put(l, l->heap_n++, t);
	sift_up(l, t->at - 1);
}

void timer_in(struct timer *t, uint64_t delay_ms)
{
	timer_set(t, t->loop->now_ms + delay_ms);
}

void timer_cancel(struct timer *t)
{
	struct loop *l = t->loop;
	size_t i = t->at - 1;

	if (t->at == 0)
		return;
	t->at = 0;
	l->heap_n--;
	if (i == l->heap_n)
		return;
	heap_put(l, i, l->heap[l->heap_n]);
	sift_down(l, i);
	sift_up(l, i);
}

static void run_timers(struct loop *l, uint64_t *began_ms)
{
	while (l->heap_n > 0 && l->heap[0]->key_ms <= l->now_ms) {
		struct timer *t = l->heap[0];
		const char *name = t->name;

		if (t->due_ms > l->now_ms) {
			t->key_ms = t->due_ms;
			sift_down(l, 0);
			continue;
		}
		timer_cancel(t);
		t->fn(t->arg);
		watch_slow(l, name, began_ms);
	}
}

/* ---- deferred work ---- */

void defer(struct deferred *d, struct loop *l, deferred_fn *fn, void *arg, const char *name)
{
	if (d->loop)
		return;
	*d = (struct deferred){ .loop = l, .prev = l->last, .fn = fn, .arg = arg, .name = name };
	*(l->last ? &l->last->next : &l->first) = d;
	l->last = d;
}

void defer_cancel(struct deferred *d)
{
	if (!d->loop)
		return;
	*(d->prev ? &d->prev->next : &d->loop->first) = d->next;
	*(d->next ? &d->next->prev : &d->loop->last) = d->prev;
	d->loop = NULL;
}

/* What is deferred meanwhile runs too, but a source that defers itself again waits for the next turn: the
 * marker ends the round. */
static void run_deferred(struct loop *l, uint64_t *began_ms)
{
	struct deferred marker = { 0 };

	if (!l->first)
		return;
	defer(&marker, l, NULL, NULL, "marker");
	while (l->first != &marker) {
		struct deferred *d = l->first;
		const char *name = d->name;

		defer_cancel(d);
		d->fn(d->arg);
		watch_slow(l, name, began_ms);
	}
	defer_cancel(&marker);
}

/* ---- turning ---- */

static int wait_ms(const struct loop *l, int max_wait_ms)
{
	uint64_t wait = max_wait_ms < 0 ? WAIT_MAX_MS : (uint64_t)max_wait_ms;

	if (l->first)
		return 0;
	if (l->heap_n > 0) {
		uint64_t key = l->heap[0]->key_ms;

		wait = MIN(wait, key > l->now_ms ? key - l->now_ms : 0);
	}
	return (int)wait;
}

int loop_due_ms(const struct loop *l)
{
	uint64_t now = l->clock(l->clock_arg), key;

	if (l->first)
		return 0;
	if (l->heap_n == 0)
		return -1;
	key = l->heap[0]->key_ms;
	return key > now ? (int)MIN(key - now, (uint64_t)WAIT_MAX_MS) : 0;
}

int loop_turn(struct loop *l, int max_wait_ms, struct err *e)
{
	uint64_t began_ms = 0;

	l->now_ms = l->clock(l->clock_arg);
	l->batch_n = epoll_wait(l->epfd, l->batch, BATCH, wait_ms(l, max_wait_ms));
	if (l->batch_n < 0) {
		l->batch_n = 0;
		if (errno != EINTR)
			return err_sys(e, errno, "wait for events");
	}
	l->now_ms = l->clock(l->clock_arg);
	if (l->slow)
		began_ms = boot_ms(NULL);
	run_io(l, &began_ms);
	run_timers(l, &began_ms);
	run_deferred(l, &began_ms);
	return 0;
}

int loop_run(struct loop *l, struct err *e)
{
	l->is_stopping = false;
	while (!l->is_stopping)
		if (loop_turn(l, -1, e) < 0)
			return -1;
	return 0;
}
