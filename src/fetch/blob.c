// SPDX-License-Identifier: Apache-2.0
#include "fetch/blob.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/map.h"
#include "base/random.h"
#include "image/fetch.h"
#include "sys/fd.h"
#include "sys/room.h"

#include "base/banned.h"

#define LOOK_BYTES (UINT64_C(1) << 20) /* between two looks at what is left */

static int cannot_write(int sys, struct err *e)
{
	if (sys != ENOSPC && sys != EDQUOT && sys != EFBIG)
		return err_sys(e, sys, "write a layer");
	(void)err_set(e, ERR_LIMIT, "no room for the image on the server's disk");
	e->sys = ENOSPC;
	return -1;
}

/* L7: what is left may be less by the next look, since others write as well. */
static int check_room(struct blob *b, uint64_t bytes, struct err *e)
{
	if (room_check(b->dir, b->reserve, bytes, e) < 0)
		return e->sys == ENOSPC ? cannot_write(ENOSPC, e) : -1;
	b->next_look = b->n + LOOK_BYTES;
	return 0;
}

int blob_begin(struct blob *b, const struct blob_spec *spec, struct err *e)
{
	int dir = spec->dir;
	unsigned char random[8];
	char text[2 * sizeof(random) + 1];

	b->dir = dir;
	b->n = 0;
	b->reserve = spec->reserve;
	b->max = spec->max;
	if (check_room(b, spec->size, e) < 0 || random_bytes(random, sizeof(random), e) < 0)
		return -1;
	hex_encode(text, random, sizeof(random));
	(void)snprintf(b->name, sizeof(b->name), FETCH_NEW_PREFIX "%s", text);
	b->fd = openat(dir, b->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (b->fd < 0)
		return cannot_write(errno, e);
	hasher_init(&b->sum, spec->kind);
	return 0;
}

int blob_add(struct blob *b, const void *p, size_t n, struct err *e)
{
	if (n > b->max - b->n)
		return err_set(e, ERR_INVALID, "more bytes came than were to come (%llu)", (unsigned long long)b->max);
	if (b->n >= b->next_look && check_room(b, n, e) < 0)
		return -1;
	if (fd_write_all(b->fd, p, n, e) < 0)
		return cannot_write(e->sys, e);
	hasher_add(&b->sum, p, n);
	b->n += n;
	return 0;
}

int blob_restart(struct blob *b, struct err *e)
{
	if (ftruncate(b->fd, 0) < 0 || lseek(b->fd, 0, SEEK_SET) < 0)
		return cannot_write(errno, e);
	b->n = b->next_look = 0;
	hasher_init(&b->sum, b->sum.size);
	return 0;
}

int blob_keep(struct blob *b, const struct digest *want, struct digest *ret, struct err *e)
{
	struct digest is;
	char name[BLOB_NAME_MAX];

	hasher_end(&b->sum, &is);
	if (want && !digest_eq(&is, want))
		return err_set(e, ERR_INVALID, "what came is not what its digest says");
	if (fsync(b->fd) < 0)
		return cannot_write(errno, e);
	blob_name(&is, name);
	if (renameat(b->dir, b->name, b->dir, name) < 0)
		return cannot_write(errno, e);
	closep(&b->fd);
	b->fd = -1;
	if (ret)
		*ret = is;
	return 0;
}

void blob_drop(struct blob *b)
{
	if (b->fd < 0)
		return;
	(void)unlinkat(b->dir, b->name, 0); /* what stays goes with the next sweep */
	closep(&b->fd);
	b->fd = -1;
}

void blob_name(const struct digest *digest, char out[BLOB_NAME_MAX])
{
	unsigned char name[DIGEST_NAME_SIZE];
	char hex[2 * DIGEST_NAME_SIZE + 1];

	digest_name(digest, name);
	hex_encode(hex, name, sizeof(name));
	(void)snprintf(out, BLOB_NAME_MAX, FETCH_BLOB_PREFIX "%s", hex);
}

bool blob_exists(int dir, const struct digest *digest, uint64_t size)
{
	char name[BLOB_NAME_MAX];
	struct stat st;

	blob_name(digest, name);
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && (size == 0 || (uint64_t)st.st_size == size);
}

int blobs_sync(int dir, struct err *e)
{
	return fsync(dir) < 0 ? cannot_write(errno, e) : 0;
}

/* ---- sweeping ---- */

DEFINE_AUTO(DIR *, closedir)

static bool is_kept(const struct map *keep, bool with_new, struct str name)
{
	if (str_starts(name, STR(FETCH_NEW_PREFIX)))
		return !with_new;
	if (!str_starts(name, STR(FETCH_BLOB_PREFIX)))
		return true; /* nobody's business */
	return map_get(keep, str_skip(name, sizeof(FETCH_BLOB_PREFIX) - 1)) != NULL;
}

static int sweep(int dir, const struct map *keep, bool with_new, struct err *e)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!d) {
		(void)err_sys(e, errno, "open the folder of blobs");
		closep(&fd);
		return -1;
	}
	errno = 0;
	while ((entry = readdir(d))) {
		if (!is_kept(keep, with_new, str_of(entry->d_name)) && unlinkat(dir, entry->d_name, 0) < 0 && errno != ENOENT)
			return err_sys(e, errno, "remove a blob");
		errno = 0;
	}
	return errno ? err_sys(e, errno, "read the folder of blobs") : 0;
}

int blobs_sweep(int dir, const struct string_list *keep, bool with_new, struct err *e)
{
	AUTO(map_done) struct map names = MAP_INIT;

	for (size_t i = 0; i < keep->n; i++)
		if (!map_put(&names, str_of(keep->items[i]), &names))
			return err_no_memory(e);
	return sweep(dir, &names, with_new, e);
}
