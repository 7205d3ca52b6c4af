// SPDX-License-Identifier: Apache-2.0
/* GET /files/search and GET /directories/list. */
#include <fcntl.h>

#include "base/err.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/files/files_found.h"
#include "execd/files/files_walk.h"
#include "execd/files/glob.h"
#include "execd/task.h"

#include "base/banned.h"

#define PATTERN_DEFAULT STR("**")

struct listing {
	struct task *t;
	struct found found;
	struct glob *glob; /* NULL: everything */
};

static void listing_done(struct listing *l)
{
	found_done(&l->found);
	glob_free(l->glob);
}
DEFINE_AUTO_DONE(struct listing, listing_done)

static int add_entry(struct str path, size_t name_at, const struct stat *st, void *arg, struct err *e)
{
	struct listing *l = arg;

	(void)name_at;
	return found_add(&l->found, path, st, e);
}

static int add_match(struct str path, size_t name_at, const struct stat *st, void *arg, struct err *e)
{
	struct listing *l = arg;
	struct str name = str_skip(path, name_at);
	const char *slash = memrchr(name.p, '/', name.n);

	if (S_ISDIR(st->st_mode))
		return 0;
	if (slash && !glob_has_slash(l->glob))
		name = str_skip(name, (size_t)(slash - name.p) + 1);
	return glob_matches(l->glob, name) ? add_entry(path, name_at, st, l, e) : 0;
}

/* The place of the request's `path`, opened as it is itself. -1: has answered. */
static int open_start(struct task *t, struct str *ret_sent, struct place *ret, struct stat *st)
{
	const struct query_pair *p = query_get(&t->query, "path");
	AUTO_FD fd = -1;
	struct err why = { 0 };

	if (!p || p->value.n == 0)
		return task_fail(t, 400, CODE_MISSING_QUERY, "missing query parameter 'path'");
	*ret_sent = p->value;
	if (task_place(t, p->value, PLACE_CLEAN, ret) < 0)
		return -1;
	fd = root_open(t->root, ret->path, O_PATH | O_NOFOLLOW, 0, &why);
	if (fd >= 0 && fstat(fd, st) < 0)
		(void)err_sys(&why, errno, "look at the file");
	return why.code ? task_fail_path(t, p->value, &why) : take_fd(&fd);
}

/* O_PATH descriptors cannot be read from. */
static int open_to_read(int dir, struct err *e)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open the directory") : fd;
}

static int walk(struct listing *l, struct str sent, const struct place *at, int dir, size_t depth, walk_fn *fn)
{
	struct err why = { 0 };
	struct walk_spec spec = { l->t, at->path, -1, depth, fn, l };

	spec.dir = open_to_read(dir, &why);
	if (spec.dir >= 0 && files_walk(&spec, &why) == 0)
		return 0;
	if (why.code == ERR_LIMIT && !why.sys)
		return task_fail(l->t, 413, CODE_TOO_LARGE, "'%.*s': %s", STR_ARG(sent), why.msg);
	return task_fail_path(l->t, sent, &why);
}

/* The walk is over and whole: whatever goes out now is all of it. */
static int answer(struct listing *l, struct err *e)
{
	AUTO(names_free) struct names *names = names_new(l->t, e);
	struct json_out o = task_json(l->t);
	struct str path;
	struct stat st;

	if (!names)
		return -1;
	json_open(&o, '[');
	for (found_rewind(&l->found); found_next(&l->found, &path, &st);) {
		info_write(&o, path, &st, names);
		if (task_spill(l->t, e) < 0)
			return -1;
	}
	json_close(&o, ']');
	return task_end(l->t, e);
}

/* ---- list ---- */

static int read_depth(struct task *t, size_t *ret)
{
	const struct query_pair *p = query_get(&t->query, "depth");
	int64_t depth = 1;

	if (p && !str_to_i64(p->value, 0, INT32_MAX, &depth))
		return task_fail(t, 400, CODE_INVALID_BODY, "query parameter 'depth' must be an integer from 0 on");
	*ret = (size_t)depth;
	return 0;
}

static int list(struct task *t, struct err *e)
{
	AUTO(listing_done) struct listing l = { .t = t, .found = found_init() };
	AUTO_FD fd = -1;
	struct place at;
	struct str sent = { 0 };
	struct stat st = { 0 };
	size_t depth = 0;

	if (read_depth(t, &depth) < 0)
		return -1;
	fd = open_start(t, &sent, &at, &st);
	if (fd < 0)
		return -1;
	if (!S_ISDIR(st.st_mode))
		return task_fail(t, 400, CODE_INVALID_BODY, "'%.*s' is not a directory", STR_ARG(sent));
	return walk(&l, sent, &at, fd, depth, add_entry) < 0 ? -1 : answer(&l, e);
}

int directories_list_get(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = list, .class = WORK_READ };

	return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
}

/* ---- search ---- */

static int search_from(struct listing *l, struct str sent, const struct place *at, int fd, const struct stat *st,
		       struct err *e)
{
	struct str path = str_of(at->path);
	const char *slash = memrchr(path.p, '/', path.n);

	if (S_ISDIR(st->st_mode))
		return walk(l, sent, at, fd, SIZE_MAX, add_match);
	/* A search that begins at a file looks at that alone. */
	return add_match(path, (size_t)(slash - path.p) + 1, st, l, e);
}

static int search(struct task *t, struct err *e)
{
	const struct query_pair *pattern = query_get(&t->query, "pattern");
	AUTO(listing_done) struct listing l = { .t = t, .found = found_init() };
	AUTO_FD fd = -1;
	struct place at;
	struct str sent = { 0 };
	struct stat st = { 0 };

	fd = open_start(t, &sent, &at, &st);
	if (fd < 0)
		return -1;
	l.glob = glob_new(pattern && pattern->value.n > 0 ? pattern->value : PATTERN_DEFAULT, e);
	if (!l.glob)
		return -1;
	return search_from(&l, sent, &at, fd, &st, e) < 0 ? -1 : answer(&l, e);
}

int files_search_get(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct work_spec spec = { .fn = search, .class = WORK_READ };

	return work_begin(&execd_of(rq)->workers, &spec, rq, rp, e);
}
