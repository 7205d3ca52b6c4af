// SPDX-License-Identifier: Apache-2.0
#include "mcp/session.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"

#include "base/banned.h"

#define ANSWER_MAX (4 * 1024 * 1024)
#define LOG_TEXT_MAX 2000

static const char *const versions[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
#define VERSION_NEWEST (ARRAY_LEN(versions) - 1)
#define VERSION_LAST_WITH_BATCHES 1

static const char *const levels[] = { "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency" };

static const char instructions[] =
	"Isolated sandboxes for running code and commands. Begin with sandbox_create (image \"host\" needs no download) and keep the "
	"sandbox_id: every other tool takes it. Run shell commands with command_run and Python or JavaScript with code_run; move text "
	"with file_read and file_write. A non-zero exit_code is a result, not a failure of the tool. Output that is too long is cut in "
	"the middle, and a note says so. snapshot_create and sandbox_fork keep or multiply a state before something risky. A sandbox "
	"ends by itself after its timeout (sandbox_renew moves it); end it with sandbox_kill when the work is done.";

struct session {
	struct engine *engine;
	size_t version;  /* index of versions */
	bool is_open;
	int level;       /* index of levels that is sent; -1: none was asked for */
};

struct session *mcp_session_new(struct engine *en, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	*s = (struct session){ .engine = en, .version = VERSION_NEWEST, .level = -1 };
	return s;
}

void mcp_session_free(struct session *s)
{
	if (!s)
		return;
	for (struct call *c = s->engine->calls, *next; c; c = next) {
		next = c->next;
		if (c->session == s)
			mcp_call_cancel(c);
	}
	free(s);
}

bool mcp_session_is_open(const struct session *s)
{
	return s->is_open;
}

bool mcp_session_knows_version(struct str version)
{
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (str_is(version, versions[i]))
			return true;
	return false;
}

/* ---- answers ---- */

void mcp_session_forget(struct out *out)
{
	if (--out->pending == 0)
		out->finished(out);
}

/* What does not fit is refused, so that somebody who waits is not kept waiting. */
static void send_buf(struct out *out, struct buf *message, const struct rpc_id *id)
{
	const char *why = NULL;

	if (message->failed)
		why = "the answer is too large, or there is no memory for it";
	else if (message->n > out->left)
		why = "the answers to this batch are too large together";
	if (why) {
		buf_clear(message);
		rpc_error(message, id, RPC_INTERNAL, str_of(why));
	}
	if (message->failed)
		return;
	out->left -= MIN(message->n, out->left);
	out->send(out, buf_str(message));
}

void mcp_session_answer(struct out *out, const struct rpc_id *id, struct buf *message)
{
	send_buf(out, message, id);
	mcp_session_forget(out);
}

static void answer_error(struct out *out, const struct rpc_id *id, enum rpc_code code, const char *why)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);

	rpc_error(&b, id, code, str_of(why));
	send_buf(out, &b, id);
}

void mcp_session_refuse(struct out *out, struct str why)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);

	rpc_error(&b, &(struct rpc_id){ "" }, RPC_PARSE_ERROR, why);
	send_buf(out, &b, &(struct rpc_id){ "" });
}

void mcp_session_log(struct session *s, struct out *out, const char *level, const char *tool, const char *text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4 * LOG_TEXT_MAX);
	struct json_out o;
	int at = 0;

	while (at < (int)ARRAY_LEN(levels) && strcmp(levels[at], level) != 0)
		at++;
	if (s->level < 0 || at < s->level || !out->has_room(out))
		return;
	o = rpc_notify_open(&b, "notifications/message");
	json_open(&o, '{');
	json_key(&o, "level"), json_cstr(&o, level);
	json_key(&o, "logger"), json_cstr(&o, "opensandbox");
	json_key(&o, "data"), json_open(&o, '{');
	json_key(&o, "tool"), json_cstr(&o, tool);
	json_key(&o, "message"), json_str(&o, str_first(str_of(text), LOG_TEXT_MAX));
	json_close(&o, '}');
	json_close(&o, '}');
	rpc_notify_close(&o);
	if (!b.failed)
		out->send(out, buf_str(&b));
}

/* ---- methods ---- */

/* Writes its result, or returns -1 and an error of the parameters. */
typedef int method_fn(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e);

static void write_capability(struct json_out *o, const char *name, bool has_subscribe)
{
	json_key(o, name), json_open(o, '{');
	if (has_subscribe)
		json_key(o, "subscribe"), json_bool(o, false);
	json_key(o, "listChanged"), json_bool(o, false);
	json_close(o, '}');
}

static void write_server(struct json_out *o)
{
	json_key(o, "serverInfo"), json_open(o, '{');
	json_key(o, "name"), json_cstr(o, SESSION_SERVER_NAME);
	json_key(o, "title"), json_cstr(o, "OpenSandbox");
	json_key(o, "version"), json_cstr(o, osb_version());
	json_close(o, '}');
}

/* What the client speaks, or the newest that we do: it may then go away. */
static size_t negotiate(struct str wanted)
{
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (str_is(wanted, versions[i]))
			return i;
	return VERSION_NEWEST;
}

static int do_initialize(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	const struct json *version = json_get(m->params, "protocolVersion");

	if (s->is_open)
		return err_set(e, ERR_INVALID, "the session is initialized already");
	if (!version || version->type != JSON_STRING)
		return err_set(e, ERR_INVALID, "'protocolVersion' is missing");
	s->version = negotiate(version->s);
	s->is_open = true;
	json_open(o, '{');
	json_key(o, "protocolVersion"), json_cstr(o, versions[s->version]);
	json_key(o, "capabilities"), json_open(o, '{');
	json_key(o, "experimental"), json_open(o, '{'), json_close(o, '}');
	json_key(o, "logging"), json_open(o, '{'), json_close(o, '}');
	write_capability(o, "prompts", false);
	write_capability(o, "resources", true);
	write_capability(o, "tools", false);
	json_close(o, '}');
	write_server(o);
	json_key(o, "instructions"), json_cstr(o, instructions);
	json_close(o, '}');
	return 0;
}

static int do_ping(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	(void)s, (void)m, (void)e;
	json_open(o, '{'), json_close(o, '}');
	return 0;
}

static int do_tools_list(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	const struct json *cursor = json_get(m->params, "cursor");

	(void)s;
	if (cursor && cursor->type != JSON_NULL)
		return err_set(e, ERR_INVALID, "there is one page of tools, and no cursor");
	json_open(o, '{');
	json_key(o, "tools");
	tool_list_write(o);
	json_close(o, '}');
	return 0;
}

static int write_empty_list(const char *key, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, key), json_open(o, '['), json_close(o, ']');
	json_close(o, '}');
	return 0;
}

static int do_resources_list(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	(void)s, (void)m, (void)e;
	return write_empty_list("resources", o);
}

static int do_templates_list(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	(void)s, (void)m, (void)e;
	return write_empty_list("resourceTemplates", o);
}

static int do_prompts_list(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	(void)s, (void)m, (void)e;
	return write_empty_list("prompts", o);
}

static int do_set_level(struct session *s, const struct rpc_message *m, struct json_out *o, struct err *e)
{
	const struct json *level = json_get(m->params, "level");

	for (size_t i = 0; level && level->type == JSON_STRING && i < ARRAY_LEN(levels); i++)
		if (str_is(level->s, levels[i])) {
			s->level = (int)i;
			return do_ping(s, m, o, e);
		}
	return err_set(e, ERR_INVALID, "'level' is none of debug, info, notice, warning, error, critical, alert, emergency");
}

static const struct method {
	const char *name;
	method_fn *fn;
	bool any_time; /* before initialize, too */
} methods[] = {
	{ "initialize", do_initialize, true },
	{ "ping", do_ping, true },
	{ "tools/list", do_tools_list, false },
	{ "logging/setLevel", do_set_level, false },
	{ "resources/list", do_resources_list, false },
	{ "resources/templates/list", do_templates_list, false },
	{ "prompts/list", do_prompts_list, false },
};

static const struct method *find_method(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_is(name, methods[i].name))
			return &methods[i];
	return NULL;
}

/* ---- receiving ---- */

static unsigned calls_of(const struct session *s)
{
	unsigned n = 0;

	for (const struct call *c = s->engine->calls; c; c = c->next)
		n += c->session == s;
	return n;
}

static const struct call *find_call(const struct session *s, const struct rpc_id *id)
{
	for (const struct call *c = s->engine->calls; c; c = c->next)
		if (c->session == s && strcmp(c->id.text, id->text) == 0)
			return c;
	return NULL;
}

/* Answered by the call itself. */
static void run_tool(struct session *s, const struct rpc_message *m, struct out *out)
{
	if (s->engine->is_leaving) {
		answer_error(out, &m->id, RPC_BUSY, ENGINE_LEAVING_TEXT);
	} else if (find_call(s, &m->id)) {
		answer_error(out, &m->id, RPC_INVALID_REQUEST, "a request with this id is under way");
	} else if (calls_of(s) >= s->engine->limits.calls || s->engine->n_calls >= MCP_CALLS_MAX) {
		answer_error(out, &m->id, RPC_BUSY, "too many tools are at work; wait for one of them");
	} else {
		out->pending++;
		mcp_call_begin(s->engine, s, out, &m->id, m->params);
	}
}

static void run_method(struct session *s, const struct rpc_message *m, struct out *out)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	const struct method *method = find_method(m->method);
	struct err e = { 0 };
	struct json_out o;

	if (!s->is_open && (!method || !method->any_time)) {
		answer_error(out, &m->id, RPC_INVALID_REQUEST, "the session begins with initialize");
		return;
	}
	if (!method) {
		(void)err_set(&e, ERR_INVALID, "method not found: '%s'", SHOWN(m->method));
		answer_error(out, &m->id, RPC_NO_METHOD, e.msg);
		return;
	}
	o = rpc_result_open(&b, &m->id);
	if (method->fn(s, m, &o, &e) < 0) {
		answer_error(out, &m->id, RPC_INVALID_PARAMS, e.msg);
		return;
	}
	rpc_result_close(&o);
	send_buf(out, &b, &m->id);
}

static void run_notification(struct session *s, const struct rpc_message *m)
{
	struct rpc_id id;

	if (!str_is(m->method, "notifications/cancelled") || !rpc_id_read(json_get(m->params, "requestId"), &id))
		return; /* others tell nothing that we act upon */
	for (struct call *c = s->engine->calls; c; c = c->next)
		if (c->session == s && strcmp(c->id.text, id.text) == 0) {
			mcp_call_cancel(c);
			return;
		}
}

static void receive_one(struct session *s, const struct json *v, struct out *out)
{
	struct rpc_message m;
	struct err e = { 0 };

	if (rpc_read(v, &m, &e) < 0)
		answer_error(out, &m.id, RPC_INVALID_REQUEST, e.msg);
	else if (m.kind == RPC_REQUEST && s->is_open && str_is(m.method, "tools/call"))
		run_tool(s, &m, out);
	else if (m.kind == RPC_REQUEST)
		run_method(s, &m, out);
	else if (m.kind == RPC_NOTIFICATION)
		run_notification(s, &m);
}

static const char *batch_problem(const struct session *s, const struct json *v)
{
	if (s->is_open && s->version > VERSION_LAST_WITH_BATCHES)
		return "this version of the protocol has no batches";
	if (v->kids.n == 0)
		return "the batch is empty";
	return v->kids.n > RPC_BATCH_MAX ? "too many messages in one batch" : NULL;
}

void mcp_session_receive(struct session *s, const struct json *v, struct out *out)
{
	const char *why = v->type == JSON_ARRAY ? batch_problem(s, v) : NULL;

	out->pending++; /* so that it is not finished before all of it was looked at */
	if (why)
		answer_error(out, &(struct rpc_id){ "" }, RPC_INVALID_REQUEST, why);
	else if (v->type == JSON_ARRAY)
		for (const struct json *kid = json_first(v); kid; kid = kid->next)
			receive_one(s, kid, out);
	else
		receive_one(s, v, out);
	mcp_session_forget(out);
}
