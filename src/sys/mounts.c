// SPDX-License-Identifier: Apache-2.0
#include "sys/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

/* The C libraries differ in which of these they define, and linux/mount.h clashes with their sys/mount.h. */
#define OPEN_CLONE 0x1
#define MOVE_FROM_EMPTY 0x4
#define MOVE_TO_EMPTY 0x40
#define CONTEXT_CLOEXEC 0x1
#define ATTR_IDMAP 0x100000
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

enum config_command { CONFIG_FLAG = 0, CONFIG_STRING = 1, CONFIG_FD = 5, CONFIG_CREATE = 6 };

struct kernel_mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

/* ---- what the kernel has to say ------------------------------------------------------------------------ */

#define LOG_LINES_MAX 4
#define LOG_BYTES_MAX 200 /* of all lines together, in a message */

/* Appends one line to the text, in printable ASCII whatever it quotes. */
static void add_line(char text[LOG_BYTES_MAX], const char *line, size_t n)
{
	size_t at = strlen(text);

	if (at > 0 && at + 2 < LOG_BYTES_MAX) {
		memcpy(text + at, "; ", 3);
		at += 2;
	}
	for (size_t i = 0; i < n && at + 1 < LOG_BYTES_MAX; i++) {
		if (line[i] == '\n')
			continue;
		text[at++] = line[i] >= ' ' && line[i] <= '~' ? line[i] : '?';
	}
	text[at] = '\0';
}

/* Each read() is one line, "e overlay: ..."; ENODATA after the last one. Warnings are not why it failed. */
static void read_log(int context, char text[LOG_BYTES_MAX])
{
	text[0] = '\0';
	for (int i = 0; i < LOG_LINES_MAX; i++) {
		char line[256];
		ssize_t n = read(context, line, sizeof(line));

		if (n < 0 && errno != EMSGSIZE) /* which is a line that is too long for us, and lost */
			return;
		if (n > 2 && line[0] == 'e')
			add_line(text, line + 2, (size_t)n - 2);
	}
}

/* Returns -1. NAME is the option that was refused, or NULL when all of them together were. */
static int refused(int context, const char *name, struct err *e)
{
	char text[LOG_BYTES_MAX];
	int sys = errno;

	read_log(context, text);
	if (text[0] && name)
		return err_sys(e, sys, "option '%s': %s", name, text);
	if (text[0])
		return err_sys(e, sys, "%s", text);
	return name ? err_sys(e, sys, "option '%s'", name) : err_sys(e, sys, "create");
}

/* ---- new file systems ---------------------------------------------------------------------------------- */

static long config(int context, enum config_command command, const char *key, const char *value, int aux)
{
	return syscall(SYS_fsconfig, context, command, key, value, aux);
}

static int set_option(int context, const struct mount_option *o, struct err *e)
{
	long r = -1;

	switch (o->kind) {
	case MOUNT_OPTION_FLAG:
		r = config(context, CONFIG_FLAG, o->key, NULL, 0);
		break;
	case MOUNT_OPTION_TEXT:
		if (strlen(o->text) > MOUNT_OPTION_MAX)
			return err_set(e, ERR_LIMIT, "option '%s': longer than %d bytes", o->key, MOUNT_OPTION_MAX);
		r = config(context, CONFIG_STRING, o->key, o->text, 0);
		break;
	case MOUNT_OPTION_FD:
		r = config(context, CONFIG_FD, o->key, NULL, o->fd);
		break;
	}
	return r < 0 ? refused(context, o->key, e) : 0;
}

static int make(int context, const struct mount_spec *sp, struct err *e)
{
	int fd;

	if (config(context, CONFIG_STRING, "source", sp->source ? sp->source : sp->fs, 0) < 0)
		return refused(context, "source", e);
	for (size_t i = 0; i < sp->n_options; i++)
		if (set_option(context, &sp->options[i], e) < 0)
			return -1;
	if (config(context, CONFIG_CREATE, NULL, NULL, 0) < 0)
		return refused(context, NULL, e);
	fd = (int)syscall(SYS_fsmount, context, CONTEXT_CLOEXEC, sp->attrs);
	return fd < 0 ? refused(context, NULL, e) : fd;
}

int mount_make(const struct mount_spec *sp, struct err *e)
{
	AUTO_FD context = -1;
	int fd;

	context = (int)syscall(SYS_fsopen, sp->fs, CONTEXT_CLOEXEC);
	if (context < 0)
		return err_sys(e, errno, "mount '%s': open the file system", sp->fs);
	fd = make(context, sp, e);
	return fd < 0 ? err_wrap(e, "mount '%s'", sp->fs) : fd;
}

/* ---- mounts that exist --------------------------------------------------------------------------------- */

static int open_tree_at(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags | O_CLOEXEC | AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
}

int mount_clone(int dirfd, const char *path, bool whole, struct err *e)
{
	int fd = open_tree_at(dirfd, path, OPEN_CLONE | (whole ? AT_RECURSIVE : 0));

	return fd < 0 ? err_sys(e, errno, "clone the mount at '%s'", path) : fd;
}

int mount_open(int dirfd, const char *path, struct err *e)
{
	int fd = open_tree_at(dirfd, path, 0);

	return fd < 0 ? err_sys(e, errno, "open the mount at '%s'", path) : fd;
}

int mount_move(int fd, int target, struct err *e)
{
	if (syscall(SYS_move_mount, fd, "", target, "", MOVE_FROM_EMPTY | MOVE_TO_EMPTY) < 0)
		return err_sys(e, errno, "move a mount to its place");
	return 0;
}

int mount_move_to(int fd, int dirfd, const char *path, struct err *e)
{
	if (syscall(SYS_move_mount, fd, "", dirfd, path, MOVE_FROM_EMPTY) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_sys(e, errno, "move a mount to '%s'", path);
}

static long change(int fd, bool whole, const struct kernel_mount_attr *attr)
{
	return syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | (whole ? AT_RECURSIVE : 0), attr, sizeof(*attr));
}

int mount_restrict(int fd, unsigned attrs, bool whole, struct err *e)
{
	const struct kernel_mount_attr attr = { .attr_set = attrs };

	return change(fd, whole, &attr) < 0 ? err_sys(e, errno, "restrict a mount to 0x%x", attrs) : 0;
}

int mount_idmap(int fd, int userns, bool whole, struct err *e)
{
	const struct kernel_mount_attr attr = { .attr_set = ATTR_IDMAP, .userns_fd = (uint64_t)userns };

	if (userns < 0)
		return err_set(e, ERR_INVALID, "map the ids of a mount: no user namespace");
	return change(fd, whole, &attr) < 0 ? err_sys(e, errno, "map the ids of a mount") : 0;
}

int mount_private(int fd, struct err *e)
{
	const struct kernel_mount_attr attr = { .propagation = MS_PRIVATE };

	return change(fd, false, &attr) < 0 ? err_sys(e, errno, "make a mount private") : 0;
}

static int propagate_all(uint64_t how, const char *name, struct err *e)
{
	const struct kernel_mount_attr attr = { .propagation = how };

	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return err_sys(e, errno, "make all mounts %s", name);
	return 0;
}

int mount_private_all(struct err *e)
{
	return propagate_all(MS_PRIVATE, "private", e);
}

int mount_slave_all(struct err *e)
{
	return propagate_all(MS_SLAVE, "slaves", e);
}

/* ---- the root ------------------------------------------------------------------------------------------ */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The old root is stacked on the new one, at the same place: no directory in the new root is needed for it, and
 * "." still finds it on top there. */
int mount_pivot(int root, struct err *e)
{
	struct stat want, root_now, cwd_now;

	if (fstat(root, &want) < 0 || fchdir(root) < 0)
		return err_sys(e, errno, "enter the new root");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, errno, "pivot_root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, errno, "detach the old root");
	if (chdir("/") < 0 || stat("/", &root_now) < 0 || stat(".", &cwd_now) < 0)
		return err_sys(e, errno, "enter the new root");
	if (!is_same(&want, &root_now) || !is_same(&want, &cwd_now))
		return err_set(e, ERR_INTERNAL, "the new root is not in its place");
	return 0;
}

int mount_detach(const char *path, struct err *e)
{
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? err_sys(e, errno, "detach '%s'", path) : 0;
}
