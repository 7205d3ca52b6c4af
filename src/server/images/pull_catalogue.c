// SPDX-License-Identifier: Apache-2.0
/* The images that are present. One has a name and a platform, and goes when its name does; but where a sandbox or a snapshot
 * stands on it, it stays under its digest until nobody does. */
#include "base/escape.h"
#include "base/log.h"
#include "server/images/pull_impl.h"

#include "base/banned.h"

/* ---- changes ---- */

/* Layers that no image has any more are forgotten: whoever wants one again gets it from the registry. */
static void forget_layers(struct puller *p, const struct image *im)
{
	for (size_t i = 0; i < im->pub.n_layers; i++)
		if (!pull_layer_wanted(p, im->pub.layers[i].name))
			pull_layer_gone(p, im->pub.layers[i].name);
}

static void replace_image(struct puller *p, struct image *old, struct image *by)
{
	AUTO(image_unref) struct image *held = old ? image_ref(old) : NULL;

	if (old)
		image_list_remove(&p->images, old);
	if (by)
		image_list_add(&p->images, by);
	if (held)
		forget_layers(p, held);
}

/* ---- images without a name ---- */

static bool is_used(const struct puller *p, const struct image *im)
{
	return p->used && p->used(im->pub.digest, p->used_arg);
}

static bool is_twice(const struct puller *p, const struct image *im)
{
	for (const struct image *other = p->images.first; other; other = other->next)
		if (other != im && digest_eq(&other->digest, &im->digest))
			return true;
	return false;
}

/* The one that goes when IM comes, and is another image: NULL, if nobody would miss it. */
static struct image *find_displaced(const struct puller *p, const struct image *im)
{
	struct image *old = image_list_find(&p->images, im->pub.name, im->pub.os, im->pub.arch);

	if (!old || digest_eq(&old->digest, &im->digest) || is_twice(p, old))
		return NULL;
	return is_used(p, old) ? old : NULL;
}

/* Into the list, beside the one that has the name. NULL: E. */
static const struct image *keep(struct puller *p, const struct image *im, struct err *e)
{
	AUTO(image_unref) struct image *kept = image_without_name(im, e);

	if (kept)
		image_list_add(&p->images, kept);
	return kept;
}

/* In one transaction with what takes its place: killed at any moment, one or the other is there. */
void image_write_entry(const struct puller *p, const struct image *im, struct store_tx *tx)
{
	const struct image *old = find_displaced(p, im);
	AUTO(image_unref) struct image *kept = old ? image_without_name(old, &(struct err){ 0 }) : NULL; /* image_enter() tells */

	if (kept)
		image_write(kept, tx);
	image_write(im, tx);
}

/* What is used now need not have been when IM was written, so the one before is written again. */
void image_enter(struct puller *p, struct image *im)
{
	const struct image *old = find_displaced(p, im), *kept;
	struct err e = { 0 };
	struct store_tx *tx;

	if (old) {
		kept = keep(p, old, &e);
		tx = kept ? store_tx_new() : NULL;
		if (kept)
			image_write(kept, tx);
		if (!kept || store_submit(p->store, tx, NULL, NULL, &e) < 0)
			log_error("an image that is in use is not kept", LOG_S("name", old->pub.name), LOG_ERR(&e));
	}
	old = image_list_find(&p->images, im->pub.name, im->pub.os, im->pub.arch);
	if (!old || !im->pub.is_kept || old->pub.is_kept) /* what somebody asked for by its digest stays so */
		replace_image(p, image_list_find(&p->images, im->pub.name, im->pub.os, im->pub.arch), im);
}

void images_set_users(struct puller *p, image_used_fn *fn, void *arg)
{
	p->used = fn;
	p->used_arg = arg;
}

void images_drop_unused(struct puller *p)
{
	struct store_tx *tx = NULL;
	struct err e = { 0 };

	for (struct image *im = p->images.first, *next; im && p->used; im = next) {
		next = im->next;
		if (!im->pub.is_kept || is_used(p, im))
			continue;
		tx = tx ? tx : store_tx_new();
		if (!tx)
			return;
		log_info("nobody stands on an image without a name any more", LOG_S("name", im->pub.name));
		store_tx_forget_image(tx, im->pub.name, im->pub.os, im->pub.arch);
		replace_image(p, im, NULL);
	}
	if (!tx)
		return;
	p->sweep.is_wanted = true;
	puller_wake(p);
	if (store_submit(p->store, tx, NULL, NULL, &e) < 0)
		log_warn("an image is forgotten once more after the next start", LOG_ERR(&e));
}

/* ---- the catalogue ---- */

const struct pulled_image *images_at(const struct puller *p, size_t n)
{
	const struct image *im = p->images.first;

	while (im && n-- > 0)
		im = im->next;
	return im ? &im->pub : NULL;
}

const struct pulled_image *images_find(const struct puller *p, const char *digest)
{
	for (const struct image *im = p->images.first; im; im = im->next)
		if (strcmp(im->pub.digest, digest) == 0)
			return &im->pub;
	return NULL;
}

/* 0: it is gone, or has lost its name. 1: it has none, and stays. */
static int remove_one(struct puller *p, struct image *im, struct store_tx *tx, struct err *e)
{
	const struct image *kept;

	if (is_used(p, im) && im->pub.is_kept)
		return 1;
	if (is_used(p, im) && !is_twice(p, im)) {
		kept = keep(p, im, e);
		if (!kept)
			return -1;
		image_write(kept, tx);
	}
	store_tx_forget_image(tx, im->pub.name, im->pub.os, im->pub.arch);
	replace_image(p, im, NULL);
	return 0;
}

int images_remove(struct puller *p, const char *uri, size_t *ret_n, struct err *e)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	struct reference ref;
	struct digest digest;
	bool is_digest = digest_parse(str_of(uri), &digest);
	struct store_tx *tx;
	size_t n = 0, stay = 0;
	int r;

	if (!is_digest && (reference_parse(str_of(uri), &ref, e) < 0 || !reference_write(&ref, &name)))
		return -1;
	tx = store_tx_new();
	store_tx_durable(tx);
	for (struct image *im = p->images.first, *next; im; im = next) {
		next = im->next;
		if (is_digest ? !digest_eq(&im->digest, &digest) : strcmp(im->pub.name, buf_z(&name)) != 0)
			continue;
		r = remove_one(p, im, tx, e);
		if (r < 0) {
			store_tx_free(tx);
			return -1;
		}
		*(r == 0 ? &n : &stay) += 1;
	}
	if (n == 0) {
		store_tx_free(tx);
		return stay > 0 ? err_set(e, ERR_CONFLICT, "sandboxes or snapshots stand on image '%s'", SHOWN(str_of(uri))) :
				  err_set(e, ERR_NOT_FOUND, "there is no image '%s' here", SHOWN(str_of(uri)));
	}
	p->sweep.is_wanted = true;
	puller_wake(p);
	*ret_n = n;
	return store_submit(p->store, tx, NULL, NULL, e);
}

/* ---- after a start ---- */

static int load_image(const struct store_image *from, void *arg, struct err *e)
{
	struct puller *p = arg;
	struct err why = { 0 };
	struct image *im = image_new(from, &why);

	if (im) {
		image_list_add(&p->images, im);
		image_unref(im);
		return 0;
	}
	if (why.code == ERR_UNAVAILABLE) {
		*e = why;
		return -1;
	}
	log_warn("an image in the catalogue makes no sense and will be pulled again", LOG_S("name", from->name), LOG_ERR(&why));
	return 0;
}

static int load_layer(const unsigned char name[DIGEST_NAME_SIZE], void *arg, struct err *e)
{
	return layer_give(arg, name, e);
}

int catalogue_load(struct puller *p, enum store_fault *ret_fault, struct err *e)
{
	const struct store_image_reader reader = { load_image, load_layer };

	return store_load_images(p->store, &reader, p, ret_fault, e);
}
