// SPDX-License-Identifier: Apache-2.0
#include "server/images/image_archive.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "base/sha512.h"
#include "sys/fd.h"
#include "sys/tree.h"

#include "base/banned.h"

#define FILES_MAX 16384

/* Where a layout has its blobs. */
static const struct kind {
	const char *folder;
	size_t size; /* of their digests */
} kinds[] = { { "blobs/sha256", SHA256_SIZE }, { "blobs/sha512", SHA512_SIZE } };

struct archive_file {
	char name[TAR_NAME_MAX + 1];
	uint64_t size;
};

DEFINE_AUTO(DIR *, closedir)

/* ---- from ---- */

static int add_file(struct archive_source *s, const char *name, struct err *e)
{
	struct archive_file *files;
	struct stat st;

	if (s->n == FILES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files in the layout", FILES_MAX);
	if (fstatat(s->dir, name, &st, 0) < 0)
		return err_sys(e, errno, "look at '%s'", name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is no file", name);
	files = reallocarray(s->files, s->n + 1, sizeof(*files));
	if (!files)
		return err_no_memory(e);
	s->files = files;
	(void)snprintf(files[s->n].name, sizeof(files[s->n].name), "%s", name);
	files[s->n++].size = (uint64_t)st.st_size;
	s->length += tar_head_size(name) + (uint64_t)st.st_size + tar_padding((uint64_t)st.st_size);
	return 0;
}

static bool is_blob(const struct kind *k, struct str name)
{
	unsigned char digest[SHA512_SIZE];

	return name.n == 2 * k->size && hex_decode(name, digest, k->size);
}

/* One of the two may be missing: what is needed and not there is noticed by who reads the archive. */
static int add_blobs(struct archive_source *s, const struct kind *k, struct err *e)
{
	int fd = openat(s->dir, k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	char name[TAR_NAME_MAX + 1];

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (!d) {
		(void)err_sys(e, errno, "open '%s'", k->folder);
		closep(&fd);
		return -1;
	}
	while ((entry = readdir(d))) {
		if (!is_blob(k, str_of(entry->d_name)))
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s", k->folder, entry->d_name);
		if (add_file(s, name, e) < 0)
			return -1;
	}
	return 0;
}

static int open_folder(struct archive_source *s, struct err *e)
{
	s->dir = take_fd(&s->fd);
	s->length = TAR_END_BYTES;
	if (add_file(s, "oci-layout", e) < 0 || add_file(s, "index.json", e) < 0)
		return err_wrap(e, "this is no OCI layout");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (add_blobs(s, &kinds[i], e) < 0)
			return -1;
	return 0;
}

int archive_source_open(struct archive_source *s, const char *path, struct err *e)
{
	struct stat st;

	*s = (struct archive_source){ .dir = -1, .fd = -1, .length = UINT64_MAX };
	s->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (S_ISDIR(st.st_mode))
		return open_folder(s, e);
	if (S_ISREG(st.st_mode))
		s->length = (uint64_t)st.st_size;
	return 0;
}

void archive_source_close(struct archive_source *s)
{
	closep(&s->dir);
	closep(&s->fd);
	free(s->files);
}

static int next_file(struct archive_source *s, struct err *e)
{
	const struct archive_file *f = &s->files[s->at++];

	closep(&s->fd);
	s->fd = openat(s->dir, f->name, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return err_sys(e, errno, "open '%s'", f->name);
	s->left = f->size;
	s->zeros = tar_padding(f->size);
	s->n_head = tar_head(f->name, f->size, s->head);
	s->head_at = 0;
	return 0;
}

static long read_head(struct archive_source *s, char *out, size_t max)
{
	size_t n = MIN(max, s->n_head - s->head_at);

	memcpy(out, s->head + s->head_at, n);
	s->head_at += n;
	return (long)n;
}

static long read_fd(struct archive_source *s, char *out, size_t max, struct err *e)
{
	ssize_t n;

	do
		n = read(s->fd, out, max);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_sys(e, errno, "read the archive") : n;
}

long archive_source_read(char *out, size_t max, void *source, struct err *e)
{
	struct archive_source *s = source;
	long n;

	if (!s->files)
		return read_fd(s, out, max, e);
	if (s->head_at == s->n_head && s->left == 0 && s->zeros == 0 && s->at < s->n && next_file(s, e) < 0)
		return -1;
	if (s->head_at < s->n_head)
		return read_head(s, out, max);
	if (s->left > 0) {
		n = read_fd(s, out, (size_t)MIN((uint64_t)max, s->left), e);
		if (n == 0)
			return err_set(e, ERR_INVALID, "a file of the layout became shorter");
		s->left -= n > 0 ? (uint64_t)n : 0;
		return n;
	}
	if (s->zeros == 0 && s->has_ended)
		return 0;
	if (s->zeros == 0) {
		s->has_ended = true;
		s->zeros = TAR_END_BYTES;
	}
	n = (long)MIN(max, s->zeros);
	memset(out, 0, (size_t)n);
	s->zeros -= (size_t)n;
	return n;
}

/* ---- into ---- */

static bool is_empty(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(closedir) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!d)
		closep(&fd);
	while (d && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	return d != NULL;
}

static int open_into_folder(struct archive_sink *s, const char *path, struct err *e)
{
	s->is_made = mkdir(path, 0755) == 0;
	if (!s->is_made && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (!is_empty(s->dir)) {
		s->is_kept = true; /* it is somebody else's */
		return err_set(e, ERR_CONFLICT, "'%s' is not empty", path);
	}
	return mkdirat(s->dir, "blobs", 0755) < 0 ? err_sys(e, errno, "make '%s/blobs'", path) : 0;
}

static int open_into_file(struct archive_sink *s, const char *path, struct err *e)
{
	if (snprintf(s->temporary, sizeof(s->temporary), "%s.XXXXXX", path) >= (int)sizeof(s->temporary)) {
		s->temporary[0] = '\0';
		return err_set(e, ERR_LIMIT, "'%s': path too long", path);
	}
	s->fd = mkostemp(s->temporary, O_CLOEXEC);
	if (s->fd >= 0)
		return 0;
	s->temporary[0] = '\0';
	return err_sys(e, errno, "write '%s'", path);
}

int archive_sink_open(struct archive_sink *s, const char *path, struct err *e)
{
	struct stat st;

	*s = (struct archive_sink){ .dir = -1, .fd = -1, .path = path };
	if (strcmp(path, "-") == 0) {
		s->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return s->fd < 0 ? err_sys(e, errno, "write to standard output") : 0;
	}
	if (str_ends(str_of(path), STR("/")) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return open_into_folder(s, path, e);
	return open_into_file(s, path, e);
}

/* Which a blob of that name belongs to, or NULL. */
static const struct kind *kind_of(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t n = strlen(kinds[i].folder);

		if (str_starts(name, str_of(kinds[i].folder)) && name.n > n && name.p[n] == '/' && is_blob(&kinds[i], str_skip(name, n + 1)))
			return &kinds[i];
	}
	return NULL;
}

/* Only what a layout has: the server is not asked for more, and no name leads elsewhere. */
static int make_file(struct archive_sink *s, const char *name, struct err *e)
{
	const struct kind *k = kind_of(str_of(name));

	if (!k && strcmp(name, "oci-layout") != 0 && strcmp(name, "index.json") != 0 && strcmp(name, "manifest.json") != 0)
		return err_set(e, ERR_INVALID, "the server sent what is no archive");
	if (k && mkdirat(s->dir, k->folder, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", k->folder);
	closep(&s->fd);
	s->fd = openat(s->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return s->fd < 0 ? err_sys(e, errno, "write '%s'", name) : 0;
}

static int take_record(struct archive_sink *s, struct err *e)
{
	char name[TAR_NAME_MAX + 1];
	uint64_t size = 0;
	enum tar_step step = tar_head_read(&s->reader, s->record, name, &size);

	s->n = 0;
	if (step == TAR_ZEROS)
		s->has_ended = true;
	else if (step == TAR_BROKEN || s->has_ended)
		return err_set(e, ERR_INVALID, "the server sent what is no archive");
	if (step != TAR_FILE)
		return 0;
	if (make_file(s, name, e) < 0)
		return -1;
	s->left = size;
	s->padding = tar_padding(size);
	return 0;
}

static int take_into_folder(struct archive_sink *s, struct str *in, struct err *e)
{
	size_t n;

	if (s->left > 0) {
		n = (size_t)MIN((uint64_t)in->n, s->left);
		if (fd_write_all(s->fd, in->p, n, e) < 0)
			return -1;
		s->left -= n;
	} else if (s->padding > 0) {
		n = MIN(in->n, s->padding);
		s->padding -= n;
	} else {
		n = MIN(in->n, TAR_RECORD - s->n);
		memcpy(s->record + s->n, in->p, n);
		s->n += n;
		if (s->n == TAR_RECORD && take_record(s, e) < 0)
			return -1;
	}
	*in = str_skip(*in, n);
	return 0;
}

int archive_sink_take(struct str piece, void *sink, struct err *e)
{
	struct archive_sink *s = sink;

	if (s->dir < 0)
		return fd_write_all(s->fd, piece.p, piece.n, e);
	while (piece.n > 0)
		if (take_into_folder(s, &piece, e) < 0)
			return -1;
	return 0;
}

int archive_sink_keep(struct archive_sink *s, struct err *e)
{
	if (s->dir >= 0) {
		s->is_kept = s->has_ended;
		return s->has_ended ? 0 : err_set(e, ERR_INVALID, "the archive is cut short");
	}
	if (!s->temporary[0])
		return 0;
	if (fsync(s->fd) < 0 || fchmod(s->fd, 0644) < 0 || rename(s->temporary, s->path) < 0)
		return err_sys(e, errno, "write '%s'", s->path);
	s->temporary[0] = '\0';
	return 0;
}

/* It was empty before: everything in it is ours. */
static void empty_folder(const struct archive_sink *s)
{
	static const char *const files[] = { "oci-layout", "index.json", "manifest.json" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		(void)unlinkat(s->dir, files[i], 0);
	(void)tree_remove(s->dir, "blobs", &(struct err){ 0 }); /* what failed is told already */
	if (s->is_made)
		(void)rmdir(s->path);
}

void archive_sink_close(struct archive_sink *s)
{
	if (s->dir >= 0 && !s->is_kept)
		empty_folder(s);
	if (s->temporary[0])
		(void)unlink(s->temporary);
	closep(&s->fd);
	closep(&s->dir);
}
