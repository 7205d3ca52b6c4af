// SPDX-License-Identifier: Apache-2.0
#include "execd/files/files_walk.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/files/files.h"
#include "execd/task.h"

#include "base/banned.h"

#define NAMES_BYTES_MAX ((size_t)WALK_NAMES_MAX * (PATH_COMPONENT_MAX + 1))

DEFINE_AUTO(DIR *, closedir)

/* One directory on the way down. */
struct level {
	DIR *dir;
	struct buf bytes; /* names, each with its NUL */
	const char **names;
	size_t n, at;
	size_t path_n; /* of the directory's own path */
};

struct walk {
	const struct walk_spec *spec;
	struct level levels[WALK_DEPTH_MAX + 1];
	size_t depth;
	size_t names; /* that were read */
	struct buf path;
	size_t root_n;
};

static void level_done(struct level *l)
{
	if (l->dir)
		(void)closedir(l->dir);
	buf_done(&l->bytes);
	free(l->names);
	*l = (struct level){ 0 };
}

static void walk_done(struct walk *w)
{
	while (w->depth > 0)
		level_done(&w->levels[--w->depth]);
	buf_done(&w->path);
}
DEFINE_AUTO_DONE(struct walk, walk_done)

/* ---- one directory ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int sort_names(struct level *l, struct err *e)
{
	const char *p = l->bytes.p;

	if (l->n == 0)
		return 0;
	l->names = calloc(l->n, sizeof(*l->names));
	if (!l->names)
		return err_no_memory(e);
	for (size_t i = 0; i < l->n; i++, p += strlen(p) + 1)
		l->names[i] = p;
	qsort(l->names, l->n, sizeof(*l->names), compare);
	return 0;
}

static int check_ceilings(const struct walk *w, struct err *e)
{
	if (w->names > WALK_NAMES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d entries; ask for a part of it", WALK_NAMES_MAX);
	if (task_is_late(w->spec->t))
		return err_set(e, ERR_LIMIT, "takes more than %d seconds; ask for a part of it", WORK_READ_MS / 1000);
	return 0;
}

static int read_names(struct walk *w, struct level *l, struct err *e)
{
	const struct dirent *entry;

	for (errno = 0; (entry = readdir(l->dir)); errno = 0) {
		if (str_is(str_of(entry->d_name), ".") || str_is(str_of(entry->d_name), ".."))
			continue;
		l->n++;
		w->names++;
		if (check_ceilings(w, e) < 0)
			return -1;
		if (!buf_add(&l->bytes, entry->d_name, strlen(entry->d_name) + 1))
			return err_no_memory(e);
	}
	if (errno != 0 && errno != ENOENT) /* it was removed while it was read */
		return err_sys(e, errno, "read a directory");
	return sort_names(l, e);
}

/* Enters the directory of FD, which is taken; the path is its own. */
static int push(struct walk *w, int *fd, struct err *e)
{
	AUTO(closedir) DIR *dir = fdopendir(*fd);
	struct level *l = &w->levels[w->depth];

	if (!dir)
		return err_sys(e, errno, "read a directory");
	(void)take_fd(fd);
	*l = (struct level){ .dir = take_ptr(&dir), .bytes = BUF_INIT(NAMES_BYTES_MAX), .path_n = w->path.n };
	w->depth++;
	if (read_names(w, l, e) < 0)
		return -1;
	if (w->depth > WALK_DEPTH_MAX && l->n > 0)
		return err_set(e, ERR_LIMIT, "deeper than %d directories; ask for a part of it", WALK_DEPTH_MAX);
	return 0;
}

/* ---- the walk ---- */

/* A directory that cannot be entered is one that was told of and has no entries for us. */
static int enter(struct walk *w, const struct level *l, const char *name, struct err *e)
{
	AUTO_FD fd = openat(dirfd(l->dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		return push(w, &fd, e);
	if (errno == EACCES || errno == EPERM || errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return 0;
	return err_sys(e, errno, "open a directory");
}

static int step(struct walk *w, struct level *l, struct err *e)
{
	const char *name = l->names[l->at++];
	struct stat st;

	if (check_ceilings(w, e) < 0)
		return -1;
	if (fstatat(dirfd(l->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT || errno == EACCES || errno == EPERM)
			return 0;
		return err_sys(e, errno, "look at an entry");
	}
	w->path.n = l->path_n;
	if (w->path.n > 1) /* "/" has its slash */
		buf_add_char(&w->path, '/');
	if (!buf_add_str(&w->path, str_of(name)))
		return err_no_memory(e);
	if (w->spec->fn(buf_str(&w->path), w->root_n, &st, w->spec->arg, e) < 0)
		return -1;
	return S_ISDIR(st.st_mode) && w->depth < w->spec->depth ? enter(w, l, name, e) : 0;
}

int files_walk(const struct walk_spec *spec, struct err *e)
{
	AUTO(walk_done) struct walk w = { .spec = spec, .path = BUF_INIT(WALK_PATH_MAX) };
	AUTO_FD fd = spec->dir;

	if (!buf_add_str(&w.path, str_of(spec->path)))
		return err_no_memory(e);
	w.root_n = w.path.n + (w.path.n > 1);
	if (spec->depth == 0)
		return 0;
	if (push(&w, &fd, e) < 0)
		return -1;
	while (w.depth > 0) {
		struct level *l = &w.levels[w.depth - 1];

		if (l->at == l->n)
			level_done(&w.levels[--w.depth]);
		else if (step(&w, l, e) < 0)
			return -1;
	}
	return 0;
}
