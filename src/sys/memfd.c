// SPDX-License-Identifier: Apache-2.0
#include "sys/memfd.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

/* Linux 6.3. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

/* Older kernels refuse flags that they do not know, and there every memfd may be executed. */
static int make(const char *name, unsigned exec_flag, struct err *e)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | exec_flag);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? err_sys(e, errno, "create") : fd;
}

static int seal(int fd, struct err *e)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return err_sys(e, errno, "seal");
	return 0;
}

/* All of FROM from its start, whatever its offset, which stays. */
static int copy(int from, int to, uint64_t size, struct err *e)
{
	off_t at = 0;

	while ((uint64_t)at < size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(size - (uint64_t)at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "copy");
		if (n == 0)
			return err_set(e, ERR_IO, "copy: the file became shorter");
	}
	return 0;
}

/* The owner last: it takes the right to change the mode from a caller without FOWNER. */
static int copy_sealed(int from, const char *name, uid_t owner, struct err *e)
{
	AUTO_FD fd = -1;
	struct stat st;

	if (fstat(from, &st) < 0)
		return err_sys(e, errno, "stat");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "not a regular file");
	if ((uint64_t)st.st_size > MEMFD_COPY_MAX)
		return err_set(e, ERR_LIMIT, "more than %llu bytes", MEMFD_COPY_MAX);
	fd = make(name, MFD_EXEC, e);
	if (fd < 0 || copy(from, fd, (uint64_t)st.st_size, e) < 0)
		return -1;
	if (fchmod(fd, 0111) < 0)
		return err_sys(e, errno, "set mode 0111");
	if (fchown(fd, owner, (gid_t)owner) < 0)
		return err_sys(e, errno, "give it to %u", (unsigned)owner);
	return seal(fd, e) < 0 ? -1 : take_fd(&fd);
}

int memfd_sealed_copy(int from, const char *name, uid_t owner, struct err *e)
{
	int fd = copy_sealed(from, name, owner, e);

	return fd < 0 ? err_wrap(e, "sealed copy '%s'", name) : fd;
}

static int bytes_sealed(const char *name, struct str bytes, struct err *e)
{
	AUTO_FD fd = -1;

	fd = make(name, MFD_NOEXEC_SEAL, e);
	if (fd < 0 || fd_write_all(fd, bytes.p, bytes.n, e) < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "seek");
	return seal(fd, e) < 0 ? -1 : take_fd(&fd);
}

int memfd_sealed_bytes(const char *name, struct str bytes, struct err *e)
{
	int fd = bytes_sealed(name, bytes, e);

	return fd < 0 ? err_wrap(e, "sealed data '%s'", name) : fd;
}

int memfd_exec(int fd, char *const *argv, char *const *envp, struct err *e)
{
	(void)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
	return err_sys(e, errno, "exec descriptor %d", fd);
}
