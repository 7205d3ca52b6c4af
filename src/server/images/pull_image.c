// SPDX-License-Identifier: Apache-2.0
/* Images of the catalogue: what a registry said, and what that means. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/manifest.h"
#include "server/images/pull_impl.h"

#include "base/banned.h"

struct image *image_ref(struct image *im)
{
	im->refs++;
	return im;
}

void image_unref(struct image *im)
{
	if (!im || --im->refs > 0)
		return;
	arena_done(&im->arena);
	free(im);
}

static int copy_texts(struct image *im, const struct store_image *from, struct err *e)
{
	char *manifest = arena_dup(&im->arena, from->manifest), *config = arena_dup(&im->arena, from->config);
	char *digest = arena_alloc(&im->arena, DIGEST_TEXT_MAX + 1);

	im->pub.name = arena_dup(&im->arena, str_of(from->name));
	im->pub.os = arena_dup(&im->arena, str_of(from->os));
	im->pub.arch = arena_dup(&im->arena, str_of(from->arch));
	if (!manifest || !config || !digest || !im->pub.name || !im->pub.os || !im->pub.arch)
		return err_no_memory(e);
	digest_write(&from->digest, digest);
	im->pub.digest = digest;
	im->manifest = (struct str){ manifest, from->manifest.n };
	im->config = (struct str){ config, from->config.n };
	im->digest = from->digest;
	im->pub.is_private = from->is_private;
	im->pub.is_kept = from->is_kept;
	im->pub.pulled_us = from->pulled_us;
	return 0;
}

static int take_layers(struct image *im, const struct manifest *m, const struct image_config *c, struct err *e)
{
	struct pulled_layer *layers = arena_array(&im->arena, m->n_layers, sizeof(*layers));

	im->pub.digests.items = arena_array(&im->arena, m->n_layers + 1, sizeof(*im->pub.digests.items));
	if (!layers || !im->pub.digests.items)
		return err_no_memory(e);
	for (size_t i = 0; i < m->n_layers; i++) {
		char *text = arena_alloc(&im->arena, DIGEST_TEXT_MAX + 1);

		if (!text)
			return err_no_memory(e);
		digest_write(&m->layers[i].digest, text);
		im->pub.digests.items[im->pub.digests.n++] = text;
		layers[i].digest = m->layers[i].digest;
		layers[i].diff_id = c->diff_ids[i];
		digest_name(&layers[i].digest, layers[i].name);
		layers[i].size = m->layers[i].size;
	}
	im->pub.layers = layers;
	im->pub.n_layers = m->n_layers;
	im->pub.size = m->layers_bytes;
	return 0;
}

static int understand(struct image *im, struct err *e)
{
	const struct platform platform = { im->pub.os, im->pub.arch };
	struct manifest m;
	struct image_config c;

	if (!digest_is_of(&im->digest, im->manifest) || manifest_parse(im->manifest, &m, e) < 0)
		return e->code != ERR_NONE ? -1 : err_set(e, ERR_INVALID, "a manifest that is not what its digest says");
	if (im->config.n != m.config.size || !digest_is_of(&m.config.digest, im->config))
		return err_set(e, ERR_INVALID, "a configuration that is not what its digest says");
	if (image_config_parse(im->config, &im->arena, &c, e) < 0 || image_check(&m, &c, &platform, e) < 0)
		return -1;
	im->pub.env = c.env;
	im->pub.entrypoint = c.entrypoint;
	im->pub.cmd = c.cmd;
	im->pub.workdir = c.workdir;
	im->pub.user = c.user;
	return take_layers(im, &m, &c, e);
}

struct image *image_new(const struct store_image *from, struct err *e)
{
	AUTO(image_unref) struct image *im = calloc(1, sizeof(*im));

	if (!im) {
		(void)err_no_memory(e);
		return NULL;
	}
	im->refs = 1;
	im->arena = ARENA_INIT(2 * MANIFEST_ARENA_MAX);
	if (!digest_valid(&from->digest)) {
		(void)err_set(e, ERR_INVALID, "a digest that is none");
		return NULL;
	}
	if (copy_texts(im, from, e) < 0 || understand(im, e) < 0)
		return NULL;
	im->bytes = sizeof(*im) + im->arena.used;
	return take_ptr(&im);
}

/* ---- lists ---- */

void image_list_add(struct image_list *l, struct image *im)
{
	im->prev = l->last;
	im->next = NULL;
	*(l->last ? &l->last->next : &l->first) = im;
	l->last = image_ref(im);
	l->n++;
	l->bytes += im->bytes;
}

void image_list_remove(struct image_list *l, struct image *im)
{
	*(im->prev ? &im->prev->next : &l->first) = im->next;
	*(im->next ? &im->next->prev : &l->last) = im->prev;
	im->prev = im->next = NULL;
	l->n--;
	l->bytes -= im->bytes;
	image_unref(im);
}

static struct store_image as_stored(const struct image *im)
{
	struct store_image out = {
		.name = im->pub.name, .os = im->pub.os, .arch = im->pub.arch, .manifest = im->manifest, .config = im->config,
		.is_private = im->pub.is_private, .is_kept = im->pub.is_kept, .pulled_us = im->pub.pulled_us, .digest = im->digest,
	};

	return out;
}

void image_write(const struct image *im, struct store_tx *tx)
{
	struct store_image out = as_stored(im);

	store_tx_image(tx, &out);
}

struct image *image_without_name(const struct image *im, struct err *e)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	struct store_image from = as_stored(im);
	struct reference ref;

	if (reference_parse(str_of(im->pub.name), &ref, e) < 0)
		return NULL;
	ref.has_digest = true;
	ref.digest = im->digest;
	if (!reference_write(&ref, &name)) {
		(void)err_no_memory(e);
		return NULL;
	}
	from.name = buf_z(&name);
	from.is_kept = true;
	return image_new(&from, e);
}

struct image *image_list_find(const struct image_list *l, const char *name, const char *os, const char *arch)
{
	for (struct image *im = l->first; im; im = im->next)
		if (strcmp(im->pub.name, name) == 0 && strcmp(im->pub.os, os) == 0 && strcmp(im->pub.arch, arch) == 0)
			return im;
	return NULL;
}

void images_documents(const struct pulled_image *image, struct str *ret_manifest, struct str *ret_config)
{
	const struct image *im = container_of((uintptr_t)image, struct image, pub);

	*ret_manifest = im->manifest;
	*ret_config = im->config;
}
