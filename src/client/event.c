// SPDX-License-Identifier: Apache-2.0
#include "client/event.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

#define VALUE_JSON_MAX ((size_t)64 * 1024 * 1024)

/* ---- small things ---- */

static bool take_string(const struct json *v, struct arena *a, const char **ret)
{
	if (!v || v->type != JSON_STRING)
		return true;
	*ret = arena_dup(a, v->s);
	return *ret != NULL;
}

static int64_t number_of(const struct json *object, const char *key, int64_t missing)
{
	const struct json *v = json_get(object, key);

	if (v && v->type == JSON_INT)
		return v->i;
	return v && v->type == JSON_REAL && v->d > -9e15 && v->d < 9e15 ? (int64_t)v->d : missing;
}

static const char *as_json(const struct json *v, struct arena *a)
{
	AUTO(buf_done) struct buf text = BUF_INIT(VALUE_JSON_MAX);
	struct json_out o = json_out(&text);

	json_tree(&o, v);
	return text.failed ? NULL : arena_dup(a, buf_str(&text));
}

/* ---- by kind ---- */

static bool take_text(const struct json *v, struct arena *a, struct osb_event *ev)
{
	const struct json *text = json_get(v, "text");

	ev->text = "";
	if (text && text->type == JSON_STRING)
		ev->n_text = text->s.n;
	return take_string(text, a, &ev->text);
}

static bool take_results(const struct json *v, struct arena *a, struct osb_event *ev)
{
	const struct json *results = json_get(v, "results");
	size_t n = results && results->type == JSON_OBJECT ? results->kids.n : 0, at = 0;
	struct osb_pair *pairs = arena_array(a, n + 1, sizeof(*pairs));

	if (!pairs)
		return false;
	if (n > 0)
		for (const struct json *k = json_first(results); k; k = k->next, at++) {
			pairs[at].key = arena_dup(a, k->key);
			pairs[at].value = k->type == JSON_STRING ? arena_dup(a, k->s) : as_json(k, a);
			if (!pairs[at].key || !pairs[at].value)
				return false;
		}
	ev->results = (struct osb_map){ pairs, n };
	return true;
}

static bool take_traceback(const struct json *list, struct arena *a, struct osb_event *ev)
{
	size_t n = list && list->type == JSON_ARRAY ? list->kids.n : 0, at = 0;
	const char **lines = arena_array(a, n + 1, sizeof(*lines));

	if (!lines)
		return false;
	if (n > 0)
		for (const struct json *k = json_first(list); k; k = k->next) {
			if (k->type != JSON_STRING)
				continue;
			lines[at] = arena_dup(a, k->s);
			if (!lines[at++])
				return false;
		}
	ev->traceback = (struct osb_strings){ lines, at };
	return true;
}

static bool take_error(const struct json *v, struct arena *a, struct osb_event *ev)
{
	const struct json *er = json_get(v, "error");

	ev->name = ev->value = "";
	if (!er || er->type != JSON_OBJECT)
		return take_traceback(NULL, a, ev);
	return take_string(json_get(er, "ename"), a, &ev->name) && take_string(json_get(er, "evalue"), a, &ev->value) &&
	       take_traceback(json_get(er, "traceback"), a, ev);
}

static bool take_count(const struct json *v, struct arena *a, struct osb_event *ev)
{
	(void)a;
	ev->number = number_of(v, "execution_count", 0);
	return true;
}

static bool take_time(const struct json *v, struct arena *a, struct osb_event *ev)
{
	(void)a;
	ev->number = number_of(v, "execution_time", 0);
	return true;
}

static const struct type {
	const char *name;
	enum osb_event_kind kind;
	bool (*take)(const struct json *v, struct arena *a, struct osb_event *ev);
} types[] = {
	{ "stdout", OSB_EVENT_STDOUT, take_text },
	{ "stderr", OSB_EVENT_STDERR, take_text },
	{ "init", OSB_EVENT_INIT, take_text },
	{ "result", OSB_EVENT_RESULT, take_results },
	{ "execution_count", OSB_EVENT_COUNT, take_count },
	{ "execution_complete", OSB_EVENT_COMPLETE, take_time },
	{ "error", OSB_EVENT_ERROR, take_error },
	{ "status", OSB_EVENT_STATUS, take_text },
};

static const struct type *type_of(const struct json *v)
{
	struct str name = json_text(v, "type");

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_is(name, types[i].name))
			return &types[i];
	return NULL;
}

static bool is_bare_error(const struct json *v)
{
	const struct json *code = json_get(v, "code"), *message = json_get(v, "message");

	return !json_get(v, "type") && code && code->type == JSON_STRING && message && message->type == JSON_STRING;
}

static bool take_bare_error(const struct json *v, struct arena *a, struct osb_event *ev)
{
	ev->kind = OSB_EVENT_ERROR;
	return take_string(json_get(v, "code"), a, &ev->name) && take_string(json_get(v, "message"), a, &ev->value) &&
	       take_traceback(NULL, a, ev);
}

int event_parse(struct str text, struct arena *a, struct osb_event *ret, struct err *e)
{
	struct osb_event ev = { 0 };
	struct err why = { 0 };
	const struct json *v = json_parse(a, text, NULL, NULL, &why);
	const struct type *type;

	if (!v && why.code != ERR_INVALID) {
		*e = why;
		return err_wrap(e, "read an event");
	}
	if (!v || v->type != JSON_OBJECT)
		return 0;
	type = type_of(v);
	if (!type && !is_bare_error(v))
		return 0;
	ev.timestamp_ms = number_of(v, "timestamp", 0);
	if (type)
		ev.kind = type->kind;
	if (type ? !type->take(v, a, &ev) : !take_bare_error(v, a, &ev))
		return err_no_memory(e);
	*ret = ev;
	return 1;
}
