// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/runtime_log.h"

#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/guest.h"
#include "base/rfc3339.h"
#include "server/runtime/runtime.h"

#include "base/banned.h"

#define BOTH_MAX (2 * GUEST_LOG_SEGMENT_MAX)

static int read_segment(int fd, struct buf *b, struct err *e)
{
	off_t at = 0;

	for (;;) {
		char *p = buf_reserve(b, 65536);
		ssize_t n = p ? pread(fd, p, 65536, at) : -1;

		if (!p || at > GUEST_LOG_SEGMENT_MAX) /* larger than execd makes them: not what we hand out */
			return err_set(e, ERR_LIMIT, "the log is too large");
		if (n < 0)
			return err_sys(e, errno, "read the log");
		if (n == 0)
			return 0;
		buf_commit(b, (size_t)n);
		at += n;
	}
}

/* The one that was changed last is the newer, and comes second. */
static int older_of(const int segments[2], struct err *e)
{
	struct stat a, b;

	if (fstat(segments[0], &a) < 0 || fstat(segments[1], &b) < 0)
		return err_sys(e, errno, "look at the log");
	if (a.st_mtim.tv_sec != b.st_mtim.tv_sec)
		return a.st_mtim.tv_sec < b.st_mtim.tv_sec ? 0 : 1;
	return a.st_mtim.tv_nsec < b.st_mtim.tv_nsec ? 0 : 1;
}

static bool is_recent(struct str line, int64_t oldest_s)
{
	struct str time, text;
	struct timespec t;

	(void)str_cut(line, ' ', &time, &text);
	return rfc3339_parse(time, 0, &t, &(struct err){ 0 }) < 0 || t.tv_sec >= oldest_s; /* a torn line stays */
}

/* Where the last TAIL lines begin. */
static struct str last_lines(struct str all, unsigned tail)
{
	size_t at = all.n;

	if (at > 0 && all.p[at - 1] == '\n')
		at--;
	while (at > 0 && (all.p[at - 1] != '\n' || --tail > 0))
		at--;
	return str_skip(all, at);
}

/* Of LINES the newest, from one that is young enough, that fit into MAX bytes. */
static struct str newest_that_fit(struct str lines, int64_t oldest_s, size_t max, bool *ret_is_cut)
{
	bool is_cut = false;

	while (lines.n > 0) {
		struct str line, rest;
		bool is_young;

		(void)str_cut(lines, '\n', &line, &rest);
		is_young = is_recent(line, oldest_s);
		if (is_young && lines.n <= max)
			break;
		is_cut |= is_young;
		lines = rest;
	}
	*ret_is_cut = is_cut;
	return lines;
}

int runtime_log_read(const int segments[2], const struct runtime_log_query *query, struct buf *text, bool *ret_is_cut,
		     struct err *e)
{
	AUTO(buf_done) struct buf all = BUF_INIT(BOTH_MAX + 4 * 65536);
	int64_t oldest_s = query->since_ms ? clock_wall().tv_sec - (int64_t)(query->since_ms / 1000) : INT64_MIN;
	int older = older_of(segments, e);
	struct str rest, line;

	if (older < 0 || read_segment(segments[older], &all, e) < 0 || read_segment(segments[!older], &all, e) < 0)
		return -1;
	rest = newest_that_fit(last_lines(buf_str(&all), query->tail), oldest_s, text->max, ret_is_cut);
	while (rest.n > 0) {
		bool is_whole = str_cut(rest, '\n', &line, &rest);

		if (!is_recent(line, oldest_s))
			continue;
		buf_add_str(text, line);
		if (is_whole)
			(void)buf_add_char(text, '\n');
	}
	return text->failed ? err_no_memory(e) : 0;
}
