// SPDX-License-Identifier: Apache-2.0
#include "image/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/map.h"
#include "base/own.h"
#include "image/entry.h"
#include "image/tar_write.h"
#include "sys/path.h"

#include "base/banned.h"

#define PIECE ((size_t)64 * 1024)
#define HEADERS_MAX ((size_t)1024 * 1024) /* of one entry, with its attributes */
#define ATTR_NAMES_MAX 65536              /* the kernel lists no more */
#define ATTR_VALUE_MAX 65536
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

DEFINE_AUTO(DIR *, closedir)

struct inode { /* the key of a file that has several names */
	uint64_t dev, ino;
};

struct link {
	struct inode key;
	const char *path; /* its first name */
};

struct packing {
	const struct pack_spec *spec;
	struct sha256 sha;
	uint64_t at, on_disk, entries;
	char path[PATH_BYTES_MAX + 1]; /* of what is being packed */
	size_t n;                      /* of it */
	struct map links;              /* of struct link, in the arena */
	struct arena arena;
	struct buf headers, attrs;
	char piece[PIECE], names[ATTR_NAMES_MAX], value[ATTR_VALUE_MAX];
};

static void packing_done(struct packing *p)
{
	map_done(&p->links);
	arena_done(&p->arena);
	buf_done(&p->headers);
	buf_done(&p->attrs);
}

static void packing_free(struct packing *p)
{
	packing_done(p);
	free(p);
}
DEFINE_AUTO(struct packing *, packing_free)

static int refuse(const struct packing *p, struct err *e, enum err_code code, const char *why)
{
	return err_set(e, code, "'/%s': %s", SHOWN(((struct str){ p->path, p->n })), why);
}

/* ---- bytes ---- */

static int write_at(struct packing *p, const char *bytes, size_t n, struct err *e)
{
	uint64_t at = p->at;

	p->on_disk += n;
	if (p->on_disk > p->spec->disk_max)
		return err_set(e, ERR_LIMIT, "there is no room for it");
	while (n > 0) {
		ssize_t k = pwrite(p->spec->out, bytes, n, (off_t)at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(e, errno, "write the layer");
		bytes += k;
		at += (uint64_t)k;
		n -= (size_t)k;
	}
	return 0;
}

static int check_room(const struct packing *p, uint64_t n, struct err *e)
{
	if (n > p->spec->bytes_max - p->at)
		return err_set(e, ERR_LIMIT, "a layer of more than %llu bytes", (unsigned long long)p->spec->bytes_max);
	return 0;
}

static int put(struct packing *p, const char *bytes, size_t n, struct err *e)
{
	static const char zeros[PIECE];
	bool is_hole = n <= sizeof(zeros) && n >= TAR_RECORD && memcmp(bytes, zeros, n) == 0;

	if (check_room(p, n, e) < 0)
		return -1;
	if (!is_hole && write_at(p, bytes, n, e) < 0)
		return -1;
	sha256_add(&p->sha, bytes, n);
	p->at += n;
	return 0;
}

static int put_zeros(struct packing *p, size_t n, struct err *e)
{
	static const char zeros[TAR_END_BYTES];

	return n == 0 ? 0 : put(p, zeros, n, e);
}

/* ---- entries ---- */

static int put_entry(struct packing *p, const struct tar_entry *t, struct err *e)
{
	if (++p->entries > p->spec->entries_max)
		return err_set(e, ERR_LIMIT, "more than %llu files and directories", (unsigned long long)p->spec->entries_max);
	buf_clear(&p->headers);
	tar_entry_write(t, &p->headers);
	if (p->headers.failed)
		return refuse(p, e, ERR_LIMIT, "too many attributes, or no memory");
	return put(p, p->headers.p, p->headers.n, e);
}

static struct tar_entry entry_of(const struct packing *p, char type, const struct stat *st)
{
	return (struct tar_entry){ .type = type, .path = p->path, .mode = st->st_mode & 07777, .uid = st->st_uid, .gid = st->st_gid,
				   .size = (uint64_t)st->st_size, .mtime_s = st->st_mtim.tv_sec, .mtime_ns = st->st_mtim.tv_nsec };
}

/* In the directory at hand, or for it: NAME is the last component of one that is no file. */
static int put_mark(struct packing *p, const char *prefix, const char *name, struct err *e)
{
	char path[PATH_BYTES_MAX + 1];
	struct tar_entry t = { .type = '0', .path = path, .mode = 0644 };
	size_t n = p->n - strlen(name), more = strlen(prefix);

	if (p->n + more > PATH_BYTES_MAX || strlen(name) + more > PATH_COMPONENT_MAX)
		return refuse(p, e, ERR_INVALID, "a name is too long for a whiteout");
	memcpy(path, p->path, n);
	memcpy(path + n, prefix, more);
	memcpy(path + n + more, name, strlen(name) + 1);
	return put_entry(p, &t, e);
}

/* ---- attributes ---- */

static int add_attr(struct packing *p, int fd, const char *name, struct err *e)
{
	char key[sizeof("SCHILY.xattr.") + 255 + 1];
	ssize_t n = fgetxattr(fd, name, p->value, sizeof(p->value));

	if (n < 0)
		return errno == ENODATA ? 0 : err_sys(e, errno, "read an attribute");
	if (strlen(name) > 255 || strchr(name, '='))
		return refuse(p, e, ERR_INVALID, "an attribute that a tar cannot name");
	memcpy(key, "SCHILY.xattr.", sizeof("SCHILY.xattr."));
	memcpy(key + sizeof("SCHILY.xattr.") - 1, name, strlen(name) + 1);
	tar_pax_add(&p->attrs, key, (struct str){ p->value, (size_t)n });
	return 0;
}

/* Those that are a program's own business; p->attrs has them then. */
static int read_attrs(struct packing *p, int fd, struct err *e)
{
	ssize_t n = flistxattr(fd, p->names, sizeof(p->names));

	buf_clear(&p->attrs);
	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, errno, "list attributes");
	for (const char *name = p->names; name < p->names + n; name += strlen(name) + 1)
		if (entry_check_attr(name, &(struct err){ 0 }) == 1 && add_attr(p, fd, name, e) < 0)
			return -1;
	return 0;
}

/* ---- files ---- */

/* 1: it was packed under another name, which T links to then. */
static int check_links(struct packing *p, const struct stat *st, struct tar_entry *t, struct err *e)
{
	const struct inode key = { st->st_dev, st->st_ino };
	struct link *l;

	if (st->st_nlink < 2)
		return 0;
	l = map_get(&p->links, (struct str){ (const char *)&key, sizeof(key) });
	if (l) {
		t->type = '1';
		t->target = l->path;
		return 1;
	}
	l = arena_alloc(&p->arena, sizeof(*l));
	if (!l || !(l->path = arena_strndup(&p->arena, p->path, p->n)))
		return err_set(e, ERR_LIMIT, "too many files with several names");
	l->key = key;
	return map_put(&p->links, (struct str){ (const char *)&l->key, sizeof(l->key) }, l) ? 0 : err_no_memory(e);
}

static int put_content(struct packing *p, int fd, uint64_t size, struct err *e)
{
	uint64_t left = size;

	if (check_room(p, size, e) < 0) /* before all of it was read for nothing */
		return -1;
	while (left > 0) {
		ssize_t n = read(fd, p->piece, (size_t)MIN(left, (uint64_t)PIECE));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_sys(e, errno, "read a file") : refuse(p, e, ERR_CONFLICT, "it became shorter");
		if (put(p, p->piece, (size_t)n, e) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return put_zeros(p, tar_padding(size), e);
}

static int pack_file(struct packing *p, int dir, const char *name, const struct stat *st, struct err *e)
{
	struct tar_entry t = entry_of(p, '0', st);
	AUTO_FD fd = -1;
	struct stat now;
	int k = check_links(p, st, &t, e);

	if (k != 0)
		return k < 0 ? -1 : put_entry(p, &t, e);
	fd = root_open_beneath(dir, name, O_RDONLY | O_NOFOLLOW, 0, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode))
		return refuse(p, e, ERR_CONFLICT, "it became something else");
	t.size = (uint64_t)now.st_size;
	if (read_attrs(p, fd, e) < 0)
		return -1;
	t.more = buf_str(&p->attrs);
	return put_entry(p, &t, e) < 0 ? -1 : put_content(p, fd, t.size, e);
}

static int pack_symlink(struct packing *p, int dir, const char *name, const struct stat *st, struct err *e)
{
	char target[PATH_BYTES_MAX + 1];
	struct tar_entry t = entry_of(p, '2', st);
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, errno, "read a symlink");
	target[n] = '\0';
	t.target = target;
	return put_entry(p, &t, e);
}

/* ---- directories ---- */

static int pack_children(struct packing *p, int fd, unsigned depth, struct err *e);

static int pack_dir(struct packing *p, int dir, const char *name, const struct stat *st, unsigned depth, struct err *e)
{
	struct tar_entry t = entry_of(p, '5', st);
	size_t n = p->n;
	AUTO_FD fd = -1;
	int k;

	if (depth > ENTRY_DEPTH_MAX)
		return refuse(p, e, ERR_INVALID, "too deep");
	fd = root_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, e);
	if (fd < 0 || read_attrs(p, fd, e) < 0)
		return -1;
	t.more = buf_str(&p->attrs);
	k = p->spec->is_opaque(fd, p->spec->arg, e);
	if (k < 0 || put_entry(p, &t, e) < 0)
		return -1;
	if (n + 1 >= PATH_BYTES_MAX)
		return refuse(p, e, ERR_INVALID, "too long a path");
	p->path[n] = '/';
	p->path[n + 1] = '\0';
	p->n = n + 1;
	if ((k > 0 && put_mark(p, OPAQUE, "", e) < 0) || pack_children(p, fd, depth, e) < 0)
		return -1;
	p->n = n;
	p->path[n] = '\0';
	return 0;
}

static bool is_left_out(const struct packing *p)
{
	for (const char *const *path = p->spec->left_out; path && *path; path++)
		if (strcmp(p->path, *path) == 0)
			return true;
	return false;
}

static int pack_one(struct packing *p, int dir, const char *name, unsigned depth, struct err *e)
{
	struct tar_entry t;
	struct stat st;

	if (is_left_out(p))
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at a file");
	if (S_ISCHR(st.st_mode) && st.st_rdev == 0)
		return put_mark(p, WHITEOUT, name, e);
	if (str_starts(str_of(name), STR(WHITEOUT)))
		return refuse(p, e, ERR_INVALID,
			      "a file has the name of a whiteout, which a layer cannot contain");
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR: return pack_dir(p, dir, name, &st, depth + 1, e);
	case S_IFREG: return pack_file(p, dir, name, &st, e);
	case S_IFLNK: return pack_symlink(p, dir, name, &st, e);
	case S_IFIFO:
		t = entry_of(p, '6', &st);
		return put_entry(p, &t, e);
	default: return 0;
	}
}

/* p->path ends with '/', or is empty. */
static int pack_children(struct packing *p, int fd, unsigned depth, struct err *e)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	AUTO(closedir) DIR *d = own < 0 ? NULL : fdopendir(own);
	const size_t n = p->n;
	const struct dirent *entry;

	if (!d) {
		closep(&own);
		return err_sys(e, errno, "read a directory");
	}
	rewinddir(d); /* FD may have been read before */
	while ((errno = 0, entry = readdir(d))) {
		size_t more = strlen(entry->d_name);

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (n + more > PATH_BYTES_MAX)
			return refuse(p, e, ERR_INVALID, "too long a path");
		memcpy(p->path + n, entry->d_name, more + 1);
		p->n = n + more;
		if (pack_one(p, fd, entry->d_name, depth, e) < 0)
			return -1;
		p->n = n;
		p->path[n] = '\0';
	}
	return errno != 0 ? err_sys(e, errno, "read a directory") : 0;
}

int pack_tree(const struct pack_spec *spec, unsigned char ret_digest[SHA256_SIZE], struct err *e)
{
	AUTO(packing_free) struct packing *p = calloc(1, sizeof(*p));

	if (!p)
		return err_no_memory(e);
	p->spec = spec;
	p->arena = ARENA_INIT(PACK_LINKS_MAX);
	p->headers = BUF_INIT(HEADERS_MAX);
	p->attrs = BUF_INIT(HEADERS_MAX);
	sha256_init(&p->sha);
	if (pack_children(p, spec->root, 0, e) < 0 || put_zeros(p, TAR_END_BYTES, e) < 0)
		return -1;
	if (ftruncate(spec->out, (off_t)p->at) < 0)
		return err_sys(e, errno, "write the layer");
	sha256_end(&p->sha, ret_digest);
	return 0;
}
