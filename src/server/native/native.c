// SPDX-License-Identifier: Apache-2.0
#include "server/native/native.h"

#include <netinet/in.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "base/uuid.h"
#include "box/wire.h"
#include "image/reference.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/transport.h"
#include "server/images/pull.h"
#include "server/native/native_impl.h"
#include "server/runtime/completion.h"
#include "server/runtime/runtime.h"
#include "server/runtime/runtime_log.h"
#include "sys/memfd.h"
#include "sys/passing.h"

#include "base/banned.h"

#define AGAIN_MS 50
#define BUSY_MS 5000 /* for execd to take the connections that wait for it */
#define RETRY_FIRST_MS 5U
#define RETRY_LAST_MS 100U

/* ---- the operations ---- */

void native_call_simple(struct runtime *rt, enum wire_call kind, const char *id, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, kind, completion_done(fn, arg));
	struct wire_request rq = { 0 };

	if (!c)
		return;
	native_call_send(c, id, &rq, -1);
}

static void native_pause(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	native_call_simple(rt, WIRE_PAUSE, id, fn, arg);
}

static void native_resume(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	native_call_simple(rt, WIRE_RESUME, id, fn, arg);
}

static void native_remove(struct runtime *rt, const char *id, runtime_done_fn *fn, void *arg)
{
	native_call_simple(rt, WIRE_REMOVE, id, fn, arg);
}

/* Its number, as the warden counts: the host's own first; -1. */
static int image_number(const struct native *n, const char *name)
{
	if (strcmp(name, "default") == 0 && n->default_image)
		name = n->default_image;
	if (strcmp(name, "host") == 0)
		return WIRE_IMAGE_HOST;
	for (size_t i = 0; i < n->n_images; i++)
		if (strcmp(n->images[i].key, name) == 0)
			return (int)i + 1;
	return -1;
}

static int native_check_image(struct runtime *rt, const char *uri, struct err *e)
{
	struct native *n = native_of(rt);
	struct reference ref;

	if (image_number(n, uri) >= 0)
		return 0;
	if (n->puller)
		return reference_parse(str_of(uri), &ref, e);
	return err_set(e, ERR_INVALID,
		       "there is no image '%s': it is either 'host', the programs of the server's own machine, or the name of an image that its operator has configured, or 'default', the one of these that the operator has chosen",
		       SHOWN(str_of(uri)));
}

struct wire_request native_request(const struct runtime_spec *spec, uint32_t image)
{
	return (struct wire_request){
		.image = image,
		.network = native_network(spec),
		.limits = { spec->limits.cpu_milli, spec->limits.memory_bytes, spec->limits.pids, spec->limits.disk_bytes, 0 },
	};
}

static void native_create(struct runtime *rt, const struct runtime_spec *spec, runtime_done_fn *fn, void *arg)
{
	int image = spec->image_digest ? -1 : image_number(native_of(rt), spec->image);
	struct wire_request rq = native_request(spec, (uint32_t)image);
	struct call *c;
	AUTO_FD fd = -1;

	if (image < 0 && native_of(rt)->puller) {
		native_image_create(native_of(rt), spec, fn, arg);
		return;
	}
	c = native_call_new(rt, WIRE_CREATE, completion_done(fn, arg));
	if (!c)
		return;
	fd = image < 0 ? native_check_image(rt, spec->image, &c->failure) : native_spec_make(spec, NULL, &c->failure);
	if (fd < 0 || native_add_layers(&rq, spec->base, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_create_send(c, spec, &rq, fd);
}

static void native_dial(struct runtime *rt, const char *id, unsigned port, runtime_dial_fn *fn, void *arg)
{
	struct call *c = native_call_new(rt, WIRE_DIAL, completion_dial(fn, arg));
	struct wire_request rq = { .port = port == PORT_EXECD ? 0 : port };

	if (!c)
		return;
	c->port = rq.port;
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	if (port == PORT_EGRESS)
		native_dial_egress(c);
	else
		native_call_send(c, id, &rq, -1);
}

/* ---- answers ---- */

void native_dialed(struct transport *t, const struct err *e, void *arg)
{
	struct call *c = arg;
	runtime_dial_fn *fn = c->done.fn.dial;
	void *fn_arg = c->done.arg;

	c->dialing = NULL;
	if (!t) {
		native_call_fail(c, e);
		return;
	}
	native_call_free(c);
	fn(t, NULL, fn_arg);
}

static void answer_dial(struct call *c, struct passed *got)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)c->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct transport *t;
	struct err e = { 0 };

	if (got->n_fds != 1) {
		(void)err_set(&e, ERR_INTERNAL, "the warden sent no socket");
		native_call_fail(c, &e);
	} else if (c->port == 0) {
		t = transport_plain(got->fds[0], &e);
		if (t)
			(void)take_fd(&got->fds[0]);
		native_dialed(t, &e, c);
	} else {
		c->dialing = dial_fd(c->n->loop, &got->fds[0], (struct sockaddr *)&to, sizeof(to), 0, native_dialed, c, &e);
		if (!c->dialing)
			native_call_fail(c, &e);
	}
}

static void dial_again(void *arg)
{
	struct call *c = arg;
	struct wire_request rq = { .port = c->port };

	native_call_send(c, c->id, &rq, -1);
}

/* As many connections wait for execd as its socket holds, and nothing tells when it has taken one: asked again in a while,
 * up to a limit. False: that is over, or it is another failure. */
static bool waits_for_room(struct call *c, const struct err *why)
{
	struct err ignored;

	if (c->kind != WIRE_DIAL || why->sys != EAGAIN)
		return false;
	if (c->retry_ms == 0) {
		c->busy_until_ms = loop_now_ms(c->n->loop) + BUSY_MS;
		if (timer_init(&c->retry, c->n->loop, dial_again, c, "dial execd again", &ignored) < 0)
			return false;
	}
	c->retry_ms = c->retry_ms ? MIN(2 * c->retry_ms, RETRY_LAST_MS) : RETRY_FIRST_MS;
	if (loop_now_ms(c->n->loop) >= c->busy_until_ms)
		return false;
	timer_in(&c->retry, c->retry_ms);
	return true;
}

enum runtime_state native_state_of(uint32_t state)
{
	static const enum runtime_state states[] = {
		[WIRE_STARTING] = RUNTIME_STARTING, [WIRE_RUNNING] = RUNTIME_RUNNING, [WIRE_PAUSED] = RUNTIME_PAUSED,
		[WIRE_OVER] = RUNTIME_ENDED,
	};

	return states[state];
}

struct runtime_end native_end_of(const struct wire_ending *w)
{
	static const enum runtime_end_reason reasons[] = {
		[WIRE_END_EXITED] = RUNTIME_END_EXITED, [WIRE_END_INIT] = RUNTIME_END_INIT,
		[WIRE_END_KILLED] = RUNTIME_END_KILLED, [WIRE_END_LOST] = RUNTIME_END_LOST,
	};

	return (struct runtime_end){ reasons[w->reason], w->exit_code, w->signal, w->oom };
}

static void answer(struct call *c, const struct wire_reply *rp, struct passed *got)
{
	runtime_done_fn *fn = c->done.fn.done;
	void *arg = c->done.arg;

	if (rp->failed) {
		if (!waits_for_room(c, &rp->err))
			native_call_fail(c, &rp->err);
		return;
	}
	switch (c->kind) {
	case WIRE_DIAL:
		answer_dial(c, got);
		return;
	case WIRE_LOGS:
		native_answer_logs(c, got);
		return;
	case WIRE_STATS:
		if (c->done.kind == COMPLETION_INFO)
			native_answer_inspect(c, rp);
		else
			native_answer_stats(c, &rp->stats);
		return;
	case WIRE_LIST:
		native_answer_list(c, rp);
		return;
	case WIRE_SNAPSHOT:
		native_answer_snapshot(c, &rp->snapshot);
		return;
	case WIRE_SNAPSHOTS:
	case WIRE_VOLUMES:
		native_answer_names(c, rp);
		return;
	case WIRE_LAYERS:
		native_answer_layers(c, rp);
		return;
	case WIRE_LAYER_DROP:
		native_answer_drop(c);
		return;
	case WIRE_LAYER_PACK:
		native_answer_packed(c, &rp->layer);
		return;
	case WIRE_RECORD_GET:
		native_answer_record(c, got);
		return;
	case WIRE_CREATE:
	case WIRE_PAUSE:
	case WIRE_RESUME:
	case WIRE_REMOVE:
	case WIRE_SNAPSHOT_REMOVE:
	case WIRE_LAYER_ADD:
	case WIRE_VOLUME_MAKE:
	case WIRE_VOLUME_REMOVE:
	case WIRE_RECORD_SET:
	case WIRE_ENDED:
		break;
	}
	native_call_free(c);
	fn(NULL, arg);
}

static struct call *call_find(struct native *n, const struct wire_reply *rp)
{
	for (struct call *c = n->calls; c; c = c->next)
		if (c->serial == rp->serial && c->kind == rp->call && !c->dialing)
			return c;
	return NULL;
}

/* ---- the connection ---- */

static void disconnect(struct native *n)
{
	struct err e = { 0 };
	uint64_t last = n->serial;

	io_del(&n->io);
	native_queue_drop(n);
	closep(&n->fd);
	n->fd = -1;
	n->was_away = true;
	n->are_layers_known = false;
	timer_in(&n->again, AGAIN_MS);
	(void)err_set(&e, ERR_UNAVAILABLE, "the warden went away");
	for (struct call *c = n->calls; c;) { /* a completion may begin new ones: those are not meant */
		if (c->serial <= last && !c->dialing && !c->later.loop) {
			native_call_fail(c, &e);
			c = n->calls;
		} else {
			c = c->next;
		}
	}
}

static void take_message(struct native *n, const struct wire_reply *rp, struct passed *got)
{
	struct call *c;
	struct runtime_end end;

	if (rp->call == WIRE_ENDED) {
		end = native_end_of(&rp->ending);
		if (n->rt.events)
			n->rt.events->ended(rp->id, &end, n->rt.events_arg);
		return;
	}
	c = call_find(n, rp);
	if (c)
		answer(c, rp, got);
}

static void on_io(unsigned ready, void *arg)
{
	struct native *n = arg;

	if (ready & IO_OUT)
		native_queue_flush(n);
	for (int i = 0; i < 64 && n->fd >= 0; i++) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		char bytes[sizeof(struct wire_reply) + 1];
		struct wire_reply rp;
		struct err e = { 0 };
		int r = passing_recv(n->fd, bytes, sizeof(bytes), 2, &got, &e);

		if (r == PASSING_NONE)
			return;
		if (r != PASSING_MESSAGE || wire_check_reply(bytes, got.n, &rp, &e) < 0)
			disconnect(n);
		else
			take_message(n, &rp, &got);
	}
}

static void on_again(void *arg)
{
	struct native *n = arg;
	struct err e = { 0 };

	n->fd = passing_connect(n->path, &e);
	if (n->fd >= 0 && io_add(&n->io, n->loop, n->fd, IO_IN, on_io, n, "warden", &e) < 0) {
		closep(&n->fd);
		n->fd = -1;
	}
	if (n->fd < 0) {
		timer_in(&n->again, AGAIN_MS);
		return;
	}
	native_layers_ask(n);
	if (n->was_away && n->rt.events && n->rt.events->returned)
		n->rt.events->returned(n->rt.events_arg);
}

static void native_free(struct runtime *rt)
{
	struct native *n = native_of(rt);

	while (n->calls)
		native_call_free(n->calls);
	native_images_done(n);
	native_image_calls_done(n);
	native_exports_done(n);
	native_collect_done(n);
	native_layers_done(n);
	native_network_done(n);
	native_denials_done(n);
	native_queue_drop(n);
	io_del(&n->io);
	timer_done(&n->again);
	closep(&n->fd);
	refusals_done(&n->refusals);
	if (n->owns_puller)
		puller_free(n->puller);
	free(n);
}

static struct runtime_capabilities what_it_can(const struct runtime_native_spec *spec)
{
	static const struct runtime_platform here = { "linux", NATIVE_ARCH };
	const unsigned some = 1U << RUNTIME_NET_OPEN | 1U << RUNTIME_NET_POLICY;

	return (struct runtime_capabilities){
		.platforms = &here, .n_platforms = 1,
		.limits = LIMIT_CPU | LIMIT_MEMORY | LIMIT_PIDS | (spec->has_no_disk_limit ? 0 : LIMIT_DISK),
		.networks = 1U << RUNTIME_NET_NONE | (spec->has_network ? some : 0), .network_lacks = spec->network_lacks,
		.pauses = true, .snapshots = true, .exports_snapshots = spec->puller, .forks = true, .rolls_back = true,
		.images = spec->puller, .image_archives = spec->puller, .volumes = true, .host_paths = true, .logs = true, .stats = true,
	};
}

struct runtime *runtime_native(struct loop *l, const struct runtime_native_spec *spec, struct err *e)
{
	static const struct runtime_ops ops = {
		.create = native_create,   .pause = native_pause, .resume = native_resume, .remove = native_remove,
		.dial = native_dial,       .logs = native_logs,   .inspect = native_inspect, .stats = native_stats,
		.policy = native_policy,   .activity = native_activity,
		.record_set = native_record_set, .record_get = native_record_get,
		.list = native_list,       .snapshot_reference = native_snapshot_reference, .snapshot = native_snapshot,
		.snapshot_remove = native_snapshot_remove, .snapshots = native_snapshots, .snapshot_is_below = native_snapshot_is_below,
		.snapshots_released = native_snapshots_released, .snapshot_record_set = native_snapshot_record_set,
		.snapshot_export = native_snapshot_export,
		.volume_make = native_volume_make, .volume_remove = native_volume_remove, .volumes = native_volumes,
		.open = native_open, .images = native_images, .image_remove = native_image_remove, .image_pull = native_image_pull,
		.image_load = native_image_load, .image_save = native_image_save, .image_cancel = native_image_forget,
		.check_room = native_check_room,
		.cancel = native_image_cancel, .check_image = native_check_image, .free = native_free,
	};
	struct native *n = calloc(1, sizeof(*n));

	if (!n) {
		(void)err_no_memory(e);
		return NULL;
	}
	n->rt = (struct runtime){ .ops = &ops, .name = "native", .code_prefix = "NATIVE", .can = what_it_can(spec) };
	n->loop = l;
	n->images = spec->images;
	n->n_images = spec->n_images;
	n->default_image = spec->default_image;
	n->host_paths = spec->host_paths;
	n->scratch_dir = spec->scratch_dir;
	n->puller = spec->puller;
	n->owns_puller = spec->owns_puller;
	n->rt.shares_egress = true;
	n->fd = -1;
	if (refusals_init(&n->refusals, l, e) < 0 || snprintf(n->path, sizeof(n->path), "%s", spec->path) >= (int)sizeof(n->path) ||
	    snprintf(n->egress_path, sizeof(n->egress_path), "%s", spec->egress_path ? spec->egress_path : "") >=
		    (int)sizeof(n->egress_path) ||
	    timer_init(&n->again, l, on_again, n, "warden connection", e) < 0 || native_layers_open(n, e) < 0 ||
	    native_collect_open(n, e) < 0 || native_denials_open(n, e) < 0) {
		if (!n->again.loop && e->code == ERR_NONE)
			(void)err_set(e, ERR_INVALID, "the path of a socket is too long");
		native_denials_done(n);
		native_collect_done(n);
		native_layers_done(n);
		timer_done(&n->again);
		refusals_done(&n->refusals);
		free(n);
		return NULL;
	}
	on_again(n);
	return &n->rt;
}
