// SPDX-License-Identifier: Apache-2.0
#include "client/term_frame.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

#define NEWS_MAX ((size_t)16 * 1024)
#define NEWS_ARENA_MAX ((size_t)128 * 1024)
#define NEWS_DEPTH_MAX 8
#define NEWS_VALUES_MAX 256
#define OFFSET_LEN 8
#define SIGNAL_MAX 16

enum tag { TAG_STDOUT = 1, TAG_STDERR = 2, TAG_REPLAY = 3 };

/* ---- bytes ---- */

static void read_replay(struct str data, struct term_news *n)
{
	if (data.n < OFFSET_LEN)
		return;
	for (int i = 0; i < OFFSET_LEN; i++)
		n->offset = n->offset << 8 | (unsigned char)data.p[i];
	n->kind = TERM_REPLAY;
	n->data = str_skip(data, OFFSET_LEN);
}

static void read_bytes(struct str message, struct term_news *n)
{
	struct str data = str_skip(message, 1);

	if (message.n == 0)
		return;
	if (message.p[0] == TAG_REPLAY) {
		read_replay(data, n);
	} else if (data.n > 0 && (message.p[0] == TAG_STDOUT || message.p[0] == TAG_STDERR)) {
		n->kind = TERM_OUTPUT;
		n->is_stderr = message.p[0] == TAG_STDERR;
		n->data = data;
	}
}

/* ---- news ---- */

static void copy_text(char *out, size_t max, struct str text)
{
	text = str_first(text, max);
	if (text.n > 0)
		memcpy(out, text.p, text.n);
	out[text.n] = '\0';
}

static void read_exit(const struct json *v, struct term_news *n)
{
	const struct json *code = json_get(v, "exit_code");

	n->kind = TERM_EXIT;
	n->exit_code = code && code->type == JSON_INT && code->i >= 0 && code->i <= INT32_MAX ? (int)code->i : -1;
}

static void read_text(struct str message, struct term_news *n)
{
	const struct json_limits limits = { .bytes = NEWS_MAX, .depth = NEWS_DEPTH_MAX, .values = NEWS_VALUES_MAX };
	AUTO(arena_done) struct arena a = ARENA_INIT(NEWS_ARENA_MAX);
	const struct json *v = json_parse(&a, message, &limits, NULL, &(struct err){ 0 });
	struct str type;

	if (!v || v->type != JSON_OBJECT)
		return;
	type = json_text(v, "type");
	if (str_is(type, "connected")) {
		n->kind = TERM_CONNECTED;
	} else if (str_is(type, "exit")) {
		read_exit(v, n);
	} else if (str_is(type, "error")) {
		n->kind = TERM_ERROR;
		copy_text(n->code, TERM_CODE_MAX, json_text(v, "code"));
		copy_text(n->message, TERM_MESSAGE_MAX, json_text(v, "error"));
	}
}

void term_news_parse(bool is_text, struct str message, struct term_news *ret)
{
	*ret = (struct term_news){ .exit_code = -1 };
	if (is_text)
		read_text(message, ret);
	else
		read_bytes(message, ret);
}

/* ---- orders ---- */

void term_order_resize(struct buf *out, unsigned columns, unsigned rows)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "resize");
	json_key(&o, "cols"), json_uint(&o, columns);
	json_key(&o, "rows"), json_uint(&o, rows);
	json_close(&o, '}');
}

bool term_order_signal(struct buf *out, const char *name)
{
	struct json_out o = json_out(out);
	struct str s = str_of(name);

	if (!str_starts(s, STR("SIG")) || s.n > SIGNAL_MAX)
		return false;
	json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "signal");
	json_key(&o, "signal"), json_str(&o, s);
	json_close(&o, '}');
	return true;
}
