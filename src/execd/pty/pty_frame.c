// SPDX-License-Identifier: Apache-2.0
#include "execd/pty/pty_frame.h"

#include <signal.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

#define ORDER_DEPTH_MAX 8
#define ORDER_VALUES_MAX 64

void pty_replay_head(uint64_t offset, char out[PTY_REPLAY_HEAD])
{
	out[0] = PTY_REPLAY;
	for (int i = 0; i < 8; i++)
		out[1 + i] = (char)(unsigned char)(offset >> (8 * (7 - i)));
}

/* ---- orders ---- */

static bool take_size(const struct json *object, const char *key, uint16_t *ret)
{
	const struct json *v = json_get(object, key);

	if (!v || v->type != JSON_INT || v->i < 1 || v->i > UINT16_MAX)
		return false;
	*ret = (uint16_t)v->i;
	return true;
}

static bool take_string(const struct json *object, const char *key, struct str *ret)
{
	const struct json *v = json_get(object, key);

	if (!v || v->type != JSON_STRING)
		return false;
	*ret = v->s;
	return true;
}

static bool take_signal(const struct json *object, int *ret)
{
	static const struct {
		const char *name;
		int signo;
	} known[] = {
		{ "SIGINT", SIGINT }, { "SIGTERM", SIGTERM }, { "SIGKILL", SIGKILL }, { "SIGQUIT", SIGQUIT }, { "SIGHUP", SIGHUP },
	};
	struct str name;

	if (!take_string(object, "signal", &name))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_is(name, known[i].name)) {
			*ret = known[i].signo;
			return true;
		}
	return false;
}

static bool is_whole(const struct json *v, struct pty_order *o)
{
	switch (o->kind) {
	case PTY_ORDER_RESIZE:
		return take_size(v, "cols", &o->cols) && take_size(v, "rows", &o->rows);
	case PTY_ORDER_SIGNAL:
		return take_signal(v, &o->signo);
	case PTY_ORDER_STDIN:
		return take_string(v, "data", &o->data);
	case PTY_ORDER_NONE:
	case PTY_ORDER_STDIN_END:
	case PTY_ORDER_PING:
	case PTY_ORDER_UNKNOWN:
		break;
	}
	return true;
}

void pty_order_parse(struct str text, struct arena *a, struct pty_order *ret)
{
	static const struct {
		const char *type;
		enum pty_order_kind kind;
	} types[] = {
		{ "resize", PTY_ORDER_RESIZE }, { "signal", PTY_ORDER_SIGNAL }, { "stdin", PTY_ORDER_STDIN },
		{ "ping", PTY_ORDER_PING },     { "stdin_end", PTY_ORDER_STDIN_END },
	};
	const struct json_limits limits = { .bytes = PTY_TEXT_MAX, .depth = ORDER_DEPTH_MAX, .values = ORDER_VALUES_MAX };
	struct err ignored = { 0 };
	const struct json *v = json_parse(a, text, &limits, NULL, &ignored);
	struct str type = STR("");

	*ret = (struct pty_order){ .kind = PTY_ORDER_NONE };
	if (!v || v->type != JSON_OBJECT)
		return;
	(void)take_string(v, "type", &type);
	ret->kind = PTY_ORDER_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_is(type, types[i].type))
			ret->kind = types[i].kind;
	if (!is_whole(v, ret))
		ret->kind = PTY_ORDER_NONE;
}

/* ---- news ---- */

void pty_say_connected(struct buf *out, const char *id, const char *mode)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "connected");
	json_key(&o, "session_id"), json_cstr(&o, id);
	json_key(&o, "mode"), json_cstr(&o, mode);
	json_close(&o, '}');
}

void pty_say_exit(struct buf *out, int exit_code)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "exit");
	json_key(&o, "exit_code"), json_int(&o, exit_code);
	json_close(&o, '}');
}

void pty_say_error(struct buf *out, const char *code, const char *why)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "error");
	json_key(&o, "error"), json_cstr(&o, why);
	json_key(&o, "code"), json_cstr(&o, code);
	json_close(&o, '}');
}
