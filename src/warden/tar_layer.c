// SPDX-License-Identifier: Apache-2.0
#include "warden/tar_layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/random.h"
#include "base/sha256.h"
#include "image/tar.h"
#include "image/unpack.h"
#include "sys/process.h"
#include "sys/tree.h"
#include "sys/userns.h"

#include "base/banned.h"

#define LAYER "sha256-"
#define KEY "tar-"
#define TEMP "new-tar-"
#define GONE "gone-"
#define READ_BYTES ((size_t)256 * 1024)

DEFINE_AUTO(DIR *, closedir)

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

static int random_name(const char *prefix, char ret[SLOT_LAYER_NAME_MAX + 1], struct err *e)
{
	unsigned char unique[8];

	if (random_bytes(unique, sizeof(unique), e) < 0)
		return -1;
	memcpy(ret, prefix, strlen(prefix) + 1);
	hex_encode(ret + strlen(prefix), unique, sizeof(unique));
	return 0;
}

static bool is_layer_name(const char *name)
{
	unsigned char digest[SHA256_SIZE];

	return str_starts(str_of(name), STR(LAYER)) && hex_decode(str_of(name + sizeof(LAYER) - 1), digest, sizeof(digest));
}

static bool is_there(int layers, const char *name)
{
	struct stat st;

	return fstatat(layers, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int open_layers(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
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
	if ((size_t)n >= sizeof(name) || !is_layer_name(name) || !is_there(layers, name))
		return 0;
	memcpy(ret, name, (size_t)n + 1);
	return 1;
}

/* ---- unpacking ---- */

/* Its own words are the tar's. */
static int read_report(int fd, const struct process_end *end, struct err *e)
{
	struct err told;

	if (read(fd, &told, sizeof(told)) != (ssize_t)sizeof(told) || told.code > ERR_INTERNAL)
		return err_set(e, ERR_INVALID, "the unpacker ended without a word, by %s %d", end->by_signal ? "signal" : "status",
			       end->code);
	if (told.code == ERR_NONE && !end->by_signal && end->code == 0)
		return 0;
	told.msg[sizeof(told.msg) - 1] = '\0';
	return err_set(e, ERR_INVALID, "%s", told.msg);
}

static int start_unpacker(const struct tar_layer_spec *spec, int tar, int target, int report, struct err *e)
{
	AUTO_FD userns = userns_make(spec->id_base, e);
	char name[] = "opensandbox-unpack", *const argv[] = { name, NULL };
	struct spawn_spec sp = SPAWN_INIT(spec->unpack, argv);
	const struct spawn_fd fds[] = {
		{ tar, UNPACK_FD_TAR }, { target, UNPACK_FD_TARGET }, { userns, UNPACK_FD_USERNS }, { report, UNPACK_FD_REPORT },
	};

	if (userns < 0)
		return -1;
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.cwd = "/";
	sp.new_session = true;
	sp.death_signal = SIGKILL; /* with us, who end with the warden */
	return process_spawn(&sp, NULL, e);
}

static int run_unpacker(const struct tar_layer_spec *spec, int tar, int target, struct err *e)
{
	AUTO_FD rd = -1;
	AUTO_FD wr = -1;
	AUTO_FD pidfd = -1;
	struct process_end end;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	rd = ends[0];
	wr = ends[1];
	pidfd = start_unpacker(spec, tar, target, wr, e);
	if (pidfd < 0)
		return -1;
	if (process_wait(pidfd, UNPACK_SECONDS_MAX * 1000, &end, e) < 0) {
		(void)process_kill_and_wait(pidfd, -1, &end, &(struct err){ 0 });
		return err_set(e, ERR_INVALID, "it is not unpacked after %d s", UNPACK_SECONDS_MAX);
	}
	return read_report(rd, &end, e);
}

/* ---- making ---- */

static int digest_of(int fd, char ret[SLOT_LAYER_NAME_MAX + 1], struct err *e)
{
	AUTO(free) char *bytes = malloc(READ_BYTES);
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;
	ssize_t n;

	if (!bytes)
		return err_no_memory(e);
	sha256_init(&s);
	do {
		n = read(fd, bytes, READ_BYTES);
		if (n > 0)
			sha256_add(&s, bytes, (size_t)n);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "read the tar");
	sha256_end(&s, digest);
	memcpy(ret, LAYER, sizeof(LAYER));
	hex_encode(ret + sizeof(LAYER) - 1, digest, sizeof(digest));
	return 0;
}

static int open_tar(const char *path, struct stat *ret, struct err *e)
{
	AUTO_FD fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, ret) < 0)
		return err_sys(e, errno, "open the tar '%s'", path);
	if (!S_ISREG(ret->st_mode))
		return err_set(e, ERR_INVALID, "it is not a file any more");
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

/* Another tar with the same content may have been faster: then that one counts. */
static int name_layer(int layers, const char *temp, int target, const char *name, struct err *e)
{
	if (fchmod(target, 0755) < 0 || syncfs(target) < 0)
		return err_sys(e, errno, "write a layer to the disk");
	if (renameat(layers, temp, layers, name) < 0 && !is_there(layers, name))
		return err_sys(e, errno, "name a layer");
	return fsync(layers) < 0 ? err_sys(e, errno, "write a layer to the disk") : 0;
}

struct made {
	const struct tar_layer_spec *spec;
	int layers, tar;
	struct stat st;
	char name[SLOT_LAYER_NAME_MAX + 1], temp[SLOT_LAYER_NAME_MAX + 1];
};

static int unpack(struct made *m, struct err *e)
{
	AUTO_FD target = -1;

	if (mkdirat(m->layers, m->temp, 0700) < 0)
		return err_sys(e, errno, "make '%s'", m->temp);
	target = openat(m->layers, m->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0)
		return err_sys(e, errno, "open '%s'", m->temp);
	if (run_unpacker(m->spec, m->tar, target, e) < 0 || check_unchanged(m->tar, m->spec->path, &m->st, e) < 0)
		return -1;
	return name_layer(m->layers, m->temp, target, m->name, e);
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
	AUTO_FD layers = open_layers(spec->layers_path, e);
	struct made m = { .spec = spec, .layers = layers };
	AUTO_FD tar = -1;
	int r;

	if (layers < 0 || random_name(TEMP, m.temp, e) < 0)
		return -1;
	tar = m.tar = open_tar(spec->path, &m.st, e);
	if (tar < 0 || digest_of(tar, m.name, e) < 0)
		return -1;
	if (is_there(layers, m.name))
		return check_unchanged(tar, spec->path, &m.st, e) < 0 ? -1 : link_key(&m, e);
	r = unpack(&m, e);
	(void)tree_remove(layers, m.temp, &(struct err){ 0 }); /* what is left of it; the next sweep tries again */
	return r < 0 ? -1 : link_key(&m, e);
}

/* ---- sweeping ---- */

static bool is_ours(const char *name)
{
	struct str s = str_of(name);

	return str_starts(s, STR(LAYER)) || str_starts(s, STR(KEY)) || str_starts(s, STR(TEMP));
}

/* By a new name first: a worker of a killed warden that is just about to end cannot give the old one away then. */
static int retire(int layers, const char *name, struct err *e)
{
	char gone[SLOT_LAYER_NAME_MAX + 1];

	if (random_name(GONE, gone, e) < 0)
		return -1;
	return renameat(layers, name, layers, gone) < 0 && errno != ENOENT ? err_sys(e, errno, "take '%s' away", name) : 0;
}

int tar_layers_retire(const char *layers_path, tar_layer_used_fn *is_used, void *arg, unsigned *ret_n, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(layers_path);
	const struct dirent *entry;

	*ret_n = 0;
	if (!d)
		return err_sys(e, errno, "open '%s'", layers_path);
	while ((entry = readdir(d))) {
		bool is_gone = str_starts(str_of(entry->d_name), STR(GONE));

		if (!is_gone && (!is_ours(entry->d_name) || is_used(entry->d_name, arg)))
			continue;
		if (!is_gone && retire(dirfd(d), entry->d_name, e) < 0)
			return -1;
		++*ret_n;
	}
	return 0;
}

int tar_layers_remove(const char *layers_path, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(layers_path);
	const struct dirent *entry;
	int r = 0;

	if (!d)
		return err_sys(e, errno, "open '%s'", layers_path);
	while ((entry = readdir(d)))
		if (str_starts(str_of(entry->d_name), STR(GONE)) && tree_remove(dirfd(d), entry->d_name, e) < 0)
			r = -1;
	return r;
}
