// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/own.h"
#include "base/uuid.h"
#include "execd/budget.h"
#include "execd/code/code_run.h"
#include "execd/env.h"
#include "execd/execd.h"
#include "net/http/server.h"

#include "base/banned.h"

#define SPEC_BYTES_MAX ((size_t)512 * 1024) /* of what a context is made with */
#define CONTEXT_JSON_MAX ((size_t)16 * 1024)

struct code_context {
	struct codes *of;
	struct code_context *prev, *next;
	char id[UUID_LEN + 1];
	struct arena arena;
	size_t granted; /* for that */
	struct code_spec spec;
	struct env env;
	struct identity as;
	bool is_default;

	size_t type_at; /* in the table of types */
	const struct code_driver_type *type;
	struct code_driver *driver; /* NULL: there is none now */
	bool is_ready;
	bool was_ready;     /* a driver of it has been */
	bool has_died;      /* the driver is to be ended */
	bool is_replaced;   /* the one before ended while nothing ran: nobody has been told */
	struct err why;     /* how it died */
	struct timer limit; /* for the start; for idle time */

	struct code_run *runs; /* the first one has the driver once it has begun */
	unsigned n_runs;
	struct reply *creator; /* waits for it to be ready */
	bool is_deleted;
	struct deferred turn;
};

static void advance(void *arg);

static void advance_soon(struct code_context *c)
{
	defer(&c->turn, c->of->host.host.loop, advance, c, "code context");
}

static struct code_run *current(const struct code_context *c)
{
	return c->runs && c->runs->has_begun && !c->runs->has_ended ? c->runs : NULL;
}

/* ---- runs ---- */

/* It has ended and has been read: nothing of its context is needed for that. */
static void on_run_done(void *arg)
{
	struct code_run *r = arg;

	for (struct code_run **at = &r->owner->ending; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			break;
		}
	code_run_free(r);
}

static void on_run_proceed(void *arg)
{
	struct code_run *r = arg;
	struct code_context *c = r->context;

	if (c && c->driver && !c->has_died && current(c) == r)
		c->type->proceed(c->driver);
}

/* The first run leaves its context: whoever reads it may take as long as it likes. */
static void detach_run(struct code_context *c)
{
	struct code_run *r = c->runs;

	c->runs = r->next;
	c->n_runs--;
	r->context = NULL;
	r->next = c->of->ending;
	c->of->ending = r;
}

static void end_run(struct code_context *c)
{
	struct code_run *r = c->runs;

	code_run_end(r);
	detach_run(c);
	advance_soon(c);
}

static void fail_run(struct code_context *c, const char *why, const char *more)
{
	struct code_run *r = c->runs;

	code_run_forget_code(r);
	code_run_fail(r, why, more);
	detach_run(c);
}

/* ---- what drivers tell ---- */

void code_ready(struct code_context *c)
{
	c->is_ready = c->was_ready = true;
	advance_soon(c);
}

size_t code_output(struct code_context *c, enum event_stream stream, struct str bytes)
{
	struct code_run *r = current(c);

	return r ? code_run_output(r, stream, bytes) : bytes.n;
}

bool code_result(struct code_context *c, const struct code_result *res)
{
	struct code_run *r = current(c);

	return !r || code_run_result(r, res);
}

bool code_error(struct code_context *c, const struct code_error *er)
{
	struct code_run *r = current(c);

	return !r || code_run_error(r, er);
}

void code_done(struct code_context *c)
{
	if (current(c))
		end_run(c);
}

void code_died(struct code_context *c, const struct err *why)
{
	c->has_died = true;
	c->why = *why;
	advance_soon(c);
}

/* ---- the driver ---- */

static void end_driver(struct code_context *c)
{
	if (c->driver)
		c->type->end(c->driver);
	c->driver = NULL;
	c->is_ready = c->has_died = false;
	timer_cancel(&c->limit);
}

static void on_limit(void *arg)
{
	struct code_context *c = arg;

	if (c->driver && !c->is_ready) {
		(void)err_set(&c->why, ERR_TIMEOUT, "it was not ready after %d seconds", CODE_START_MS / 1000);
		c->has_died = true;
		advance_soon(c);
	} else {
		log_info("a context was idle for too long", LOG_S("id", c->id), LOG_S("language", c->spec.language));
		code_context_delete(c);
	}
}

static int start_driver(struct code_context *c, struct err *e)
{
	c->driver = c->type->start(c, &c->of->host, &c->spec, e);
	if (!c->driver)
		return -1;
	timer_in(&c->limit, CODE_START_MS);
	return 0;
}

/* What the client of a context that was replaced must know. */
static void tell_replaced(struct code_context *c)
{
	char note[sizeof(c->why.msg) + 128];
	int n = snprintf(note, sizeof(note), "[the %s process of this context had ended (%s): this is a new one, without its state]\n",
			 c->spec.language, c->why.msg);

	(void)code_run_output(c->runs, EVENT_STDERR, (struct str){ note, MIN((size_t)n, sizeof(note) - 1) });
	c->is_replaced = false;
}

static void begin_run(struct code_context *c)
{
	struct code_run *r = c->runs;
	struct err e = { 0 };

	if (!r->rp) { /* nobody waits for it any more */
		fail_run(c, "the client went away", NULL);
		advance_soon(c);
		return;
	}
	timer_cancel(&c->limit);
	r->has_begun = true;
	if (c->is_replaced)
		tell_replaced(c);
	if (c->type->run(c->driver, buf_str(&r->code), &e) == 0) {
		code_run_forget_code(r);
		if (r->is_interrupted)
			c->type->interrupt(c->driver);
		return;
	}
	fail_run(c, e.msg, NULL);
	advance_soon(c);
}

/* ---- the creator ---- */

static void on_creator_gone(void *arg)
{
	struct code_context *c = arg;

	c->creator = NULL;
}

int code_context_answer(struct code_context *c, struct reply *rp, struct err *e)
{
	(void)e;
	c->creator = rp;
	return reply_hold(rp, on_creator_gone, c);
}

static void answer_creator(struct code_context *c, const struct err *why)
{
	AUTO(buf_done) struct buf json = BUF_INIT(CONTEXT_JSON_MAX);
	struct json_out o = json_out(&json);
	struct reply *rp = take_ptr(&c->creator);

	if (!rp)
		return;
	if (why) {
		bool is_full = err_is_disk_full(why);

		(void)reply_error(rp, is_full ? 507 : 500, is_full ? CODE_DISK_FULL : CODE_RUNTIME, "start %s: %s",
				  c->spec.language, why->msg);
		return;
	}
	code_context_write(c, &o);
	if (json.failed)
		(void)reply_error(rp, 500, CODE_RUNTIME, "out of memory");
	else
		(void)reply_json(rp, 200, &json);
}

/* ---- from the loop ---- */

static void context_free(struct code_context *c);

static bool is_oom(const struct err *why)
{
	return why->code == ERR_LIMIT && !why->sys;
}

static int find_type(struct code_context *c, struct err *e);

/* What could not be started at all may be run by the next driver that offers to. */
static bool try_next_type(struct code_context *c)
{
	struct err ignored = { 0 };

	if (c->was_ready)
		return false;
	end_driver(c);
	c->type_at++;
	return find_type(c, &ignored) == 0 && start_driver(c, &ignored) == 0;
}

static void bury_driver(struct code_context *c)
{
	struct err why = c->why;

	log_info("the process of a context has ended", LOG_S("id", c->id), LOG_S("language", c->spec.language), LOG_S("how", why.msg));
	if (try_next_type(c))
		return;
	if (!c->is_ready) /* what cannot start does so for nobody who waits */
		while (c->runs)
			fail_run(c, why.msg, NULL);
	else if (current(c))
		fail_run(c, why.msg, is_oom(&why) ? "oom_killed" : NULL);
	else
		c->is_replaced = true;
	end_driver(c);
	if (!c->was_ready) {
		answer_creator(c, &why);
		c->is_deleted = true;
	}
}

static void end_context(struct code_context *c)
{
	static const struct err why = { .code = ERR_NOT_FOUND, .msg = "the context was deleted" };

	end_driver(c);
	while (c->runs)
		fail_run(c, why.msg, NULL);
	answer_creator(c, &why);
	context_free(c);
}

static void advance(void *arg)
{
	struct code_context *c = arg;
	struct err e = { 0 };

	if (c->has_died && c->driver && !c->is_deleted)
		bury_driver(c);
	if (c->is_deleted) {
		end_context(c);
		return;
	}
	if (c->is_ready)
		answer_creator(c, NULL);
	if (c->runs && !c->driver && start_driver(c, &e) < 0) {
		while (c->runs)
			fail_run(c, e.msg, NULL);
		return;
	}
	if (c->driver && !c->is_ready)
		return;
	if (!c->runs)
		timer_in(&c->limit, c->of->idle_ms);
	else if (!c->runs->has_begun)
		begin_run(c);
}

/* ---- contexts ---- */

static void context_free(struct code_context *c)
{
	struct codes *cs = c->of;

	end_driver(c);
	defer_cancel(&c->turn);
	timer_done(&c->limit);
	*(c->prev ? &c->prev->next : &cs->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	cs->n--;
	arena_done(&c->arena);
	budget_give(cs->host.host.budget, c->granted);
	free(c);
}

static int copy_spec(struct code_context *c, const struct code_spec *sp, struct err *e)
{
	if (env_copy(&c->env, &c->arena, sp->env->items, NULL, e) < 0)
		return -1;
	c->spec = (struct code_spec){
		.language = arena_dup(&c->arena, str_of(sp->language)),
		.kernel = sp->kernel ? arena_dup(&c->arena, str_of(sp->kernel)) : NULL,
		.env = &c->env,
		.cwd = arena_dup(&c->arena, str_of(sp->cwd)),
	};
	if (!c->spec.language || !c->spec.cwd || (sp->kernel && !c->spec.kernel))
		return err_no_memory(e);
	if (!budget_take(c->of->host.host.budget, c->arena.used))
		return err_set(e, ERR_UNAVAILABLE, "no room for another environment");
	c->granted = c->arena.used;
	if (sp->as) {
		c->as = *sp->as;
		c->spec.as = &c->as;
	}
	return 0;
}

static int find_type(struct code_context *c, struct err *e)
{
	for (; code_driver_types[c->type_at]; c->type_at++) {
		int r = code_driver_types[c->type_at]->offers(&c->of->host, &c->spec, e);

		if (r < 0)
			return -1;
		if (r > 0) {
			c->type = code_driver_types[c->type_at];
			return 0;
		}
	}
	if (c->spec.kernel)
		return err_set(e, ERR_NOT_FOUND, "there is no kernel '%s'", c->spec.kernel);
	return err_set(e, ERR_NOT_FOUND, "unknown language: %s: there is neither an interpreter nor a kernel for it", c->spec.language);
}

static int fill(struct code_context *c, const struct code_spec *sp, struct err *e)
{
	if (timer_init(&c->limit, c->of->host.host.loop, on_limit, c, "code context", e) < 0)
		return -1;
	if (copy_spec(c, sp, e) < 0 || uuid_text(&c->of->random, c->id, e) < 0 || find_type(c, e) < 0)
		return -1;
	return start_driver(c, e);
}

struct code_context *code_context_new(struct codes *cs, const struct code_spec *sp, bool is_default, struct err *e)
{
	struct code_context *c;

	if (cs->n >= CODE_CONTEXTS_MAX || cs->is_stopping) {
		(void)err_set(e, ERR_LIMIT, "there are %u contexts", cs->n);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	*c = (struct code_context){ .of = cs, .next = cs->first, .arena = ARENA_INIT(SPEC_BYTES_MAX), .is_default = is_default };
	if (c->next)
		c->next->prev = c;
	cs->first = c;
	cs->n++;
	if (fill(c, sp, e) < 0) {
		context_free(c);
		return NULL;
	}
	return c;
}

struct code_context *code_context_find(const struct codes *cs, struct str id)
{
	struct code_context *c = cs->first;

	while (c && (c->is_deleted || !str_is(id, c->id)))
		c = c->next;
	return c;
}

struct code_context *code_context_default(const struct codes *cs, const char *language, const char *kernel)
{
	struct code_context *c = cs->first;

	while (c && (c->is_deleted || !c->is_default || strcmp(language, c->spec.language) != 0 ||
		     !str_eq(str_of(kernel), str_of(c->spec.kernel))))
		c = c->next;
	return c;
}

void code_context_delete(struct code_context *c)
{
	c->is_deleted = true;
	advance_soon(c);
}

void code_contexts_delete(struct codes *cs, struct str language)
{
	for (struct code_context *c = cs->first; c; c = c->next)
		if (language.n == 0 || str_is(language, c->spec.language))
			code_context_delete(c);
}

void codes_stop(struct codes *cs)
{
	cs->is_stopping = true;
	code_contexts_delete(cs, STR(""));
}

void codes_done(struct codes *cs)
{
	while (cs->first) {
		struct code_context *c = cs->first;

		while (c->runs)
			detach_run(c);
		context_free(c);
	}
	while (cs->ending)
		on_run_done(cs->ending);
	random_pool_done(&cs->random);
}

/* ---- for requests ---- */

void code_context_write(const struct code_context *c, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "id"), json_cstr(o, c->id);
	json_key(o, "language"), json_cstr(o, c->spec.language);
	json_key(o, "cwd"), json_cstr(o, c->spec.cwd);
	json_close(o, '}');
}

void code_contexts_write(const struct codes *cs, struct str language, struct json_out *o)
{
	json_open(o, '[');
	for (const struct code_context *c = cs->first; c; c = c->next)
		if (!c->is_deleted && (language.n == 0 || str_is(language, c->spec.language)))
			code_context_write(c, o);
	json_close(o, ']');
}

int code_context_run(struct code_context *c, struct str code, struct reply *rp, struct err *e)
{
	struct code_run *r, **at = &c->runs;

	if (c->n_runs >= CODE_QUEUE_MAX || c->of->host.host.budget->runs >= EXECD_RUNS_MAX)
		return err_set(e, ERR_LIMIT, "session is busy: %u runs of this context wait", c->n_runs);
	r = code_run_new(&c->of->host.host, str_of(c->id), code, rp, e);
	if (!r)
		return -1;
	r->context = c;
	r->owner = c->of;
	r->proceed = on_run_proceed;
	r->done = on_run_done;
	r->arg = r;
	while (*at)
		at = &(*at)->next;
	*at = r;
	c->n_runs++;
	if (c->is_ready)
		timer_cancel(&c->limit);
	advance_soon(c);
	return 0;
}

void code_context_interrupt(struct code_context *c)
{
	if (current(c) && c->driver && !c->has_died)
		c->type->interrupt(c->driver);
	else if (c->runs)
		c->runs->is_interrupted = true;
}
