// SPDX-License-Identifier: Apache-2.0
#include "warden/calls.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/guest.h"
#include "base/own.h"
#include "sys/cgroup_stats.h"
#include "sys/link.h"
#include "sys/memfd.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/passing.h"
#include "warden/box.h"
#include "warden/box_record.h"
#include "warden/layer_pack.h"
#include "warden/layers.h"
#include "warden/network.h"
#include "warden/peer.h"
#include "warden/snapshot.h"
#include "warden/snapshot_record.h"
#include "warden/volumes.h"
#include "warden/warden.h"

#include "base/banned.h"

/* ---- dialling ---- */

/* A socket of the box's own network: what execd gets from it belongs there too. The folder is ours alone. */
static int dial_execd(const struct box *b, struct err *e)
{
	AUTO_FD fd = netns_socket(b->slot.netns, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, e);
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -1;
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d/execd.sock", b->slot.dir);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		if (errno == EAGAIN) {
			(void)err_set(e, ERR_UNAVAILABLE, "too many wait for execd of sandbox '%s'", b->file.id);
			e->sys = EAGAIN; /* whoever asked asks again */
			return -1;
		}
		return err_sys(e, errno, "connect to execd of sandbox '%s'", b->file.id);
	}
	return take_fd(&fd);
}

static int dial(const struct box *b, unsigned port, struct err *e)
{
	if (b->file.stage != BOX_RUNNING || b->is_paused)
		return err_set(e, ERR_CONFLICT, "sandbox '%s' does not run", b->file.id);
	if (port == 0)
		return dial_execd(b, e);
	return netns_socket(b->slot.netns, AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, e);
}

static void call_dial(struct box *b, const struct wire_request *rq, const struct ticket *t)
{
	struct wire_reply rp = { 0 };
	struct err e;
	AUTO_FD fd = dial(b, rq->port, &e);

	if (fd < 0)
		answer(b->w, t, &e);
	else
		answer_with(b->w, t, &rp, &fd, 1);
}

/* ---- creating ---- */

/* P2: a descriptor of the server's goes into the sandbox only when it is what it has to be. */
static int check_sealed(int fd, off_t max, const char *what, struct err *e)
{
	const int want = F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & want) != want || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "the %s of the sandbox is not sealed", what);
	if (st.st_size > max)
		return err_set(e, ERR_LIMIT, "the %s of the sandbox has more than %lld bytes", what, (long long)max);
	return 0;
}

static void call_create(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes, const int *fds,
			const struct ticket *t)
{
	struct err e;

	if (check_sealed(fds[0], GUEST_SPEC_MAX, "description", &e) < 0 || check_sealed(fds[1], WIRE_RECORD_MAX, "record", &e) < 0 ||
	    (rq->network == WIRE_NET_POLICY && check_sealed(fds[2], WIRE_POLICY_MAX, "policy", &e) < 0) || guard_check(w, &e) < 0)
		answer(w, t, &e);
	else
		box_create(w, rq, volumes, fds, t);
}

/* ---- records ---- */

static int set_record(const struct box *b, int fd, struct err *e)
{
	if (b->file.stage != BOX_RUNNING && b->file.stage != BOX_OVER)
		return err_set(e, ERR_CONFLICT, "sandbox '%s' does not run", b->file.id);
	if (check_sealed(fd, WIRE_RECORD_MAX, "record", e) < 0)
		return -1;
	return box_record_replace(b->slot.dir, &b->file, &b->stack, fd, e);
}

static void call_record_set(struct box *b, const struct passed *got, const struct ticket *t)
{
	struct err e;

	answer(b->w, t, set_record(b, got->fds[0], &e) < 0 ? &e : NULL);
}

/* R: whether TEXT could be read, or E. */
static void answer_record(struct warden *w, const struct ticket *t, int r, const struct buf *text, struct err *e)
{
	struct wire_reply rp = { 0 };
	AUTO_FD fd = r < 0 ? -1 : memfd_sealed_bytes("record", buf_str(text), e);

	if (fd < 0)
		answer(w, t, e);
	else
		answer_with(w, t, &rp, &fd, 1);
}

static void call_record_get(const struct box *b, const struct ticket *t)
{
	AUTO(buf_done) struct buf text = BUF_INIT(WIRE_RECORD_MAX);
	struct err e = { 0 };

	answer_record(b->w, t, box_record_read(b->slot.dir, NULL, NULL, &text, &e), &text, &e);
}

static void call_snapshot_record(struct warden *w, const struct wire_request *rq, const struct passed *got, const struct ticket *t)
{
	AUTO(buf_done) struct buf text = BUF_INIT(WIRE_RECORD_MAX);
	struct err e = { 0 };
	int r;

	if (rq->call == WIRE_RECORD_GET) {
		answer_record(w, t, snapshot_record_read(w, rq, &text, &e), &text, &e);
		return;
	}
	r = check_sealed(got->fds[0], WIRE_RECORD_MAX, "record", &e);
	if (r == 0)
		r = snapshot_record_write(w, rq, got->fds[0], &e);
	answer(w, t, r < 0 ? &e : NULL);
}

/* ---- looking ---- */

static void call_logs(struct box *b, const struct ticket *t)
{
	AUTO_FD first = openat(b->slot.dir, "log.0", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD second = openat(b->slot.dir, "log.1", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const int fds[] = { first, second };
	struct wire_reply rp = { 0 };
	struct err e;

	if (first < 0 || second < 0) {
		(void)err_sys(&e, errno, "open the log of sandbox '%s'", b->file.id);
		answer(b->w, t, &e);
		return;
	}
	answer_with(b->w, t, &rp, fds, ARRAY_LEN(fds));
}

/* What the host's end of the link has sent, the sandbox has received. Without the link it is nothing. */
static void read_traffic(const struct box *b, struct wire_stats *ret)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	char name[LINK_NAME_MAX + 1];
	struct link_row row;
	struct err e = { 0 };

	if (!b->net)
		return;
	box_network_link(&b->w->host.network, b->slot.number, name);
	if (netlink_open(&nl, NETLINK_ROUTE, -1, &e) < 0 || link_find(&nl, name, &row, &e) < 0)
		return;
	ret->net_in_bytes = row.tx_bytes;
	ret->net_out_bytes = row.rx_bytes;
	ret->net_in_packets = row.tx_packets;
	ret->net_out_packets = row.rx_packets;
	ret->net_refused_packets = box_net_refused(b);
}

static int read_stats(const struct box *b, struct wire_stats *ret, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	struct cgroup_stats s;
	char name[16];

	slot_name(b->slot.number, name);
	if (cgroup_open(&b->w->host.top, name, &g, e) < 0 || cgroup_stats_read(&g, &s, e) < 0)
		return -1;
	*ret = (struct wire_stats){ .cpu_usec = s.cpu_usage_us, .memory_bytes = s.memory_bytes,
				    .memory_peak_bytes = s.memory_peak_bytes, .pids = s.pids, .oom_kills = s.oom_kills,
				    .io_read_bytes = s.io_read_bytes, .io_written_bytes = s.io_written_bytes };
	read_traffic(b, ret);
	return box_disk_usage(&b->w->host.store, name, &ret->disk_bytes, e);
}

static void call_stats(struct box *b, const struct ticket *t)
{
	struct wire_reply rp = { .state = box_state(b) };
	struct err e;

	if (read_stats(b, &rp.stats, &e) < 0)
		answer(b->w, t, &e);
	else
		answer_with(b->w, t, &rp, NULL, 0);
}

static void call_list(struct warden *w, const struct ticket *t)
{
	for (const struct box *b = w->boxes; b; b = b->next) {
		struct wire_reply rp = { .state = box_state(b) };

		if (!b->file.id[0])
			continue;
		memcpy(rp.id, b->file.id, sizeof(rp.id));
		if (b->file.stage == BOX_OVER)
			rp.ending = b->file.ending;
		answer_row(w, t, &rp);
	}
	answer(w, t, NULL);
}

/* ---- all of them ---- */

static void unknown(struct warden *w, const struct wire_request *rq, const struct ticket *t)
{
	struct err e;

	(void)err_set(&e, ERR_NOT_FOUND, "there is no sandbox '%s'", rq->id);
	answer(w, t, rq->call == WIRE_REMOVE ? NULL : &e);
}

/* Its image is being unpacked. */
static void not_yet(const struct box *b, const struct ticket *t)
{
	struct err e;

	(void)err_set(&e, ERR_CONFLICT, "sandbox '%s' does not run", b->file.id);
	answer(b->w, t, &e);
}

/* What is not about a box that there is. */
static bool handle_general(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes,
			   const struct ticket *t, struct passed *got)
{
	switch ((enum wire_call)rq->call) {
	case WIRE_CREATE: call_create(w, rq, volumes, got->fds, t); return true;
	case WIRE_LIST: call_list(w, t); return true;
	case WIRE_SNAPSHOT_REMOVE: snapshot_layer_remove(w, rq, t); return true;
	case WIRE_SNAPSHOTS: snapshots_list(w, t); return true;
	case WIRE_LAYER_ADD: layers_add(w, rq, got, t); return true;
	case WIRE_LAYER_DROP: layers_drop(w, rq, t); return true;
	case WIRE_LAYERS: layers_list(w, t); return true;
	case WIRE_LAYER_PACK: layer_pack(w, rq, got, t); return true;
	case WIRE_VOLUME_MAKE:
	case WIRE_VOLUME_REMOVE: volume_call(w, rq, t); return true;
	case WIRE_VOLUMES: volumes_list(w, t); return true;
	case WIRE_RECORD_SET:
	case WIRE_RECORD_GET:
		if (rq->n_layers == 0)
			break;
		call_snapshot_record(w, rq, got, t);
		return true;
	case WIRE_PAUSE:
	case WIRE_RESUME:
	case WIRE_REMOVE:
	case WIRE_DIAL:
	case WIRE_LOGS:
	case WIRE_STATS:
	case WIRE_SNAPSHOT:
	case WIRE_ENDED: break;
	}
	return false;
}

void calls_handle(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes, const struct ticket *t,
		  struct passed *got)
{
	struct box *b;

	if (handle_general(w, rq, volumes, t, got))
		return;
	b = map_get(&w->by_id, str_of(rq->id));
	if (!b) {
		unknown(w, rq, t);
		return;
	}
	if (!b->has_slot && rq->call != WIRE_REMOVE) {
		not_yet(b, t);
		return;
	}
	switch ((enum wire_call)rq->call) {
	case WIRE_PAUSE: box_pause(b, t); break;
	case WIRE_RESUME: box_resume(b, t); break;
	case WIRE_REMOVE: box_remove(b, t); break;
	case WIRE_DIAL: call_dial(b, rq, t); break;
	case WIRE_LOGS: call_logs(b, t); break;
	case WIRE_STATS: call_stats(b, t); break;
	case WIRE_SNAPSHOT: snapshot_take(b, rq, t); break;
	case WIRE_RECORD_SET: call_record_set(b, got, t); break;
	case WIRE_RECORD_GET: call_record_get(b, t); break;
	case WIRE_CREATE:
	case WIRE_LIST:
	case WIRE_SNAPSHOT_REMOVE:
	case WIRE_SNAPSHOTS:
	case WIRE_LAYER_ADD:
	case WIRE_LAYER_DROP:
	case WIRE_LAYERS:
	case WIRE_LAYER_PACK:
	case WIRE_VOLUME_MAKE:
	case WIRE_VOLUME_REMOVE:
	case WIRE_VOLUMES:
	case WIRE_ENDED: break; /* the last is no request, the others are done */
	}
}
