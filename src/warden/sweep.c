// SPDX-License-Identifier: Apache-2.0
#include "warden/sweep.h"

#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/volume.h"
#include "warden/adopt.h"
#include "warden/box.h"
#include "warden/layer_dir.h"
#include "warden/network.h"
#include "warden/volumes.h"
#include "warden/warden.h"

#include "base/banned.h"

#define NICE 10 /* nobody waits for it */

/* ---- in the worker ---- */

/* Each of them is tried, whatever becomes of the others. */
static int sweep_work(void *arg, struct err *e)
{
	struct warden *w = arg;
	struct sweep *s = &w->sweep;
	int r = box_layers_sweep(&w->host.store, s->layers_us, e);

	if (layers_sweep_old(w->host.layers_path, s->layers_us, e) < 0)
		r = -1;
	if (volumes_sweep(&w->host.store, s->disks_us, e) < 0)
		r = -1;
	if (adopt_find(w, s->found, e) < 0 || network_find(w, s->found, e) < 0)
		r = -1;
	return r;
}

/* ---- in the loop ---- */

/* What was free and is taken by now has been found on its way into being, and what was freed meanwhile on its way out. */
static unsigned remove_numbers(struct warden *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLOT_NUMBER_MAX; i++) {
		if (!w->sweep.found[i] || w->is_taken[i] || w->sweep.was_freed[i])
			continue;
		if (++n > SWEEP_NUMBERS_MAX)
			break;
		log_warn("removing leftovers of a removed box", LOG_U("number", i));
		w->is_taken[i] = true;
		box_sweep_stray(w, i);
	}
	return n;
}

static void on_swept(const struct err *failure, void *arg)
{
	struct warden *w = arg;
	unsigned n = remove_numbers(w);

	if (failure)
		log_warn("what is left of workers that failed cannot be removed, trying again", LOG_ERR(failure));
	timer_in(&w->sweep.timer, n > SWEEP_NUMBERS_MAX ? SWEEP_SOON_MS : SWEEP_MS);
}

static void on_due(void *arg)
{
	struct warden *w = arg;
	struct sweep *s = &w->sweep;

	if (worker_is_busy(&s->worker) || w->is_stopping)
		return;
	if (w->has_old_layers)
		warden_layer_unused(w, "");
	memset(s->found, 0, SLOT_NUMBER_MAX);
	memset(s->was_freed, 0, sizeof(s->was_freed));
	s->layers_us = MIN(workers_begun_us(&w->workers), workers_begun_us(&w->unpackers)) - SWEEP_MARGIN_US;
	s->disks_us = volumes_begun_us(w) - SWEEP_MARGIN_US;
	worker_start(&s->worker, &s->pool, sweep_work, on_swept, w, -1);
}

void sweep_note_freed(struct warden *w, unsigned number)
{
	w->sweep.was_freed[number] = true;
}

/* One that runs has looked already, or not: the next one surely does. */
void sweep_soon(struct warden *w)
{
	if (w->sweep.found && !worker_is_busy(&w->sweep.worker))
		timer_in(&w->sweep.timer, SWEEP_SOON_MS);
}

bool sweep_is_busy(const struct warden *w)
{
	return w->sweep.pool.running > 0;
}

int sweep_open(struct warden *w, struct err *e)
{
	struct sweep *s = &w->sweep;
	void *found = mmap(NULL, SLOT_NUMBER_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (found == MAP_FAILED)
		return err_no_memory(e);
	*s = (struct sweep){ .pool = { .loop = w->loop, .max = 1, .nice = NICE }, .worker = WORKER_INIT, .found = found };
	if (timer_init(&s->timer, w->loop, on_due, w, "sweep", e) < 0)
		return -1;
	timer_in(&s->timer, SWEEP_SOON_MS); /* for what an earlier warden was cut off in */
	return 0;
}

void sweep_done(struct warden *w)
{
	struct sweep *s = &w->sweep;

	if (!s->found)
		return;
	worker_forget(&s->worker);
	timer_done(&s->timer);
	(void)munmap(s->found, SLOT_NUMBER_MAX);
	s->found = NULL;
}
