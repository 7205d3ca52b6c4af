// SPDX-License-Identifier: Apache-2.0
#include "cli/log_follow.h"

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static int compare(struct timespec a, struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec < b.tv_sec ? -1 : 1;
	return a.tv_nsec < b.tv_nsec ? -1 : a.tv_nsec > b.tv_nsec;
}

/* Whether a line of this time is new; N_SAME counts those of the last time that this text has had. */
static bool is_new(struct log_follow *f, struct timespec at, size_t *n_same)
{
	int order = f->has_last ? compare(at, f->last) : 1;

	if (order < 0)
		return false;
	if (order == 0) {
		if (++*n_same <= f->n_last)
			return false;
		f->n_last = *n_same;
		return true;
	}
	f->has_last = true;
	f->last = at;
	*n_same = f->n_last = 1;
	return true;
}

void log_follow(struct log_follow *f, struct str text, bool is_final, struct buf *out)
{
	bool shown = !f->has_last; /* a line without a time belongs to the one before it */
	size_t n_same = 0;

	while (text.n > 0) {
		struct str line, time, rest;
		struct timespec at;
		bool is_whole = str_cut(text, '\n', &line, &text);

		if (!is_whole && !is_final)
			return;
		(void)str_cut(line, ' ', &time, &rest);
		if (rfc3339_parse(time, 0, &at, &(struct err){ 0 }) == 0) {
			shown = is_new(f, at, &n_same);
			if (!f->shows_times)
				line = rest;
		}
		if (!shown)
			continue;
		buf_add_str(out, line);
		buf_add_char(out, '\n');
	}
}
