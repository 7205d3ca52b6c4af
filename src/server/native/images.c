// SPDX-License-Identifier: Apache-2.0
/* The images that the native runtime keeps, for who lists, pulls, removes, loads and saves them: server/images/pull.h has them. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/manifest.h"
#include "server/images/pull.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

struct image_call {
	struct image_call *prev, *next;
	struct native *n;
	struct completion done;
	runtime_image_progress_fn *progress;
	char *uri; /* of one that is removed */
	struct pull pull;
	struct load_job *load;
	struct deferred later;
};

static void call_free(struct image_call *c)
{
	*(c->prev ? &c->prev->next : &c->n->image_calls) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	pull_cancel(&c->pull);
	if (c->load)
		load_cancel(c->load);
	defer_cancel(&c->later);
	free(c->uri);
	free(c);
}

static struct image_call *call_new(struct native *n, struct completion done)
{
	struct image_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->n = n;
	c->done = done;
	c->next = n->image_calls;
	if (c->next)
		c->next->prev = c;
	n->image_calls = c;
	return c;
}

static void fail(struct image_call *c, const struct err *e)
{
	struct runtime_failure f = { .code = RUNTIME_PULL_FAILED, .status = 500, .err = *e };
	struct completion done = c->done;

	call_free(c);
	completion_fail(&done, &f);
}

static struct runtime_image image_of(const struct pulled_image *im)
{
	return (struct runtime_image){
		.name = im->name, .os = im->os, .arch = im->arch, .digest = im->digest, .layers = im->digests, .size = im->size,
		.is_private = im->is_private, .is_kept = im->is_kept, .pulled_us = im->pulled_us,
	};
}

/* ---- what is there ---- */

static void tell_images(struct image_call *c, const struct pulled_image *const *images, size_t n)
{
	AUTO(free) struct runtime_image *all = calloc(n + 1, sizeof(*all));
	runtime_images_fn *fn = c->done.fn.images;
	void *arg = c->done.arg;
	struct err e = { 0 };

	if (!all) {
		(void)err_no_memory(&e);
		fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		all[i] = image_of(images[i]);
	call_free(c);
	fn(all, n, NULL, arg);
}

static void on_list(void *arg)
{
	AUTO(free) const struct pulled_image **images = NULL;
	struct image_call *c = arg;
	struct err e = { 0 };
	size_t n = 0;

	while (images_at(c->n->puller, n))
		n++;
	images = calloc(n + 1, sizeof(struct pulled_image *));
	if (!images) {
		(void)err_no_memory(&e);
		fail(c, &e);
		return;
	}
	for (size_t i = 0; i < n; i++)
		images[i] = images_at(c->n->puller, i);
	tell_images(c, images, n);
}

void native_images(struct runtime *rt, runtime_images_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	struct image_call *c = call_new(n, completion_images(fn, arg));

	if (c)
		defer(&c->later, n->loop, on_list, c, "images");
	else
		native_refuse(n, completion_images(fn, arg));
}

static void on_remove(void *arg)
{
	struct image_call *c = arg;
	struct completion done = c->done;
	struct err e = { 0 };
	size_t n;

	if (images_remove(c->n->puller, c->uri, &n, &e) < 0) {
		fail(c, &e);
		return;
	}
	call_free(c);
	done.fn.done(NULL, done.arg);
}

void native_image_remove(struct runtime *rt, const char *uri, runtime_done_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	struct image_call *c = call_new(n, completion_done(fn, arg));

	if (c)
		c->uri = strdup(uri);
	if (c && c->uri) {
		defer(&c->later, n->loop, on_remove, c, "images");
		return;
	}
	if (c)
		call_free(c);
	native_refuse(n, completion_done(fn, arg));
}

int native_check_room(struct runtime *rt, struct err *e)
{
	const struct puller *p = native_of(rt)->puller;

	return p ? puller_check_room(p, e) : 0;
}

/* ---- pulling and saving ---- */

static void on_progress(const struct pull_progress *p, void *arg)
{
	const struct image_call *c = arg;
	const struct runtime_progress now = { p->phase, p->bytes, p->total, p->layers_done, p->layers };

	if (c->progress)
		c->progress(&now, c->done.arg);
}

static void on_pulled(const struct pulled_image *im, const struct err *e, void *arg)
{
	struct image_call *c = arg;
	struct completion done = c->done;
	struct runtime_image image;

	if (!im) {
		fail(c, e);
		return;
	}
	image = image_of(im);
	call_free(c);
	done.fn.image(&image, NULL, done.arg);
}

static void close_layers(struct runtime_image_layer *layers, size_t n)
{
	while (n > 0)
		closep(&layers[--n].fd);
}

/* Descriptors now: the blobs may be swept the next moment. */
static int open_layers(struct puller *p, const struct pulled_image *im, struct runtime_image_layer *layers, struct err *e)
{
	for (size_t i = 0; i < im->n_layers; i++) {
		layers[i] = (struct runtime_image_layer){ .digest = im->layers[i].digest, .size = im->layers[i].size,
							  .fd = pull_open_blob(p, im->layers[i].name, e) };
		if (layers[i].fd >= 0)
			continue;
		close_layers(layers, i);
		return -1;
	}
	return 0;
}

static void on_to_save(const struct pulled_image *im, const struct err *e, void *arg)
{
	struct runtime_image_layer layers[MANIFEST_LAYERS_MAX];
	struct runtime_image_parts parts = { .layers = layers };
	struct image_call *c = arg;
	struct completion done = c->done;
	struct err why = { 0 };

	if (im && !digest_parse(str_of(im->digest), &parts.digest))
		(void)err_set(&why, ERR_INTERNAL, "'%s' is no digest", im->digest);
	if (e || why.code != ERR_NONE || open_layers(c->n->puller, im, layers, &why) < 0) {
		fail(c, e ? e : &why);
		return;
	}
	images_documents(im, &parts.manifest, &parts.config);
	parts.name = im->name;
	parts.os = im->os;
	parts.arch = im->arch;
	parts.n_layers = im->n_layers;
	call_free(c);
	if (!done.fn.parts(&parts, NULL, done.arg))
		close_layers(layers, parts.n_layers);
}

void native_image_pull(struct runtime *rt, const struct runtime_image_order *o, runtime_image_progress_fn *progress, runtime_image_fn *fn,
		       void *arg)
{
	struct native *n = native_of(rt);
	struct image_call *c = call_new(n, completion_image(fn, arg));
	const struct pull_order order = { .uri = o->uri, .username = o->username, .password = o->password, .os = o->os, .arch = o->arch,
					  .refresh = o->refresh };

	if (!c) {
		native_refuse(n, completion_image(fn, arg));
		return;
	}
	c->progress = progress;
	pull_start(n->puller, &order, &c->pull, on_progress, on_pulled, c);
}

void native_image_save(struct runtime *rt, const struct runtime_image_order *o, runtime_parts_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	struct image_call *c = call_new(n, completion_parts(fn, arg));
	const struct pull_order order = { .uri = o->uri, .username = o->username, .password = o->password, .os = o->os, .arch = o->arch,
					  .refresh = o->refresh, .with_blobs = true };

	if (c)
		pull_start(n->puller, &order, &c->pull, NULL, on_to_save, c);
	else
		native_refuse(n, completion_parts(fn, arg));
}

/* ---- loading ---- */

static void on_loaded(const struct pulled_image *const *images, size_t n, const struct err *e, void *arg)
{
	struct image_call *c = arg;

	c->load = NULL;
	if (e)
		fail(c, e);
	else
		tell_images(c, images, n);
}

int native_image_load(struct runtime *rt, const struct runtime_image_load *o, int *ret_pipe, runtime_images_fn *fn, void *arg,
		      struct err *e)
{
	struct native *n = native_of(rt);
	const struct load_order order = { .name = o->name, .is_kept = o->is_kept };
	struct image_call *c = call_new(n, completion_images(fn, arg));

	if (!c)
		return err_no_memory(e);
	c->load = load_start(n->puller, &order, ret_pipe, on_loaded, c, e);
	if (c->load)
		return 0;
	call_free(c);
	return -1;
}

void native_image_forget(struct runtime *rt, void *arg)
{
	struct native *n = native_of(rt);

	for (struct image_call *c = n->image_calls, *next; c; c = next) {
		next = c->next;
		if (c->done.arg == arg)
			call_free(c);
	}
	refusals_forget(&n->refusals, arg);
}

/* ---- life ---- */

static bool is_used(const char *digest, void *arg)
{
	const struct runtime *rt = &((struct native *)arg)->rt;

	return !rt->users || rt->users->uses_image(digest, rt->users_arg);
}

int native_open(struct runtime *rt, struct store *s, enum store_fault *ret_fault, struct err *e)
{
	struct native *n = native_of(rt);

	if (!n->puller)
		return 0;
	images_set_users(n->puller, is_used, n);
	return puller_attach(n->puller, s, ret_fault, e);
}

void native_image_calls_done(struct native *n)
{
	while (n->image_calls)
		call_free(n->image_calls);
}
