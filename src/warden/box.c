// SPDX-License-Identifier: Apache-2.0
#include "warden/box.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/cgroup_stats.h"
#include "sys/namespace.h"
#include "sys/process.h"
#include "sys/process_stat.h"
#include "warden/box_impl.h"
#include "warden/ending.h"
#include "warden/flows.h"
#include "warden/network.h"
#include "warden/ready.h"
#include "warden/snapshot.h"
#include "warden/volumes.h"
#include "warden/warden.h"

#include "base/banned.h"

#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 10000
#define RETRY_DOUBLINGS 7
/* Until what is left of a dead box is removed, at least: who removes one often wants the next at once. All that ended since the
 * last multiple of it go together. */
#define CLEAR_UP_MS 40
#define KILL_FIRST_MS 100 /* for PID 1 to end before stronger means are used */

struct waiter {
	struct waiter *next;
	struct ticket ticket;
};

/* ---- the object ---- */

static void on_timer(void *arg);

static struct box *box_new(struct warden *w, struct err *e)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b) {
		(void)err_no_memory(e);
		return NULL;
	}
	*b = (struct box){ .w = w, .slot = SLOT_INIT, .ready = -1, .mounts = -1, .worker = WORKER_INIT };
	if (timer_init(&b->timer, w->loop, on_timer, b, "box", e) < 0) {
		free(b);
		return NULL;
	}
	b->next = w->boxes;
	if (b->next)
		b->next->prev = b;
	w->boxes = b;
	return b;
}

static void stop_waking(struct box *b)
{
	io_del(&b->ready_io);
	closep(&b->ready);
	b->ready = -1;
	timer_cancel(&b->timer);
	if (b->is_waking) {
		b->is_waking = false;
		b->w->n_starting--;
		ready_note(b->w);
	}
}

static void drop_held(struct box *b)
{
	if (!b->create)
		return;
	image_wait_cancel(&b->create->wait);
	closep(&b->create->fds.spec);
	closep(&b->create->fds.record);
	free(take_ptr(&b->create));
}

static void forget_name(struct box *b)
{
	if (b->file.id[0] && map_get(&b->w->by_id, str_of(b->file.id)) == b)
		(void)map_del(&b->w->by_id, str_of(b->file.id));
	b->file.id[0] = '\0';
}

/* The descriptors alone: what they refer to stays. */
static void box_free(struct box *b)
{
	struct waiter *waiter;

	cpu_throttle_forget(b);
	*(b->prev ? &b->prev->next : &b->w->boxes) = b->next;
	if (b->next)
		b->next->prev = b->prev;
	forget_name(b);
	while ((waiter = b->waiters)) {
		b->waiters = waiter->next;
		free(waiter);
	}
	ready_forget(b->w, b);
	stop_waking(b);
	drop_held(b);
	worker_forget(&b->worker);
	snapshot_forget(b);
	box_volumes_free(b);
	box_net_free(b);
	io_del(&b->end_io);
	timer_done(&b->timer);
	closep(&b->mounts);
	stack_done(&b->stack);
	slot_done(&b->slot);
	free(b);
}

void boxes_done(struct warden *w)
{
	while (w->boxes)
		box_free(w->boxes);
	map_done(&w->by_id);
}

enum wire_state box_state(const struct box *b)
{
	switch (b->file.stage) {
	case BOX_RUNNING: return b->is_paused ? WIRE_PAUSED : WIRE_RUNNING;
	case BOX_OVER: return WIRE_OVER;
	case BOX_STARTING:
	case BOX_REMOVING: break;
	}
	return WIRE_STARTING; /* nothing but a remove makes sense */
}

bool box_stands_on(const struct box *b, const char *layer)
{
	return strcmp(b->file.layer, layer) == 0 || stack_has(&b->stack, layer);
}

/* ---- who waits ---- */

int box_add_waiter(struct box *b, const struct ticket *t, struct err *e)
{
	struct waiter *waiter;

	if (b->n_waiters >= BOX_WAITERS_MAX)
		return err_set(e, ERR_LIMIT, "too many wait for sandbox '%s'", b->file.id);
	waiter = malloc(sizeof(*waiter));
	if (!waiter)
		return err_no_memory(e);
	*waiter = (struct waiter){ .next = b->waiters, .ticket = *t };
	b->waiters = waiter;
	b->n_waiters++;
	return 0;
}

/* Those who wait for CALL. */
void box_answer_waiters(struct box *b, uint32_t call, const struct err *failure)
{
	struct waiter **at = &b->waiters, *waiter;

	while ((waiter = *at)) {
		if (waiter->ticket.call != call) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		b->n_waiters--;
		answer(b->w, &waiter->ticket, failure);
		free(waiter);
	}
}

/* ---- removing ---- */

static int remove_work(void *arg, struct err *e)
{
	struct box *b = arg;

	if (slot_destroy(&b->w->host, &b->slot, e) < 0)
		return -1;
	KILL_POINT("warden.remove.destroyed");
	return 0;
}

/* The worker waited for its end, which is ours to collect. */
static void collect(struct box *b)
{
	if (b->slot.pidfd >= 0)
		(void)process_wait(b->slot.pidfd, 0, &(struct process_end){ 0 }, &(struct err){ 0 });
}

void box_retry_later(struct box *b)
{
	uint64_t pause = (uint64_t)RETRY_MIN_MS << MIN(b->tries, (unsigned)RETRY_DOUBLINGS);

	b->tries++;
	timer_in(&b->timer, MIN(pause, (uint64_t)RETRY_MAX_MS));
}

/* Every process is dead: whoever waits for the removal need not wait for the rest of it. */
static void tell_removed(struct box *b)
{
	if (b->n_waiters == 0)
		return;
	KILL_POINT("warden.remove.dead");
	box_answer_waiters(b, WIRE_REMOVE, NULL);
	KILL_POINT("warden.remove.told");
	if (b->n_waiters == 0)
		forget_name(b);
}

/* Nothing of it is left. */
static void finish_removal(struct box *b)
{
	box_answer_waiters(b, WIRE_CREATE, &b->failure);
	box_answer_waiters(b, WIRE_PAUSE, &b->failure);
	box_answer_waiters(b, WIRE_RESUME, &b->failure);
	KILL_POINT("warden.remove.proven");
	box_answer_waiters(b, WIRE_REMOVE, NULL);
	box_free(b);
}

static void on_removed(const struct err *failure, void *arg)
{
	struct box *b = arg;
	struct warden *w = b->w;
	unsigned number = b->slot.number;
	bool had_network = b->file.network != WIRE_NET_NONE, had_all = b->stack.is_unknown;
	char layer[sizeof(b->file.layer)];

	KILL_POINT("warden.remove.collected");
	collect(b);
	box_answer_waiters(b, WIRE_CREATE, &b->failure); /* who failed to create it need not wait for later tries */
	if (failure) {
		log_warn("cannot remove a box, trying again", LOG_S("id", b->file.id), LOG_U("number", number),
			 LOG_U("tries", b->tries), LOG_ERR(failure));
		box_retry_later(b);
		return;
	}
	log_debug("box removed", LOG_S("id", b->file.id), LOG_U("number", number));
	memcpy(layer, b->file.layer, sizeof(layer));
	finish_removal(b);
	if (had_network)
		flows_retire(w, number);
	else
		number_free(w, number);
	if (layer[0] || had_all) /* or those that were kept for want of knowing */
		warden_layer_unused(w, layer);
	warden_answered(w);
	KILL_POINT("warden.remove.number_freed");
}

/* PID 1 is told on the spot, and the rest of the work begins with its end. One that is frozen may not end by that. */
static void kill_first(struct box *b)
{
	struct err e;

	if (b->slot.pidfd < 0 || b->has_ended || b->is_paused || !b->end_io.loop) {
		box_next_work(b);
		return;
	}
	b->mounts = namespace_of_process(b->slot.pidfd, NAMESPACE_MOUNT, &e); /* without it, it only takes longer */
	if (process_signal(b->slot.pidfd, SIGKILL, &e) < 0)
		box_next_work(b);
	else
		timer_in(&b->timer, KILL_FIRST_MS);
}

/* Marked first: whatever happens from here on, it is never taken for a sandbox again. A disk that is full does not keep
 * it: the mark is for a restart only, and the folder itself is what goes. */
static void start_removal(struct box *b)
{
	struct err e;

	stop_waking(b);
	drop_held(b);
	box_volumes_free(b);
	b->file.stage = BOX_REMOVING;
	if (!b->has_slot) {
		finish_removal(b);
		return;
	}
	if (b->file.id[0] && b->slot.dir >= 0 && box_file_write(b->slot.dir, &b->file, &e) < 0)
		log_warn("cannot mark a box for removal, ignoring", LOG_S("id", b->file.id), LOG_ERR(&e));
	KILL_POINT("warden.remove.marked");
	cpu_throttle_release(b);
	box_net_release(b);
	if (b->has_ended)
		tell_removed(b);
	kill_first(b);
}

void box_remove(struct box *b, const struct ticket *t)
{
	struct err e;

	if (box_add_waiter(b, t, &e) < 0) {
		answer(b->w, t, &e);
		return;
	}
	if (b->file.stage == BOX_STARTING)
		(void)err_set(&b->failure, ERR_CONFLICT, "sandbox '%s' was removed while it started", b->file.id);
	if (b->file.stage != BOX_REMOVING)
		start_removal(b);
	else if (b->has_ended)
		tell_removed(b);
}

void box_sweep_slot(struct warden *w, struct slot *slot, const char *id)
{
	struct err e;
	struct box *b = box_new(w, &e);

	if (!b) { /* its number stays taken, and the next start finds what is left */
		log_error("cannot remove a slot", LOG_U("number", slot->number), LOG_ERR(&e));
		slot_done(slot);
		return;
	}
	b->slot = *slot;
	b->has_slot = true;
	*slot = SLOT_INIT;
	if (id && !map_get(&w->by_id, str_of(id))) {
		(void)snprintf(b->file.id, sizeof(b->file.id), "%s", id);
		if (!map_put(&w->by_id, str_of(b->file.id), b)) /* nobody can wait for it then */
			b->file.id[0] = '\0';
	}
	start_removal(b);
}

void box_sweep(struct warden *w, unsigned number, const char *id)
{
	struct slot slot = SLOT_INIT;

	slot.number = number;
	box_sweep_slot(w, &slot, id);
}

void box_sweep_stray(struct warden *w, unsigned number)
{
	w->network.has_rest[number] = 1;
	box_sweep(w, number, NULL);
}

/* ---- its end ---- */

static bool had_oom(const struct box *b)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	struct cgroup_stats stats = { 0 };
	char name[16];

	slot_name(b->slot.number, name);
	return cgroup_open(&b->w->host.top, name, &g, &(struct err){ 0 }) == 0 &&
	       cgroup_stats_read(&g, &stats, &(struct err){ 0 }) == 0 && stats.oom_kills > 0;
}

/* Its PID 1 has ended, END says how unless nobody knows. */
static void note_end(struct box *b, const struct process_end *end, bool was_watched)
{
	struct ending_records records;
	struct err e;

	KILL_POINT("warden.end.seen");
	cpu_throttle_release(b);
	ending_read(b->slot.dir, &records);
	b->file.stage = BOX_OVER;
	b->file.ending = ending_of(&records, end, was_watched, had_oom(b));
	if (box_file_write(b->slot.dir, &b->file, &e) < 0)
		log_warn("cannot note the end of a box, ignoring", LOG_S("id", b->file.id), LOG_ERR(&e));
	b->is_paused = false;
	b->needs_kill = true;
	log_info("sandbox ended", LOG_S("id", b->file.id), LOG_U("reason", b->file.ending.reason),
		 LOG_D("exit_code", b->file.ending.exit_code));
}

static void on_end(unsigned ready, void *arg)
{
	struct box *b = arg;
	struct process_end end;
	bool is_known = process_wait(b->slot.pidfd, 0, &end, &(struct err){ 0 }) == 0; /* not of another warden's child */

	(void)ready;
	io_del(&b->end_io);
	b->has_ended = true;
	if (b->file.stage == BOX_REMOVING) {
		timer_in(&b->timer, 2 * CLEAR_UP_MS - loop_now_ms(b->w->loop) % CLEAR_UP_MS);
		tell_removed(b);
	}
	if (b->file.stage != BOX_RUNNING)
		return;
	note_end(b, is_known ? &end : NULL, true);
	KILL_POINT("warden.end.noted");
	peers_tell_ended(b->w, b->file.id, &b->file.ending);
	box_next_work(b);
}

static int watch_end(struct box *b, struct err *e)
{
	return io_add(&b->end_io, b->w->loop, b->slot.pidfd, IO_IN, on_end, b, "end of a box", e);
}

/* ---- work that may block, one at a time ---- */

static int kill_work(void *arg, struct err *e)
{
	struct box *b = arg;

	return slot_kill(&b->w->host, &b->slot, e);
}

static void on_killed(const struct err *failure, void *arg)
{
	struct box *b = arg;

	if (failure) {
		log_warn("processes of a box are left, trying again", LOG_S("id", b->file.id), LOG_ERR(failure));
		b->needs_kill = true;
		if (b->file.stage != BOX_REMOVING) {
			box_retry_later(b);
			return;
		}
	}
	box_next_work(b);
}

/* Of one whose processes are all dead, and whose files go with its disk. Not of one that did not go at once. */
static bool is_quick_to_remove(const struct box *b)
{
	return b->has_ended && b->slot.pidfd >= 0 && b->tries == 0 && box_store_has_limits(&b->w->host.store);
}

void box_next_work(struct box *b)
{
	if (worker_is_busy(&b->worker))
		return;
	if (b->file.stage == BOX_REMOVING) {
		(is_quick_to_remove(b) ? worker_start_quick : worker_start)(&b->worker, &b->w->removers, remove_work, on_removed, b,
									     take_fd(&b->mounts));
	} else if (b->needs_kill) {
		b->needs_kill = false;
		worker_start(&b->worker, &b->w->workers, kill_work, on_killed, b, -1);
	}
}

/* ---- creating ---- */

/* Removes it, and then tells why. When execd itself said why it could not start the entrypoint, that is why. */
static void fail(struct box *b, const struct err *why)
{
	struct ending_records records = { 0 };

	b->failure = *why;
	if (b->slot.dir >= 0)
		ending_read(b->slot.dir, &records);
	if (records.has_failed)
		ending_failure(&records, &b->failure);
	start_removal(b);
}

static void on_ready(unsigned ready, void *arg)
{
	struct box *b = arg;
	struct err e;
	int r = slot_wake_finish(&b->slot, b->ready, &e);

	(void)ready;
	if (r == 0)
		return;
	if (r > 0) {
		KILL_POINT("warden.create.ready");
		ready_guess(b->w, &b->like);
		stop_waking(b);
		slot_settle(&b->slot);
		b->file.stage = BOX_RUNNING;
		if (box_file_write(b->slot.dir, &b->file, &e) < 0 || watch_end(b, &e) < 0)
			r = -1;
	}
	if (r < 0) {
		fail(b, &e);
		return;
	}
	KILL_POINT("warden.create.running");
	box_answer_waiters(b, WIRE_CREATE, NULL);
	KILL_POINT("warden.create.told");
}

static void tell_late(const struct box *b, struct err *e)
{
	if (b->is_waiting)
		(void)err_set(e, ERR_TIMEOUT, "no free slot within %d ms", BOX_SLOT_MS);
	else if (b->volumes && b->volumes->opening)
		(void)err_set(e, ERR_TIMEOUT, "its volumes are not open after %d ms", VOLUMES_OPEN_MS);
	else if (b->is_waking && box_net_is_pending(b))
		(void)err_sys(e, ENETDOWN, "%s (waited %d ms)", b->w->network.egress ? "its network is not set up yet" :
				"opensandbox-egress is not running", NETWORK_BIND_MS);
	else if (b->create)
		(void)err_set(e, ERR_TIMEOUT, "the image is not unpacked after %d ms", BOX_IMAGE_MS);
	else
		(void)err_set(e, ERR_TIMEOUT, "execd is not ready after %d ms", BOX_WAKE_MS);
}

static void on_timer(void *arg)
{
	struct box *b = arg;
	struct err e;

	if (box_net_waits_on(b))
		return;
	if (b->file.stage == BOX_STARTING) {
		tell_late(b, &e);
		fail(b, &e);
		return;
	}
	box_thaw_again(b);
	box_next_work(b);
}

/* From here on it is the box of this id, though there may be nothing else of it. */
static int name_box(struct box *b, const struct wire_request *rq, struct err *e)
{
	struct warden *w = b->w;

	b->file = (struct box_file){ .stage = BOX_STARTING, .network = rq->network };
	(void)snprintf(b->file.id, sizeof(b->file.id), "%s", rq->id);
	memcpy(b->file.boot, w->boot, sizeof(b->file.boot));
	return map_put(&w->by_id, str_of(b->file.id), b) ? 0 : err_no_memory(e);
}

static int wake(struct box *b, const struct wire_request *rq, const struct image_use *use, int spec, struct err *e)
{
	struct slot_layer layers[WIRE_LAYERS_MAX + 1] = { 0 };
	struct slot_order order = {
		.limits = box_limits_of(rq), .layers = layers, .n_layers = b->stack.n, .dir = use->dir,
		.has_host_usr = use->has_host_usr, .spec = spec, .hostname = b->file.id, .address = b->net ? b->net->address : 0,
		.volumes = b->volumes ? b->volumes->list : NULL, .n_volumes = b->volumes ? b->volumes->asked.n : 0,
	};

	KILL_POINT("warden.create.claimed");
	if (b->stack.n > 0)
		memcpy(layers, b->stack.layers, b->stack.n * sizeof(layers[0]));
	if (use->layer[0])
		memcpy(layers[order.n_layers++].name, use->layer, sizeof(use->layer));
	b->ready = slot_wake_start(&b->w->host, &b->slot, &order, e);
	box_volumes_free(b); /* they are the child's now */
	if (b->ready < 0 || io_add(&b->ready_io, b->w->loop, b->ready, IO_IN, on_ready, b, "box that starts", e) < 0)
		return -1;
	timer_in(&b->timer, BOX_WAKE_MS);
	return 0;
}

static int hold(struct box *b, const struct wire_request *rq, const struct box_fds *fds, struct err *e)
{
	if (b->create)
		return 0;
	b->create = malloc(sizeof(*b->create));
	if (!b->create)
		return err_no_memory(e);
	*b->create = (struct waiting_create){ .rq = *rq, .fds = { fcntl(fds->spec, F_DUPFD_CLOEXEC, 3), -1 } };
	if (b->create->fds.spec >= 0)
		b->create->fds.record = fcntl(fds->record, F_DUPFD_CLOEXEC, 3);
	if (b->create->fds.record < 0)
		return err_sys(e, errno, "keep the description of the sandbox");
	timer_in(&b->timer, BOX_IMAGE_MS);
	return 0;
}

static void on_image(const struct err *failure, void *arg);
static void on_volumes(struct box *b, const struct err *failure);

static bool is_claimed(const struct box *b, const struct image_use *use)
{
	return b->file.pid == b->slot.pid && strcmp(b->file.layer, use->layer) == 0;
}

/* It comes by again when its volumes are open and when egress knows of it. */
static int start(struct box *b, const struct wire_request *rq, const struct image_use *use,
		 const struct box_fds *fds, struct err *e)
{
	KILL_POINT("warden.create.slot_taken");
	b->w->n_starting += !b->is_waking;
	b->is_waking = true;
	if (b->net && box_net_bind(b, e) < 0)
		return -1;
	if (!is_claimed(b, use) && box_claim(b, rq, use, fds->record, e) < 0)
		return -1;
	if (b->volumes && b->volumes->opening)
		return 0;
	if (b->volumes && !b->volumes->is_open)
		return hold(b, rq, fds, e) < 0 ? -1 : box_volumes_open(b, on_volumes, e);
	if (box_net_is_pending(b)) {
		if (hold(b, rq, fds, e) < 0)
			return -1;
		timer_in(&b->timer, NETWORK_BIND_MS);
		return 0;
	}
	return wake(b, rq, use, fds->spec, e);
}

/* Begins with what the request asks for, or waits: for its image, then for a slot. */
static int begin(struct box *b, const struct wire_request *rq, const struct box_fds *fds, struct err *e)
{
	struct image_use use;
	int k = image_find(b->w, rq->image, &use, e);

	if (k < 0)
		return -1;
	if (k > 0)
		box_find_like(b, rq, &use, fds->spec);
	if (k > 0 && (b->has_slot || ready_take(b->w, &b->like, &b->slot))) {
		b->has_slot = true;
		return start(b, rq, &use, fds, e);
	}
	if (hold(b, rq, fds, e) < 0)
		return -1;
	if (k == 0) {
		image_wait(b->w, rq->image, &b->create->wait, on_image, b);
	} else {
		timer_in(&b->timer, BOX_SLOT_MS);
		ready_wait(b->w, b);
	}
	return 0;
}

/* What it waited for is there. The image is looked for once more, which may have changed while it waited for a slot. */
static void go_on(struct box *b)
{
	struct err e = { 0 };

	if (begin(b, &b->create->rq, &b->create->fds, &e) < 0)
		fail(b, &e);
	else if (!b->create->wait.at && !b->is_waiting && !b->volumes && !box_net_is_pending(b))
		drop_held(b);
}

static void on_volumes(struct box *b, const struct err *failure)
{
	if (failure)
		fail(b, failure);
	else
		go_on(b);
}

void box_bound(struct box *b, const struct err *failure)
{
	if (failure)
		fail(b, failure);
	else if (b->create && b->is_waking)
		go_on(b);
}

static void on_image(const struct err *failure, void *arg)
{
	struct box *b = arg;
	struct err stopping;

	if (!failure && b->w->is_stopping) {
		(void)err_set(&stopping, ERR_UNAVAILABLE, "stopping");
		failure = &stopping;
	}
	if (failure)
		fail(b, failure);
	else
		go_on(b);
}

void box_start(struct box *b, struct slot *slot)
{
	b->slot = *slot;
	b->has_slot = true;
	*slot = SLOT_INIT;
	go_on(b);
}

void box_fail_start(struct box *b, const struct err *why)
{
	fail(b, why);
}

void box_create(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes,
		const int *passed,
		const struct ticket *t)
{
	const struct box_fds fds = { passed[0], passed[1] };
	struct box *b = NULL;
	struct err e;

	KILL_POINT("warden.create.asked");
	if (box_check_create(w, rq, &e) < 0 || !(b = box_new(w, &e)) || box_add_waiter(b, t, &e) < 0) {
		answer(w, t, &e);
		if (b)
			box_free(b);
		return;
	}
	if (name_box(b, rq, &e) < 0 || box_net_keep(b, rq->network, rq->network == WIRE_NET_POLICY ?
						    passed[2] : -1, &e) < 0 ||
	    box_volumes_keep(b, volumes, &e) < 0 || begin(b, rq, &fds, &e) < 0)
		fail(b, &e);
	ready_note(w);
	KILL_POINT("warden.create.woken");
}

/* ---- taking up ---- */

int box_take_up(struct warden *w, const struct box_file *file, struct stack *stack, struct slot *slot, bool is_paused,
		struct err *e)
{
	struct box *b;

	if (map_get(&w->by_id, str_of(file->id)))
		return err_set(e, ERR_CONFLICT, "there are two boxes of sandbox '%s'", file->id);
	b = box_new(w, e);
	if (!b)
		return -1;
	b->file = *file;
	b->is_paused = is_paused;
	if (!map_put(&w->by_id, str_of(b->file.id), b)) {
		box_free(b);
		return err_no_memory(e);
	}
	b->stack = *stack;
	*stack = (struct stack){ 0 };
	b->slot = *slot;
	b->has_slot = true;
	*slot = SLOT_INIT;
	cpu_throttle_adopt(b);
	b->has_ended = b->slot.pidfd < 0;
	box_net_adopt(b);
	if (file->stage == BOX_RUNNING && b->slot.pidfd < 0)
		note_end(b, NULL, false);
	b->needs_kill = b->file.stage == BOX_OVER; /* an earlier warden may have been cut before it was done */
	if (b->slot.pidfd >= 0 && watch_end(b, e) < 0) {
		*slot = b->slot;
		b->slot = SLOT_INIT;
		box_free(b);
		return -1;
	}
	box_next_work(b);
	return 0;
}
