// SPDX-License-Identifier: Apache-2.0
/* The state directory: ours alone, and one server's at a time. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/kill_point.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

static int make_dir(const char *dir, struct err *e)
{
	struct stat st;

	if (path_make_parents(dir, 0700, e) < 0)
		return -1;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", dir);
	if (stat(dir, &st) < 0)
		return err_sys(e, errno, "look at '%s'", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is not a directory", dir);
	if ((st.st_mode & 077) != 0 && chmod(dir, st.st_mode & 0700) < 0)
		return err_sys(e, errno, "close '%s' to others", dir);
	return 0;
}

int state_dir_lock(const char *dir, enum store_fault *ret_fault, struct err *e)
{
	AUTO_FD dirfd = -1;
	AUTO_FD fd = -1;

	*ret_fault = STORE_FAILED;
	if (make_dir(dir, e) < 0)
		return -1;
	dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	fd = openat(dirfd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "open '%s/lock'", dir);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_sys(e, errno, "lock '%s'", dir);
		*ret_fault = STORE_LOCKED;
		return err_set(e, ERR_CONFLICT, "another server is running with the state directory '%s'", dir);
	}
	return take_fd(&fd);
}

int state_file_make(const char *path, struct err *e)
{
	AUTO_FD fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (fchmod(fd, 0600) < 0)
		return err_sys(e, errno, "close '%s' to others", path);
	return 0;
}

void state_database_remove(const char *path)
{
	static const char *const tails[] = { "", "-wal", "-shm" };
	char name[PATH_MAX];

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
		if (snprintf(name, sizeof(name), "%s%s", path, tails[i]) < (int)sizeof(name))
			(void)unlink(name);
}

static int sync_folder_of(const char *path, struct err *e)
{
	char name[PATH_MAX];
	AUTO_FD fd = -1;

	(void)snprintf(name, sizeof(name), "%.*s", (int)(strrchr(path, '/') - path), path); /* it was opened by this path */
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? err_sys(e, errno, "sync '%s'", name) : 0;
}

int state_database_replace(const char *from, const char *to, struct err *e)
{
	char log[PATH_MAX];

	if (snprintf(log, sizeof(log), "%s-wal", from) >= (int)sizeof(log) || access(log, F_OK) == 0)
		return err_set(e, ERR_IO, "'%s' still has a log", from);
	state_database_remove(to); /* first: the log of the old one would be taken for the new one's */
	KILL_POINT("server.copy.replacing");
	if (rename(from, to) < 0)
		return err_sys(e, errno, "rename '%s'", from);
	return sync_folder_of(to, e);
}

int state_dir_check(const char *dir, enum store_fault *ret_fault, struct err *e)
{
	AUTO_FD fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	if (faccessat(fd, STORE_RECOVERING, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return 0;
	*ret_fault = STORE_DAMAGED;
	return err_set(e, ERR_INVALID, "a recovery of the database in '%s' was cut off", dir);
}
