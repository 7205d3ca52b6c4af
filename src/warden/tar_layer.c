// SPDX-License-Identifier: Apache-2.0
#include "warden/tar_layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/sha256.h"
#include "image/tar.h"
#include "warden/blob_layer.h"
#include "warden/layer_dir.h"
#include "warden/unpacker.h"

#include "base/banned.h"

#define LAYER "sha256-"
#define KEY "tar-"
#define TEMP "new-tar-"

/* ---- names ---- */

void tar_layer_key(const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1])
{
	const uint64_t numbers[] = {
		st->st_dev,
		st->st_ino,
		(uint64_t)st->st_size,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec,
		(uint64_t)st->st_ctim.tv_nsec,
	};
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, numbers, sizeof(numbers));
	sha256_add(&s, path, strlen(path));
	sha256_end(&s, digest);
	memcpy(ret, KEY, sizeof(KEY));
	hex_encode(ret + sizeof(KEY) - 1, digest, sizeof(digest));
}

static bool is_layer_name(const char *name)
{
	unsigned char digest[SHA256_SIZE];

	return str_starts(str_of(name), STR(LAYER)) && hex_decode(str_of(name + sizeof(LAYER) - 1), digest, sizeof(digest));
}

int tar_layer_find(int layers, const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1], struct err *e)
{
	char key[SLOT_LAYER_NAME_MAX + 1], name[SLOT_LAYER_NAME_MAX + 1];
	ssize_t n;

	tar_layer_key(path, st, key);
	n = readlinkat(layers, key, name, sizeof(name));
	if (n < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "read '%s'", key);
	name[MIN((size_t)n, sizeof(name) - 1)] = '\0';
	if ((size_t)n >= sizeof(name) || !is_layer_name(name) || !layer_dir_has(layers, name))
		return 0;
	memcpy(ret, name, (size_t)n + 1);
	return 1;
}

/* ---- making ---- */

static int name_of(int fd, char ret[SLOT_LAYER_NAME_MAX + 1], struct err *e)
{
	AUTO(blob_digest_done) struct blob_digest d = BLOB_DIGEST_INIT;
	int k;

	if (blob_digest_begin(&d, fd, SHA256_SIZE, e) < 0)
		return -1;
	do
		k = blob_digest_step(&d, e);
	while (k > 0);
	if (k < 0)
		return -1;
	memcpy(ret, LAYER, sizeof(LAYER));
	hex_encode(ret + sizeof(LAYER) - 1, d.digest.bytes, SHA256_SIZE);
	return 0;
}

static int open_tar(const char *path, struct stat *ret, struct err *e)
{
	AUTO_FD fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret) < 0)
		return err_sys(e, errno, "open the tar '%s'", path);
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERR_INVALID, "it is no longer a file");
	if ((uint64_t)ret->st_size > TAR_FILE_MAX)
		return err_set(e, ERR_INVALID, "it is larger than %llu bytes", (unsigned long long)TAR_FILE_MAX);
	return take_fd(&fd);
}

/* What was hashed is what was unpacked: one descriptor, and no change in between. */
static int check_unchanged(int tar, const char *path, const struct stat *before, struct err *e)
{
	char was[SLOT_LAYER_NAME_MAX + 1], is[SLOT_LAYER_NAME_MAX + 1];
	struct stat now;

	if (fstat(tar, &now) < 0)
		return err_sys(e, errno, "look at the tar");
	tar_layer_key(path, before, was);
	tar_layer_key(path, &now, is);
	return strcmp(was, is) != 0 ? err_set(e, ERR_INVALID, "its file changes while it is read") : 0;
}

struct made {
	const struct tar_layer_spec *spec;
	int layers, tar;
	struct stat st;
	char name[SLOT_LAYER_NAME_MAX + 1];
};

static int unpack(const struct made *m, struct err *e)
{
	AUTO(layer_draft_done) struct layer_draft draft = LAYER_DRAFT_INIT;
	struct unpacker_spec spec = { .program = m->spec->unpack, .id_base = m->spec->id_base, .blob = m->tar,
				      .store = m->spec->store };

	if (layer_draft_make(&draft, m->layers, TEMP, e) < 0)
		return -1;
	spec.target = draft.target;
	if (unpacker_run(&spec, e) < 0 || check_unchanged(m->tar, m->spec->path, &m->st, e) < 0)
		return -1;
	return layer_draft_publish(&draft, m->name, e);
}

static int link_key(const struct made *m, struct err *e)
{
	char key[SLOT_LAYER_NAME_MAX + 1];

	tar_layer_key(m->spec->path, &m->st, key);
	if (unlinkat(m->layers, key, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "replace '%s'", key);
	return symlinkat(m->name, m->layers, key) < 0 ? err_sys(e, errno, "make '%s'", key) : 0;
}

int tar_layer_make(const struct tar_layer_spec *spec, struct err *e)
{
	AUTO_FD layers = layer_dir_open(spec->layers_path, e);
	struct made m = { .spec = spec, .layers = layers };
	AUTO_FD tar = -1;

	if (layers < 0)
		return -1;
	tar = m.tar = open_tar(spec->path, &m.st, e);
	if (tar < 0 || name_of(tar, m.name, e) < 0)
		return -1;
	if (layer_dir_has(layers, m.name) ? check_unchanged(tar, spec->path, &m.st, e) < 0 : unpack(&m, e) < 0)
		return -1;
	return link_key(&m, e);
}
