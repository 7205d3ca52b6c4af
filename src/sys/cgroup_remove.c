// SPDX-License-Identifier: Apache-2.0
/* Listing and removing groups, whole or half. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"

#include "base/banned.h"

static void close_dirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* A second descriptor, because reading a directory moves the place in the first. */
static DIR *open_list(int dir, struct err *e)
{
	AUTO_FD again = cg_open_dir(dir, ".", e);
	DIR *d = again < 0 ? NULL : fdopendir(again);

	if (d)
		(void)take_fd(&again);
	else if (again >= 0)
		(void)err_sys(e, errno, "list groups");
	return d;
}

/* ---- removing ------------------------------------------------------------------------------------------ */

/* rmdir() says EBUSY until the last process of the group has left, some time after it was killed. */
static int remove_one(int parent, const char *name, bool is_v2, uint64_t deadline, struct err *e)
{
	unsigned delay_ms = 0;

	while (unlinkat(parent, name, AT_REMOVEDIR) < 0) {
		struct err scratch = { 0 };
		AUTO_FD dir = -1;

		if (errno == ENOENT || errno == ENODEV)
			return 0;
		if (errno != EBUSY)
			return err_sys(e, errno, "remove group '%s'", name);
		dir = is_v2 ? cg_open_dir(parent, name, &scratch) : -1;
		if (dir >= 0)
			(void)cg_wait_event(dir, "populated", 0, deadline, &scratch); /* rmdir() has the last word */
		if (!cg_pause(&delay_ms, deadline)) {
			(void)err_set(e, ERR_TIMEOUT, "group '%s' is still in use", name);
			e->sys = EBUSY;
			return -1;
		}
	}
	return 0;
}

static int remove_tree(int parent, const char *name, bool is_v2, unsigned depth, uint64_t deadline, struct err *e)
{
	__attribute__((cleanup(close_dirp))) DIR *d = NULL;
	AUTO_FD dir = -1;
	const char *child;

	if (depth > CGROUP_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "more than %d groups below each other", CGROUP_DEPTH_MAX);
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0) /* most have nothing below them and nobody in them */
		return 0;
	dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 && (errno == ENOENT || errno == ENODEV))
		return 0;
	if (dir < 0)
		return err_sys(e, errno, "open group '%s'", name);
	d = open_list(dir, e);
	if (!d)
		return e->sys == ENOENT ? 0 : -1;
	while ((child = cg_next_group(d)))
		if (remove_tree(dir, child, is_v2, depth + 1, deadline, e) < 0)
			return -1;
	return remove_one(parent, name, is_v2, deadline, e);
}

int cgroup_remove(const struct cgroup *parent, const char *name, int timeout_ms, struct err *e)
{
	uint64_t deadline = cg_deadline(timeout_ms);
	struct err first = { 0 };

	assert(parent->layout);
	if (strchr(name, '/') || name[0] == '.' || name[0] == '\0')
		return err_set(e, ERR_INVALID, "remove group '%s': not a name", name);
	/* In all hierarchies even when one fails: what can go goes. */
	for (size_t i = 0; i < parent->layout->n; i++) {
		struct err here = { 0 };

		if (parent->dirs[i] < 0)
			continue;
		if (remove_tree(parent->dirs[i], name, parent->layout->at[i].is_v2, 0, deadline, &here) < 0 &&
		    first.code == ERR_NONE) {
			first = here;
			(void)err_wrap(&first, "remove '%s/%s' from '%s'", parent->path, name, parent->layout->at[i].place);
		}
	}
	if (first.code == ERR_NONE)
		return 0;
	*e = first;
	return -1;
}

/* The base as a group, as far as it exists. */
static int open_base(const struct cgroup_layout *l, struct cgroup *ret, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;

	g.layout = l;
	(void)snprintf(g.path, sizeof(g.path), "%s", l->base);
	for (size_t i = 0; i < l->n; i++) {
		const char *base = l->at[i].is_v2 ? l->v2_base : l->base;

		if (!l->at[i].is_used)
			continue;
		g.dirs[i] = openat(l->at[i].dir, *base ? base : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (g.dirs[i] < 0 && errno != ENOENT)
			return err_sys(e, errno, "open group '/%s'", base);
	}
	*ret = g;
	g = CGROUP_INIT;
	return 0;
}

int cgroup_remove_top(struct cgroup_layout *l, const char *name, int timeout_ms, struct err *e)
{
	AUTO(cgroup_done) struct cgroup base = CGROUP_INIT;

	return open_base(l, &base, e) < 0 ? -1 : cgroup_remove(&base, name, timeout_ms, e);
}

/* ---- listing ------------------------------------------------------------------------------------------- */

struct listing {
	struct arena *a;
	const char **names;
	size_t n, cap;
};

static int add_name(struct listing *l, const char *name, struct err *e)
{
	if (l->n == (size_t)2 * CGROUP_LIST_MAX) /* each may be there twice until they are sorted */
		return err_set(e, ERR_LIMIT, "more than %d groups", CGROUP_LIST_MAX);
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		const char **more = arena_array(l->a, cap, sizeof(*more));

		if (!more)
			return err_no_memory(e);
		if (l->n > 0)
			memcpy(more, l->names, l->n * sizeof(*more));
		l->names = more;
		l->cap = cap;
	}
	l->names[l->n] = arena_dup(l->a, str_of(name));
	if (!l->names[l->n])
		return err_no_memory(e);
	l->n++;
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_unique(struct listing *l)
{
	size_t kept = 0;

	if (l->n > 0)
		qsort(l->names, l->n, sizeof(*l->names), by_text);
	for (size_t i = 0; i < l->n; i++)
		if (kept == 0 || strcmp(l->names[kept - 1], l->names[i]) != 0)
			l->names[kept++] = l->names[i];
	l->n = kept;
}

int cgroup_list(const struct cgroup *g, struct arena *a, struct cgroup_names *ret, struct err *e)
{
	struct listing l = { .a = a };

	for (size_t i = 0; i < g->layout->n; i++) {
		__attribute__((cleanup(close_dirp))) DIR *d = NULL;
		const char *name;

		if (g->dirs[i] < 0)
			continue;
		d = open_list(g->dirs[i], e);
		if (!d)
			return err_wrap(e, "list groups below '%s'", g->path);
		while ((name = cg_next_group(d)))
			if (add_name(&l, name, e) < 0)
				return err_wrap(e, "list groups below '%s'", g->path);
		sort_unique(&l);
		if (l.n > CGROUP_LIST_MAX)
			return err_set(e, ERR_LIMIT, "more than %d groups below '%s'", CGROUP_LIST_MAX, g->path);
	}
	*ret = (struct cgroup_names){ l.names, l.n };
	return 0;
}
