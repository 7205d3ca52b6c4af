// SPDX-License-Identifier: Apache-2.0
#include "warden/warden.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "box/preflight.h"
#include "sys/fd.h"
#include "sys/limits.h"
#include "sys/memfd.h"
#include "sys/mounts.h"
#include "sys/overlay.h"
#include "sys/process.h"
#include "sys/signals.h"
#include "warden/adopt.h"
#include "warden/box.h"
#include "warden/host_image.h"
#include "warden/layer_pack.h"
#include "warden/layers.h"
#include "warden/peer.h"
#include "warden/ready.h"
#include "warden/snapshot.h"
#include "warden/sweep.h"

#include "base/banned.h"

#define LOCK_NAME "warden.lock"
#define STATE_ATTR "trusted.opensandbox.state"
#define WORKERS_MAX 16
#define REMOVERS_MAX 3
#define FREEZERS_MAX 8
#define REMOVERS_NICE 10 /* nobody waits for them */
#define DRAIN_MS 10000
#define SLOW_MS 100 /* S10: a callback that takes longer is a defect */
#define ROOM_TRIES 25
#define ROOM_PAUSE_MS 200
#define TRIAL_MS 60000 /* the first box after the start of a machine: modules of the kernel are loaded for it */
#define GROUPS_MS 1000
#define PROBLEMS_MAX ((size_t)64 * 1024)
#define TRIAL_SPEC "{\"id\":\"preflight\",\"entrypoint\":[]}"

/* ---- what is ours alone ---- */

/* A lock of the process, not of the descriptor: workers and boxes do not inherit it. */
static int lock_state(struct warden *w, const char *state_dir, struct err *e)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	AUTO_FD dir = -1;

	if (mkdir(state_dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", state_dir);
	dir = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, errno, "open '%s'", state_dir);
	w->lock = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (w->lock < 0)
		return err_sys(e, errno, "open '%s/" LOCK_NAME "'", state_dir);
	if (fcntl(w->lock, F_SETLK, &whole) == 0)
		return 0;
	w->is_locked_out = errno == EAGAIN || errno == EACCES;
	if (w->is_locked_out)
		return err_set(e, ERR_CONFLICT, "another warden runs on '%s'", state_dir);
	return err_sys(e, errno, "lock '%s'", state_dir);
}

/* The groups below the top have numbers, which mean something only together with the folders of one state directory: a
 * top that has groups of another one is not ours to clean. The lock file stands for the directory. */
static int claim_groups(struct warden *w, struct err *e)
{
	int dir = w->host.top.dirs[0], other;
	char mine[64], tag[64];
	struct stat st, top;
	ssize_t n;

	for (size_t i = 0; dir < 0 && i < w->host.layout.n; i++)
		dir = w->host.top.dirs[i];
	if (fstat(w->lock, &st) < 0 || fstat(dir, &top) < 0)
		return err_sys(e, errno, "look at our own folders");
	(void)snprintf(mine, sizeof(mine), "%llx:%llx", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	n = fgetxattr(dir, STATE_ATTR, tag, sizeof(tag));
	other = n >= 0 && !str_eq((struct str){ tag, (size_t)n }, str_of(mine));
	if (n < 0 && errno != ENODATA)
		return err_sys(e, errno, "read the tag of group '%s'", w->host.top.path);
	if (other && top.st_nlink > 2)
		return err_set(e, ERR_CONFLICT, "group '%s' has boxes of another state directory: choose another prefix",
			       w->host.top.path);
	if ((n < 0 || other) && fsetxattr(dir, STATE_ATTR, mine, strlen(mine), 0) < 0)
		return err_sys(e, errno, "tag group '%s'", w->host.top.path);
	return 0;
}

/* ---- proving the host ---- */

/* P6: the first box is for nobody. It needs all that a box needs, from control groups to execd, so what this host lacks is
 * found now and named by the step that misses it. */
static int try_box(struct warden *w, struct err *e)
{
	struct slot_layer layer = { 0 };
	struct slot_order order = { .limits = { .memory_bytes = UINT64_C(64) << 20, .cpu_milli = 1000, .pids = 64 },
				    .layers = &layer, .n_layers = 1, .has_host_usr = true, .hostname = "preflight" };
	AUTO(slot_done) struct slot slot = SLOT_INIT;
	AUTO_FD spec = memfd_sealed_bytes("spec", STR(TRIAL_SPEC), e);
	int number = spec < 0 ? -1 : number_take(w, e), r;

	if (number < 0)
		return -1;
	order.spec = spec;
	memcpy(layer.name, w->host_layer, sizeof(layer.name));
	r = slot_make(&w->host, (unsigned)number, NULL, &slot, e);
	if (r == 0) {
		r = slot_wake(&w->host, &slot, &order, TRIAL_MS, e);
		KILL_POINT("warden.start.trial");
		if (slot_destroy(&w->host, &slot, r < 0 ? &(struct err){ 0 } : e) < 0)
			return -1;
	}
	number_free(w, (unsigned)number);
	return r;
}

/* What is only advised is told in one line, by a start that succeeds; `opensandbox-server doctor` tells the rest. */
static void warn(const struct preflight_report *r)
{
	AUTO(buf_done) struct buf names = BUF_INIT(PROBLEMS_MAX);

	for (size_t i = 0; i < r->n; i++)
		if (r->at[i].outcome == PREFLIGHT_WARNING)
			buf_addf(&names, "%s%s", names.n > 0 ? ", " : "", r->at[i].check->name);
	if (names.n > 0)
		log_warn("this host could be set up better: see 'opensandbox-server doctor'", LOG_S("settings", buf_z(&names)));
}

/* A host that has boxes has proven itself, and they must stay within reach when it is short of something now. */
static int preflight(struct warden *w, const struct preflight_report *r, size_t alive, struct err *e)
{
	int rc = preflight_refuse(r, &w->problems, e);

	if (rc == 0 && w->host_layer[0]) {
		rc = try_box(w, e);
		if (rc < 0 && w->network.is_on && alive == 0) { /* it may be the network alone that cannot be had */
			network_give_up(w, e);
			rc = try_box(w, e);
		}
	}
	if (rc == 0 && w->host_layer[0])
		return 0;
	if (alive == 0)
		return err_wrap(e, "this host cannot hold sandboxes");
	log_error("no further sandbox can be made at the moment", LOG_ERR(e), LOG_STR("lacking", buf_str(&w->problems)));
	buf_clear(&w->problems);
	return 0;
}

/* Where a step fails because of something that the checks found missing, that and all else that is missing is the
 * error: one start is enough to know everything. */
static int explain(struct warden *w, const struct preflight_report *r, struct err *e)
{
	struct err all = { 0 };

	if (w->problems.n > 0 || preflight_refuse(r, &w->problems, &all) == 0)
		return -1;
	buf_addf(&w->problems, "the step that failed: %s\n", e->msg);
	*e = all;
	return err_wrap(e, "this host cannot hold sandboxes");
}

/* ---- stopping ---- */

static void on_stop_by(void *arg)
{
	struct warden *w = arg;

	log_warn("stopping with requests that have no answer", LOG_U("pending", w->pending));
	loop_stop(w->loop);
}

/* What was told as removed is gone before we are, unless it takes too long: then the next start goes on with it. */
static bool is_removing(const struct warden *w)
{
	for (const struct box *b = w->boxes; b; b = b->next)
		if (b->file.stage == BOX_REMOVING)
			return true;
	return false;
}

void warden_answered(struct warden *w)
{
	if (w->is_stopping && w->pending == 0 && !is_removing(w))
		loop_stop(w->loop);
}

static void on_signal(unsigned ready, void *arg)
{
	struct warden *w = arg;
	struct err e;
	int signo;

	(void)ready;
	while (signals_read(w->signals, &signo, NULL, &e) > 0) {
		if (w->is_stopping)
			loop_stop(w->loop); /* told twice */
		w->is_stopping = true;
		io_want(&w->accept, 0);
		timer_in(&w->stop_by, DRAIN_MS);
	}
	warden_answered(w);
}

static int open_signals(struct warden *w, struct err *e)
{
	sigset_t set = SIGNALS(SIGTERM, SIGINT);

	if (signals_block(&set, e) < 0)
		return -1;
	w->signals = signals_open(&set, e);
	if (w->signals < 0 || timer_init(&w->stop_by, w->loop, on_stop_by, w, "stop", e) < 0)
		return -1;
	return io_add(&w->signal, w->loop, w->signals, IO_IN, on_signal, w, "signals", e);
}

/* ---- the whole ---- */

static void on_slow(const char *name, uint64_t ms, void *arg)
{
	(void)arg;
	log_warn("the loop was held up", LOG_S("by", name), LOG_MS("took", ms));
}

static bool is_layer_used(const char *layer, void *arg)
{
	const struct warden *w = arg;

	if (strcmp(layer, w->host_layer) == 0)
		return true;
	for (const struct box *b = w->boxes; b; b = b->next)
		if (b->file.stage == BOX_RUNNING && box_stands_on(b, layer))
			return true;
	return w->has_unknown;
}

static int sweep_work(void *arg, struct err *e)
{
	struct warden *w = arg;

	return host_image_sweep(&w->host, is_layer_used, w, e);
}

static void on_swept(const struct err *failure, void *arg)
{
	struct warden *w = arg;

	if (failure) {
		log_warn("cannot remove layers of an earlier start, trying again", LOG_ERR(failure));
		w->has_old_layers = true;
		sweep_soon(w);
	} else if (w->has_old_layers)
		warden_layer_unused(w, "");
}

/* The worker sees the boxes as they are when it begins. */
void warden_layer_unused(struct warden *w, const char *layer)
{
	if (is_layer_used(layer, w) || !w->host_layer[0])
		return;
	if (layer[0] && !str_starts(str_of(layer), STR(HOST_IMAGE_PREFIX))) {
		images_sweep(w); /* of a tar, which may be another by now */
		return;
	}
	w->has_old_layers = worker_is_busy(&w->layers);
	if (!w->has_old_layers)
		worker_start(&w->layers, &w->workers, sweep_work, on_swept, w, -1);
}

/* What was removed before this start may still hold its blocks: the kernel takes disks apart later, and is told to hurry. */
static int make_host_image(struct warden *w, bool may_wait, struct err *e)
{
	for (int i = 0;; i++) {
		if (host_image_make(&w->host, w->host_layer, e) == 0)
			return 0;
		if (!may_wait || e->sys != ENOSPC || i == ROOM_TRIES)
			return -1;
		(void)syncfs(w->host.store.disks);
		(void)poll(NULL, 0, ROOM_PAUSE_MS);
	}
}

/* As with the preflight: a full disk must not keep us from the boxes that there are. */
static int take_up_all(struct warden *w, size_t *alive, struct err *e)
{
	struct err swept = { 0 };

	if (adopt_all(w, alive, e) < 0)
		return -1;
	if (make_host_image(w, *alive == 0, e) < 0) {
		if (*alive == 0)
			return -1;
		log_error("there is no image 'host' until the next start", LOG_ERR(e));
	}
	KILL_POINT("warden.start.image_made");
	if (host_image_sweep(&w->host, is_layer_used, w, &swept) < 0 || box_layers_sweep(&w->host.store, STORE_ALL, &swept) < 0)
		log_warn("cannot remove layers of an earlier start, ignoring", LOG_ERR(&swept));
	return 0;
}

/* The store is mounted for this process and for boxes alone: with the last of them nothing is left of it. */
static int leave_mounts(struct err *e)
{
	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, errno, "make a mount namespace");
	return mount_slave_all(e);
}

/* What needs the host to be as the checks want it. */
static int open_boxes(struct warden *w, const struct warden_spec *spec, const struct preflight_report *r, size_t *alive,
		      struct err *e)
{
	const struct box_host_spec hs = { .prefix = spec->prefix, .state_dir = spec->state_dir, .execd_path = spec->execd,
					  .disk_size_bytes = spec->disk_size_bytes, .disk_reserve_bytes = spec->disk_reserve_bytes,
					  .no_disk_limit = spec->no_disk_limit };

	if (leave_mounts(e) < 0 || box_host_open(&w->host, &hs, e) < 0)
		return -1;
	w->has_host = true;
	if (claim_groups(w, e) < 0)
		return -1;
	network_open(w, &spec->network, spec->prefix, spec->state_dir);
	if (take_up_all(w, alive, e) < 0 || network_take_up(w, e) < 0)
		return -1;
	return preflight(w, r, *alive, e);
}

/* Not before the loop turns: what comes before may take long, and would be silence. */
static int begin_pulse(struct warden *w, int fd, struct err *e)
{
	return fd < 0 ? 0 : pulse_start(&w->pulse, w->loop, &fd, e);
}

int warden_open(struct warden *w, const struct warden_spec *spec, struct err *e)
{
	const struct preflight_host host = { .state_dir = spec->state_dir, .is_start = true };
	struct preflight_report report;
	size_t alive = 0;

	*w = (struct warden){ .lock = -1, .pulse = PULSE_INIT, .listener = -1, .signals = -1, .server_uid = spec->server_uid,
			      .want_parked = spec->slots, .problems = BUF_INIT(PROBLEMS_MAX), .layers = WORKER_INIT };
	limits_raise(RLIMIT_NOFILE); /* each box costs some, and the default of 1,024 is soon gone */
	w->loop = loop_new(e);
	if (!w->loop)
		return -1;
	loop_set_slow(w->loop, SLOW_MS, on_slow, NULL);
	w->workers = (struct workers){ .loop = w->loop, .max = WORKERS_MAX };
	w->freezers = (struct workers){ .loop = w->loop, .max = FREEZERS_MAX };
	w->removers = (struct workers){ .loop = w->loop, .max = REMOVERS_MAX, .nice = REMOVERS_NICE };
	if (spec->pulse >= 0 && fd_set_cloexec(spec->pulse, true, e) < 0)
		return -1;
	if (open_signals(w, e) < 0 || lock_state(w, spec->state_dir, e) < 0 || boot_id_read(w->boot, e) < 0)
		return -1;
	preflight_run(&host, &report);
	if (open_boxes(w, spec, &report, &alive, e) < 0)
		return explain(w, &report, e);
	if (images_open(w, &spec->images, e) < 0 || volumes_open(w, &spec->volumes, e) < 0 || sweep_open(w, e) < 0 || ready_open(w, e) < 0 ||
	    cpu_throttles_open(w, e) < 0 || guard_open(w, e) < 0 || peers_open(w, spec->listener, e) < 0 ||
		    begin_pulse(w, spec->pulse, e) < 0)
		return -1;
	KILL_POINT("warden.start.ready");
	warn(&report);
	log_info("warden is ready", LOG_U("boxes", alive), LOG_S("store", box_store_driver(&w->host.store)),
		 LOG_S("overlays", overlay_way_name(w->host.overlay_way)));
	return 0;
}

int warden_run(struct warden *w, struct err *e)
{
	return loop_run(w->loop, e);
}

/* A box that is over keeps its files, and needs nothing of the kernel. */
static bool is_needed(const struct warden *w)
{
	for (const struct box *b = w->boxes; b; b = b->next)
		if (b->has_slot && !b->has_ended)
			return true;
	return w->has_unknown;
}

/* What boxes that are over have left, and then the top: with processes in it, it stays. */
static void remove_groups(struct warden *w)
{
	struct err e = { 0 };

	if (cgroup_remove_top(&w->host.layout, w->host.top.path, GROUPS_MS, &e) < 0)
		log_warn("groups are left for the next start to remove", LOG_ERR(&e));
}

void warden_done(struct warden *w)
{
	bool is_last;

	if (!w->loop)
		return;
	peers_done(w);
	cpu_throttles_done(w);
	guard_done(w);
	ready_done(w);
	sweep_done(w);
	is_last = w->has_host && !is_needed(w);
	network_stop_changing(w);
	boxes_done(w); /* with their networks, which links go with */
	network_done(w, is_last);
	snapshots_done(w);
	layers_done(w);
	layer_packs_done(w);
	images_done(w);
	volumes_done(w);
	worker_forget(&w->layers);
	io_del(&w->signal);
	timer_done(&w->stop_by);
	pulse_done(&w->pulse);
	closep(&w->signals);
	if (is_last)
		remove_groups(w);
	if (w->has_host)
		box_host_done(&w->host);
	closep(&w->lock);
	buf_done(&w->problems);
	loop_free(w->loop);
	w->loop = NULL;
}
