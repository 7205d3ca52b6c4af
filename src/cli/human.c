// SPDX-License-Identifier: Apache-2.0
#include "cli/human.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/own.h"

#include "base/banned.h"

const char *human_bytes(struct human *out, uint64_t bytes)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		(void)snprintf(out->z, sizeof(out->z), "%" PRIu64 " B", bytes);
		return out->z;
	}
	for (v /= 1024; v >= 1023.95 && i + 1 < ARRAY_LEN(units); i++) /* 1023.95 would be shown as 1024.0 */
		v /= 1024;
	(void)snprintf(out->z, sizeof(out->z), v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[i]);
	return out->z;
}

const char *human_span(struct human *out, uint64_t seconds)
{
	static const struct {
		uint64_t seconds;
		char name;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	size_t i = 0;
	uint64_t rest;

	while (i + 1 < ARRAY_LEN(units) && seconds < units[i].seconds)
		i++;
	rest = i + 1 < ARRAY_LEN(units) ? seconds % units[i].seconds / units[i + 1].seconds : 0;
	if (rest > 0)
		(void)snprintf(out->z, sizeof(out->z), "%" PRIu64 "%c%" PRIu64 "%c", seconds / units[i].seconds, units[i].name, rest,
			       units[i + 1].name);
	else
		(void)snprintf(out->z, sizeof(out->z), "%" PRIu64 "%c", seconds / units[i].seconds, units[i].name);
	return out->z;
}

/* Of text that has no sequence of more than one byte in an escape. */
static size_t width(struct str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

void human_cell(struct buf *out, struct str text, unsigned columns)
{
	char escape[ESCAPE_SIZE];
	size_t used = 0, cut_at = out->n, taken;

	while (text.n > 0) {
		struct str shown = escape_next(text, escape, &taken);

		if (shown.n == 2 && shown.p[0] == '\\' && (shown.p[1] == '"' || shown.p[1] == '\\'))
			shown = str_skip(shown, 1); /* these two disturb no terminal */
		if (used + width(shown) > columns)
			break;
		used += width(shown);
		buf_add_str(out, shown);
		if (used < columns)
			cut_at = out->n;
		text = str_skip(text, taken);
	}
	if (text.n > 0 && columns > 0) {
		used -= width((struct str){ out->p + cut_at, out->n - cut_at });
		out->n = cut_at;
		buf_add_char(out, '~');
		used++;
	}
	for (; used < columns; used++)
		buf_add_char(out, ' ');
}
