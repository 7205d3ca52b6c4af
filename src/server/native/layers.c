// SPDX-License-Identifier: Apache-2.0
/* The layers that the warden has: listed when it is there, added for creates, dropped when no image has them any more. */
#include <stdlib.h>

#include "base/log.h"
#include "server/images/pull.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define SWEEP_MS 10000
#define LOOK_SWEEPS 3 /* to one look at what there is */
#define SWEEP_LAYERS 512 /* looked at in one go */
#define SWEEP_DROPS 16

/* ---- which there are ---- */

static struct str key_of(const unsigned char *name)
{
	return (struct str){ (const char *)name, DIGEST_NAME_SIZE };
}

bool native_layer_is_there(const struct native *n, const unsigned char name[DIGEST_NAME_SIZE])
{
	return map_get(&n->layers, key_of(name));
}

bool native_has_layers(const struct native *n, const struct pulled_image *image)
{
	for (size_t i = 0; i < image->n_layers; i++)
		if (!native_layer_is_there(n, image->layers[i].name))
			return false;
	return n->are_layers_known;
}

/* One that is not noted for lack of memory is asked for again, which costs little. */
void native_layer_note(struct native *n, const unsigned char name[DIGEST_NAME_SIZE])
{
	unsigned char *own = native_layer_is_there(n, name) ? NULL : malloc(DIGEST_NAME_SIZE);

	if (!own)
		return;
	memcpy(own, name, DIGEST_NAME_SIZE);
	if (!map_put(&n->layers, key_of(own), own))
		free(own);
}

static void forget(struct native *n, const unsigned char name[DIGEST_NAME_SIZE])
{
	free(map_del(&n->layers, key_of(name)));
}

static void forget_all(struct native *n)
{
	void *own;
	struct str key;

	for (size_t i = 0; (own = map_next(&n->layers, &i, &key));)
		free(own);
	map_done(&n->layers);
	n->layers = MAP_INIT;
	n->are_layers_known = false;
}

/* ---- listing ---- */

/* What the catalogue takes for unpacked and is not has to be pulled again. */
static void tell_missing(struct native *n)
{
	const struct pulled_image *image;

	for (size_t i = 0; (image = images_at(n->puller, i)); i++)
		for (size_t k = 0; k < image->n_layers; k++)
			if (!native_layer_is_there(n, image->layers[k].name))
				pull_layer_gone(n->puller, image->layers[k].name);
}

static void on_listed(const struct runtime_failure *failure, void *arg)
{
	struct native *n = arg;

	if (failure) { /* it went away: the next connection asks again; or it is asked again in a while */
		timer_in(&n->layer_sweep, SWEEP_MS);
		log_warn("the layers of images are not known", LOG_ERR(&failure->err));
		return;
	}
	n->are_layers_known = true;
	tell_missing(n);
	native_layers_changed(n);
}

void native_answer_layers(struct call *c, const struct wire_reply *rp)
{
	runtime_done_fn *fn = c->done.fn.done;
	void *arg = c->done.arg;

	if (rp->layer.kind != 0) {
		native_layer_note(c->n, rp->layer.name);
		return;
	}
	native_call_free(c);
	fn(NULL, arg);
}

void native_layers_ask(struct native *n)
{
	struct call *c;

	if (!n->puller)
		return;
	forget_all(n);
	c = native_call_new(&n->rt, WIRE_LAYERS, completion_done(on_listed, n));
	if (c)
		native_call_send(c, "", &(struct wire_request){ 0 }, -1);
}

/* ---- adding and dropping ---- */

static struct wire_request request_of(const unsigned char name[DIGEST_NAME_SIZE])
{
	struct wire_request rq = { .n_layers = 1, .layers = { { .kind = WIRE_LAYER_BLOB } } };

	memcpy(rq.layers[0].name, name, DIGEST_NAME_SIZE);
	return rq;
}

void native_layer_add(struct native *n, const struct pulled_layer *layer, int blob, runtime_done_fn *fn, void *arg)
{
	struct call *c = native_call_new(&n->rt, WIRE_LAYER_ADD, completion_done(fn, arg));
	struct wire_request rq = request_of(layer->name);

	if (!c)
		return;
	rq.blob = layer->digest;
	rq.diff_id = layer->diff_id;
	native_call_send(c, "", &rq, blob);
}

void native_answer_drop(struct call *c)
{
	forget(c->n, c->layer);
	pull_layer_gone(c->n->puller, c->layer);
	native_call_free(c);
}

/* A sandbox that has it keeps it: then this fails, and there is a next time. */
static void drop(struct native *n, const unsigned char name[DIGEST_NAME_SIZE])
{
	struct call *c = native_call_new(&n->rt, WIRE_LAYER_DROP, (struct completion){ 0 });
	struct wire_request rq = request_of(name);

	if (!c)
		return;
	memcpy(c->layer, name, DIGEST_NAME_SIZE);
	native_call_send(c, "", &rq, -1);
}

/* ---- packing ---- */

void native_pack(struct native *n, const char *snapshot, const unsigned char *blob, int fd, uint64_t disk_max, runtime_packed_fn *fn,
		 void *arg)
{
	struct call *c = native_call_new(&n->rt, WIRE_LAYER_PACK, completion_packed(fn, arg));
	struct wire_request rq = { .limits.disk_bytes = disk_max };

	if (!c)
		return;
	if (blob) {
		rq = request_of(blob);
		rq.limits.disk_bytes = disk_max;
	} else if (native_add_layers(&rq, snapshot, &c->failure) < 0) {
		native_call_fail_later(c);
		return;
	}
	native_call_send(c, "", &rq, fd);
}

void native_answer_packed(struct call *c, const struct wire_layer *layer)
{
	runtime_packed_fn *fn = c->done.fn.packed;
	void *arg = c->done.arg;

	native_call_free(c);
	fn(layer->name, NULL, arg);
}

/* ---- what nobody needs ---- */

static void on_looked(const struct runtime_failure *failure, void *arg)
{
	(void)arg;
	if (failure)
		log_debug("the layers of images cannot be looked at", LOG_ERR(&failure->err));
}

/* A layer that an earlier server has asked for may have been finished after the list was made. */
static void look_again(struct native *n)
{
	struct call *c;

	if (++n->layer_sweeps % LOOK_SWEEPS != 0)
		return;
	c = native_call_new(&n->rt, WIRE_LAYERS, completion_done(on_looked, n));
	if (c)
		native_call_send(c, "", &(struct wire_request){ 0 }, -1);
}

static void on_sweep(void *arg)
{
	struct native *n = arg;
	unsigned char unwanted[SWEEP_DROPS][SHA256_SIZE];
	size_t found = 0, seen = 0;
	const unsigned char *name;
	struct str key;

	timer_in(&n->layer_sweep, SWEEP_MS);
	if (n->fd < 0)
		return;
	if (!n->are_layers_known) {
		native_layers_ask(n);
		return;
	}
	look_again(n);
	images_drop_unused(n->puller);
	for (; seen < SWEEP_LAYERS && found < SWEEP_DROPS && (name = map_next(&n->layers, &n->sweep_at, &key)); seen++)
		if (!native_layer_is_wanted(n, name))
			memcpy(unwanted[found++], name, DIGEST_NAME_SIZE);
	if (seen < SWEEP_LAYERS && found < SWEEP_DROPS)
		n->sweep_at = 0;
	for (size_t i = 0; i < found; i++)
		drop(n, unwanted[i]);
}

int native_layers_open(struct native *n, struct err *e)
{
	if (!n->puller)
		return 0;
	if (timer_init(&n->layer_sweep, n->loop, on_sweep, n, "layers", e) < 0)
		return -1;
	timer_in(&n->layer_sweep, SWEEP_MS);
	return 0;
}

void native_layers_done(struct native *n)
{
	timer_done(&n->layer_sweep);
	forget_all(n);
}
