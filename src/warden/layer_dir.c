// SPDX-License-Identifier: Apache-2.0
#include "warden/layer_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/str.h"
#include "box/store.h"
#include "sys/tree.h"

#include "base/banned.h"

#define GONE "gone-"

DEFINE_AUTO(DIR *, closedir)

int layer_dir_open(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
}

bool layer_dir_has(int layers, const char *name)
{
	struct stat st;

	return fstatat(layers, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
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

/* ---- making ---- */

int layer_draft_make(struct layer_draft *d, int layers, const char *prefix, struct err *e)
{
	*d = LAYER_DRAFT_INIT;
	if (random_name(prefix, d->temp, e) < 0)
		return -1;
	d->layers = layers;
	if (mkdirat(layers, d->temp, 0700) < 0)
		return err_sys(e, errno, "make '%s'", d->temp);
	d->target = openat(layers, d->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return d->target < 0 ? err_sys(e, errno, "open '%s'", d->temp) : 0;
}

int layer_draft_publish(const struct layer_draft *d, const char *name, struct err *e)
{
	if (fchmod(d->target, 0755) < 0 || syncfs(d->target) < 0)
		return err_sys(e, errno, "write a layer to the disk");
	if (renameat(d->layers, d->temp, d->layers, name) < 0 && !layer_dir_has(d->layers, name))
		return err_sys(e, errno, "name a layer");
	return fsync(d->layers) < 0 ? err_sys(e, errno, "write a layer to the disk") : 0;
}

void layer_draft_done(struct layer_draft *d)
{
	closep(&d->target);
	if (d->layers >= 0)
		(void)tree_remove(d->layers, d->temp, &(struct err){ 0 }); /* the next sweep tries again */
	*d = LAYER_DRAFT_INIT;
}

/* ---- sweeping ---- */

static bool is_swept(const char *name)
{
	struct str s = str_of(name);

	return str_starts(s, STR("sha256-")) || str_starts(s, STR("tar-")) || str_starts(s, STR("new-tar-")) ||
	       str_starts(s, STR("new-blob-"));
}

/* By a new name first: a worker of a killed warden that is just about to end cannot give the old one away then. */
int layer_retire(int layers, const char *name, struct err *e)
{
	char gone[SLOT_LAYER_NAME_MAX + 1];

	if (random_name(GONE, gone, e) < 0)
		return -1;
	return renameat(layers, name, layers, gone) < 0 && errno != ENOENT ? err_sys(e, errno, "take '%s' away", name) : 0;
}

int layers_retire(const char *layers_path, layer_used_fn *is_used, void *arg, unsigned *ret_n, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(layers_path);
	const struct dirent *entry;

	*ret_n = 0;
	if (!d)
		return err_sys(e, errno, "open '%s'", layers_path);
	while ((entry = readdir(d))) {
		bool is_gone = str_starts(str_of(entry->d_name), STR(GONE));

		if (!is_gone && (!is_swept(entry->d_name) || is_used(entry->d_name, arg)))
			continue;
		if (!is_gone && layer_retire(dirfd(d), entry->d_name, e) < 0)
			return -1;
		++*ret_n;
	}
	return 0;
}

static bool is_left(const char *name)
{
	struct str s = str_of(name);

	return str_starts(s, STR(GONE)) || str_starts(s, STR("new-tar-")) || str_starts(s, STR("new-blob-"));
}

int layers_sweep_old(const char *layers_path, int64_t before_us, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(layers_path);
	const struct dirent *entry;
	int r = 0;

	if (!d)
		return err_sys(e, errno, "open '%s'", layers_path);
	while ((entry = readdir(d)))
		if (is_left(entry->d_name) && box_store_is_older(dirfd(d), entry->d_name, before_us) &&
		    tree_remove(dirfd(d), entry->d_name, e) < 0)
			r = -1;
	return r;
}

int layers_remove(const char *layers_path, struct err *e)
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
