// SPDX-License-Identifier: Apache-2.0
#include "fetch/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "fetch/asker.h"
#include "fetch/blob.h"
#include "fetch/pull.h"
#include "fetch/registry.h"

#include "base/banned.h"

#define PROGRESS_BYTES (UINT64_C(1) << 20) /* that make a failure the first one again */

/* One download: a layer and where its bytes go. */
struct download {
	struct call call;
	struct blob blob;
	const struct blob_ref *layer; /* NULL: idle */
	bool is_paused;
	uint64_t mark; /* bytes at the last failure */
};

struct layers {
	const struct layers_spec *spec;
	struct download downloads[PULL_LAYERS_AT_ONCE];
	size_t next;               /* of the manifest */
	struct fetch_message told; /* progress */
	uint64_t kept;             /* bytes of whole layers */
};

/* An answer from its start, or from where we asked for. */
static int on_bytes(const char *p, size_t n, void *arg, struct err *e)
{
	struct download *l = arg;
	const struct transfer *t = &l->call.t;

	if (t->status == 200 && t->from > 0 && l->blob.n == t->from) {
		if (blob_restart(&l->blob, e) < 0)
			return -1;
		l->call.t.from = 0;
	}
	if (t->status == 206 && t->range_from != t->from)
		return err_set(e, ERR_INVALID, "the registry sends another part than was asked for");
	return blob_add(&l->blob, p, n, e);
}

static int begin(struct download *l, struct err *e)
{
	l->is_paused = false;
	l->call.t.body = on_bytes;
	l->call.t.arg = l;
	l->call.t.from = l->blob.n;
	return call_begin(&l->call, e);
}

static int start(struct layers *ls, struct download *l, const struct blob_ref *layer, struct err *e)
{
	const struct blob_spec spec = { .dir = ls->spec->blobs, .reserve = (uint64_t)ls->spec->registry->order->reserve,
					.kind = layer->digest.size, .size = layer->size, .max = layer->size };
	char path[512], digest[DIGEST_TEXT_MAX + 1];

	digest_write(&layer->digest, digest);
	(void)snprintf(path, sizeof(path), "%s/blobs/%s", ls->spec->registry->order->repository, digest);
	call_init(&l->call, ls->spec->registry, path);
	l->layer = layer;
	l->mark = 0;
	if (blob_begin(&l->blob, &spec, e) < 0)
		return -1;
	return begin(l, e);
}

static void stop(struct download *l)
{
	if (!l->layer)
		return;
	call_done(&l->call);
	blob_drop(&l->blob);
	l->layer = NULL;
}

static bool is_wanted(const struct layers *ls, size_t i)
{
	const struct manifest *m = ls->spec->manifest;

	if (!(ls->spec->wanted[i / 64] & (UINT64_C(1) << (i % 64))))
		return false;
	for (size_t j = 0; j < i; j++) /* the same one twice is one */
		if (digest_eq(&m->layers[j].digest, &m->layers[i].digest))
			return false;
	return true;
}

/* Counts what there is to do; what is in the folder already is done. */
static void count(struct layers *ls)
{
	const struct manifest *m = ls->spec->manifest;

	ls->told.phase = FETCH_DOWNLOADING;
	for (size_t i = 0; i < m->n_layers; i++)
		if (is_wanted(ls, i)) {
			ls->told.layers++;
			ls->told.total += m->layers[i].size;
		}
}

static int fill(struct layers *ls, struct err *e)
{
	const struct manifest *m = ls->spec->manifest;

	for (size_t i = 0; i < ARRAY_LEN(ls->downloads); i++) {
		while (!ls->downloads[i].layer && ls->next < m->n_layers) {
			const struct blob_ref *layer = &m->layers[ls->next];

			if (!is_wanted(ls, ls->next++))
				continue;
			if (blob_exists(ls->spec->blobs, &layer->digest, layer->size)) {
				ls->kept += layer->size;
				ls->told.layers_done++;
			} else if (start(ls, &ls->downloads[i], layer, e) < 0) {
				return -1;
			}
		}
	}
	return 0;
}

/* All bytes, or too few of them: then it is a failure like that of a connection. */
static int finish(struct layers *ls, struct download *l, struct err *e)
{
	if (l->call.t.status == 404)
		return err_set(e, ERR_NOT_FOUND, "the registry does not have a layer that the manifest names");
	if (l->blob.n != l->layer->size)
		return err_set(e, ERR_INVALID, "a layer of %llu bytes ended after %llu", (unsigned long long)l->layer->size,
			       (unsigned long long)l->blob.n);
	if (blob_keep(&l->blob, &l->layer->digest, NULL, e) < 0)
		return -1;
	ls->kept += l->layer->size;
	ls->told.layers_done++;
	stop(l);
	return 0;
}

static int step(struct layers *ls, struct download *l, struct err *e)
{
	if (l->blob.n >= l->mark + PROGRESS_BYTES)
		l->call.tries = 0;
	l->mark = l->blob.n;
	switch (call_step(&l->call, e)) {
	case CALL_FAILED:
		return -1;
	case CALL_PAUSED:
		l->is_paused = true;
		return 0;
	case CALL_GOES_ON:
		return 0;
	case CALL_OVER:
		break;
	}
	return finish(ls, l, e);
}

static int look_after(struct layers *ls, struct download *l, struct err *e)
{
	if (!l->layer)
		return 0;
	if (l->is_paused)
		return clock_mono_ms() >= l->call.again_ms ? begin(l, e) : 0;
	return l->call.t.is_over ? step(ls, l, e) : 0;
}

static void tell(struct layers *ls, bool must)
{
	ls->told.bytes = ls->kept;
	for (size_t i = 0; i < ARRAY_LEN(ls->downloads); i++)
		if (ls->downloads[i].layer)
			ls->told.bytes += ls->downloads[i].blob.n;
	asker_progress(ls->spec->registry->session.asker, &ls->told, must);
}

static bool is_busy(const struct layers *ls)
{
	for (size_t i = 0; i < ARRAY_LEN(ls->downloads); i++)
		if (ls->downloads[i].layer)
			return true;
	return false;
}

static int run(struct layers *ls, struct err *e)
{
	if (fill(ls, e) < 0)
		return -1;
	tell(ls, true);
	while (is_busy(ls)) {
		if (session_turn(&ls->spec->registry->session, 100, e) < 0)
			return -1;
		for (size_t i = 0; i < ARRAY_LEN(ls->downloads); i++)
			if (look_after(ls, &ls->downloads[i], e) < 0)
				return -1;
		if (fill(ls, e) < 0)
			return -1;
		tell(ls, false);
	}
	tell(ls, true);
	return blobs_sync(ls->spec->blobs, e);
}

int layers_fetch(const struct layers_spec *spec, struct err *e)
{
	struct layers ls = { .spec = spec };
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(ls.downloads); i++)
		ls.downloads[i].blob = BLOB_INIT;
	count(&ls);
	rc = run(&ls, e);
	for (size_t i = 0; i < ARRAY_LEN(ls.downloads); i++)
		stop(&ls.downloads[i]);
	return rc;
}
