// SPDX-License-Identifier: Apache-2.0
#include "warden/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/passing.h"
#include "sys/userns.h"
#include "warden/blob_layer.h"
#include "warden/box.h"
#include "warden/layer_dir.h"
#include "warden/layer_pack.h"
#include "warden/peer.h"
#include "warden/stack.h"
#include "warden/warden.h"

#include "base/banned.h"

#define PREFIX "blob-"
#define ID_BASE (IMAGE_ID_BASE + (uint64_t)IMAGES_MAX * USERNS_IDS) /* above those of operators' tars */

DEFINE_AUTO(DIR *, closedir)

struct layer_wait {
	struct layer_wait *next;
	struct ticket ticket;
};

struct layer_add {
	struct layer_add *next;
	struct warden *w;
	unsigned place; /* which nobody else has, of LAYER_ADDS_MAX */
	char name[SLOT_LAYER_NAME_MAX + 1];
	struct blob_layer_spec spec;
	struct worker worker;
	struct layer_wait *waiting;
};

static void refuse(struct warden *w, const struct ticket *t, enum err_code code, const char *why)
{
	struct err e;

	(void)err_set(&e, code, "%s", why);
	answer(w, t, &e);
}

/* ---- those that are being added ---- */

static struct layer_add *find_add(const struct warden *w, const char *name)
{
	struct layer_add *a = w->adds;

	for (; a && strcmp(a->name, name) != 0; a = a->next)
		;
	return a;
}

bool layers_are_adding(const struct warden *w)
{
	return w->adds;
}

/* -1: there is none left. */
static int free_place(const struct warden *w)
{
	bool is_taken[LAYER_ADDS_MAX] = { false };

	for (const struct layer_add *a = w->adds; a; a = a->next)
		is_taken[a->place] = true;
	for (int i = 0; i < LAYER_ADDS_MAX; i++)
		if (!is_taken[i])
			return i;
	return -1;
}

static void unlink_add(struct layer_add *a)
{
	struct layer_add **at = &a->w->adds;

	for (; *at != a; at = &(*at)->next)
		;
	*at = a->next;
}

static void free_add(struct layer_add *a)
{
	struct layer_wait *wait;

	unlink_add(a);
	worker_forget(&a->worker);
	while ((wait = a->waiting)) {
		a->waiting = wait->next;
		free(wait);
	}
	free(a);
}

static int wait_for(struct layer_add *a, const struct ticket *t, struct err *e)
{
	struct layer_wait *wait = malloc(sizeof(*wait)); /* as many as peers may ask without an answer */

	if (!wait)
		return err_no_memory(e);
	*wait = (struct layer_wait){ a->waiting, *t };
	a->waiting = wait;
	return 0;
}

/* ---- adding ---- */

static int add_work(void *arg, struct err *e)
{
	const struct layer_add *a = arg;

	return blob_layer_make(&a->spec, e);
}

/* What is neither the blob's own fault nor for want of room may name paths: that is for the log alone. */
static void say_why(const struct layer_add *a, const struct err *failure, struct err *ret)
{
	log_warn("a layer cannot be unpacked", LOG_S("layer", a->name), LOG_ERR(failure));
	if (failure->code == ERR_INVALID || failure->code == ERR_LIMIT)
		(void)err_set(ret, failure->code, "a layer of the image cannot be unpacked: %s", failure->msg), ret->sys = failure->sys;
	else
		(void)err_set(ret, ERR_UNAVAILABLE, "a layer of the image cannot be unpacked at the moment");
}

static void on_added(const struct err *failure, void *arg)
{
	struct layer_add *a = arg;
	struct warden *w = a->w;
	struct layer_wait *wait;
	struct err why = { 0 };

	if (failure)
		say_why(a, failure, &why);
	else
		log_info("layer unpacked", LOG_S("layer", a->name));
	while ((wait = a->waiting)) {
		a->waiting = wait->next;
		answer(w, &wait->ticket, failure ? &why : NULL);
		free(wait);
	}
	KILL_POINT("warden.layer.told");
	free_add(a);
	images_sweep(w);
}

static struct layer_add *new_add(struct warden *w, const char *name, const struct wire_request *rq, struct err *e)
{
	int place = free_place(w);
	struct layer_add *a = place < 0 ? NULL : calloc(1, sizeof(*a));

	if (place < 0)
		(void)err_set(e, ERR_LIMIT, "more than %d layers are waiting to be unpacked", LAYER_ADDS_MAX);
	else if (!a)
		(void)err_no_memory(e);
	if (!a)
		return NULL;
	a->w = w;
	a->place = (unsigned)place;
	a->worker = WORKER_INIT;
	memcpy(a->name, name, strlen(name) + 1);
	a->spec = (struct blob_layer_spec){ .layers_path = w->host.layers_path, .name = a->name, .unpack = images_unpacker(w), .store = &w->host.store,
					    .id_base = ID_BASE + a->place * (uint64_t)USERNS_IDS };
	a->spec.digest = rq->blob;
	a->spec.diff_id = rq->diff_id;
	a->next = w->adds;
	w->adds = a;
	return a;
}

static int start_add(struct warden *w, const char *name, const struct wire_request *rq, int *blob, const struct ticket *t,
		     struct err *e)
{
	struct layer_add *a;
	struct stat st;

	if (guard_check(w, e) < 0 || blob_check(*blob, &st, e) < 0 || !(a = new_add(w, name, rq, e)))
		return -1;
	if (wait_for(a, t, e) < 0) {
		free_add(a);
		return -1;
	}
	a->spec.blob = take_fd(blob); /* the worker's then, by the same number */
	worker_start(&a->worker, &w->unpackers, add_work, on_added, a, a->spec.blob);
	return 0;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of who waits, which is in a list */
void layers_add(struct warden *w, const struct wire_request *rq, struct passed *got, const struct ticket *t)
{
	char name[SLOT_LAYER_NAME_MAX + 1];
	AUTO_FD layers = -1;
	struct layer_add *a;
	struct err e;

	stack_layer_name(&rq->layers[0], name);
	a = find_add(w, name);
	layers = layer_dir_open(w->host.layers_path, &e);
	if (w->is_stopping || layers < 0)
		refuse(w, t, ERR_UNAVAILABLE, layers < 0 ? "the layers cannot be opened" : "stopping");
	else if (a && !digest_eq(&a->spec.diff_id, &rq->diff_id))
		refuse(w, t, ERR_CONFLICT, "this blob is being unpacked, and has another content");
	else if (!a && layer_dir_has(layers, name))
		answer(w, t, NULL);
	else if ((a ? wait_for(a, t, &e) : start_add(w, name, rq, &got->fds[0], t, &e)) < 0)
		answer(w, t, &e);
}
#pragma GCC diagnostic pop

/* ---- dropping ---- */

static bool is_held(const struct box *b, const struct wire_layer *layer)
{
	for (size_t i = 0; b->create && i < b->create->rq.n_layers; i++)
		if (memcmp(&b->create->rq.layers[i], layer, sizeof(*layer)) == 0)
			return true;
	return false;
}

static bool is_in_use(const struct warden *w, const struct wire_layer *layer, const char *name)
{
	for (const struct box *b = w->boxes; b; b = b->next)
		if (stack_has(&b->stack, name) || is_held(b, layer))
			return true;
	return w->has_unknown || find_add(w, name) || layer_is_packed(w, name);
}

void layers_drop(struct warden *w, const struct wire_request *rq, const struct ticket *t)
{
	char name[SLOT_LAYER_NAME_MAX + 1];
	AUTO_FD layers = -1;
	struct err e;

	stack_layer_name(&rq->layers[0], name);
	if (is_in_use(w, &rq->layers[0], name)) {
		refuse(w, t, ERR_CONFLICT, "a sandbox needs this layer");
		return;
	}
	layers = layer_dir_open(w->host.layers_path, &e);
	if (layers < 0 || layer_retire(layers, name, &e) < 0) {
		answer(w, t, &e);
		return;
	}
	KILL_POINT("warden.layer.retired");
	answer(w, t, NULL);
	images_sweep(w);
}

/* ---- listing ---- */

void layers_list(struct warden *w, const struct ticket *t)
{
	AUTO(closedir) DIR *d = opendir(w->host.layers_path);
	const struct dirent *entry;
	struct err e;

	if (!d) {
		(void)err_sys(&e, errno, "open the layers");
		answer(w, t, &e);
		return;
	}
	while ((entry = readdir(d))) {
		struct wire_reply rp = { .layer.kind = WIRE_LAYER_BLOB };
		struct str name = str_of(entry->d_name);

		if (str_starts(name, STR(PREFIX)) && hex_decode(str_skip(name, strlen(PREFIX)), rp.layer.name, WIRE_LAYER_SIZE))
			answer_row(w, t, &rp);
	}
	answer(w, t, NULL);
}

void layers_done(struct warden *w)
{
	while (w->adds)
		free_add(w->adds);
}
