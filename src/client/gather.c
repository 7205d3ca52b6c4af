// SPDX-License-Identifier: Apache-2.0
#include "client/gather.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#include "base/banned.h"

void gather_init(struct gather *g, struct arena *a, struct osb_execution *x)
{
	*g = (struct gather){ .arena = a, .x = x };
	for (int i = 0; i < 2; i++)
		g->out[i].last = &g->out[i].first;
	g->last_result = &g->first_result;
	*x = (struct osb_execution){ .execution_count = -1, .complete_timestamp_ms = -1, .execution_time_ms = -1, .exit_code = -1,
				     .error_timestamp_ms = -1, .stdout_text = "", .stderr_text = "" };
}

static int no_room(const struct gather *g, struct err *e)
{
	if (json_no_room(g->arena, 64 * 1024, e) < 0 && e->code == ERR_LIMIT)
		return err_set(e, ERR_LIMIT, "the execution gave more than %zu bytes: take its events, and skip_accumulation", g->arena->max);
	return -1;
}

static bool keep_text(struct gather *g, struct gather_output *o, const struct osb_event *ev)
{
	struct gather_text *t = arena_alloc(g->arena, sizeof(*t));

	if (!t)
		return false;
	*t = (struct gather_text){ .item = { arena_strndup(g->arena, ev->text, ev->n_text), ev->timestamp_ms }, .n = ev->n_text };
	if (!t->item.text)
		return false;
	*o->last = t;
	o->last = &t->next;
	o->n++;
	o->bytes += t->n + 1;
	return true;
}

static bool copy_map(struct arena *a, const struct osb_map *from, struct osb_map *to)
{
	struct osb_pair *pairs = arena_array(a, from->n + 1, sizeof(*pairs));

	for (size_t i = 0; pairs && i < from->n; i++) {
		pairs[i] = (struct osb_pair){ arena_dup(a, str_of(from->items[i].key)), arena_dup(a, str_of(from->items[i].value)) };
		if (!pairs[i].key || !pairs[i].value)
			return false;
	}
	*to = (struct osb_map){ pairs, from->n };
	return pairs != NULL;
}

/* "text" is what our servers send and most clients read, "text/plain" what kernels call it. */
static const char *plain_text(const struct osb_map *values)
{
	const char *found = NULL;

	for (size_t i = 0; i < values->n; i++) {
		if (str_is(STR("text"), values->items[i].key))
			return values->items[i].value;
		if (str_is(STR("text/plain"), values->items[i].key))
			found = values->items[i].value;
	}
	return found;
}

static bool keep_result(struct gather *g, const struct osb_event *ev)
{
	struct gather_result *r = arena_alloc(g->arena, sizeof(*r));

	if (!r || !copy_map(g->arena, &ev->results, &r->item.values))
		return false;
	r->item.text = plain_text(&r->item.values);
	r->item.timestamp_ms = ev->timestamp_ms;
	*g->last_result = r;
	g->last_result = &r->next;
	g->x->n_results++;
	return true;
}

static bool keep_error(struct gather *g, const struct osb_event *ev)
{
	struct osb_execution *x = g->x;
	const char **lines = arena_array(g->arena, ev->traceback.n + 1, sizeof(*lines));

	for (size_t i = 0; lines && i < ev->traceback.n; i++) {
		lines[i] = arena_dup(g->arena, str_of(ev->traceback.items[i]));
		if (!lines[i])
			return false;
	}
	x->error_name = arena_dup(g->arena, str_of(ev->name));
	x->error_value = arena_dup(g->arena, str_of(ev->value));
	x->traceback = (struct osb_strings){ lines, ev->traceback.n };
	x->error_timestamp_ms = ev->timestamp_ms;
	g->is_complete = true;
	return lines && x->error_name && x->error_value;
}

static bool keep(struct gather *g, const struct osb_event *ev)
{
	struct osb_execution *x = g->x;

	switch (ev->kind) {
	case OSB_EVENT_INIT:
		x->id = arena_dup(g->arena, str_of(ev->text));
		return x->id != NULL;
	case OSB_EVENT_STDOUT:
	case OSB_EVENT_STDERR:
		return g->skips || keep_text(g, &g->out[ev->kind == OSB_EVENT_STDERR], ev);
	case OSB_EVENT_RESULT:
		return g->skips || keep_result(g, ev);
	case OSB_EVENT_COUNT:
		x->execution_count = ev->number;
		break;
	case OSB_EVENT_COMPLETE:
		x->complete_timestamp_ms = ev->timestamp_ms;
		x->execution_time_ms = ev->number;
		g->is_complete = true;
		break;
	case OSB_EVENT_ERROR:
		return keep_error(g, ev);
	case OSB_EVENT_STATUS:
		break;
	}
	return true;
}

int gather_add(struct gather *g, const struct osb_event *ev, struct err *e)
{
	return keep(g, ev) ? 0 : no_room(g, e);
}

/* ---- in the end ---- */

/* An empty line is told as "\n": of each line its end goes, and one is put between two. */
static char *join(struct gather *g, const struct gather_output *o)
{
	char *text = arena_alloc(g->arena, o->bytes + 1), *at = text;

	for (const struct gather_text *t = o->first; text && t; t = t->next) {
		size_t n = t->n;

		if (g->is_lines && t != o->first)
			*at++ = '\n';
		if (g->is_lines && n > 0 && t->item.text[n - 1] == '\n')
			n--;
		memcpy(at, t->item.text, n);
		at += n;
	}
	return text;
}

static bool list(struct gather *g, const struct gather_output *o, const struct osb_text **ret_items, size_t *ret_n, const char **ret_text)
{
	struct osb_text *items = arena_array(g->arena, o->n + 1, sizeof(*items));
	size_t n = 0;

	if (!items)
		return false;
	for (const struct gather_text *t = o->first; t; t = t->next)
		items[n++] = t->item;
	*ret_items = items;
	*ret_n = n;
	*ret_text = join(g, o);
	return *ret_text != NULL;
}

static bool list_results(struct gather *g)
{
	struct osb_result *items = arena_array(g->arena, g->x->n_results + 1, sizeof(*items));
	size_t n = 0;

	if (!items)
		return false;
	for (const struct gather_result *r = g->first_result; r; r = r->next)
		items[n++] = r->item;
	g->x->results = items;
	return true;
}

static void infer_exit_code(const struct gather *g)
{
	struct osb_execution *x = g->x;

	if (!g->has_exit || !g->is_complete)
		return;
	x->exit_code = 0;
	x->has_exit_code = !x->error_name || str_to_i64(str_of(x->error_value), INT32_MIN, INT32_MAX, &x->exit_code);
	if (!x->has_exit_code)
		x->exit_code = -1;
}

int gather_finish(struct gather *g, struct err *e)
{
	struct osb_execution *x = g->x;

	if (!list(g, &g->out[0], &x->stdout_lines, &x->n_stdout, &x->stdout_text) ||
	    !list(g, &g->out[1], &x->stderr_lines, &x->n_stderr, &x->stderr_text) || !list_results(g))
		return no_room(g, e);
	infer_exit_code(g);
	return 0;
}
