// SPDX-License-Identifier: Apache-2.0
/* Creates from images of registries: the image is pulled (server/images/pull.h), the warden gets the layers that it does not have,
 * and then the box is made on them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/escape.h"
#include "base/kill_point.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "server/images/pull.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define ADDS_AT_ONCE 4 /* of one create; the warden unpacks three at a time, for all of them */
#define TICK_MS 30000
#define ARENA_MAX ((size_t)4 << 20)

struct wanted_layer {
	struct image_create *of;
	struct pulled_layer layer;
};

struct image_create {
	struct image_create *prev, *next;
	struct native *n;
	struct arena arena; /* of all that the next two point to */
	struct runtime_spec spec;
	const char *uri; /* what is pulled: the image's name, or that with the digest which it must have */
	struct native_config config; /* of the image */
	runtime_done_fn *fn;
	void *arg;
	struct pull pull;
	struct wanted_layer *layers; /* lowest first; NULL: it is being pulled */
	size_t n_layers, at;         /* those before the latter are there, or asked for */
	unsigned adding;
	struct runtime_progress progress;
	struct timer tick;
	struct deferred later;
	bool has_failed, wants_again, is_again;
	struct runtime_failure failure;
};

static void on_pulled(const struct pulled_image *image, const struct err *e, void *arg);
static void on_pull_progress(const struct pull_progress *p, void *arg);

/* ---- the end of one ---- */

static void wipe(const char *secret)
{
	if (secret)
		secret_wipe((void *)(uintptr_t)secret, strlen(secret));
}

static void create_free(struct image_create *ic)
{
	*(ic->prev ? &ic->prev->next : &ic->n->image_creates) = ic->next;
	if (ic->next)
		ic->next->prev = ic->prev;
	pull_cancel(&ic->pull);
	timer_done(&ic->tick);
	defer_cancel(&ic->later);
	for (size_t i = 0; i < ic->spec.env.n; i++)
		wipe(ic->spec.env.items[i].value);
	wipe(ic->spec.execd_token);
	wipe(ic->spec.username);
	wipe(ic->spec.password);
	arena_done(&ic->arena);
	free(ic);
}

static void create_end(struct image_create *ic)
{
	struct runtime_failure failure = ic->failure;
	runtime_done_fn *fn = ic->fn;
	void *arg = ic->arg;

	create_free(ic);
	fn(&failure, arg);
}

static void on_later(void *arg)
{
	create_end(arg);
}

/* No box was made: whatever it was, that is sure. What is being added comes to its end first. */
static void create_fail(struct image_create *ic, const struct runtime_failure *f)
{
	if (ic->has_failed)
		return;
	ic->has_failed = true;
	ic->failure = *f;
	if (f->err.code == ERR_UNAVAILABLE || f->err.code == ERR_TIMEOUT)
		ic->failure.err.code = ERR_IO;
	pull_cancel(&ic->pull);
	if (ic->adding == 0)
		defer(&ic->later, ic->n->loop, on_later, ic, "image");
}

static void pull_failed(struct image_create *ic, const struct err *e)
{
	bool is_full = e->code == ERR_LIMIT && e->sys == ENOSPC;
	struct runtime_failure f = { .code = RUNTIME_PULL_FAILED, .status = is_full ? 507 : 500, .err = *e };

	(void)snprintf(f.says, sizeof(f.says), "image '%s': %s", SHOWN(str_of(ic->spec.image)), e->msg);
	create_fail(ic, &f);
}

/* What the image says about programs cannot be done: another image can. */
static void start_refused(struct image_create *ic, const struct err *e)
{
	const struct runtime_failure f = { .code = "SANDBOX_START_FAILED", .status = 400, .err = *e };

	create_fail(ic, &f);
}

void native_image_cancel(struct runtime *rt, const char *id)
{
	struct runtime_failure f = { .code = "SANDBOX_START_FAILED", .status = 409 };

	(void)err_set(&f.err, ERR_CONFLICT, "the sandbox was removed while its image was being pulled");
	for (struct image_create *ic = native_of(rt)->image_creates; ic; ic = ic->next)
		if (!ic->has_failed && strcmp(ic->spec.id, id) == 0)
			create_fail(ic, &f);
}

/* ---- making the box ---- */

static bool add_to(struct wire_request *rq, const struct wanted_layer *wanted)
{
	struct wire_layer *l = &rq->layers[rq->n_layers];

	if (rq->n_layers == WIRE_LAYERS_MAX)
		return false;
	l->kind = WIRE_LAYER_BLOB;
	memcpy(l->name, wanted->layer.name, sizeof(l->name));
	rq->n_layers++;
	return true;
}

static int fill_request(const struct image_create *ic, struct wire_request *rq, struct err *e)
{
	if (native_add_layers(rq, ic->spec.base, e) < 0)
		return -1;
	for (size_t i = ic->n_layers; i > 0; i--)
		if (!add_to(rq, &ic->layers[i - 1]))
			return err_set(e, ERR_INVALID, "the sandbox would stand on more than %d layers", WIRE_LAYERS_MAX);
	return 0;
}

/* From here on it is a create like any other. */
static void make_box(struct image_create *ic)
{
	struct wire_request rq = native_request(&ic->spec, WIRE_IMAGE_NONE);
	struct call *c = native_call_new(&ic->n->rt, WIRE_CREATE, completion_done(ic->fn, ic->arg));
	AUTO_FD fd = -1;

	if (!c) {
		create_free(ic);
		return;
	}
	fd = native_spec_make(&ic->spec, &ic->config, &c->failure);
	if (fd < 0 || fill_request(ic, &rq, &c->failure) < 0)
		native_call_fail_later(c);
	else
		native_create_send(c, &ic->spec, &rq, fd);
	create_free(ic);
}

/* ---- layers ---- */

static void tell_progress(const struct image_create *ic)
{
	const struct runtime *rt = &ic->n->rt;

	if (rt->events && rt->events->progress && !ic->has_failed)
		rt->events->progress(ic->spec.id, &ic->progress, rt->events_arg);
}

static void add_more(struct image_create *ic);

static void on_added(const struct runtime_failure *failure, void *arg)
{
	struct wanted_layer *wanted = arg;
	struct image_create *ic = wanted->of;

	KILL_POINT("server.image.layer_there");
	ic->adding--;
	if (failure) {
		create_fail(ic, failure);
	} else {
		native_layer_note(ic->n, wanted->layer.name);
		pull_release_blob(ic->n->puller, wanted->layer.name);
		ic->progress.layers_done++;
		ic->progress.bytes += wanted->layer.size;
		tell_progress(ic);
	}
	if (!ic->has_failed)
		add_more(ic);
	else if (ic->adding == 0)
		defer(&ic->later, ic->n->loop, on_later, ic, "image");
}

/* A blob that should be there is not: what is lost is pulled once more. */
static void add_one(struct image_create *ic, struct wanted_layer *wanted)
{
	struct native *n = ic->n;
	struct err e = { 0 };
	AUTO_FD fd = -1;

	if (native_layer_is_there(n, wanted->layer.name)) {
		pull_release_blob(n->puller, wanted->layer.name);
		ic->progress.layers_done++;
		ic->progress.bytes += wanted->layer.size;
		return;
	}
	fd = pull_open_blob(n->puller, wanted->layer.name, &e);
	if (fd >= 0) {
		if (ic->adding++ == 0)
			tell_progress(ic);
		native_layer_add(n, &wanted->layer, fd, on_added, wanted);
		KILL_POINT("server.image.layer_asked");
	} else if (!ic->is_again && e.code == ERR_NOT_FOUND) {
		pull_layer_gone(n->puller, wanted->layer.name);
		ic->wants_again = true;
	} else {
		pull_failed(ic, &e);
	}
}

static void start_pull(struct image_create *ic)
{
	const struct pull_order order = { .uri = ic->uri, .is_kept = ic->spec.image_digest != NULL, .username = ic->spec.username, .password = ic->spec.password,
					  .os = ic->spec.os, .arch = ic->spec.arch };

	ic->layers = NULL;
	pull_start(ic->n->puller, &order, &ic->pull, on_pull_progress, on_pulled, ic);
}

static void add_more(struct image_create *ic)
{
	if (!ic->n->are_layers_known) /* the list of them is on its way, or the warden is */
		return;
	while (ic->at < ic->n_layers && ic->adding < ADDS_AT_ONCE && !ic->has_failed && !ic->wants_again)
		add_one(ic, &ic->layers[ic->at++]);
	if (ic->adding > 0 || ic->has_failed)
		return;
	if (ic->wants_again) {
		ic->wants_again = false;
		ic->is_again = true;
		start_pull(ic);
	} else {
		KILL_POINT("server.image.layers_there");
		make_box(ic);
	}
}

void native_layers_changed(struct native *n)
{
	struct image_create *next;

	for (struct image_create *ic = n->image_creates; ic; ic = next) {
		next = ic->next;
		if (ic->layers && ic->adding == 0 && !ic->has_failed)
			add_more(ic);
	}
}

/* Whether a create is about to need it. */
bool native_layer_is_wanted(const struct native *n, const unsigned char name[DIGEST_NAME_SIZE])
{
	for (const struct image_create *ic = n->image_creates; ic; ic = ic->next)
		for (size_t i = 0; ic->layers && i < ic->n_layers; i++)
			if (memcmp(ic->layers[i].layer.name, name, DIGEST_NAME_SIZE) == 0)
				return true;
	return pull_layer_wanted(n->puller, name);
}

/* ---- the image ---- */

static int copy_list(struct arena *a, const struct string_list *from, struct string_list *to)
{
	to->items = arena_array(a, from->n + 1, sizeof(*to->items));
	to->n = 0;
	while (to->items && to->n < from->n) {
		to->items[to->n] = arena_dup(a, str_of(from->items[to->n]));
		if (!to->items[to->n++])
			return -1;
	}
	return to->items ? 0 : -1;
}

static int copy_text(struct arena *a, const char *from, const char **to)
{
	*to = from ? arena_dup(a, str_of(from)) : NULL;
	return from && !*to ? -1 : 0;
}

static int copy_image(struct image_create *ic, const struct pulled_image *image, struct err *e)
{
	struct arena *a = &ic->arena;

	ic->layers = arena_array(a, image->n_layers + 1, sizeof(*ic->layers));
	if (!ic->layers || copy_list(a, &image->env, &ic->config.env) < 0 || copy_text(a, image->workdir, &ic->config.workdir) < 0 ||
	    copy_text(a, image->user, &ic->config.user) < 0)
		return err_no_memory(e);
	for (size_t i = 0; i < image->n_layers; i++)
		ic->layers[i] = (struct wanted_layer){ ic, image->layers[i] };
	ic->n_layers = image->n_layers;
	ic->at = 0;
	ic->progress = (struct runtime_progress){ .phase = "unpacking", .total = image->size, .layers = (unsigned)image->n_layers };
	return 0;
}

static void on_pulled(const struct pulled_image *image, const struct err *e, void *arg)
{
	struct image_create *ic = arg;
	const struct runtime *rt = &ic->n->rt;
	struct err mine = { 0 };

	if (image && copy_image(ic, image, &mine) < 0)
		e = &mine;
	if (e) {
		pull_failed(ic, e);
		return;
	}
	KILL_POINT("server.image.pulled");
	if (image_check_start(ic->config.user, ic->config.workdir, &mine) < 0) {
		start_refused(ic, &mine);
		return;
	}
	if (rt->events && rt->events->resolved)
		rt->events->resolved(ic->spec.id, image->digest, rt->events_arg);
	add_more(ic);
}

static const struct pulled_image *find_by_name(const struct image_create *ic)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	const struct pulled_image *image;
	struct reference ref;

	if (reference_parse(str_of(ic->spec.image), &ref, &(struct err){ 0 }) < 0 || !reference_write(&ref, &name))
		return NULL;
	for (size_t i = 0; (image = images_at(ic->n->puller, i)); i++)
		if (strcmp(image->name, buf_z(&name)) == 0 && strcmp(image->arch, NATIVE_ARCH) == 0)
			return native_has_layers(ic->n, image) ? image : NULL;
	return NULL;
}

/* A sandbox that stands on a snapshot has its image from the one that the snapshot is of: who may have the one may have the
 * other, and nobody is asked again. Records of before know no digest: what has the name now must be there as a whole. NULL:
 * it is to be pulled. */
static const struct pulled_image *find_present(const struct image_create *ic)
{
	if (ic->spec.image_digest)
		return images_find(ic->n->puller, ic->spec.image_digest);
	return ic->spec.base ? find_by_name(ic) : NULL;
}

static void on_pull_progress(const struct pull_progress *p, void *arg)
{
	struct image_create *ic = arg;

	ic->progress = (struct runtime_progress){ p->phase, p->bytes, p->total, p->layers_done, p->layers };
	tell_progress(ic);
}

/* Who waits hears that it goes on, also while one large layer is unpacked. */
static void on_tick(void *arg)
{
	struct image_create *ic = arg;

	if (ic->progress.phase)
		tell_progress(ic);
	timer_in(&ic->tick, TICK_MS);
}

/* ---- beginning ---- */

static int copy_volumes(struct arena *a, const struct runtime_spec *from, struct runtime_spec *to)
{
	struct runtime_volume *copies = arena_array(a, from->n_volumes + 1, sizeof(*copies));

	if (!copies)
		return -1;
	for (size_t i = 0; i < from->n_volumes; i++) {
		copies[i] = from->volumes[i];
		if (copy_text(a, from->volumes[i].id, &copies[i].id) < 0 || copy_text(a, from->volumes[i].path, &copies[i].path) < 0 ||
		    copy_text(a, from->volumes[i].mount_path, &copies[i].mount_path) < 0)
			return -1;
	}
	to->volumes = copies;
	return 0;
}

/* A name that has no meaning but this image. */
static int name_source(struct image_create *ic)
{
	AUTO(buf_done) struct buf name = BUF_INIT(REFERENCE_TEXT_MAX);
	struct reference ref;

	ic->uri = ic->spec.image;
	if (!ic->spec.image_digest)
		return 0;
	ref.has_digest = reference_parse(str_of(ic->spec.image), &ref, &(struct err){ 0 }) == 0 &&
			 digest_parse(str_of(ic->spec.image_digest), &ref.digest);
	if (!ref.has_digest || !reference_write(&ref, &name))
		return -1;
	ic->uri = arena_dup(&ic->arena, buf_str(&name));
	return ic->uri ? 0 : -1;
}

static int copy_spec(struct image_create *ic, const struct runtime_spec *from)
{
	struct runtime_spec *to = &ic->spec;
	struct arena *a = &ic->arena;
	struct string_pair *env = arena_array(a, from->env.n + 1, sizeof(*env));

	*to = *from;
	to->env = (struct string_map){ .items = env };
	for (; env && to->env.n < from->env.n; to->env.n++)
		if (copy_text(a, from->env.items[to->env.n].key, &env[to->env.n].key) < 0 ||
		    copy_text(a, from->env.items[to->env.n].value, &env[to->env.n].value) < 0)
			return -1;
	if (!env || copy_text(a, from->id, &to->id) < 0 || copy_text(a, from->image, &to->image) < 0 ||
	    copy_text(a, from->image_digest, &to->image_digest) < 0 ||
	    copy_text(a, from->execd_token, &to->execd_token) < 0 || copy_text(a, from->username, &to->username) < 0 ||
	    copy_text(a, from->password, &to->password) < 0 || copy_text(a, from->os, &to->os) < 0 ||
	    copy_text(a, from->arch, &to->arch) < 0)
		return -1;
	if (copy_list(a, &from->entrypoint, &to->entrypoint) < 0 || copy_text(a, from->base, &to->base) < 0)
		return -1;
	to->policy.p = arena_dup(a, from->policy);
	to->record.p = arena_strndup(a, from->record.n > 0 ? from->record.p : "", from->record.n);
	return to->policy.p && to->record.p ? copy_volumes(a, from, to) : -1;
}

void native_image_create(struct native *n, const struct runtime_spec *spec, runtime_done_fn *fn, void *arg)
{
	struct image_create *ic = calloc(1, sizeof(*ic));
	const struct pulled_image *present;
	struct err e = { 0 };

	if (!ic) {
		native_refuse(n, completion_done(fn, arg));
		return;
	}
	ic->n = n;
	ic->fn = fn;
	ic->arg = arg;
	ic->arena = ARENA_INIT(ARENA_MAX);
	ic->next = n->image_creates;
	if (ic->next)
		ic->next->prev = ic;
	n->image_creates = ic;
	if (copy_spec(ic, spec) < 0 || name_source(ic) < 0 || timer_init(&ic->tick, n->loop, on_tick, ic, "image", &e) < 0) {
		ic->spec.env.n = 0;
		ic->spec.execd_token = ic->spec.username = ic->spec.password = NULL; /* of the caller, as far as they were not copied */
		create_fail(ic, &native_no_memory);
		return;
	}
	timer_in(&ic->tick, TICK_MS);
	present = find_present(ic);
	if (present)
		on_pulled(present, NULL, ic);
	else
		start_pull(ic);
}

void native_images_done(struct native *n)
{
	while (n->image_creates)
		create_free(n->image_creates);
}
