// SPDX-License-Identifier: Apache-2.0
/* The frame of operations: how they begin, fail and end, and who is told. */
#include "client/op.h"

#include <assert.h>
#include <stdio.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/exchange.h"
#include "client/model.h"
#include "client/sandbox.h"

#include "base/banned.h"

static struct osb_call *call_of(struct op *op)
{
	return container_of(op, struct osb_call, op);
}

/* ---- ends ---- */

/* Everything that the operation holds but its error. */
static void op_clear(struct op *op)
{
	exchanges_free(op);
	timer_done(&op->deadline);
	timer_done(&op->pause);
	defer_cancel(&op->later);
	buf_done(&op->body);
	if (op->result)
		op->result_free(op->result);
	op->result = NULL;
	arena_done(&op->arena);
	op->sandbox = NULL;
	op->state_now = OP_IDLE;
}

static void op_give_result(struct op *op)
{
	void *result = op->result;

	if (op->error.kind != OSB_OK || !op->ret || !result)
		return;
	memcpy(op->ret, &result, sizeof(result));
	op->result = NULL;
}

static void call_destroy(struct osb_call *call)
{
	struct osb_client *c = call->client;

	op_clear(&call->op);
	*(call->prev ? &call->prev->next : &c->calls) = call->next;
	if (call->next)
		call->next->prev = call->prev;
	wake_unref(call->wake);
	free(call);
}

/* From a clean stack: the last thing that an operation does. */
static void op_deliver(void *arg)
{
	struct op *op = arg;
	struct osb_call *call = call_of(op);

	if (call->is_dead) {
		call_destroy(call);
		return;
	}
	call->error = op->error;
	op_give_result(op);
	op_clear(op);
	if (call->fn) /* the user may have changed his mind meanwhile */
		call->fn(call, call->arg);
}

static void op_finish(struct op *op)
{
	if (op->state_now == OP_OVER)
		return;
	op->state_now = OP_OVER;
	op_stop_asking(op);
	timer_cancel(&op->deadline);
	timer_cancel(&op->pause);
	if (op->on_end)
		op->on_end(op);
	if (!op->is_waited_for)
		defer(&op->later, op->client->loop, op_deliver, op, "operation");
}

void op_done(struct op *op)
{
	if (!op_is_over(op))
		op_finish(op);
}

void op_undone(struct op *op)
{
	if (op->state_now == OP_UNDOING)
		op_finish(op);
}

static void op_failed(struct op *op)
{
	exchanges_stop(op, true);
	buf_clear(&op->body); /* what it had begun to write is not for who undoes it */
	timer_cancel(&op->pause);
	op->state_now = OP_UNDOING;
	timer_in(&op->deadline, OP_UNDO_MS);
	if (!op->undo || !op->undo(op))
		op_finish(op);
}

static void put_what(struct op *op)
{
	char text[sizeof(op->error.message)];

	memcpy(text, op->error.message, sizeof(text));
	(void)snprintf(op->error.message, sizeof(op->error.message), "%s: %s", op->what, text); /* a long one is cut */
}

void op_fail_as(struct op *op, const struct osb_error *e)
{
	if (op_is_over(op))
		return;
	op->error = *e;
	put_what(op);
	op_failed(op);
}

void op_fail(struct op *op, enum osb_kind kind, const char *code, const char *fmt, ...)
{
	struct osb_error e = { 0 };
	va_list ap;

	va_start(ap, fmt);
	error_setv(&e, kind, code, fmt, ap);
	va_end(ap);
	op_fail_as(op, &e);
}

void op_fail_err(struct op *op, const struct err *from)
{
	struct osb_error e = { 0 };

	error_from_err(&e, from);
	op_fail_as(op, &e);
}

void op_no_memory(struct op *op)
{
	op_fail(op, OSB_MEMORY, NULL, "out of memory");
}

/* A buffer does not say which of the two it was; one that has not even been half full hardly met its ceiling. */
void op_fail_buf(struct op *op, const struct buf *b, const char *what)
{
	if (b->n < b->max / 2)
		op_fail(op, OSB_MEMORY, NULL, "out of memory, or %s of more than %zu bytes", what, b->max);
	else
		op_fail(op, OSB_INVALID, NULL, "%s of more than %zu bytes", what, b->max);
}

static void on_deadline(void *arg)
{
	struct op *op = arg;

	if (op->state_now == OP_UNDOING)
		op_finish(op);
	else
		op_fail(op, OSB_TIMEOUT, NULL, "it took longer than %u ms", call_of(op)->deadline_ms);
}

/* ---- beginnings ---- */

static void on_pause_end(void *arg)
{
	struct op *op = arg;

	if (!op_is_over(op))
		op->on_pause(op);
}

void op_pause(struct op *op, uint64_t ms, void (*fn)(struct op *op))
{
	if (op_is_over(op))
		return;
	op->on_pause = fn;
	timer_in(&op->pause, ms);
}

static struct op *refuse(struct osb_client *c, struct osb_error *where, const char *what, const char *why)
{
	error_set(&c->error, OSB_INVALID, NULL, "%s: %s", what, why);
	c->error.http_status = 0;
	c->error.request_id[0] = '\0';
	if (where)
		*where = c->error;
	return NULL;
}

static void op_start(struct op *op, struct osb_client *c, const char *what, void *ret)
{
	struct osb_call *call = call_of(op);
	struct err e = { 0 };

	*op = (struct op){ .client = c, .what = what, .ret = ret, .arena = ARENA_INIT(OP_ARENA_MAX),
			   .body = BUF_INIT(OP_BODY_MAX), .state_now = OP_RUNNING, .is_waited_for = !call->fn };
	atomic_store(&call->is_cancelled, false);
	loop_look_at_clock(c->loop);
	if (timer_init(&op->deadline, c->loop, on_deadline, op, "operation", &e) < 0 ||
	    timer_init(&op->pause, c->loop, on_pause_end, op, "pause of an operation", &e) < 0) {
		error_set(&op->error, OSB_MEMORY, NULL, "%s: out of memory", what);
		op->state_now = OP_OVER;
		if (!op->is_waited_for)
			defer(&op->later, c->loop, op_deliver, op, "operation");
		return;
	}
	if (call->deadline_ms > 0)
		timer_in(&op->deadline, call->deadline_ms);
}

struct op *op_begin(struct osb_client *c, struct osb_call *call, const char *what, void *ret)
{
	if (!call)
		call = &c->own;
	if (call->client != c)
		return refuse(c, NULL, what, "the call is another client's");
	if (c->is_closing)
		return refuse(c, NULL, what, "the client is being freed");
	if (!call->fn && c->is_turning)
		return refuse(c, call->op.state_now == OP_IDLE ? &call->error : NULL, what,
			      "waiting inside a callback");
	if (call->op.state_now != OP_IDLE)
		return refuse(c, NULL, what, "the call is busy");
	op_start(&call->op, c, what, ret);
	return &call->op;
}

struct op *op_begin_in(struct osb_sandbox *s, struct osb_call *call, const char *what, void *ret)
{
	struct op *op = op_begin(s->client, call, what, ret);

	if (op)
		op->sandbox = s;
	return op;
}

int op_run(struct op *op)
{
	struct osb_client *c = op->client;
	struct osb_call *call = call_of(op);
	struct err e = { 0 };

	if (!op->is_waited_for)
		return 0;
	while (op->state_now != OP_OVER)
		if (client_turn(c, -1, &e) < 0) {
			op_fail_err(op, &e);
			op_finish(op);
		}
	call->error = op->error;
	c->error = op->error;
	op_give_result(op);
	if (call->is_dead) /* freed by a call back, in the middle of its own operation */
		call_destroy(call);
	else
		op_clear(op);
	return c->error.kind == OSB_OK ? 0 : -1;
}

static void free_plainly(void *result)
{
	result_free(result);
}

void op_result(struct op *op, void *result, void (*free_fn)(void *))
{
	assert(!op->result);
	op->result = result;
	op->result_free = free_fn ? free_fn : free_plainly;
}

/* ---- calls ---- */

struct osb_call *osb_call_new(struct osb_client *c)
{
	struct osb_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->client = c;
	call->wake = c->wake;
	atomic_fetch_add(&call->wake->holders, 1);
	call->next = c->calls;
	if (call->next)
		call->next->prev = call;
	c->calls = call;
	return call;
}

void osb_call_free(struct osb_call *call)
{
	if (!call || call->is_dead)
		return;
	if (!call->client) { /* which went first, and with it all that was under way */
		wake_unref(call->wake);
		free(call);
		return;
	}
	if (call->op.state_now == OP_IDLE) {
		call_destroy(call);
		return;
	}
	call->is_dead = true;
	call->op.ret = NULL;
	op_fail(&call->op, OSB_CANCELLED, NULL, "the call was freed");
	if (call->op.state_now == OP_OVER && !call->client->is_turning)
		call_destroy(call);
}

void osb_call_on_done(struct osb_call *call, osb_done_fn *fn, void *arg)
{
	call->fn = fn;
	call->arg = arg;
}

void osb_call_set_deadline(struct osb_call *call, unsigned ms)
{
	call->deadline_ms = ms;
}

void osb_call_set_request_id(struct osb_call *call, const char *id)
{
	(void)snprintf(call->request_id, sizeof(call->request_id), "%s", id ? id : ""); /* a long one is cut */
}

/* For signal handlers, too: one store and one write(2). */
void osb_call_cancel(struct osb_call *call)
{
	const uint64_t one = 1;
	int saved = errno;

	atomic_store(&call->is_cancelled, true);
	(void)!write(call->wake->fd, &one, sizeof(one)); /* one that is full wakes as well */
	errno = saved;
}

bool osb_call_is_busy(const struct osb_call *call)
{
	return call->op.state_now != OP_IDLE;
}

const struct osb_error *osb_call_error(const struct osb_call *call)
{
	return &call->error;
}
