// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/human.h"
#include "cli/terminal.h"
#include "sys/fd.h"

#include "base/banned.h"

#define NAME_COLUMNS 24
#define BAR_MIN 10
#define BAR_MAX 40
#define LINE_MAX_BYTES 2048

void progress_init(struct progress *p, int fd, bool is_quiet, struct str what, uint64_t total)
{
	*p = (struct progress){ .fd = !is_quiet && terminal_is(fd) ? fd : -1, .what = what, .total = total, .start_ms = clock_mono_ms() };
}

static unsigned percent(const struct progress *p)
{
	return p->done >= p->total ? 100 : (unsigned)((double)p->done * 100 / (double)p->total);
}

static void add_bar(struct buf *out, unsigned filled, unsigned columns)
{
	for (unsigned i = 0; i < columns; i++)
		buf_add_char(out, i < filled ? '#' : '.');
}

/* One more part of what stands behind the bar, whole or not at all. */
static void add_part(struct buf *out, unsigned room, const char *before, const char *text, const char *after)
{
	if (out->n + strlen(before) + strlen(text) + strlen(after) <= room)
		buf_addf(out, "%s%s%s", before, text, after);
}

static void add_numbers(const struct progress *p, uint64_t now_ms, unsigned room, struct buf *out)
{
	uint64_t took_ms = now_ms > p->start_ms ? now_ms - p->start_ms : 0;
	uint64_t rate = took_ms > 0 ? (uint64_t)((double)p->done * 1000 / (double)took_ms) : 0;
	bool has_total = p->total != PROGRESS_UNKNOWN;
	char number[8];

	if (has_total) {
		(void)snprintf(number, sizeof(number), "%3u%%", percent(p));
		add_part(out, room, "  ", number, "");
	}
	add_part(out, room, "  ", BYTES(p->done), "");
	if (has_total)
		add_part(out, room, " of ", BYTES(p->total), "");
	if (rate > 0)
		add_part(out, room, "  ", BYTES(rate), "/s");
	if (rate > 0 && has_total && p->done < p->total)
		add_part(out, room, "  ", SPAN((p->total - p->done) / rate), " left");
}

void progress_line(const struct progress *p, uint64_t now_ms, unsigned columns, struct buf *out)
{
	AUTO(buf_done) struct buf numbers = BUF_INIT(256);
	unsigned most = MIN(columns / 3, (unsigned)NAME_COLUMNS), name = p->what.n < most ? (unsigned)p->what.n : most;
	unsigned room = columns > name ? columns - name - 1 : 0; /* the last column stays free: writing there may begin a new line */
	unsigned bar;

	human_cell(out, p->what, name);
	if (p->note.n > 0) {
		buf_add_str(out, str_first(STR("  "), room));
		human_cell(out, p->note, room > 2 ? (unsigned)MIN((size_t)room - 2, p->note.n) : 0);
		return;
	}
	add_numbers(p, now_ms, room, &numbers);
	bar = room > numbers.n + 2 ? MIN(room - (unsigned)numbers.n - 2, (unsigned)BAR_MAX) : 0;
	if (p->total != PROGRESS_UNKNOWN && bar >= BAR_MIN) {
		buf_add(out, "  ", 2);
		add_bar(out, percent(p) * bar / 100, bar);
	}
	buf_add_str(out, buf_str(&numbers));
}

static void draw(struct progress *p, uint64_t now)
{
	AUTO(buf_done) struct buf line = BUF_INIT(LINE_MAX_BYTES);
	unsigned columns, rows;

	(void)terminal_size(p->fd, &columns, &rows);
	buf_add(&line, "\r", 1);
	progress_line(p, now, columns, &line);
	buf_add(&line, "\033[K", 3);
	(void)fd_write_all(p->fd, line.p, line.n, &(struct err){ 0 }); /* it is only a bar */
	p->is_shown = true;
	p->shown_ms = now;
}

void progress_set(struct progress *p, uint64_t done)
{
	uint64_t now;

	p->done = done;
	if (p->fd < 0)
		return;
	now = clock_mono_ms();
	if (p->is_shown ? now - p->shown_ms >= PROGRESS_MS : now - p->start_ms >= PROGRESS_FIRST_MS)
		draw(p, now);
}

void progress_add(struct progress *p, uint64_t bytes)
{
	progress_set(p, p->done + bytes);
}

void progress_say(struct progress *p, struct str note)
{
	p->note = note;
	if (p->fd >= 0)
		draw(p, clock_mono_ms());
}

void progress_clear(struct progress *p)
{
	if (p->is_shown)
		(void)fd_write_all(p->fd, "\r\033[K", 4, &(struct err){ 0 }); /* as above */
	p->is_shown = false;
}
