// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/rfc3339.h"

#include "base/banned.h"

/* The one mutable global of the libraries. Worker threads log too: what every call reads is atomic, the rest is
 * behind the lock. */
static struct {
	_Atomic int level, format;
	pthread_mutex_t lock;
	int fd;
	uint64_t dropped; /* lines that were not written whole since the last one that was */
	bool is_torn;     /* what stands in FD does not end with a line end */
} state = {
	.level = LOG_LEVEL_INFO,
	.format = LOG_FORMAT_TEXT,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.fd = STDERR_FILENO,
};

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&state.level, (int)level, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
	atomic_store_explicit(&state.format, (int)format, memory_order_relaxed);
}

void log_set_fd(int fd)
{
	(void)pthread_mutex_lock(&state.lock); /* afterwards nobody writes to the old one, which may be closed */
	state.fd = fd;
	state.is_torn = false;
	(void)pthread_mutex_unlock(&state.lock);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&state.level, memory_order_relaxed);
}

bool log_level_parse(struct str name, enum log_level *ret_level)
{
	static const struct {
		const char *name;
		enum log_level level;
	} names[] = {
		{ "error", LOG_LEVEL_ERROR }, { "critical", LOG_LEVEL_ERROR }, { "warn", LOG_LEVEL_WARN },
		{ "warning", LOG_LEVEL_WARN }, { "info", LOG_LEVEL_INFO }, { "debug", LOG_LEVEL_DEBUG },
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(name, str_of(names[i].name))) {
			*ret_level = names[i].level;
			return true;
		}
	return false;
}

bool log_format_parse(struct str name, enum log_format *ret_format)
{
	bool is_json = str_eq_nocase(name, STR("json"));

	if (!is_json && !str_eq_nocase(name, STR("text")))
		return false;
	*ret_format = is_json ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
	return true;
}

/* What closes a line always fits: the last quote, the marks, the bracket and the line end. */
#define LINE_RESERVE 64
#define LINE_ROOM (LOG_LINE_MAX - LINE_RESERVE)
#define VALUE_MIN 24 /* room for any number or word, or for two quotes */

struct line {
	char p[LOG_LINE_MAX]; /* the first byte is a line end, for when the line before lacks its own */
	size_t n;
	bool is_json;
	bool is_cut; /* something did not fit: nothing more is added */
};

static size_t line_room(const struct line *l)
{
	return l->n < LINE_ROOM ? LINE_ROOM - l->n : 0;
}

/* All of S or nothing. */
static bool line_add(struct line *l, struct str s)
{
	if (l->is_cut || s.n > line_room(l)) {
		l->is_cut = true;
		return false;
	}
	if (s.n > 0)
		memcpy(l->p + l->n, s.p, s.n);
	l->n += s.n;
	return true;
}

/* Into the reserve: may not fail. */
static void line_close_with(struct line *l, struct str s)
{
	memcpy(l->p + l->n, s.p, s.n);
	l->n += s.n;
}

/* An ill-formed byte has no escape of its own in JSON. */
static struct str escape(struct str s, bool is_json, char out[ESCAPE_SIZE], size_t *ret_n)
{
	struct str shown = escape_next(s, out, ret_n);

	return is_json && str_starts(shown, STR("\\x")) ? STR("\\ufffd") : shown;
}

/* What needs no escaping goes by runs, so that ordinary text costs one copy. */
static size_t plain_run(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] >= ' ' && s.p[n] < 0x7f && s.p[n] != '"' && s.p[n] != '\\')
		n++;
	return n;
}

static void line_escaped(struct line *l, struct str s)
{
	while (s.n > 0 && !l->is_cut) {
		size_t n = plain_run(s);
		char out[ESCAPE_SIZE];

		if (n > 0) {
			size_t fits = MIN(n, line_room(l));

			(void)line_add(l, str_first(s, fits));
			if (fits < n)
				l->is_cut = true;
		} else {
			(void)line_add(l, escape(s, l->is_json, out, &n));
		}
		s = str_skip(s, n);
	}
}

static void line_quoted(struct line *l, struct str s)
{
	if (!line_add(l, STR("\"")))
		return;
	line_escaped(l, s);
	line_close_with(l, STR("\""));
}

/* In the text format a value stands bare when nobody could misread it. */
static bool is_bare(struct str s)
{
	if (s.n == 0 || str_eq(s, STR("null")))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f || s.p[i] == '"' || s.p[i] == '\\' || s.p[i] == '=')
			return false;
	return true;
}

static void line_string(struct line *l, struct str s)
{
	if (!s.p)
		(void)line_add(l, STR("null"));
	else if (!l->is_json && is_bare(s))
		line_escaped(l, s);
	else
		line_quoted(l, s);
}

/* The key with what stands around it, if a short value fits too: a cut never leaves a key without a value. */
static bool line_key(struct line *l, const char *key, const char *unit)
{
	char head[96];
	int n = snprintf(head, sizeof(head), l->is_json ? ",\"%s%s\":" : " %s%s=", key, unit ? unit : "");

	assert(n > 0 && n < (int)sizeof(head));
	if ((size_t)n + VALUE_MIN > line_room(l))
		l->is_cut = true;
	return line_add(l, (struct str){ head, (size_t)n });
}

static void line_plain(struct line *l, const struct log_field *f, const char *value)
{
	if (line_key(l, f->key, f->unit))
		(void)line_add(l, str_of(value));
}

static void line_error(struct line *l, const struct err *e)
{
	size_t n = strnlen(e->msg, sizeof(e->msg)); /* it may have crossed a pipe */

	if (line_key(l, "code", NULL))
		line_string(l, str_of(err_code_name(e->code)));
	if (line_key(l, "error", NULL))
		line_string(l, (struct str){ e->msg, n });
}

static void line_field(struct line *l, const struct log_field *f)
{
	char number[24];

	switch (f->kind) {
	case LOG_KIND_END:
		break;
	case LOG_KIND_STR:
		if (line_key(l, f->key, f->unit))
			line_string(l, f->s);
		break;
	case LOG_KIND_INT:
		(void)snprintf(number, sizeof(number), "%" PRId64, f->i);
		line_plain(l, f, number);
		break;
	case LOG_KIND_UINT:
		(void)snprintf(number, sizeof(number), "%" PRIu64, f->u);
		line_plain(l, f, number);
		break;
	case LOG_KIND_BOOL:
		line_plain(l, f, f->b ? "true" : "false");
		break;
	case LOG_KIND_SECRET:
		line_plain(l, f, l->is_json ? "\"****\"" : "****");
		break;
	case LOG_KIND_ERR:
		line_error(l, f->e);
		break;
	}
}

static void line_head(struct line *l, enum log_level level, const char *msg)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char ts[RFC3339_SIZE];
	char head[96];
	int n;

	(void)rfc3339_format_ms(clock_wall(), ts);
	n = snprintf(head, sizeof(head), l->is_json ? "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":" : "%s %s ", ts,
		     names[level]);
	(void)line_add(l, (struct str){ head, (size_t)n });
	if (l->is_json)
		line_quoted(l, str_of(msg));
	else
		line_escaped(l, str_of(msg));
}

static void line_end(struct line *l, uint64_t dropped)
{
	char mark[40];
	int n;

	if (l->is_cut)
		line_close_with(l, l->is_json ? STR(",\"cut\":true") : STR(" cut=true"));
	if (dropped > 0) {
		n = snprintf(mark, sizeof(mark), l->is_json ? ",\"dropped\":%" PRIu64 : " dropped=%" PRIu64, dropped);
		line_close_with(l, (struct str){ mark, (size_t)n });
	}
	line_close_with(l, l->is_json ? STR("}\n") : STR("\n"));
}

/* A pipe or socket that is ready takes a line of PIPE_BUF bytes without blocking; files are always ready. The
 * description is shared with whoever started us, so it is not for us to make it non-blocking. */
static bool is_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

_Static_assert(LOG_LINE_MAX <= PIPE_BUF, "a line must be written to a pipe in one piece");

static void line_write(struct line *l)
{
	size_t skip;
	ssize_t n = -1;

	(void)pthread_mutex_lock(&state.lock);
	line_end(l, state.dropped);
	skip = state.is_torn ? 0 : 1;
	if (is_ready(state.fd))
		do
			n = write(state.fd, l->p + skip, l->n - skip);
		while (n < 0 && errno == EINTR);
	if (n == (ssize_t)(l->n - skip)) {
		state.dropped = 0;
		state.is_torn = false;
	} else {
		state.dropped++;
		state.is_torn = state.is_torn || n > 0;
	}
	(void)pthread_mutex_unlock(&state.lock);
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
	int saved = errno;
	struct line l;

	l.p[0] = '\n';
	l.n = 1;
	l.is_cut = false;
	l.is_json = atomic_load_explicit(&state.format, memory_order_relaxed) == LOG_FORMAT_JSON;
	line_head(&l, level, msg);
	for (; fields->kind != LOG_KIND_END && !l.is_cut; fields++)
		line_field(&l, fields);
	line_write(&l);
	errno = saved;
}
