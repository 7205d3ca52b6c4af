// SPDX-License-Identifier: Apache-2.0
/* OCI layouts: blobs by their digest, and an index of what they make. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "fetch/asker.h"
#include "fetch/load_impl.h"
#include "image/tar.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- taking blobs out ---- */

/* "blobs/sha256/0123...": but for one character the text of a digest. */
static bool parse_place(const char *path, struct digest *ret)
{
	struct str kind, hex;
	char text[DIGEST_TEXT_MAX + 1];

	if (!str_starts(str_of(path), STR("blobs/")) || !str_cut(str_skip(str_of(path), sizeof("blobs/") - 1), '/', &kind, &hex))
		return false;
	if (kind.n + 1 + hex.n > DIGEST_TEXT_MAX)
		return false;
	(void)snprintf(text, sizeof(text), "%.*s:%.*s", STR_ARG(kind), STR_ARG(hex));
	return digest_parse(str_of(text), ret);
}

static int blob_make(void *arg, const struct entry *en, struct err *e)
{
	struct load *l = arg;

	l->has_want = en->kind == ENTRY_FILE && parse_place(en->path, &l->want) && !blob_exists(l->blobs, &l->want, en->size);
	if (asker_is_gone(l->asker))
		return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
	return !l->has_want ? 0 : blob_begin(&l->blob, &(struct blob_spec){ .dir = l->blobs, .reserve = (uint64_t)l->order->reserve, .kind = l->want.size,
							 .size = en->size, .max = en->size }, e);
}

static int blob_data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct load *l = arg;

	if (!l->has_want)
		return 0;
	if (at != l->blob.n)
		return err_set(e, ERR_INVALID, "a blob with holes in it");
	return blob_add(&l->blob, p, n, e);
}

static int blob_attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	(void)arg, (void)name, (void)value, (void)n, (void)e;
	return 0;
}

static int blob_end(void *arg, struct err *e)
{
	struct load *l = arg;

	return l->has_want ? blob_keep(&l->blob, &l->want, NULL, e) : 0;
}

/* ---- documents among them ---- */

static int read_blob(const struct load *l, const struct blob_ref *ref, struct buf *b, struct err *e)
{
	char name[BLOB_NAME_MAX];

	blob_name(&ref->digest, name);
	buf_clear(b);
	if (fd_read_file(l->blobs, name, MANIFEST_BYTES_MAX, b, e) < 0)
		return err_set(e, e->code == ERR_NOT_FOUND ? ERR_INVALID : e->code, "the archive lacks a document that it names");
	return digest_is_of(&ref->digest, buf_str(b)) && (ref->size == 0 || b->n == ref->size) ?
		       0 : err_set(e, ERR_INVALID, "a document that is not what its digest says");
}

static int find_manifest(struct load *l, const struct layout_entry *entry, const struct platform *want, struct buf *manifest,
			 struct blob_ref *ret, struct err *e)
{
	const char *type = entry->media_type;
	enum manifest_kind kind;
	struct index_entry picked;

	*ret = entry->blob;
	for (unsigned depth = 0;; depth++) {
		if (read_blob(l, ret, manifest, e) < 0 || manifest_kind(buf_str(manifest), str_of(type), &kind, e) < 0)
			return -1;
		if (kind == MANIFEST_IMAGE)
			return 0;
		if (depth == MANIFEST_INDEX_DEPTH_MAX)
			return err_set(e, ERR_INVALID, "more than %d indexes one in another", MANIFEST_INDEX_DEPTH_MAX);
		if (index_pick(buf_str(manifest), want, &l->arena, &picked, e) < 0)
			return -1;
		*ret = picked.blob;
		type = picked.media_type;
	}
}

static int check_layers(const struct load *l, const struct manifest *m, struct err *e)
{
	for (size_t i = 0; i < m->n_layers; i++)
		if (!blob_exists(l->blobs, &m->layers[i].digest, m->layers[i].size))
			return err_set(e, ERR_INVALID, "the archive lacks layer %zu, or has it in another size", i + 1);
	return 0;
}

static int take_image(struct load *l, const struct layout_entry *entry, struct err *e)
{
	AUTO(buf_done) struct buf manifest = BUF_INIT(MANIFEST_BYTES_MAX);
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX);
	const struct platform want = { l->order->os, l->order->arch };
	const char *name = l->order->name ? l->order->name : entry->name;
	struct blob_ref ref;
	struct manifest m;

	if (find_manifest(l, entry, &want, &manifest, &ref, e) < 0 || manifest_parse(buf_str(&manifest), &m, e) < 0)
		return -1;
	if (read_blob(l, &m.config, &config, e) < 0 || check_layers(l, &m, e) < 0)
		return -1;
	return asker_found(l->asker, &ref.digest, name, buf_str(&manifest), buf_str(&config), e);
}

int load_layout(struct load *l, struct err *e)
{
	static const struct tar_sink sink = { blob_make, blob_attr, blob_data, blob_end };
	const struct platform want = { l->order->os, l->order->arch };
	struct layout_entry entries[LAYOUT_IMAGES_MAX];
	size_t n, taken = 0;

	if (layout_list(buf_str(&l->index), &want, &l->arena, entries, &n, e) < 0 || load_read(l, &sink, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (entries[i].is_other)
			continue;
		if (taken > 0 && l->order->name)
			return err_set(e, ERR_INVALID, "the archive has several images: they cannot all have the name '%s'",
				       SHOWN(str_of(l->order->name)));
		if (take_image(l, &entries[i], e) < 0)
			return -1;
		taken++;
	}
	return taken > 0 ? 0 : err_set(e, ERR_NOT_FOUND, "there is no image for %s/%s in the archive", want.os, want.arch);
}

/* ---- an image without a manifest ---- */

int load_found_made(struct load *l, const char *name, struct buf *config, const struct made_layer *layers, size_t n, struct err *e)
{
	AUTO(buf_done) struct buf manifest = BUF_INIT(MANIFEST_BYTES_MAX);
	struct json_out o = json_out(&manifest);
	struct digest digest = digest_of(buf_str(config), SHA256_SIZE);
	char text[DIGEST_TEXT_MAX + 1], type[64];

	digest_write(&digest, text);
	json_open(&o, '{');
	json_key(&o, "schemaVersion"), json_int(&o, 2);
	json_key(&o, "mediaType"), json_cstr(&o, TYPE_OCI_MANIFEST);
	json_key(&o, "config"), json_open(&o, '{');
	json_key(&o, "mediaType"), json_cstr(&o, TYPE_OCI_CONFIG);
	json_key(&o, "digest"), json_cstr(&o, text);
	json_key(&o, "size"), json_uint(&o, config->n);
	json_close(&o, '}');
	json_key(&o, "layers"), json_open(&o, '[');
	for (size_t i = 0; i < n; i++) {
		digest_write(&layers[i].digest, text);
		(void)snprintf(type, sizeof(type), TYPE_OCI_LAYER "%s%s", layers[i].packing[0] ? "+" : "", layers[i].packing);
		json_open(&o, '{');
		json_key(&o, "mediaType"), json_cstr(&o, type);
		json_key(&o, "digest"), json_cstr(&o, text);
		json_key(&o, "size"), json_uint(&o, layers[i].size);
		json_close(&o, '}');
	}
	json_close(&o, ']');
	json_close(&o, '}');
	if (manifest.failed || config->failed)
		return err_set(e, ERR_LIMIT, "an image with too much to say about it");
	digest = digest_of(buf_str(&manifest), SHA256_SIZE);
	return asker_found(l->asker, &digest, name, buf_str(&manifest), buf_str(config), e);
}
