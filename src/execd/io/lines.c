// SPDX-License-Identifier: Apache-2.0
#include "execd/io/lines.h"

#include "net/utf8.h"

#include "base/banned.h"

/* How far S goes without a line end, from FROM on. */
static size_t find_end(struct str s, size_t from)
{
	const char *lf = from < s.n ? memchr(s.p + from, '\n', s.n - from) : NULL;
	size_t end = lf ? (size_t)(lf - s.p) : s.n;
	const char *cr = from < end ? memchr(s.p + from, '\r', end - from) : NULL;

	return cr ? (size_t)(cr - s.p) : end;
}

/* Bytes of S without a character that its end cuts in two; all of them if that would leave nothing. */
static size_t without_cut_character(struct str s)
{
	for (size_t n = 1; n <= 3 && n < s.n; n++)
		if (utf8_is_cut(str_skip(s, s.n - n)))
			return s.n - n;
	return s.n;
}

static bool give(struct lines *l, struct str text, size_t used, bool is_whole, struct str *ret_text, size_t *ret_used)
{
	bool is_rest_empty = text.n == 0 && l->is_continued;

	*ret_text = text.n > 0 ? text : STR("\n");
	*ret_used = used;
	l->scanned = 0;
	l->is_continued = !is_whole;
	return !is_rest_empty;
}

/* One step: true when a text was given or input was used up without one (*ret_has_text false). */
static bool step(struct lines *l, struct str in, enum lines_mode mode, struct str *ret_text, size_t *ret_used,
		 bool *ret_has_text)
{
	size_t end = find_end(in, l->scanned);

	if (end < in.n) {
		*ret_has_text = give(l, str_first(in, end), end + 1, true, ret_text, ret_used);
		l->skips_lf = in.p[end] == '\r';
		return true;
	}
	l->scanned = in.n;
	if (mode == LINES_WHOLE || in.n == 0)
		return false;
	end = mode == LINES_LAST ? in.n : without_cut_character(in);
	*ret_has_text = give(l, str_first(in, end), end, mode == LINES_LAST, ret_text, ret_used);
	return true;
}

bool lines_next(struct lines *l, struct str in, enum lines_mode mode, struct str *ret_text, size_t *ret_used)
{
	size_t before = 0;
	bool has_text = false;

	*ret_used = 0;
	do {
		size_t used = 0;

		if (l->skips_lf && in.n > before) {
			l->skips_lf = false;
			before += in.p[before] == '\n';
		}
		if (!step(l, str_skip(in, before), mode, ret_text, &used, &has_text)) {
			*ret_used = before;
			return false;
		}
		before += used;
	} while (!has_text);
	*ret_used = before;
	return true;
}
