// SPDX-License-Identifier: Apache-2.0
/* Calls of the warden: what is remembered of them, what their failures are called, and how they end. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "net/dial.h"
#include "server/native/native_impl.h"
#include "sys/passing.h"

#include "base/banned.h"

#define CALL_MS 60000
#define CREATE_MS 600000
#define LAYER_MS (2 * 3600 * 1000) /* half an hour to unpack it, and others before it */

const struct runtime_failure native_no_memory = {
	.code = "SANDBOX_QUERY_FAILED", .status = 503, .err = { .code = ERR_UNAVAILABLE, .msg = "out of memory" },
};

void native_call_free(struct call *c)
{
	*(c->prev ? &c->prev->next : &c->n->calls) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	timer_done(&c->timer);
	timer_done(&c->retry);
	defer_cancel(&c->later);
	dial_cancel(c->dialing);
	free(c->rows);
	free(c);
}

/* What was not done in time is not done at all: the warden undoes it. */
static bool is_switch(enum wire_call kind)
{
	return kind == WIRE_PAUSE || kind == WIRE_RESUME;
}

static struct runtime_failure failure_of(const struct call *c, const struct err *e)
{
	static const char *const codes[] = {
		[WIRE_CREATE] = "SANDBOX_START_FAILED", [WIRE_PAUSE] = "SANDBOX_PAUSE_FAILED",
		[WIRE_RESUME] = "SANDBOX_RESUME_FAILED", [WIRE_REMOVE] = "SANDBOX_DELETE_FAILED",
		[WIRE_DIAL] = "SANDBOX_QUERY_FAILED",    [WIRE_LOGS] = "SANDBOX_QUERY_FAILED",
		[WIRE_STATS] = "SANDBOX_QUERY_FAILED",   [WIRE_LIST] = "SANDBOX_QUERY_FAILED",
		[WIRE_SNAPSHOT] = "SNAPSHOT_FAILED",     [WIRE_SNAPSHOT_REMOVE] = "SNAPSHOT_DELETE_FAILED",
		[WIRE_SNAPSHOTS] = "SANDBOX_QUERY_FAILED", [WIRE_LAYER_ADD] = RUNTIME_PULL_FAILED,
		[WIRE_LAYER_DROP] = "SANDBOX_QUERY_FAILED", [WIRE_LAYERS] = "SANDBOX_QUERY_FAILED",
		[WIRE_LAYER_PACK] = "SNAPSHOT_EXPORT_FAILED",
		[WIRE_VOLUME_MAKE] = "VOLUME_CREATE_FAILED", [WIRE_VOLUME_REMOVE] = "VOLUME_DELETE_FAILED",
		[WIRE_VOLUMES] = "SANDBOX_QUERY_FAILED",
		[WIRE_RECORD_SET] = "SANDBOX_QUERY_FAILED", [WIRE_RECORD_GET] = "SANDBOX_QUERY_FAILED",
	};
	struct runtime_failure f = { .code = codes[c->kind], .status = 500, .err = *e };

	if (c->kind == WIRE_CREATE && (native_is_volume_fault(e, &f) || native_is_network_fault(c->n, e, &f)))
		return f;
	if (err_is_disk_full(e)) {
		f.code = "INSUFFICIENT_STORAGE";
		f.status = 507;
		return f;
	}
	if (e->code == ERR_NOT_FOUND && c->kind != WIRE_CREATE && c->kind != WIRE_LAYER_PACK) {
		f.code = "SANDBOX_NOT_FOUND";
		f.status = 404;
	} else if (e->code == ERR_CONFLICT) {
		f.status = 409;
	} else if ((c->kind == WIRE_CREATE || c->kind == WIRE_VOLUME_MAKE) && e->code == ERR_UNAVAILABLE && e->sys == EDQUOT) {
		f.code = "DISK_LIMIT_UNSUPPORTED";
		f.status = 400;
	} else if (c->kind == WIRE_LAYER_ADD && (e->code == ERR_INVALID || e->code == ERR_LIMIT)) {
		(void)snprintf(f.says, sizeof(f.says), "%s", e->msg); /* about the blob, or the disk that it has no room on */
	} else if (c->kind == WIRE_CREATE && e->code == ERR_INVALID && e->sys == WIRE_FAULT_IMAGE_START) {
		f.status = 400;
	} else if (c->kind == WIRE_CREATE && e->code == ERR_INVALID) {
		(void)snprintf(f.says, sizeof(f.says), "%s", e->msg); /* about the entrypoint, from the sandbox itself, or the image */
	} else if (c->kind == WIRE_LAYER_PACK && e->code == ERR_INVALID) {
		f.status = 409;
		(void)snprintf(f.says, sizeof(f.says), "%s", e->msg); /* about the snapshot's files */
	} else if ((c->kind == WIRE_SNAPSHOT || c->kind == WIRE_LAYER_PACK) && e->code == ERR_LIMIT) {
		f.status = 507;
		(void)snprintf(f.says, sizeof(f.says), "%s", e->msg); /* about the sandbox's own files, or the room for all */
	} else if (e->code == ERR_UNAVAILABLE || e->code == ERR_LIMIT || (e->code == ERR_TIMEOUT && is_switch(c->kind))) {
		f.status = 503;
	}
	return f;
}

void native_call_fail(struct call *c, const struct err *e)
{
	struct runtime_failure f = failure_of(c, e);
	struct completion done = c->done;

	native_call_free(c);
	completion_fail(&done, &f);
}

static void on_later(void *arg)
{
	struct call *c = arg;
	struct err e = c->failure;

	native_call_fail(c, &e);
}

/* A completion never comes during the call. */
void native_call_fail_later(struct call *c)
{
	defer(&c->later, c->n->loop, on_later, c, "warden call");
}

static void on_timeout(void *arg)
{
	struct call *c = arg;
	struct err e = { 0 };

	(void)err_set(&e, ERR_TIMEOUT, "the warden does not answer");
	native_call_fail(c, &e);
}

static unsigned time_of(enum wire_call kind)
{
	if (kind == WIRE_LAYER_ADD || kind == WIRE_LAYER_PACK)
		return LAYER_MS;
	return kind == WIRE_CREATE || kind == WIRE_SNAPSHOT ? CREATE_MS : CALL_MS;
}

void native_refuse(struct native *n, struct completion done)
{
	refuse(&n->refusals, &done, &native_no_memory);
}

struct call *native_call_new(struct runtime *rt, enum wire_call kind, struct completion done)
{
	struct native *n = native_of(rt);
	struct call *c = calloc(1, sizeof(*c));
	struct err e;

	if (!c || timer_init(&c->timer, n->loop, on_timeout, c, "warden call", &e) < 0) {
		free(c);
		native_refuse(n, done);
		return NULL;
	}
	c->n = n;
	c->kind = kind;
	c->done = done;
	c->serial = ++n->serial;
	c->next = n->calls;
	if (c->next)
		c->next->prev = c;
	n->calls = c;
	timer_in(&c->timer, time_of(kind));
	return c;
}

void native_call_send_all(struct call *c, const char *id, struct wire_request *rq, size_t size, const int *fds, size_t n_fds)
{
	int sent;

	rq->version = WIRE_VERSION;
	rq->call = c->kind;
	rq->serial = c->serial;
	(void)snprintf(rq->id, sizeof(rq->id), "%s", id);
	if (c->n->fd < 0) {
		(void)err_set(&c->failure, ERR_UNAVAILABLE, "the warden is not there");
		native_call_fail_later(c);
		return;
	}
	sent = !message_queue_is_empty(&c->n->unsent) ? 0 : passing_send(c->n->fd, rq, size, fds, n_fds, &c->failure);
	if (sent == 0 && native_queue(c->n, rq, size, fds, n_fds, &c->failure) == 0)
		return;
	if (sent != 1)
		native_call_fail_later(c);
}

void native_call_send(struct call *c, const char *id, struct wire_request *rq, int fd)
{
	native_call_send_all(c, id, rq, wire_request_size(rq), &fd, fd >= 0);
}
