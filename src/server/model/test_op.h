// SPDX-License-Identifier: Apache-2.0
/* server/model/test_op.h - for tests: a queue of operations whose steps are written into a log; the test plays the runtime. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "server/model/op.h"

#define CALLERS_MAX 16

struct bench {
	char dir[64];
	struct loop *loop;
	uint64_t now_ms;
	struct store *store;
	struct sandbox sandbox;
	struct op_queue q;
	char log[1024];
	void *asked; /* the operation that asked the runtime last */
	enum op_check check;
	unsigned room, room_seen;
	bool is_refused; /* the store does not take intents */
	struct caller {
		struct bench *of;
		const char *name;
	} callers[CALLERS_MAX];
	unsigned n_callers;
	struct err e;
};

static const struct runtime_failure away = { .code = "AWAY", .status = 503, .err = { .code = ERR_UNAVAILABLE } };
static const struct runtime_failure broken = { .code = "BROKEN", .status = 500, .err = { .code = ERR_IO } };

/* ---- the log ---- */

static inline struct bench *bench_of(const struct op *op)
{
	return container_of((uintptr_t)op->queue, struct bench, q);
}

static inline void note(struct bench *b, const char *what, const struct op *op)
{
	const struct caller *c = op->arg;
	size_t n = strlen(b->log);

	if (c && !c->name)
		return;
	(void)snprintf(b->log + n, sizeof(b->log) - n, "%s %s; ", what, c ? c->name : "-");
}

static inline void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in '%s'", part, text);
}

static inline void on_end(struct sandbox *sb, const struct fault *f, void *arg)
{
	const struct caller *c = arg;
	struct bench *b = c->of;
	size_t n = strlen(b->log);

	assert_true(!f || !sb);
	b->room_seen = b->room;
	if (c->name && f)
		(void)snprintf(b->log + n, sizeof(b->log) - n, "%s %u; ", c->name, f->status);
	else if (c->name)
		(void)snprintf(b->log + n, sizeof(b->log) - n, "%s done; ", c->name);
}

/* ---- the steps ---- */

static inline void step_ask(struct op *op)
{
	note(bench_of(op), "ask", op);
	bench_of(op)->asked = op;
}

static inline void step_failed(struct op *op, const struct runtime_failure *failure)
{
	struct fault f;

	(void)fault_set(&f, failure->status, NULL, failure->code, "failed");
	op_finish(op, &f);
}

static inline void step_done(struct op *op, const struct fault *unsaved)
{
	assert_null(unsaved);
	op_succeed(op);
}

static inline void step_told(struct op *op)
{
	assert_false(op->queue->is_busy);
	note(bench_of(op), "told", op);
}

static inline void step_overdue(struct op *op)
{
	note(bench_of(op), "overdue", op);
}

static inline enum op_check step_check(struct op *op, struct fault *f)
{
	if (bench_of(op)->check == OP_REFUSE)
		(void)fault_set(f, 409, NULL, "REFUSED", "refused");
	return bench_of(op)->check;
}

/* The set of these tests is the bench itself. */
static inline int step_admit(struct sandboxes *s, struct fault *f)
{
	struct bench *b = (struct bench *)s;

	if (b->room == 0)
		return fault_set(f, 429, NULL, "FULL", "full");
	b->room--;
	return 0;
}

static inline void step_release(struct sandboxes *s)
{
	((struct bench *)s)->room++;
}

static inline bool step_waits(struct op *op)
{
	(void)op;
	return true;
}

static inline void step_intent(struct op *op, struct store_tx *tx)
{
	static const char *entrypoint[] = { "x" };
	const struct sandbox_row row = { .id = "11-11", .image = "host", .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
					 .reason = "R", .message = "M" };

	note(bench_of(op), "intent", op);
	for (int i = 0; bench_of(op)->is_refused && i < 2; i++)
		store_tx_insert(tx, &row); /* the second is one too many */
	store_tx_meta(tx, "intent", STR("yes"));
}

static inline void step_undo(struct op *op, const struct fault *f)
{
	note(bench_of(op), "undo", op);
	op_finish(op, f);
}

static inline void step_commit(struct op *op, struct store_tx *tx)
{
	note(bench_of(op), "commit", op);
	store_tx_meta(tx, "intent", STR("no"));
}

static inline bool step_at_once(struct op *op)
{
	(void)op;
	return true;
}

static inline void step_join(struct op *op)
{
	struct fault f;

	note(bench_of(op), "join", op);
	(void)fault_set(&f, 500, NULL, "FAILED", "failed");
	if (op->stored == OP_AWAITED || op->answered == OP_AWAITED)
		return;
	if (op->answered == OP_YES)
		op_succeed(op);
	else
		op_finish(op, &f);
}

#define STEPS .size = sizeof(struct op), .ask = step_ask, .failed = step_failed, .done = step_done
static const struct op_type change = { .name = "change", STEPS };
static const struct op_type removal = { .name = "removal", STEPS, .is_removal = true };
static const struct op_type late_removal = { .name = "late removal", STEPS, .is_removal = true, .waits = step_waits };
static const struct op_type limited = { .name = "limited", STEPS, .admit = step_admit, .release = step_release };
static const struct op_type checked = { .name = "checked", STEPS, .check = step_check };
static const struct op_type told = { .name = "told", STEPS, .told = step_told };
static const struct op_type timed = { .name = "timed", STEPS, .overdue = step_overdue };
static const struct op_type stubborn = { .name = "stubborn", STEPS, .tries = 2 };
static const struct op_type whole = { .name = "whole", STEPS, .intent = step_intent, .undo = step_undo, .commit = step_commit };
static const struct op_type parallel = { .name = "parallel", STEPS, .intent = step_intent, .asks_at_once = step_at_once, .join = step_join };

/* ---- the bench ---- */

static inline uint64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now_ms;
}

static inline int bench_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void bench_start(struct bench *b)
{
	enum store_fault fault;

	*b = (struct bench){ .now_ms = 1000 };
	log_set_fd(-1);
	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/op-test.XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	b->loop = loop_new(&b->e);
	assert_non_null(b->loop);
	loop_set_clock(b->loop, bench_now, b);
	b->store = store_open(b->dir, &fault, &b->e);
	assert_non_null(b->store);
	assert_int_equal(store_start(b->store, b->loop, &b->e), 0);
	b->sandbox.set = (struct sandboxes *)b;
	b->sandbox.row.id = "11-11";
	assert_int_equal(op_queue_init(&b->q, &b->sandbox, b->loop, b->store, &b->e), 0);
}

static inline void bench_stop(struct bench *b)
{
	op_queue_done(&b->q);
	store_close(b->store);
	loop_free(b->loop);
	assert_int_equal(nftw(b->dir, bench_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
	log_set_fd(2);
}

static inline void turn(struct bench *b)
{
	assert_int_equal(loop_turn(b->loop, 0, &b->e), 0);
	assert_int_equal(loop_turn(b->loop, 0, &b->e), 0);
}

static inline void pass(struct bench *b, uint64_t ms)
{
	b->now_ms += ms;
	turn(b);
	turn(b);
}

/* The store answers when it has written. */
static inline void wait_for(struct bench *b, const char *log)
{
	for (int i = 0; i < 3000 && strcmp(b->log, log) != 0; i++)
		assert_int_equal(loop_turn(b->loop, 1, &b->e), 0);
	assert_string_equal(b->log, log);
}

static inline struct caller *caller(struct bench *b, const char *name)
{
	struct caller *c = &b->callers[b->n_callers++ % CALLERS_MAX];

	*c = (struct caller){ b, name };
	return c;
}

/* NAME NULL: it leaves no trace in the log. */
static inline struct op *add(struct bench *b, const struct op_type *type, const char *name)
{
	struct fault f;
	struct op *op = op_admit(b->sandbox.set, &b->q, type, on_end, caller(b, name), &f);

	assert_non_null(op);
	op_add(&b->q, op);
	return op;
}
