// SPDX-License-Identifier: Apache-2.0
#include "execd/launch.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "execd/env.h"
#include "sys/path.h"

#include "base/banned.h"

/* ---- in the child: system calls alone ---- */

int leaf_enter(const struct leaf *leaf, struct err *e)
{
	for (size_t i = 0; i < leaf->n; i++)
		if (write(leaf->fds[i], "0", 1) < 0)
			return err_sys(e, errno, errno == EAGAIN ? "no room for another process" : "enter the cgroup");
	return 0;
}

/* libc's set*id() is for processes with threads: the kernel's own calls, the uid last because it takes the right to
 * change the others. */
static int take_ids(const struct identity *as, struct err *e)
{
	if (syscall(SYS_setgroups, as->n_groups, as->groups) < 0)
		return err_sys(e, errno, "set the supplementary groups");
	if (syscall(SYS_setresgid, as->gid, as->gid, as->gid) < 0)
		return err_sys(e, errno, "set the group id %u", as->gid);
	if (syscall(SYS_setresuid, as->uid, as->uid, as->uid) < 0)
		return err_sys(e, errno, "set the user id %u", as->uid);
	return 0;
}

/* The sandbox may remove any directory, ours included. */
static bool is_cwd_gone(void)
{
	char path[PATH_BYTES_MAX + 1];

	return syscall(SYS_getcwd, path, sizeof(path)) < 0 && errno == ENOENT;
}

/* A directory outside the root, which a descriptor could lead to, has no path: "(unreachable)/...". */
static int enter_cwd(int fd, struct err *e)
{
	char path[PATH_BYTES_MAX + 1];

	if (fd >= 0 && fchdir(fd) < 0)
		return err_sys(e, errno, "enter the working directory");
	if (fd < 0 && is_cwd_gone() && chdir("/") < 0)
		return err_sys(e, errno, "enter '/'");
	if (syscall(SYS_getcwd, path, sizeof(path)) < 0)
		return err_sys(e, errno, "read the working directory");
	return path[0] == '/' ? 0 : err_set(e, ERR_DENIED, "the working directory is outside of the root");
}

int launch_setup(void *arg, struct err *e)
{
	const struct launch *l = arg;

	if (leaf_enter(l->leaf, e) < 0)
		return -1;
	if (l->as && take_ids(l->as, e) < 0)
		return -1;
	return enter_cwd(l->cwd_fd, e);
}

/* ---- before ---- */

static int absolute(struct buf *path, struct err *e)
{
	AUTO(buf_done) struct buf full = BUF_INIT(2 * PATH_BYTES_MAX);
	char here[PATH_BYTES_MAX + 1];

	if (path->n > 0 && path->p[0] == '/')
		return 0;
	if (!getcwd(here, sizeof(here)))
		return err_set(e, ERR_INVALID, "the working directory has been removed");
	buf_addf(&full, str_is(buf_str(path), ".") ? "%s" : "%s/%s", here, buf_z(path));
	if (full.failed || full.n > PATH_BYTES_MAX)
		return err_set(e, ERR_INVALID, "longer than %d bytes", PATH_BYTES_MAX);
	buf_clear(path);
	return buf_add_str(path, buf_str(&full)) ? 0 : err_no_memory(e);
}

const char *launch_cwd_path(const struct env *env, struct str path, struct arena *a, struct err *e)
{
	AUTO(buf_done) struct buf full = BUF_INIT(PATH_BYTES_MAX);
	const char *copy;

	if (env_expand_path(env, path, &full, e) < 0 || absolute(&full, e) < 0 || path_check(buf_str(&full), e) < 0)
		return NULL;
	copy = arena_dup(a, buf_str(&full));
	if (!copy)
		(void)err_no_memory(e);
	return copy;
}

const char *launch_shell(const struct env *env, struct arena *a)
{
	struct err ignored = { 0 };
	const char *path = env_find_program(env, a, "bash", &ignored);

	if (!path)
		path = env_find_program(env, a, "sh", &ignored);
	return path ? path : "/bin/sh";
}

int launch_open_cwd(const struct env *env, struct str path, struct err *e)
{
	AUTO(buf_done) struct buf full = BUF_INIT(PATH_BYTES_MAX);
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err why = { 0 };
	int fd;

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (env_expand_path(env, path, &full, e) < 0 || absolute(&full, e) < 0 || path_check(buf_str(&full), e) < 0)
		return -1;
	fd = root_open(root, full.p, O_PATH | O_DIRECTORY, 0, &why);
	if (fd >= 0)
		return fd;
	if (why.code == ERR_UNAVAILABLE || why.sys == EMFILE || why.sys == ENFILE || why.sys == ENOMEM) {
		*e = why;
		return -1;
	}
	return err_set(e, ERR_INVALID, "'%s' %s", SHOWN(path),
		       why.sys == ENOTDIR ? "is not a directory" : why.sys == ENOENT ? "does not exist" : "cannot be opened");
}

int launch_open_made(const char *path, struct err *e)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (root_mkdirs(root, path, 0777, e) < 0)
		return -1;
	return root_open(root, path, O_PATH | O_DIRECTORY, 0, e);
}

bool launch_is_about_path(const struct err *why)
{
	switch (why->sys) {
	case 0:
		return why->code == ERR_INVALID;
	case ENOENT: /* in /proc, or behind a symlink that leads nowhere */
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case EROFS:
	case EACCES:
	case EPERM:
	case EXDEV:
		return true;
	default:
		return false;
	}
}

int launch_make_cwd(const char *path, struct err *e)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = -1;

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (*path != '/')
		return err_set(e, ERR_INVALID, "'%s' must be absolute", SHOWN(str_of(path)));
	if (path_check(str_of(path), e) < 0 || root_mkdirs(root, path, 0755, e) < 0)
		return -1;
	fd = root_open(root, path, O_PATH | O_DIRECTORY, 0, e);
	if (fd < 0)
		return -1;
	return fchdir(fd) < 0 ? err_sys(e, errno, "enter '%s'", path) : 0;
}

bool launch_keep_cwd(const char *path)
{
	struct err ignored = { 0 }; /* whoever needs it says that there is none */

	return !is_cwd_gone() || launch_make_cwd(path, &ignored) == 0;
}

uint64_t leaf_oom_kills(const struct leaf *leaf)
{
	char text[4096];
	ssize_t n = leaf->oom_fd >= 0 ? pread(leaf->oom_fd, text, sizeof(text), 0) : -1;
	struct str rest = { text, n > 0 ? (size_t)n : 0 }, line, name, number;
	uint64_t kills = 0;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (str_cut(line, ' ', &name, &number) && str_eq(name, STR("oom_kill")) &&
		    str_to_u64(number, 0, UINT64_MAX, &kills))
			break;
	}
	return kills;
}
