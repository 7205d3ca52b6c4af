// SPDX-License-Identifier: Apache-2.0
/* GET /files/download. A whole file, or a range of it, is sent by the loop itself: opening does not wait for anything, and
 * the kernel sends from its cache. Lines have to be looked for: that is a worker's. */
#include <fcntl.h>

#include "base/err.h"
#include "base/http_date.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/io/line_window.h"
#include "execd/task.h"
#include "net/http/header.h"
#include "net/http/range.h"

#include "base/banned.h"

#define HEADER_MAX 1024

/* ---- lines ---- */

static bool read_count(const struct query *q, const char *key, uint64_t *ret)
{
	const struct query_pair *p = query_get(q, key);

	return !p || str_to_u64(p->value, 1, INT64_MAX, ret);
}

static int send_lines(struct task *t, int fd, struct line_window *w, struct err *e)
{
	char piece[LINE_WINDOW_STEP];
	bool is_done = false;
	ssize_t n = 1;

	task_text(t);
	while (!is_done && n > 0) {
		struct str in;

		n = read(fd, piece, sizeof(piece));
		if (n < 0)
			return err_sys(e, errno, "read");
		in = (struct str){ piece, (size_t)n };
		while (in.n > 0 && !is_done) {
			is_done = line_window_take(w, &in, &t->out);
			if (task_in_time(t, e) < 0 || task_spill(t, e) < 0)
				return -1;
		}
	}
	return task_end(t, e);
}

static int lines(struct task *t, struct err *e)
{
	struct str sent = query_get(&t->query, "path")->value; /* the loop has looked */
	struct line_window w = { .left = UINT64_MAX };
	struct err why = { 0 };
	AUTO_FD fd = -1;
	struct place at;
	struct stat st;
	uint64_t first = 1;

	(void)e;
	if (!read_count(&t->query, "offset", &first) || !read_count(&t->query, "limit", &w.left))
		return task_fail(t, 400, CODE_INVALID_BODY, "query parameters 'offset' and 'limit' must be integers from 1 on");
	if (request_header(t->rq, "Range").n > 0)
		return task_fail(t, 400, CODE_INVALID_BODY, "a Range does not go with 'offset' or 'limit'");
	w.skip = first - 1;
	if (task_place(t, sent, 0, &at) < 0)
		return -1;
	fd = place_open_regular(t->root, &at, &st, &why);
	return fd < 0 || send_lines(t, fd, &w, &why) < 0 ? task_fail_path(t, sent, &why) : 0;
}

/* ---- bytes ---- */

static int refuse(struct reply *rp, struct str sent, const struct err *why)
{
	if (why->sys == ENOENT)
		return reply_error(rp, 404, CODE_FILE_NOT_FOUND, "file not found. '%.*s': %s", STR_ARG(sent),
				   strerror(why->sys));
	return reply_error(rp, why->code == ERR_INVALID && !why->sys ? 400 : 500,
			   why->code == ERR_INVALID && !why->sys ? CODE_INVALID_BODY : CODE_RUNTIME, "'%.*s': %s",
			   STR_ARG(sent), why->sys ? strerror(why->sys) : why->msg);
}

static bool has_date(const struct request *rq, const char *name, int64_t *ret)
{
	return http_date_parse(request_header(rq, name), ret);
}

/* Files have no tags here: "*" means any, and no other tag is one of ours. 0 to go on, else the status. */
static unsigned condition(const struct request *rq, int64_t modified)
{
	struct str match = request_header(rq, "If-Match"), none = request_header(rq, "If-None-Match");
	int64_t when;

	if (match.n > 0 ? !str_is(match, "*") : has_date(rq, "If-Unmodified-Since", &when) && modified > when)
		return 412;
	if (none.n > 0)
		return str_is(none, "*") ? 304 : 0;
	return has_date(rq, "If-Modified-Since", &when) && modified <= when ? 304 : 0;
}

/* The range that counts: If-Range asks for all of a file that has changed since. */
static enum range_result range_of(const struct request *rq, const struct stat *st, struct range *ret)
{
	struct str unless = request_header(rq, "If-Range");
	int64_t when;

	*ret = (struct range){ 0, (uint64_t)st->st_size };
	if (unless.n > 0 && (!http_date_parse(unless, &when) || when != st->st_mtim.tv_sec))
		return RANGE_NONE;
	return range_parse(request_header(rq, "Range"), (uint64_t)st->st_size, ret);
}

static void add_headers(struct reply *rp, const char *path, const struct stat *st)
{
	AUTO(buf_done) struct buf name = BUF_INIT(4 * HEADER_MAX);
	char date[HTTP_DATE_LEN + 1];
	struct str full = str_of(path);
	const char *slash;

	while (full.n > 1 && full.p[full.n - 1] == '/')
		full.n--;
	slash = memrchr(full.p, '/', full.n);
	http_date_format(st->st_mtim.tv_sec, date);
	(void)reply_header(rp, "Last-Modified", str_of(date));
	(void)reply_header(rp, "Accept-Ranges", STR("bytes"));
	if (header_disposition_write(&name, str_skip(full, slash ? (size_t)(slash - full.p) + 1 : 0)))
		(void)reply_header(rp, "Content-Disposition", buf_str(&name));
}

static int refuse_range(struct reply *rp, struct str sent, enum range_result result, uint64_t size)
{
	AUTO(buf_done) struct buf value = BUF_INIT(HEADER_MAX);

	if (result == RANGE_MALFORMED)
		return reply_error(rp, 416, CODE_UNKNOWN, "'%.*s': the Range header is malformed", STR_ARG(sent));
	if (range_write_unsatisfiable(&value, size))
		(void)reply_header(rp, "Content-Range", buf_str(&value));
	return reply_error(rp, 416, CODE_UNKNOWN, "'%.*s': the range is outside of the file", STR_ARG(sent));
}

static int send_file(const struct request *rq, struct reply *rp, struct str sent, const char *path, int *fd,
		     const struct stat *st)
{
	AUTO(buf_done) struct buf value = BUF_INIT(HEADER_MAX);
	unsigned status = condition(rq, st->st_mtim.tv_sec);
	enum range_result result;
	struct range r;

	if (status == 412)
		return reply_error(rp, 412, CODE_UNKNOWN, "'%.*s': the file has changed", STR_ARG(sent));
	if (status == 304) {
		add_headers(rp, path, st);
		return reply_empty(rp, 304);
	}
	result = range_of(rq, st, &r);
	if (result == RANGE_MALFORMED || result == RANGE_UNSATISFIABLE)
		return refuse_range(rp, sent, result, (uint64_t)st->st_size);
	add_headers(rp, path, st);
	if (result == RANGE_OK && range_write(&value, r, (uint64_t)st->st_size))
		(void)reply_header(rp, "Content-Range", buf_str(&value));
	return reply_file(rp, result == RANGE_OK ? 206 : 200, "application/octet-stream", fd, r.first, r.length);
}

static int download(struct request *rq, struct reply *rp, struct str sent, struct err *e)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = -1;
	struct err why = { 0 };
	struct place at;
	struct stat st;

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (place_find(&execd_of(rq)->config->env, root, sent, 0, &at, &why) == 0)
		fd = place_open_regular(root, &at, &st, &why);
	return fd < 0 ? refuse(rp, sent, &why) : send_file(rq, rp, sent, at.path, &fd, &st);
}

int files_download_get(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = lines, .class = WORK_READ };
	const struct query_pair *path;
	struct err why = { 0 };
	struct query q;

	if (query_parse_bytes(rq->query, "path", rq->arena, &q, &why) < 0)
		return reply_error(rp, 400, CODE_INVALID_BODY, "%s", why.msg);
	path = query_get(&q, "path");
	if (!path || path->value.n == 0)
		return reply_error(rp, 400, CODE_MISSING_QUERY, "missing query parameter 'path'");
	if (query_get(&q, "offset") || query_get(&q, "limit"))
		return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
	return download(rq, rp, path->value, e);
}
