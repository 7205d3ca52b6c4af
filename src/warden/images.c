// SPDX-License-Identifier: Apache-2.0
#include "warden/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/wire.h"
#include "sys/mounts.h"
#include "sys/room.h"
#include "sys/userns.h"
#include "warden/box.h"
#include "warden/layer_dir.h"
#include "warden/layers.h"
#include "warden/tar_layer.h"
#include "warden/warden.h"

#include "base/banned.h"

#define UNPACK_NAME "opensandbox-unpack"

struct image {
	struct warden *w;
	const char *path;
	uint64_t id_base;
	struct worker worker;       /* unpacks */
	struct image_wait *waiting, *told;
};

#define AROUND_MAX 128

struct place {
	dev_t dev;
	ino_t ino;
};

struct images {
	struct image list[IMAGES_MAX];
	size_t n;
	unsigned unpacking;
	struct worker sweeper;
	bool has_more; /* there may be more to remove when it is done */
	char unpack[BOX_PATH_MAX];
	struct place around[AROUND_MAX]; /* our own folders and those above them: no image, or sandboxes would read them */
	size_t n_around;
};

/* ---- finding ---- */

static int refuse(const struct image *im, struct err *e, const char *why)
{
	log_warn("an image cannot be used", LOG_S("path", im->path), LOG_S("why", why));
	return err_set(e, ERR_INVALID, "the image cannot be used: %s", why);
}

static int find_host(const struct warden *w, struct image_use *ret, struct err *e)
{
	if (!w->host_layer[0])
		return err_set(e, ERR_UNAVAILABLE, "the image 'host' could not be made");
	*ret = (struct image_use){ .has_host_usr = true };
	memcpy(ret->layer, w->host_layer, sizeof(ret->layer));
	return 1;
}

static int find_layer(const struct image *im, const struct stat *st, struct image_use *ret, struct err *e)
{
	AUTO_FD layers = open(im->w->host.layers_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (layers < 0)
		return err_set(e, ERR_UNAVAILABLE, "the layers cannot be opened: %s", strerror(errno));
	return tar_layer_find(layers, im->path, st, ret->layer, e);
}

static bool is_around(const struct images *all, const struct stat *st)
{
	for (size_t i = 0; i < all->n_around; i++)
		if (all->around[i].dev == st->st_dev && all->around[i].ino == st->st_ino)
			return true;
	return false;
}

int image_find(struct warden *w, uint32_t number, struct image_use *ret, struct err *e)
{
	const struct image *im;
	struct stat st;

	if (number == WIRE_IMAGE_HOST)
		return find_host(w, ret, e);
	if (number == WIRE_IMAGE_NONE) {
		*ret = (struct image_use){ 0 };
		return 1;
	}
	if (number > w->images->n)
		return err_set(e, ERR_NOT_FOUND, "there is no image %u", number);
	im = &w->images->list[number - 1];
	*ret = (struct image_use){ 0 };
	if (lstat(im->path, &st) < 0)
		return refuse(im, e, errno == ENOENT ? "it is not there" : strerror(errno));
	if (S_ISREG(st.st_mode))
		return find_layer(im, &st, ret, e);
	if (!S_ISDIR(st.st_mode))
		return refuse(im, e, "it is neither a directory nor a file");
	if (is_around(w->images, &st))
		return refuse(im, e, "it holds the state of all sandboxes");
	ret->dir = (struct slot_dir){ .path = im->path, .dev = st.st_dev, .ino = st.st_ino };
	return 1;
}

/* ---- sweeping ---- */

struct in_use {
	const struct warden *w;
	/* Of the tars as they are now. */
	char keys[IMAGES_MAX][SLOT_LAYER_NAME_MAX + 1], layers[IMAGES_MAX][SLOT_LAYER_NAME_MAX + 1];
};

static bool is_used(const char *name, void *arg)
{
	const struct in_use *u = arg;

	for (size_t i = 0; i < u->w->images->n; i++)
		if (strcmp(u->keys[i], name) == 0 || strcmp(u->layers[i], name) == 0)
			return true;
	for (const struct box *b = u->w->boxes; b; b = b->next)
		if (box_stands_on(b, name))
			return true;
	return u->w->has_unknown;
}

static void list_used(const struct warden *w, struct in_use *u)
{
	u->w = w;
	for (size_t i = 0; i < w->images->n; i++) {
		const struct image *im = &w->images->list[i];
		struct image_use use = { 0 };
		struct stat st;

		if (lstat(im->path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		tar_layer_key(im->path, &st, u->keys[i]);
		if (find_layer(im, &st, &use, &(struct err){ 0 }) > 0)
			memcpy(u->layers[i], use.layer, sizeof(use.layer));
	}
}

static int remove_work(void *arg, struct err *e)
{
	const struct warden *w = arg;

	return layers_remove(w->host.layers_path, e);
}

static void on_removed(const struct err *failure, void *arg)
{
	struct warden *w = arg;

	if (failure)
		log_warn("cannot remove an unused layer, ignoring", LOG_ERR(failure));
	if (w->images->has_more)
		images_sweep(w);
}

/* Only while nothing is unpacked: what is about to be a box's, or just made, is in nobody's books yet. */
void images_sweep(struct warden *w)
{
	struct images *all = w->images;
	AUTO(free) struct in_use *u = NULL;
	struct err e = { 0 };
	unsigned n = 0;

	if (all->unpacking > 0 || layers_are_adding(w))
		return;
	if (worker_is_busy(&all->sweeper)) {
		all->has_more = true;
		return;
	}
	all->has_more = false;
	u = calloc(1, sizeof(*u));
	if (!u)
		return;
	list_used(w, u);
	if (layers_retire(w->host.layers_path, is_used, u, &n, &e) < 0)
		log_warn("cannot sweep layers, ignoring", LOG_ERR(&e));
	if (n > 0)
		worker_start(&all->sweeper, &w->workers, remove_work, on_removed, w, -1);
}

/* ---- unpacking ---- */

static int unpack_work(void *arg, struct err *e)
{
	const struct image *im = arg;
	const struct tar_layer_spec spec = { .layers_path = im->w->host.layers_path, .path = im->path, .store = &im->w->host.store,
					     .unpack = im->w->images->unpack, .id_base = im->id_base };

	return tar_layer_make(&spec, e);
}

/* What is not the tar's own fault may name paths: that is for the log alone. */
static void say_why(const struct image *im, const struct err *failure, struct err *ret)
{
	log_warn("an image cannot be unpacked", LOG_S("path", im->path), LOG_ERR(failure));
	if (failure->code == ERR_INVALID)
		(void)err_set(ret, ERR_INVALID, "the image cannot be unpacked: %s", failure->msg);
	else if (failure->code == ERR_LIMIT && failure->sys == ENOSPC)
		(void)room_refuse(ret);
	else
		(void)err_set(ret, ERR_UNAVAILABLE, "the image cannot be unpacked at the moment");
}

static void on_unpacked(const struct err *failure, void *arg)
{
	struct image *im = arg;
	struct image_wait *wait;
	struct err why = { 0 };

	if (failure)
		say_why(im, failure, &why);
	else
		log_info("image unpacked", LOG_S("path", im->path));
	im->told = im->waiting;
	im->waiting = NULL;
	while ((wait = im->told)) { /* any of them may wait again, and some may be cancelled meanwhile */
		im->told = wait->next;
		wait->at = NULL;
		wait->fn(failure ? &why : NULL, wait->arg);
	}
	im->w->images->unpacking--;
	images_sweep(im->w);
}

void image_wait(struct warden *w, uint32_t number, struct image_wait *wait, image_wait_fn *fn, void *arg)
{
	struct image *im = &w->images->list[number - 1];

	*wait = (struct image_wait){ .at = im, .next = im->waiting, .fn = fn, .arg = arg };
	im->waiting = wait;
	if (worker_is_busy(&im->worker))
		return;
	w->images->unpacking++;
	worker_start(&im->worker, &w->unpackers, unpack_work, on_unpacked, im, -1);
}

static bool unlink_wait(struct image_wait **at, struct image_wait *wait)
{
	for (; *at; at = &(*at)->next) {
		if (*at == wait) {
			*at = wait->next;
			return true;
		}
	}
	return false;
}

void image_wait_cancel(struct image_wait *wait)
{
	if (!wait->at)
		return;
	if (!unlink_wait(&wait->at->waiting, wait))
		(void)unlink_wait(&wait->at->told, wait);
	wait->at = NULL;
}

/* ---- all of them ---- */

/* Whether a directory's file system lets ids be mapped; a box would find out later and tell less. */
static int try_dir(const struct image *im, struct err *e)
{
	AUTO_FD dir = open(im->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD userns = dir < 0 ? -1 : userns_make(-1, im->id_base, e);
	AUTO_FD mount = userns < 0 ? -1 : mount_clone(dir, "", false, e);

	if (dir < 0)
		return err_sys(e, errno, "open it");
	return mount < 0 ? -1 : mount_idmap(mount, userns, false, e);
}

static void warn_early(struct warden *w)
{
	for (size_t i = 0; i < w->images->n; i++) {
		const struct image *im = &w->images->list[i];
		struct image_use use;
		struct err e = { 0 };

		if (image_find(w, (uint32_t)i + 1, &use, &e) > 0 && use.dir.path && try_dir(im, &e) < 0)
			log_warn("an image cannot be used", LOG_S("path", im->path), LOG_ERR(&e));
	}
}

static int find_unpacker(struct images *all, const char *named, struct err *e)
{
	char self[BOX_PATH_MAX];
	ssize_t n = named ? 0 : readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *slash;
	int k;

	if (n < 0)
		return err_sys(e, errno, "find '" UNPACK_NAME "'");
	self[n] = '\0';
	slash = strrchr(self, '/');
	k = named ? snprintf(all->unpack, sizeof(all->unpack), "%s", named) :
		    snprintf(all->unpack, sizeof(all->unpack), "%.*s/" UNPACK_NAME, slash ? (int)(slash - self) : 0, self);
	return k < 0 || (size_t)k >= sizeof(all->unpack) ? err_set(e, ERR_INVALID, "the path of '" UNPACK_NAME "' is too long") : 0;
}

/* By what they are, not by their paths: a bind mount is another way to the same directory. */
static int note_around(struct images *all, const char *path, struct err *e)
{
	AUTO_FD fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (;;) {
		struct stat st;
		int above;

		if (fd < 0 || fstat(fd, &st) < 0)
			return err_sys(e, errno, "look at what is above '%s'", path);
		if (is_around(all, &st)) /* the root, whose parent it is itself, or what another path has noted */
			return 0;
		if (all->n_around == AROUND_MAX)
			return err_set(e, ERR_LIMIT, "more than %d folders above '%s'", AROUND_MAX, path);
		all->around[all->n_around++] = (struct place){ st.st_dev, st.st_ino };
		above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		closep(&fd);
		fd = above;
	}
}

static int add_images(struct warden *w, const struct images_spec *spec, struct err *e)
{
	struct images *all = w->images;

	if (spec->n > IMAGES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d images", IMAGES_MAX);
	for (; all->n < spec->n; all->n++) {
		if (spec->paths[all->n][0] != '/' || strlen(spec->paths[all->n]) >= BOX_PATH_MAX)
			return err_set(e, ERR_INVALID, "--image needs an absolute path of less than %d bytes", BOX_PATH_MAX);
		all->list[all->n] = (struct image){ .w = w, .path = spec->paths[all->n], .worker = WORKER_INIT,
						    .id_base = IMAGE_ID_BASE + all->n * USERNS_IDS };
	}
	return 0;
}

int images_open(struct warden *w, const struct images_spec *spec, struct err *e)
{
	w->images = calloc(1, sizeof(*w->images));
	if (!w->images)
		return err_no_memory(e);
	w->unpackers = (struct workers){ .loop = w->loop, .max = IMAGE_UNPACKINGS_MAX };
	w->images->sweeper = WORKER_INIT;
	if (note_around(w->images, w->host.layers_path, e) < 0 || note_around(w->images, w->host.boxes_path, e) < 0 ||
	    add_images(w, spec, e) < 0 || find_unpacker(w->images, spec->unpack, e) < 0)
		return -1;
	if (spec->n > 0 && access(w->images->unpack, X_OK) < 0)
		log_warn("tars cannot be unpacked", LOG_S("program", w->images->unpack), LOG_S("why", strerror(errno)));
	warn_early(w);
	images_sweep(w);
	return 0;
}

bool images_are_busy(const struct warden *w)
{
	return w->unpackers.running > 0;
}

const char *images_unpacker(const struct warden *w)
{
	return w->images->unpack;
}

void images_done(struct warden *w)
{
	struct images *all = w->images;

	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		worker_forget(&all->list[i].worker);
	worker_forget(&all->sweeper);
	free(all);
	w->images = NULL;
}
