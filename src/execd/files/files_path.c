// SPDX-License-Identifier: Apache-2.0
/* From the text of a path to the descriptors that are worked with. */
#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/env.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/task.h"
#include "net/http/url.h"

#include "base/banned.h"

static int make_absolute(struct str path, struct buf *out, struct err *e)
{
	char here[PATH_BYTES_MAX + 1];

	if (path.p[0] != '/') {
		if (!getcwd(here, sizeof(here)))
			return err_sys(e, errno, "read the working directory");
		buf_addf(out, "%s/", here);
	}
	buf_add_str(out, path);
	return out->failed ? err_set(e, ERR_INVALID, "path is longer than %d bytes", PATH_BYTES_MAX) : 0;
}

static bool exists(int root, struct str path)
{
	AUTO(buf_done) struct buf full = BUF_INIT(PATH_BYTES_MAX);
	AUTO_FD fd = -1;
	struct err ignored = { 0 };

	if (make_absolute(path, &full, &ignored) == 0)
		fd = root_open(root, full.p, O_PATH | O_NOFOLLOW, 0, &ignored);
	return fd >= 0;
}

static bool has_variables(struct str path)
{
	return path.p[0] == '~' || memchr(path.p, '$', path.n);
}

/* ---- names that are no text ---- */

#define URI_BEGIN STR("file:///")

static bool is_uri(struct str path)
{
	return str_starts(path, URI_BEGIN);
}

int place_check(struct str sent, struct err *e)
{
	if (!is_uri(sent))
		return path_check(sent, e);
	return sent.n > PATH_BYTES_MAX ? err_set(e, ERR_INVALID, "path is longer than %d bytes", PATH_BYTES_MAX) : 0;
}

static int decode_uri(struct str sent, struct buf *out, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * PATH_BYTES_MAX);
	struct str path = { 0 };

	if (url_decode(str_skip(sent, URI_BEGIN.n - 1), &a, &path, e) < 0)
		return err_wrap(e, "file URI");
	return buf_add_str(out, path) ? 0 : err_no_memory(e);
}

void place_write_uri(struct buf *out, struct str path)
{
	buf_add_str(out, str_first(URI_BEGIN, URI_BEGIN.n - 1));
	while (path.n > 0) {
		struct str component;
		bool more = str_cut(path, '/', &component, &path);

		(void)url_encode_segment(out, component);
		if (more)
			buf_add_char(out, '/');
	}
}

/* ---- places ---- */

/* SENT without what stands for something else, in OUT if that is not what it was. */
static int read_sent(const struct env *env, struct str sent, struct buf *out, struct err *e)
{
	if (is_uri(sent))
		return decode_uri(sent, out, e);
	if (env_expand_path(env, sent, out, e) == 0)
		return 0;
	e->code = ERR_INTERNAL;
	return -1;
}

int place_find(const struct env *env, int root, struct str sent, unsigned flags, struct place *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(PATH_BYTES_MAX);
	AUTO(buf_done) struct buf full = BUF_INIT(PATH_BYTES_MAX);
	AUTO(buf_done) struct buf clean = BUF_INIT(PATH_BYTES_MAX);
	struct str path = sent;

	if (place_check(sent, e) < 0)
		return -1;
	if ((is_uri(sent) || has_variables(sent)) && !exists(root, sent)) {
		if (read_sent(env, sent, &text, e) < 0)
			return -1;
		path = buf_str(&text);
	}
	if (path_check(path, e) < 0)
		return -1;
	if (make_absolute(path, &full, e) < 0 || path_check(buf_str(&full), e) < 0 ||
	    path_clean(buf_str(&full), &clean, e) < 0)
		return -1;
	(void)snprintf(ret->path, sizeof(ret->path), "%s", buf_z(flags & PLACE_CLEAN ? &clean : &full)); /* it fits */
	return 0;
}

int task_place(struct task *t, struct str sent, unsigned flags, struct place *ret)
{
	struct err why = { 0 };

	if (place_find(&t->config->env, t->root, sent, flags, ret, &why) < 0)
		return task_fail_path(t, sent, &why);
	return 0;
}

/* ---- seats ---- */

void seat_of_done(struct seat_of *s)
{
	closep(&s->dir);
	s->dir = -1;
}

/* Splits PATH at its last component. */
static int split(struct str path, struct str *ret_dir, struct str *ret_name, struct err *e)
{
	size_t n;

	while (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	n = path.n;
	while (n > 0 && path.p[n - 1] != '/')
		n--;
	*ret_dir = str_first(path, n);
	*ret_name = str_skip(path, n);
	if (ret_name->n == 0 || str_is(*ret_name, ".") || str_is(*ret_name, ".."))
		return err_set(e, ERR_INVALID, "path does not end with a name");
	return 0;
}

static int seat_at(int root, struct str path, bool makes_parents, struct seat_of *ret, struct err *e)
{
	struct str dir, name;
	struct place up;

	if (split(path, &dir, &name, e) < 0)
		return -1;
	if (dir.n > PATH_BYTES_MAX || name.n > PATH_COMPONENT_MAX)
		return err_set(e, ERR_INVALID, "path is too long");
	memcpy(up.path, dir.p, dir.n);
	up.path[dir.n] = '\0';
	if (makes_parents && root_mkdirs(root, up.path, 0777, e) < 0)
		return -1;
	seat_of_done(ret);
	ret->dir = root_open(root, up.path, O_PATH | O_DIRECTORY, 0, e);
	if (ret->dir < 0)
		return -1;
	memcpy(ret->name, name.p, name.n);
	ret->name[name.n] = '\0';
	return 0;
}

int place_seat(int root, const struct place *at, bool makes_parents, struct seat_of *ret, struct err *e)
{
	return seat_at(root, str_of(at->path), makes_parents, ret, e);
}

/* Whether the seat is taken by a symlink: 1 and where it leads, from PATH, which becomes that. */
static int follow(const struct seat_of *s, struct buf *path, struct err *e)
{
	char link[PATH_BYTES_MAX + 1];
	ssize_t n = readlinkat(s->dir, s->name, link, sizeof(link));
	size_t up;

	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : err_sys(e, errno, "read the symlink");
	if (n == 0 || n > PATH_BYTES_MAX)
		return err_set(e, ERR_INVALID, "a symlink leads nowhere");
	if (link[0] == '/') {
		buf_clear(path);
	} else {
		for (up = path->n; up > 0 && path->p[up - 1] == '/'; up--)
			;
		for (; up > 0 && path->p[up - 1] != '/'; up--)
			;
		path->n = up;
	}
	return buf_add(path, link, (size_t)n) ? 1 : err_set(e, ERR_INVALID, "path is too long");
}

int place_seat_behind(int root, const struct place *at, bool makes_parents, struct seat_of *ret, struct err *e)
{
	AUTO(buf_done) struct buf path = BUF_INIT((size_t)4 * PATH_BYTES_MAX);

	if (!buf_add_str(&path, str_of(at->path)))
		return err_no_memory(e);
	for (int i = 0; i < PLACE_LINKS_MAX; i++) {
		int r;

		if (seat_at(root, buf_str(&path), makes_parents && i == 0, ret, e) < 0)
			return -1;
		r = follow(ret, &path, e);
		if (r <= 0)
			return r;
	}
	return err_sys(e, ELOOP, "follow symlinks");
}

int place_open_regular(int root, const struct place *at, struct stat *ret, struct err *e)
{
	AUTO_FD fd = root_open(root, at->path, O_RDONLY, 0, e);

	if (fd < 0 && e->sys == ENXIO) /* a socket, or a FIFO */
		return err_set(e, ERR_INVALID, "not a regular file");
	if (fd < 0)
		return -1;
	if (fstat(fd, ret) < 0)
		return err_sys(e, errno, "look at the file");
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERR_INVALID, S_ISDIR(ret->st_mode) ? "is a directory" : "not a regular file");
	return take_fd(&fd);
}
