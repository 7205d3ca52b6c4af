// SPDX-License-Identifier: Apache-2.0
#include "cli/top_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/human.h"

#include "base/banned.h"

#define ID_COLUMNS 36
#define STATE_COLUMNS 10
#define CPU_COLUMNS 8
#define MEMORY_COLUMNS 20
#define AGE_COLUMNS 7
#define FIXED_COLUMNS (STATE_COLUMNS + CPU_COLUMNS + MEMORY_COLUMNS + AGE_COLUMNS + 4 * 2)
#define ID_MIN 8
#define KEYS "q quit  c cpu  m memory  a age"

/* ---- order ---- */

static int by_age(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;

	return (x->age_s > y->age_s) - (x->age_s < y->age_s); /* the newest first */
}

static int by_cpu(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	double p = x->has_metrics ? x->cpu_percent : -1, q = y->has_metrics ? y->cpu_percent : -1;

	return p != q ? (p < q) - (p > q) : by_age(a, b);
}

static int by_memory(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	uint64_t p = x->has_metrics ? x->memory_used : 0, q = y->has_metrics ? y->memory_used : 0;

	return p != q ? (p < q) - (p > q) : by_age(a, b);
}

void top_sort(struct top_row *rows, size_t n, enum top_order order)
{
	static int (*const orders[])(const void *, const void *) = { [TOP_BY_AGE] = by_age, [TOP_BY_CPU] = by_cpu,
								    [TOP_BY_MEMORY] = by_memory };

	if (n > 0)
		qsort(rows, n, sizeof(*rows), orders[order]);
}

/* ---- lines ---- */

/* To the right, where numbers belong. */
static void add_right(struct buf *line, const char *text, unsigned columns)
{
	for (size_t n = strlen(text); n < columns; n++)
		buf_add_char(line, ' ');
	human_cell(line, str_of(text), (unsigned)MIN(strlen(text), (size_t)columns));
}

static void add_fields(struct buf *line, struct str id, struct str state, const char *const texts[3], struct str image, unsigned columns)
{
	/* The id gives way before the image, which comes last, does: an id that is cut cannot be typed. */
	unsigned id_columns = columns > FIXED_COLUMNS + ID_MIN ? MIN(columns - FIXED_COLUMNS, (unsigned)ID_COLUMNS) : ID_MIN;
	unsigned used = id_columns + FIXED_COLUMNS + 2;

	human_cell(line, id, id_columns);
	buf_add(line, "  ", 2);
	human_cell(line, state, STATE_COLUMNS);
	add_right(line, texts[0], CPU_COLUMNS);
	add_right(line, texts[1], MEMORY_COLUMNS + 2);
	add_right(line, texts[2], AGE_COLUMNS + 2);
	if (columns > used && image.n > 0) {
		buf_add(line, "  ", 2);
		human_cell(line, image, columns - used);
	}
}

/* A line of the page, cut at the screen's edge; it has no escapes in it yet. */
static void end_line(struct buf *out, struct buf *line, unsigned columns, const char *before, const char *after)
{
	struct str text = buf_str(line);

	while (text.n > 0 && text.p[text.n - 1] == ' ')
		text.n--;
	buf_addf(out, "%s", before);
	human_cell(out, text, (unsigned)MIN(text.n, (size_t)columns));
	buf_addf(out, "%s\n", after);
	buf_clear(line);
}

static void add_row(struct buf *line, const struct top_row *r, unsigned columns)
{
	char cpu[16] = "-", memory[40] = "-", age[16] = "-";
	const char *const texts[] = { cpu, memory, age };

	if (r->has_metrics) {
		(void)snprintf(cpu, sizeof(cpu), "%.1f%%", r->cpu_percent);
		(void)snprintf(memory, sizeof(memory), "%s / %s", BYTES(r->memory_used), BYTES(r->memory_total));
	}
	if (r->age_s >= 0)
		(void)snprintf(age, sizeof(age), "%s", SPAN((uint64_t)r->age_s));
	add_fields(line, r->id, r->state, texts, r->image, columns);
}

static void add_summary(struct buf *line, const struct top_row *rows, size_t n, const struct top_view *v)
{
	size_t running = 0;
	double cpu = 0;
	uint64_t memory = 0;

	for (size_t i = 0; i < n; i++) {
		running += str_is(rows[i].state, "Running");
		cpu += rows[i].has_metrics ? rows[i].cpu_percent : 0;
		memory += rows[i].has_metrics ? rows[i].memory_used : 0;
	}
	buf_addf(line, "%zu sandbox%s, %zu running   cpu %.1f%%   memory %s", v->n_all, v->n_all == 1 ? "" : "es", running, cpu,
		 BYTES(memory));
	if (v->is_live && v->columns > line->n + sizeof(KEYS) + 2) {
		for (size_t pad = v->columns - line->n - (sizeof(KEYS) - 1); pad > 0; pad--)
			buf_add_char(line, ' ');
		buf_add(line, KEYS, sizeof(KEYS) - 1);
	}
}

void top_page(const struct top_row *rows, size_t n, const struct top_view *v, struct buf *out)
{
	static const char *const titles[] = { "CPU", "MEMORY", "AGE" };
	const char *bold = v->is_plain ? "" : "\033[1m", *normal = v->is_plain ? "" : "\033[0m";
	AUTO(buf_done) struct buf line = BUF_INIT(16384);
	size_t left = v->rows > 3 ? v->rows - 3 : 0, shown = MIN(n, left);

	add_summary(&line, rows, n, v);
	end_line(out, &line, v->columns, "", "");
	if (v->trouble.n > 0)
		buf_add_str(&line, v->trouble);
	end_line(out, &line, v->columns, bold, normal);
	add_fields(&line, STR("ID"), STR("STATE"), titles, STR("IMAGE"), v->columns);
	end_line(out, &line, v->columns, bold, normal);
	for (size_t i = 0; i < shown; i++) {
		if (i + 1 == shown && v->n_all > shown)
			buf_addf(&line, "... and %zu more", v->n_all - i);
		else
			add_row(&line, &rows[i], v->columns);
		end_line(out, &line, v->columns, "", "");
	}
}
