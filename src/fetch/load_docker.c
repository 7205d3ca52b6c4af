// SPDX-License-Identifier: Apache-2.0
/* What `docker save` wrote before it wrote layouts: manifest.json names a configuration and layers by their paths, and some of
 * the latter are symlinks to others. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "fetch/asker.h"
#include "fetch/load_impl.h"
#include "image/tar.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define LINKS_MAX 4 /* one after the other */

struct docker_image {
	const char *config;
	struct string_list tags, layers;
};

struct docker_images {
	struct object_list items;
};

static const struct field image_fields[] = {
	FIELD(struct docker_image, config, FIELD_STRING, "Config", .required = true, .min = 1, .max = PATH_BYTES_MAX),
	FIELD(struct docker_image, tags, FIELD_STRINGS, "RepoTags", .min = 0, .max = LAYOUT_IMAGES_MAX),
	FIELD(struct docker_image, layers, FIELD_STRINGS, "Layers", .required = true, .min = 1, .max = MANIFEST_LAYERS_MAX),
	{ 0 },
};

static const struct field images_fields[] = {
	FIELD(struct docker_images, items, FIELD_OBJECTS, "items", .required = true, .min = 1, .max = LAYOUT_IMAGES_MAX,
	      .fields = image_fields, .size = sizeof(struct docker_image)),
	{ 0 },
};

/* The document is an array; tables bind objects. */
static int bind_images(struct load *l, struct docker_images *ret, struct err *e)
{
	const struct json_limits limits = { .bytes = MANIFEST_BYTES_MAX };
	struct json *list = json_parse(&l->arena, buf_str(&l->docker), &limits, NULL, e);
	struct decode d = { .arena = &l->arena, .strict = true };
	struct json root = { .type = JSON_OBJECT };

	if (!list)
		return -1;
	list->key = STR("items");
	json_append(&root, list);
	return decode(&d, &root, images_fields, ret, e);
}

bool load_is_docker(struct load *l)
{
	struct docker_images images = { 0 };

	return bind_images(l, &images, &(struct err){ 0 }) == 0;
}

/* ---- taking files out ---- */

/* "a/../b" as "b": by the text, which is all that a name in an archive is. */
static int plain_path(struct load *l, const char *folder_of, const char *path, const char **ret, struct err *e)
{
	AUTO(buf_done) struct buf whole = BUF_INIT((size_t)3 * PATH_BYTES_MAX);
	AUTO(buf_done) struct buf clean = BUF_INIT((size_t)PATH_BYTES_MAX + 1);
	const char *slash = folder_of ? strrchr(folder_of, '/') : NULL;

	buf_addf(&whole, "/%.*s/%s", slash ? (int)(slash - folder_of) : 0, slash ? folder_of : "", path);
	if (whole.failed || path_clean(buf_str(&whole), &clean, e) < 0)
		return err_set(e, ERR_INVALID, "a path in the archive that is none");
	*ret = arena_strndup(&l->arena, clean.p + 1, clean.n - 1);
	return *ret ? 0 : err_no_memory(e);
}

static int note(struct load *l, const char *path, struct loaded_file **ret, struct err *e)
{
	char *key;

	*ret = map_get(&l->files, str_of(path));
	if (*ret)
		return 0;
	if (l->files.n >= LOAD_FILES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files in the archive", LOAD_FILES_MAX);
	*ret = arena_alloc(&l->arena, sizeof(**ret));
	key = arena_dup(&l->arena, str_of(path));
	return *ret && key && map_put(&l->files, str_of(key), *ret) ? 0 : err_no_memory(e);
}

/* Every file is taken: which of them are layers shows only when all are there. What is none is swept. */
static int file_make(void *arg, const struct entry *en, struct err *e)
{
	struct load *l = arg;
	struct loaded_file *f;

	l->file = NULL;
	if (asker_is_gone(l->asker))
		return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
	if (en->kind != ENTRY_FILE && en->kind != ENTRY_SYMLINK)
		return 0;
	if (note(l, en->path, &f, e) < 0)
		return -1;
	if (en->kind == ENTRY_SYMLINK)
		return plain_path(l, en->path, en->target, &f->target, e);
	if (strcmp(en->path, "manifest.json") == 0 || f->is_there)
		return 0;
	l->file = f;
	return blob_begin(&l->blob, &(struct blob_spec){ .dir = l->blobs, .reserve = (uint64_t)l->order->reserve, .kind = SHA256_SIZE,
							 .size = en->size, .max = en->size }, e);
}

static int file_data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct load *l = arg;

	if (!l->file)
		return 0;
	if (at != l->blob.n)
		return err_set(e, ERR_INVALID, "a layer with holes in it");
	return blob_add(&l->blob, p, n, e);
}

static int file_attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	(void)arg, (void)name, (void)value, (void)n, (void)e;
	return 0;
}

static int file_end(void *arg, struct err *e)
{
	struct load *l = arg;

	if (!l->file)
		return 0;
	l->file->size = l->blob.n;
	l->file->is_there = true;
	return blob_keep(&l->blob, NULL, &l->file->digest, e);
}

/* ---- images of them ---- */

static const struct loaded_file *find(struct load *l, const char *path, struct err *e)
{
	const struct loaded_file *f;
	const char *at = path;

	for (unsigned i = 0; i <= LINKS_MAX; i++) {
		const char *plain = NULL;

		if (plain_path(l, NULL, at, &plain, e) < 0)
			return NULL;
		f = map_get(&l->files, str_of(plain));
		if (f && f->is_there)
			return f;
		if (!f || !f->target)
			break;
		at = f->target;
	}
	(void)err_set(e, ERR_INVALID, "the archive lacks '%s'", SHOWN(str_of(path)));
	return NULL;
}

static int read_config(struct load *l, const char *path, struct buf *b, struct err *e)
{
	const struct loaded_file *f = find(l, path, e);
	char name[BLOB_NAME_MAX];

	if (!f)
		return -1;
	blob_name(&f->digest, name);
	return fd_read_file(l->blobs, name, MANIFEST_BYTES_MAX, b, e);
}

/* Only compressed layers differ from what the configuration calls them. */
static int take_layer(struct load *l, const char *path, struct made_layer *ret, struct err *e)
{
	const struct loaded_file *f = find(l, path, e);
	AUTO_FD fd = -1;
	char name[BLOB_NAME_MAX];
	struct digest plain;

	if (!f)
		return -1;
	blob_name(&f->digest, name);
	fd = openat(l->blobs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open a layer");
	ret->digest = f->digest;
	ret->size = f->size;
	return tar_plain_digest(fd, &plain, &ret->packing, e);
}

static int take_image(struct load *l, const struct docker_image *im, struct err *e)
{
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX);
	struct made_layer layers[MANIFEST_LAYERS_MAX];

	if (read_config(l, im->config, &config, e) < 0)
		return -1;
	for (size_t i = 0; i < im->layers.n; i++)
		if (take_layer(l, im->layers.items[i], &layers[i], e) < 0)
			return -1;
	if (im->tags.n == 0 || l->order->name)
		return load_found_made(l, l->order->name, &config, layers, im->layers.n, e);
	for (size_t i = 0; i < im->tags.n; i++)
		if (load_found_made(l, im->tags.items[i], &config, layers, im->layers.n, e) < 0)
			return -1;
	return 0;
}

int load_docker(struct load *l, struct err *e)
{
	static const struct tar_sink sink = { file_make, file_attr, file_data, file_end };
	struct docker_images images = { 0 };
	const struct docker_image *im;

	if (bind_images(l, &images, e) < 0 || load_read(l, &sink, e) < 0)
		return -1;
	im = images.items.items;
	if (images.items.n > 1 && l->order->name)
		return err_set(e, ERR_INVALID, "the archive has several images: they cannot all have the name '%s'",
			       SHOWN(str_of(l->order->name)));
	for (size_t i = 0; i < images.items.n; i++)
		if (take_image(l, &im[i], e) < 0)
			return -1;
	return 0;
}
