// SPDX-License-Identifier: Apache-2.0
#include "mcp/call.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/session.h"
#include "mcp/transcript.h"

#include "base/banned.h"

#define NOT_KNOWN "Sandbox not found in local registry. Call sandbox_connect or set connect_if_missing=True."

/* ---- life ---- */

static void on_timer(void *arg);

static struct call *call_new(struct engine *en, struct err *e)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->engine = en;
	c->arena = ARENA_INIT(CALL_ARENA_MAX);
	c->text = BUF_INIT(CALL_RESULT_MAX);
	c->args = args_defaults;
	c->next = en->calls;
	if (c->next)
		c->next->prev = c;
	en->calls = c;
	en->n_calls++;
	c->op = osb_call_new(en->client);
	if (!c->op || timer_init(&c->timer, en->loop, on_timer, c, "mcp call", e) < 0) {
		mcp_call_free(c);
		(void)err_no_memory(e);
		return NULL;
	}
	return c;
}

void mcp_call_drop_result(struct call *c)
{
	osb_free(c->result.any);
	c->result.any = NULL;
}

static void unlink_call(struct call *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		c->engine->calls = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->engine->n_calls--;
}

void mcp_call_free(struct call *c)
{
	struct engine *en = c->engine;

	unlink_call(c);
	timer_done(&c->timer);
	osb_call_free(c->second);
	osb_call_free(c->op); /* before what it would write to, and before the handle that it works with */
	mcp_call_drop_result(c);
	osb_sandbox_free(c->made);
	handle_release(c->handle);
	transcript_free(c->transcript);
	cut_done(&c->cut);
	buf_done(&c->text);
	arena_done(&c->arena);
	free(c);
	if (!en->calls && en->idle)
		en->idle(en->idle_arg);
}

/* ---- answers ---- */

static void write_text_block(struct json_out *o, struct str text)
{
	json_open(o, '{');
	json_key(o, "type"), json_cstr(o, "text");
	json_key(o, "text"), json_str(o, text);
	json_close(o, '}');
}

static void write_json_block(struct json_out *o, struct str json)
{
	AUTO(buf_done) struct buf pretty = BUF_INIT(CALL_RESULT_MAX);

	if (!json_indent(&pretty, json))
		o->b->failed = true;
	write_text_block(o, buf_str(&pretty));
}

static void write_images(const struct call *c, struct json_out *o)
{
	struct transcript_image image;

	for (size_t i = 0; c->transcript && transcript_image(c->transcript, i, &image); i++) {
		json_open(o, '{');
		json_key(o, "type"), json_cstr(o, "image");
		json_key(o, "data"), json_cstr(o, image.base64);
		json_key(o, "mimeType"), json_cstr(o, image.type);
		json_close(o, '}');
	}
}

/* A list has a block for each of its items. */
static int write_item_blocks(struct json_out *o, struct str list, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(CALL_ARENA_MAX);
	const struct json_limits limits = { .values = SIZE_MAX };
	const struct json *v = json_parse(&a, list, &limits, NULL, e);

	if (!v)
		return -1;
	for (const struct json *item = json_first(v); item; item = item->next) {
		AUTO(buf_done) struct buf one = BUF_INIT(CALL_RESULT_MAX);
		struct json_out inner = json_out(&one);

		json_tree(&inner, item);
		write_json_block(o, buf_str(&one));
	}
	return 0;
}

static int write_success(struct call *c, struct str result, struct buf *b, struct err *e)
{
	struct json_out o = rpc_result_open(b, &c->id);
	bool is_list = c->tool->flags & TOOL_LIST;

	json_open(&o, '{');
	json_key(&o, "content"), json_open(&o, '[');
	if (!is_list)
		write_json_block(&o, result);
	else if (write_item_blocks(&o, result, e) < 0)
		return -1;
	write_images(c, &o);
	if (c->note)
		write_text_block(&o, str_of(c->note));
	json_close(&o, ']');
	json_key(&o, "structuredContent");
	if (is_list)
		json_open(&o, '{'), json_key(&o, "result");
	json_raw(&o, result);
	if (is_list)
		json_close(&o, '}');
	json_key(&o, "isError"), json_bool(&o, false);
	json_close(&o, '}');
	rpc_result_close(&o);
	return b->failed ? err_set(e, ERR_LIMIT, "the result is too large") : 0;
}

static void write_failure(const struct rpc_id *id, struct str text, struct buf *b)
{
	struct json_out o = rpc_result_open(b, id);

	json_open(&o, '{');
	json_key(&o, "content"), json_open(&o, '[');
	write_text_block(&o, text);
	json_close(&o, ']');
	json_key(&o, "isError"), json_bool(&o, true);
	json_close(&o, '}');
	rpc_result_close(&o);
}

/* The call is over: C is gone. */
static void call_fail(struct call *c, const char *why)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16 * 1024), text = BUF_INIT(2048);

	(void)buf_addf(&text, "Error executing tool %s: %s", c->tool->name, why);
	write_failure(&c->id, buf_str(&text), &b);
	if (c->session) {
		mcp_session_log(c->session, c->out, "warning", c->tool->name, why);
		mcp_session_answer(c->out, &c->id, &b);
	}
	mcp_call_free(c);
}

static int write_result(struct call *c, struct buf *b, struct err *e)
{
	struct json_out o = json_out(b);
	char *json;

	if (c->tool->finish)
		return c->tool->finish(c, &o, e);
	if (c->tool->status) {
		json_open(&o, '{');
		json_key(&o, "status"), json_cstr(&o, c->tool->status);
		json_close(&o, '}');
		return 0;
	}
	json = osb_to_json(c->result.any);
	if (!json)
		return err_no_memory(e);
	json_raw(&o, str_of(json));
	free(json);
	return 0;
}

/* What comes from inside a sandbox is bounded by each tool where it can be cut; here is the end for what cannot. A byte may take
 * six in JSON. */
static int check_size(const struct call *c, const struct buf *result, struct err *e)
{
	const struct mcp_limits *l = &c->engine->limits;
	size_t max = CALL_INSIDE_LEAST + MIN(l->output + l->file, (size_t)CALL_RESULT_MAX) * 8;

	if (result->failed || ((c->tool->flags & TOOL_INSIDE) && result->n > max))
		return err_set(e, ERR_LIMIT, "the result is too large");
	return 0;
}

static void call_succeed(struct call *c)
{
	AUTO(buf_done) struct buf result = BUF_INIT(CALL_RESULT_MAX), message = BUF_INIT(c->out ? c->out->max : CALL_RESULT_MAX);
	struct err e = { 0 };

	if (write_result(c, &result, &e) < 0 || check_size(c, &result, &e) < 0 ||
	    write_success(c, buf_str(&result), &message, &e) < 0) {
		call_fail(c, e.msg);
		return;
	}
	if (c->session) {
		mcp_session_log(c->session, c->out, "debug", c->tool->name, "done");
		mcp_session_answer(c->out, &c->id, &message);
	}
	mcp_call_free(c);
}

/* ---- steps ---- */

static void go_on(struct call *c, enum step step, struct err *e)
{
	if (step == STEP_FAILED)
		call_fail(c, e->msg);
	else if (step == STEP_DONE)
		call_succeed(c);
	else
		engine_pump(c->engine);
}

static void after_cancel(struct call *c);

static void on_done(struct osb_call *op, void *arg)
{
	const struct osb_error *why = osb_call_error(op);
	struct call *c = arg;
	mcp_call_step_fn *then = c->then;
	struct err e = { 0 };

	c->then = NULL;
	if (c->is_cancelled)
		after_cancel(c);
	else if (why->kind != OSB_OK && !c->takes_failure)
		call_fail(c, why->message);
	else
		go_on(c, then ? then(c, &e) : STEP_DONE, &e);
}

enum step mcp_call_then(struct call *c, mcp_call_step_fn *then)
{
	c->then = then;
	return STEP_WAIT;
}

enum step mcp_call_later(struct call *c, unsigned ms, mcp_call_step_fn *then)
{
	c->then = then;
	c->is_waiting = true;
	timer_in(&c->timer, ms);
	return STEP_WAIT;
}

static void tell_output(struct call *c);

static void on_timer(void *arg)
{
	struct call *c = arg;
	mcp_call_step_fn *then = c->then;
	struct err e = { 0 };

	if (c->is_cancelled) {
		osb_call_cancel(c->op); /* it was asked to end, and did not */
		engine_pump(c->engine);
	} else if (c->is_waiting) {
		c->is_waiting = false;
		c->then = NULL;
		go_on(c, then(c, &e), &e);
	} else if (c->transcript) {
		tell_output(c);
	}
}

enum step mcp_call_take_made(struct call *c, struct err *e)
{
	c->handle = handles_add(&c->engine->handles, take_ptr(&c->made));
	return c->handle ? STEP_DONE : (enum step)err_no_memory(e);
}

/* ---- progress ---- */

void mcp_call_progress(struct call *c, double value, double total, const char *message)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8 * CALL_PROGRESS_TEXT);
	struct json_out o;

	if (!c->token.text[0] || !c->session || value <= c->progress || !c->out->has_room(c->out))
		return;
	c->progress = value;
	o = rpc_notify_open(&b, "notifications/progress");
	json_open(&o, '{');
	json_key(&o, "progressToken"), json_raw(&o, str_of(c->token.text));
	json_key(&o, "progress"), json_real(&o, value);
	if (total > 0)
		json_key(&o, "total"), json_real(&o, total);
	json_key(&o, "message"), json_cstr(&o, message);
	json_close(&o, '}');
	rpc_notify_close(&o);
	if (!b.failed)
		c->out->send(c->out, buf_str(&b));
}

/* What a command has written since the last time, once in a second at most. */
static void tell_output(struct call *c)
{
	AUTO(buf_done) struct buf recent = BUF_INIT(2 * CALL_PROGRESS_TEXT);
	uint64_t events = transcript_events(c->transcript), now = loop_now_ms(c->engine->loop);

	if (events == c->progress_events)
		return;
	if (now < c->progress_ms + CALL_PROGRESS_MS) {
		timer_set(&c->timer, c->progress_ms + CALL_PROGRESS_MS);
		return;
	}
	c->progress_ms = now;
	c->progress_events = events;
	transcript_recent(c->transcript, CALL_PROGRESS_TEXT, &recent);
	mcp_call_progress(c, (double)events, 0, buf_z(&recent));
}

/* ---- the end of what nobody waits for ---- */

static void on_interrupted(struct osb_call *op, void *arg)
{
	(void)op, (void)arg; /* the stream ends by itself now; if it does not, the timer ends it */
}

static bool interrupt(struct call *c)
{
	const char *id = c->transcript ? transcript_id(c->transcript) : NULL;

	if (!id || !c->handle || c->second || c->run == RUN_IN_SESSION)
		return false;
	c->second = osb_call_new(c->engine->client);
	if (!c->second)
		return false;
	osb_call_on_done(c->second, on_interrupted, NULL);
	osb_call_set_deadline(c->second, CALL_INTERRUPT_MS);
	if (c->run == RUN_CODE)
		(void)osb_code_interrupt(c->handle->sandbox, id, c->second);
	else
		(void)osb_command_interrupt(c->handle->sandbox, id, c->second);
	return true;
}

void mcp_call_on_event(const struct osb_event *event, void *arg)
{
	struct call *c = arg;

	if (!transcript_add(c->transcript, event))
		osb_call_cancel(c->op); /* no memory: it could only get worse */
	if (c->is_cancelled)
		(void)interrupt(c);
	else if (c->token.text[0])
		tell_output(c);
}

static void on_killed(struct osb_call *op, void *arg)
{
	(void)op;
	mcp_call_free(arg);
}

/* The operation has ended, one way or the other. A sandbox that was made for nobody goes again. */
static void after_cancel(struct call *c)
{
	struct osb_sandbox *made = c->made ? c->made : c->handle ? c->handle->sandbox : NULL;

	if (!made || !c->made_here) {
		mcp_call_free(c);
		return;
	}
	if (c->handle)
		handles_drop(&c->engine->handles, osb_sandbox_id(made));
	osb_call_on_done(c->op, on_killed, c);
	(void)osb_sandbox_kill(c->engine->client, osb_sandbox_id(made), c->op);
	engine_pump(c->engine);
}

void mcp_call_cancel(struct call *c)
{
	struct out *out = c->out;

	if (c->is_cancelled)
		return;
	c->is_cancelled = true;
	c->session = NULL;
	c->out = NULL;
	if (c->is_waiting) {
		mcp_call_free(c);
	} else {
		/* Of what runs in a sandbox the end is asked for, as soon as its name is known; everything else is given up. */
		timer_in(&c->timer, CALL_INTERRUPT_MS);
		if (!interrupt(c) && (!c->transcript || c->run == RUN_IN_SESSION))
			osb_call_cancel(c->op);
		engine_pump(c->engine);
	}
	mcp_session_forget(out);
}

/* ---- the beginning ---- */

static enum step begin_tool(struct call *c, struct err *e)
{
	c->takes_failure = false;
	return c->tool->begin(c, e);
}

static enum step connected(struct call *c, struct err *e)
{
	return mcp_call_take_made(c, e) == STEP_DONE ? begin_tool(c, e) : STEP_FAILED;
}

static enum step begin(struct call *c, struct err *e)
{
	if (!(c->tool->flags & TOOL_INSIDE))
		return begin_tool(c, e);
	c->handle = handles_take(&c->engine->handles, c->args.sandbox_id);
	if (c->handle)
		return begin_tool(c, e);
	if (!(c->tool->flags & TOOL_CONNECTS) && !c->args.connect_if_missing)
		return (enum step)err_set(e, ERR_NOT_FOUND, NOT_KNOWN);
	(void)osb_sandbox_connect(c->engine->client, c->args.sandbox_id, NULL, &c->made, c->op);
	return mcp_call_then(c, connected);
}

static void refuse(struct out *out, const struct rpc_id *id, const char *text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16 * 1024);

	write_failure(id, str_of(text), &b);
	mcp_session_answer(out, id, &b);
}

static const struct tool *named_tool(const struct json *params, struct err *e)
{
	const struct json *name = json_get(params, "name"), *arguments = json_get(params, "arguments");
	const struct tool *tool;

	if (!name || name->type != JSON_STRING) {
		(void)err_set(e, ERR_INVALID, "'name' is missing: the name of a tool");
		return NULL;
	}
	if (arguments && arguments->type != JSON_OBJECT && arguments->type != JSON_NULL) {
		(void)err_set(e, ERR_INVALID, "'arguments' is not an object");
		return NULL;
	}
	tool = tool_find(name->s);
	if (!tool)
		(void)err_set(e, ERR_NOT_FOUND, "Unknown tool: %s", SHOWN(name->s));
	return tool;
}

void mcp_call_begin(struct engine *en, struct session *s, struct out *out, const struct rpc_id *id, const struct json *params)
{
	struct err e = { 0 };
	const struct tool *tool = named_tool(params, &e);
	struct call *c = tool ? call_new(en, &e) : NULL;

	if (!c) {
		refuse(out, id, e.msg);
		return;
	}
	c->session = s;
	c->out = out;
	c->tool = tool;
	c->id = *id;
	(void)rpc_id_read(json_get(json_get(params, "_meta"), "progressToken"), &c->token);
	osb_call_on_done(c->op, on_done, c);
	if (args_decode(&c->arena, json_get(params, "arguments"), tool->fields, &c->args, &e) < 0)
		call_fail(c, e.msg);
	else
		go_on(c, begin(c, &e), &e);
}
