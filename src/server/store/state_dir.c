// SPDX-License-Identifier: Apache-2.0
/* The state directory: ours alone, and one server's at a time. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/random.h"
#include "server/log_file.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define SECRET_NAME "secret"

static int make_dir(const char *dir, struct err *e)
{
	struct stat st;

	if (make_parents(dir, 0700, e) < 0)
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

int state_secret_read(const char *dir, unsigned char out[STORE_SECRET_SIZE], struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STORE_SECRET_SIZE + 1);
	AUTO_FD fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	if (fd_read_file(fd, SECRET_NAME, STORE_SECRET_SIZE, &b, e) < 0)
		return -1;
	if (b.n != STORE_SECRET_SIZE)
		return err_set(e, ERR_NOT_FOUND, "'%s/" SECRET_NAME "' is none", dir);
	memcpy(out, b.p, STORE_SECRET_SIZE);
	secret_wipe(b.p, b.n);
	return 0;
}

int state_secret_write(const char *dir, const unsigned char secret[STORE_SECRET_SIZE], struct err *e)
{
	AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	return file_replace(fd, SECRET_NAME, (struct str){ (const char *)secret, STORE_SECRET_SIZE }, 0600, e);
}
