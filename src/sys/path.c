// SPDX-License-Identifier: Apache-2.0
#include "sys/path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"

#include "base/banned.h"

static int fail_open(struct err *e, int sys, const char *path)
{
	if (sys == ENOSYS) {
		(void)err_set(e, ERR_UNAVAILABLE, "open '%s' in its root: the kernel lacks openat2", path);
	} else if (sys == EXDEV) {
		(void)err_set(e, ERR_DENIED, "open '%s' in its root: the path leads out of it", path);
	} else {
		return err_sys(e, sys, "open '%s' in its root", path);
	}
	e->sys = sys;
	return -1;
}

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* The descriptor, or -1 and errno. */
static int try_open(int rootfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY)),
		.mode = creates ? mode & 07777 : 0, /* the kernel refuses a mode that has no use */
		.resolve = resolve,
	};
	long fd;

	for (int i = 0; i < ROOT_OPEN_TRIES; i++) {
		fd = syscall(SYS_openat2, rootfd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EINTR && errno != EAGAIN)
			break;
	}
	return -1;
}

static int open_in(int rootfd, const char *path, int flags, mode_t mode, uint64_t resolve, struct err *e)
{
	int fd = try_open(rootfd, path, flags, mode, resolve);

	return fd < 0 ? fail_open(e, errno, path) : fd;
}

int root_open(int rootfd, const char *path, int flags, mode_t mode, struct err *e)
{
	return open_in(rootfd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, e);
}

int root_open_beneath(int rootfd, const char *path, int flags, mode_t mode, struct err *e)
{
	return open_in(rootfd, path, flags, mode, BENEATH, e);
}

/* ---- directories --------------------------------------------------------------------------------------- */

/* Takes the next component of *in, without the slashes around it; empty at the end. */
static struct str take_component(struct str *in)
{
	struct str component = { 0 };

	while (in->n > 0 && component.n == 0)
		(void)str_cut(*in, '/', &component, in);
	return component;
}

struct walk {
	int rootfd, parent; /* the parent is the walk's own */
	struct buf prefix;  /* from the root to the parent, or to its child at hand */
	unsigned turns;
};

static void walk_done(struct walk *w)
{
	closep(&w->parent);
	buf_done(&w->prefix);
}
DEFINE_AUTO_DONE(struct walk, walk_done)

/* Opens NAME in the parent when it is a directory itself, which costs the same at any depth. A symlink and ".."
 * lead elsewhere: then the whole prefix is resolved from the root. */
static int walk_open(struct walk *w, const char *name, struct err *e)
{
	const char *prefix = buf_z(&w->prefix);
	int fd = -1;

	errno = ELOOP;
	if (!str_is(str_of(name), ".."))
		fd = try_open(w->parent, name, O_PATH | O_DIRECTORY, 0, BENEATH);
	if (fd >= 0)
		return fd;
	if (errno != ELOOP)
		return fail_open(e, errno, prefix);
	if (w->turns++ == ROOT_TURNS_MAX)
		return err_set(e, ERR_INVALID, "more than %d symlinks and '..' on the way to '%s'", ROOT_TURNS_MAX,
			       prefix);
	return root_open(w->rootfd, prefix, O_PATH | O_DIRECTORY, 0, e);
}

/* Makes COMPONENT in the parent, and enters it. */
static int walk_step(struct walk *w, struct str component, mode_t mode, struct err *e)
{
	char name[PATH_COMPONENT_MAX + 1];
	int next;

	memcpy(name, component.p, component.n);
	name[component.n] = '\0';
	buf_add_char(&w->prefix, '/');
	buf_add_str(&w->prefix, component);
	if (w->prefix.failed)
		return err_no_memory(e);
	if (mkdirat(w->parent, name, mode) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make directory '%s'", buf_z(&w->prefix));
	next = walk_open(w, name, e);
	if (next < 0)
		return -1;
	closep(&w->parent);
	w->parent = next;
	return 0;
}

int root_mkdirs(int rootfd, const char *path, mode_t mode, struct err *e)
{
	AUTO(walk_done) struct walk w = { .rootfd = rootfd, .parent = -1 };
	struct str rest = str_of(path), component;

	w.prefix = BUF_INIT((size_t)2 * PATH_BYTES_MAX);
	if (path_check(rest, e) < 0)
		return -1;
	w.parent = root_open(rootfd, "/", O_PATH | O_DIRECTORY, 0, e);
	if (w.parent < 0)
		return -1;
	while ((component = take_component(&rest)).n > 0)
		if (walk_step(&w, component, mode, e) < 0)
			return -1;
	return 0;
}

/* ---- by their text alone ------------------------------------------------------------------------------- */

int path_check(struct str path, struct err *e)
{
	struct str rest = path, component;

	if (path.n == 0)
		return err_set(e, ERR_INVALID, "path is empty");
	if (path.n > PATH_BYTES_MAX)
		return err_set(e, ERR_INVALID, "path is longer than %d bytes", PATH_BYTES_MAX);
	if (memchr(path.p, '\0', path.n))
		return err_set(e, ERR_INVALID, "path has a NUL byte");
	while ((component = take_component(&rest)).n > 0)
		if (component.n > PATH_COMPONENT_MAX)
			return err_set(e, ERR_INVALID, "path has a component longer than %d bytes",
				       PATH_COMPONENT_MAX);
	return 0;
}

/* Drops the last component that was added behind START. */
static void drop_last(struct buf *out, size_t start)
{
	while (out->n > start) {
		out->n--;
		if (out->p[out->n] == '/')
			break;
	}
}

int path_clean(struct str path, struct buf *out, struct err *e)
{
	struct str rest = path, component;
	size_t start = out->n;

	if (path_check(path, e) < 0)
		return -1;
	if (path.p[0] != '/')
		return err_set(e, ERR_INVALID, "path '%.*s' is not absolute", STR_ARG(path));
	while ((component = take_component(&rest)).n > 0) {
		if (str_is(component, ".."))
			drop_last(out, start);
		else if (!str_is(component, ".")) {
			buf_add_char(out, '/');
			buf_add_str(out, component);
		}
	}
	if (out->n == start)
		buf_add_char(out, '/');
	else if (out->p)
		out->p[out->n] = '\0';
	return out->failed ? err_set(e, ERR_LIMIT, "path is longer than its buffer") : 0;
}

/* ---- an operator's paths ---- */

int path_make_parents(const char *path, mode_t mode, struct err *e)
{
	char folder[PATH_BYTES_MAX + 1];
	size_t n = strlen(path);

	if (n >= sizeof(folder))
		return err_set(e, ERR_INVALID, "path '%.64s...' is too long", path);
	for (size_t i = 1; i < n; i++) {
		if (path[i] != '/')
			continue;
		memcpy(folder, path, i);
		folder[i] = '\0';
		if (mkdir(folder, mode) == 0 ? chmod(folder, mode) < 0 : errno != EEXIST) /* whatever the umask is */
			return err_sys(e, errno, "make folder '%s'", folder);
	}
	return 0;
}
