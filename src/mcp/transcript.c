// SPDX-License-Identifier: Apache-2.0
#include "mcp/transcript.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/cut.h"

#include "base/banned.h"

#define LINE_COST 64 /* of a line, or of a value, beside its text */
#define NAME_BYTES_MAX 256 /* of an id, of an error's name and of a kind of result */
#define RECENT_LINES 16
#define TRACE_END "\x1e" /* between the pieces of a traceback, which may have lines of their own */

struct line {
	struct line *next;
	int64_t timestamp_ms;
	bool is_stderr;
	size_t cost, n; /* n: of the text, which may have NULs in it */
	char *text;
};

struct lines {
	struct line *first, *last;
	size_t cost;
};

struct value {
	char *key, *text;
};

struct result {
	struct result *next;
	int64_t timestamp_ms;
	char *text;
	struct value *values;
	size_t n_values;
};

struct transcript {
	size_t limit, results_cost;
	char *id;
	uint64_t events;
	int64_t execution_count; /* -1: none */
	struct lines head, tail;
	bool is_tail;                 /* the first half is full */
	uint64_t left_lines[2], left_bytes[2]; /* left out, of stdout and stderr */
	struct result *results, **results_end;
	size_t n_results, n_images, images_bytes;
	struct transcript_image images[TRANSCRIPT_IMAGES_MAX];
	bool has_error;
	char *error_name, *error_value, *traceback;
	int64_t error_ms, complete_ms, took_ms; /* complete_ms -1: it did not complete */
};

struct transcript *transcript_new(size_t limit)
{
	struct transcript *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->limit = limit;
	t->execution_count = t->complete_ms = -1;
	t->results_end = &t->results;
	return t;
}

static void lines_drop(struct lines *l)
{
	struct line *first = l->first;

	l->first = first->next;
	if (!l->first)
		l->last = NULL;
	l->cost -= first->cost;
	free(first->text);
	free(first);
}

static void result_free(struct result *r)
{
	for (size_t i = 0; i < r->n_values; i++) {
		free(r->values[i].key);
		free(r->values[i].text);
	}
	free(r->values);
	free(r->text);
	free(r);
}

void transcript_free(struct transcript *t)
{
	if (!t)
		return;
	while (t->head.first)
		lines_drop(&t->head);
	while (t->tail.first)
		lines_drop(&t->tail);
	while (t->results) {
		struct result *r = t->results;

		t->results = r->next;
		result_free(r);
	}
	free(t->id);
	free(t->error_name);
	free(t->error_value);
	free(t->traceback);
	free(t);
}

/* ---- collecting ---- */

static bool set(char **to, const char *text)
{
	free(*to);
	*to = text ? strdup(text) : NULL;
	return !text || *to;
}

static char *cut_copy(struct str text, size_t max, size_t *ret_n)
{
	struct buf b = BUF_INIT(max + CUT_NOTE_MAX);

	if (!cut_middle(&b, text, max) || !buf_add(&b, "", 0)) {
		buf_done(&b);
		return NULL;
	}
	*ret_n = b.n;
	return b.p;
}

/* One line that is longer than a quarter of all is cut by itself. */
static char *bounded(const struct transcript *t, struct str text, size_t *ret_n)
{
	return cut_copy(text, t->limit / 4, ret_n);
}

static bool set_name(char **to, const char *name)
{
	free(*to);
	*to = cut_copy(str_of(name), NAME_BYTES_MAX, &(size_t){ 0 });
	return *to;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of what is in lists */
static bool add_line(struct transcript *t, const struct osb_event *ev)
{
	struct line *line = calloc(1, sizeof(*line));
	struct lines *to;

	if (!line)
		return false;
	line->text = bounded(t, (struct str){ ev->text, ev->text ? ev->n_text : 0 }, &line->n);
	if (!line->text) {
		free(line);
		return false;
	}
	line->is_stderr = ev->kind == OSB_EVENT_STDERR;
	line->timestamp_ms = ev->timestamp_ms;
	line->cost = line->n + LINE_COST;
	if (t->head.cost + line->cost > t->limit / 2)
		t->is_tail = true;
	to = t->is_tail ? &t->tail : &t->head;
	if (to->last)
		to->last->next = line;
	else
		to->first = line;
	to->last = line;
	to->cost += line->cost;
	while (t->tail.cost > t->limit / 2 && t->tail.first != t->tail.last) {
		bool is_stderr = t->tail.first->is_stderr;

		t->left_lines[is_stderr]++;
		t->left_bytes[is_stderr] += t->tail.first->n;
		lines_drop(&t->tail);
	}
	return true;
}

static bool is_image(const char *type)
{
	return strcmp(type, "image/png") == 0 || strcmp(type, "image/jpeg") == 0;
}

static bool is_base64(const char *text)
{
	AUTO(buf_done) struct buf bytes = BUF_INIT(TRANSCRIPT_IMAGE_MAX);

	return base64_decode(&bytes, str_of(text), BASE64_STD, &(struct err){ 0 }) == 0; /* what is none is no image */
}

static bool has_room_for_image(const struct transcript *t, size_t n)
{
	return n > 0 && n <= TRANSCRIPT_IMAGE_MAX && t->n_images < TRANSCRIPT_IMAGES_MAX &&
	       n <= TRANSCRIPT_IMAGES_BYTES_MAX - t->images_bytes;
}

/* Text of a result: an image is shown apart, and what is too large is named. */
static bool add_value(struct transcript *t, struct value *v, const struct osb_pair *pair)
{
	size_t n = pair->value ? strlen(pair->value) : 0;

	if (!set_name(&v->key, pair->key))
		return false;
	t->results_cost += LINE_COST;
	if (is_image(pair->key) && has_room_for_image(t, n) && is_base64(pair->value)) {
		v->text = strdup(pair->value);
		t->images[t->n_images] = (struct transcript_image){ v->key, v->text };
		t->n_images += v->text ? 1 : 0;
		t->images_bytes += n;
		return v->text;
	}
	v->text = bounded(t, (struct str){ pair->value, n }, &n);
	t->results_cost += n;
	return v->text;
}

static bool add_result(struct transcript *t, const struct osb_event *ev)
{
	struct result *r;
	size_t n = 0;

	if (t->n_results >= TRANSCRIPT_RESULTS_MAX || t->results_cost > t->limit)
		return true;
	r = calloc(1, sizeof(*r));
	if (!r)
		return false;
	*t->results_end = r; /* at once, so that it is freed with the rest */
	t->results_end = &r->next;
	t->n_results++;
	r->timestamp_ms = ev->timestamp_ms;
	r->values = calloc(ev->results.n + 1, sizeof(*r->values));
	if (!r->values)
		return false;
	for (size_t i = 0; i < ev->results.n && t->results_cost <= t->limit; i++) {
		const struct osb_pair *pair = &ev->results.items[i];

		if (strcmp(pair->key, "text") == 0) {
			free(r->text);
			r->text = bounded(t, str_of(pair->value), &n);
			if (!r->text)
				return false;
			t->results_cost += n;
		} else if (!add_value(t, &r->values[r->n_values++], pair)) {
			return false;
		}
	}
	return true;
}

#pragma GCC diagnostic pop

static bool add_error(struct transcript *t, const struct osb_event *ev)
{
	AUTO(buf_done) struct buf all = BUF_INIT(t->limit);
	size_t n;

	t->has_error = true;
	t->error_ms = ev->timestamp_ms;
	for (size_t i = 0; i < ev->traceback.n; i++)
		(void)buf_addf(&all, "%s%s", i > 0 ? TRACE_END : "", ev->traceback.items[i]); /* beyond the limit there is no more */
	free(t->error_value);
	t->error_value = bounded(t, str_of(ev->value), &n);
	return t->error_value && set_name(&t->error_name, ev->name ? ev->name : "Error") && set(&t->traceback, buf_z(&all));
}

bool transcript_add(struct transcript *t, const struct osb_event *ev)
{
	t->events += ev->kind != OSB_EVENT_INIT;
	switch (ev->kind) {
	case OSB_EVENT_INIT:
		return set_name(&t->id, ev->text);
	case OSB_EVENT_STDOUT:
	case OSB_EVENT_STDERR:
		return add_line(t, ev);
	case OSB_EVENT_RESULT:
		return add_result(t, ev);
	case OSB_EVENT_COUNT:
		t->execution_count = ev->number;
		return true;
	case OSB_EVENT_COMPLETE:
		t->complete_ms = ev->timestamp_ms;
		t->took_ms = ev->number;
		return true;
	case OSB_EVENT_ERROR:
		return add_error(t, ev);
	case OSB_EVENT_STATUS:
		return true;
	}
	return true;
}

/* ---- telling ---- */

const char *transcript_id(const struct transcript *t)
{
	return t->id;
}

uint64_t transcript_events(const struct transcript *t)
{
	return t->events;
}

void transcript_recent(const struct transcript *t, size_t max, struct buf *out)
{
	const struct line *lines[RECENT_LINES] = { 0 };
	size_t n = 0, room = max;

	for (const struct line *l = t->is_tail ? t->tail.first : t->head.first; l; l = l->next)
		lines[n++ % RECENT_LINES] = l;
	for (size_t have = MIN(n, (size_t)RECENT_LINES); have > 0; have--) { /* the oldest that fits, counted from the end */
		const struct line *l = lines[(n - have) % RECENT_LINES];
		size_t size = 0;

		for (size_t i = have; i > 0; i--)
			size += lines[(n - i) % RECENT_LINES]->n + 1;
		if (size > room && have > 1)
			continue;
		if (out->n > 0)
			(void)buf_add_char(out, '\n');
		(void)cut_middle(out, (struct str){ l->text, l->n }, max);
		room = SIZE_MAX; /* from here on everything fits */
	}
}

static void write_text(struct json_out *o, struct str text, int64_t timestamp_ms, bool is_stderr)
{
	json_open(o, '{');
	json_key(o, "text"), json_str(o, text);
	json_key(o, "timestamp"), json_int(o, timestamp_ms);
	json_key(o, "is_error"), json_bool(o, is_stderr);
	json_close(o, '}');
}

static int64_t write_lines(const struct lines *l, bool is_stderr, struct json_out *o)
{
	int64_t last_ms = 0;

	for (const struct line *line = l->first; line; line = line->next) {
		if (line->is_stderr != is_stderr)
			continue;
		write_text(o, (struct str){ line->text, line->n }, line->timestamp_ms, is_stderr);
		last_ms = line->timestamp_ms;
	}
	return last_ms;
}

static void write_stream(const struct transcript *t, bool is_stderr, struct json_out *o)
{
	int64_t last_ms;
	char note[128];

	json_key(o, is_stderr ? "stderr" : "stdout"), json_open(o, '[');
	last_ms = write_lines(&t->head, is_stderr, o);
	if (t->left_lines[is_stderr] > 0) {
		(void)snprintf(note, sizeof(note), "[... %" PRIu64 " lines, %" PRIu64 " bytes left out ...]", t->left_lines[is_stderr],
			       t->left_bytes[is_stderr]);
		write_text(o, str_of(note), last_ms, is_stderr);
	}
	(void)write_lines(&t->tail, is_stderr, o);
	json_close(o, ']');
}

static bool is_shown(const struct transcript *t, const struct value *v)
{
	for (size_t i = 0; i < t->n_images; i++)
		if (t->images[i].base64 == v->text)
			return true;
	return false;
}

static void write_result(const struct transcript *t, const struct result *r, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "text"), json_cstr(o, r->text);
	json_key(o, "timestamp"), json_int(o, r->timestamp_ms);
	json_key(o, "extra_properties"), json_open(o, '{');
	for (size_t i = 0; i < r->n_values; i++) {
		const struct value *v = &r->values[i];

		json_key(o, v->key), json_cstr(o, is_shown(t, v) ? "(shown as an image)" : v->text);
	}
	json_close(o, '}');
	json_close(o, '}');
}

static void write_error(const struct transcript *t, struct json_out *o)
{
	struct str rest = str_of(t->traceback), line;
	bool more = rest.n > 0;

	json_open(o, '{');
	json_key(o, "name"), json_cstr(o, t->error_name);
	json_key(o, "value"), json_cstr(o, t->error_value);
	json_key(o, "timestamp"), json_int(o, t->error_ms);
	json_key(o, "traceback"), json_open(o, '[');
	while (more) {
		more = str_cut(rest, TRACE_END[0], &line, &rest);
		json_str(o, line);
	}
	json_close(o, ']');
	json_close(o, '}');
}

static void write_complete(const struct transcript *t, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "timestamp"), json_int(o, t->complete_ms);
	json_key(o, "execution_time_in_millis"), json_int(o, t->took_ms);
	json_close(o, '}');
}

void transcript_write(const struct transcript *t, bool has_exit_code, int64_t exit_code, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "id"), json_cstr(o, t->id);
	json_key(o, "execution_count"), t->execution_count >= 0 ? json_int(o, t->execution_count) : json_null(o);
	json_key(o, "result"), json_open(o, '[');
	for (const struct result *r = t->results; r; r = r->next)
		write_result(t, r, o);
	json_close(o, ']');
	json_key(o, "error"), t->has_error ? write_error(t, o) : json_null(o);
	json_key(o, "complete"), t->complete_ms >= 0 ? write_complete(t, o) : json_null(o);
	json_key(o, "exit_code"), has_exit_code ? json_int(o, exit_code) : json_null(o);
	json_key(o, "logs"), json_open(o, '{');
	write_stream(t, false, o);
	write_stream(t, true, o);
	json_close(o, '}');
	json_close(o, '}');
}

bool transcript_image(const struct transcript *t, size_t i, struct transcript_image *ret)
{
	if (i >= t->n_images)
		return false;
	*ret = t->images[i];
	return true;
}
