// SPDX-License-Identifier: Apache-2.0
#include "server/init_config.h"

#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/random.h"
#include "server/config.h"
#include "server/log_file.h"
#include "sys/fd.h"

#include "base/banned.h"

#define KEY_BYTES 32
#define EXAMPLE_MAX ((size_t)256 * 1024)

static int render(const char *kind, struct buf *text, struct err *e)
{
	unsigned char bytes[KEY_BYTES];
	char key[2 * KEY_BYTES + 1];

	if (random_bytes(bytes, sizeof(bytes), e) < 0)
		return -1;
	hex_encode(key, bytes, sizeof(bytes));
	if (config_write_example(kind, key, text))
		return 0;
	return text->failed ? err_no_memory(e) : err_set(e, ERR_INVALID, "there is no example '%s'", kind);
}

/* A file that must not exist yet: no race with somebody else who makes it. */
static int create(const char *path, struct str text, struct err *e)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return err_set(e, ERR_CONFLICT, "'%s' exists; use --force to replace it", path);
	if (fd < 0)
		return err_sys(e, errno, "create '%s'", path);
	if (fd_write_all(fd, text.p, text.n, e) < 0) {
		(void)unlink(path);
		return err_wrap(e, "write '%s'", path);
	}
	return 0;
}

static int replace(const char *path, struct str text, struct err *e)
{
	const char *slash = strrchr(path, '/');
	AUTO(buf_done) struct buf folder = BUF_INIT(4200);
	AUTO_FD dirfd = -1;

	buf_add(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
	dirfd = open(buf_z(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(e, errno, "open folder '%s'", buf_z(&folder));
	return file_replace(dirfd, slash ? slash + 1 : path, text, 0600, e);
}

int init_config(const char *path, const char *kind, bool force, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(EXAMPLE_MAX);

	if (render(kind, &text, e) < 0 || make_parents(path, e) < 0)
		return -1;
	return force ? replace(path, buf_str(&text), e) : create(path, buf_str(&text), e);
}
