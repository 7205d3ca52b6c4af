// SPDX-License-Identifier: Apache-2.0
#include "execd/command/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "net/utf8.h"

#include "base/banned.h"

static void record_free(struct history *h, struct command_record *p)
{
	if (p->user)
		p->forget(p);
	*(p->older ? &p->older->newer : &h->oldest) = p->newer;
	*(p->newer ? &p->newer->older : &h->newest) = p->older;
	h->n--;
	tail_file_done(&p->output);
	free(p->content);
	free(p);
}

void history_done(struct history *h)
{
	while (h->oldest)
		record_free(h, h->oldest);
}

static uint64_t all_bytes(const struct history *h)
{
	uint64_t n = 0;

	for (const struct command_record *p = h->oldest; p; p = p->newer)
		n += tail_file_bytes(&p->output);
	return n;
}

static struct command_record *oldest_ended(const struct history *h)
{
	struct command_record *p = h->oldest;

	while (p && p->is_running)
		p = p->newer;
	return p;
}

/* Room for one more. What runs stays: there are fewer of those than there may be records. */
static void make_room(struct history *h, uint64_t now_ms)
{
	uint64_t bytes = all_bytes(h);
	struct command_record *p;

	while ((p = oldest_ended(h)) && (h->n >= HISTORY_MAX || bytes > HISTORY_BYTES_MAX ||
					 now_ms - p->finished_ms > HISTORY_KEEP_MS)) {
		bytes -= tail_file_bytes(&p->output);
		record_free(h, p);
	}
}

/* Without half a character at the end. */
static char *copy_content(struct str content)
{
	struct str part = str_first(content, COMMAND_RECORD_CONTENT_MAX);
	char *copy;

	for (size_t k = 1; k <= 3 && part.n < content.n && k < part.n; k++)
		if (utf8_is_cut(str_skip(part, part.n - k))) {
			part = str_first(part, part.n - k);
			break;
		}
	copy = malloc(part.n + 1);
	if (copy) {
		memcpy(copy, part.p, part.n);
		copy[part.n] = '\0';
	}
	return copy;
}

struct command_record *history_add(struct history *h, struct str id, struct str content, uint64_t now_ms,
				   struct err *e)
{
	struct command_record *p;

	make_room(h, now_ms);
	p = calloc(1, sizeof(*p));
	if (!p || !(p->content = copy_content(content))) {
		free(p);
		(void)err_no_memory(e);
		return NULL;
	}
	(void)snprintf(p->id, sizeof(p->id), "%.*s", STR_ARG(id)); /* ids have one length */
	(void)clock_gettime(CLOCK_REALTIME, &p->started);
	p->is_running = true;
	p->output = TAIL_FILE_INIT(h->dir);
	p->older = h->newest;
	*(h->newest ? &h->newest->newer : &h->oldest) = p;
	h->newest = p;
	h->n++;
	return p;
}

void history_end(struct command_record *p, int exit_code, const char *error, uint64_t now_ms)
{
	p->is_running = false;
	p->exit_code = exit_code;
	(void)clock_gettime(CLOCK_REALTIME, &p->finished);
	p->finished_ms = now_ms;
	(void)snprintf(p->error, sizeof(p->error), "%s", error); /* cut, it still says most */
}

struct command_record *history_find(struct history *h, struct str id, uint64_t now_ms)
{
	struct command_record *p = h->newest;

	while (p && !str_is(id, p->id))
		p = p->older;
	if (p && !p->is_running && now_ms - p->finished_ms > HISTORY_KEEP_MS) {
		record_free(h, p);
		return NULL;
	}
	return p;
}

static void write_time(struct json_out *o, const char *key, struct timespec t)
{
	char text[RFC3339_SIZE];

	(void)rfc3339_format_ns(t, text);
	json_key(o, key), json_cstr(o, text);
}

void command_record_write(const struct command_record *p, struct buf *json)
{
	struct json_out o = json_out(json);

	json_open(&o, '{');
	json_key(&o, "id"), json_cstr(&o, p->id);
	if (p->content[0])
		json_key(&o, "content"), json_cstr(&o, p->content);
	json_key(&o, "running"), json_bool(&o, p->is_running);
	if (!p->is_running) {
		json_key(&o, "exit_code"), json_int(&o, p->exit_code);
		if (p->error[0])
			json_key(&o, "error"), json_cstr(&o, p->error);
	}
	write_time(&o, "started_at", p->started);
	if (!p->is_running)
		write_time(&o, "finished_at", p->finished);
	json_close(&o, '}');
}
