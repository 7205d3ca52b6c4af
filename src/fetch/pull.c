// SPDX-License-Identifier: Apache-2.0
#include "fetch/pull.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "fetch/asker.h"
#include "fetch/layers.h"
#include "fetch/registry.h"
#include "image/manifest.h"

#include "base/banned.h"

static const char *const manifest_types[] = { TYPE_OCI_INDEX, TYPE_OCI_MANIFEST, TYPE_DOCKER_INDEX, TYPE_DOCKER_MANIFEST, NULL };
static const char *const no_types[] = { NULL };

/* ---- documents ---- */

struct document {
	struct buf text;
	struct digest digest; /* that it was asked for with, or its sha256; once it is right */
	char type[256];
	char claimed[160]; /* the digest that came with it; "": none */
};
#define DOCUMENT_INIT ((struct document){ .text = BUF_INIT(MANIFEST_BYTES_MAX) })

static void document_done(struct document *d)
{
	buf_done(&d->text);
}
DEFINE_AUTO_DONE(struct document, document_done)

static int get_document(struct registry *r, const char *path, const char *const *accept, struct document *d, struct err *e)
{
	AUTO(call_done) struct call c;

	call_init(&c, r, path);
	c.t.accept = accept;
	c.t.whole = &d->text;
	if (call_follow(&c, e) < 0)
		return -1;
	if (c.t.status == 404)
		return err_set(e, ERR_NOT_FOUND, "'%s' has no such image", SHOWN(str_of(r->at.host)));
	(void)snprintf(d->type, sizeof(d->type), "%s", c.t.type);
	(void)snprintf(d->claimed, sizeof(d->claimed), "%s", c.t.digest);
	return 0;
}

static int take_digest(struct document *d, const struct digest *want, struct err *e)
{
	if (!digest_is_of(want, buf_str(&d->text)))
		return err_set(e, ERR_INVALID, "the registry's answer is not what its digest says");
	d->digest = *want;
	return 0;
}

/* By its digest and, where that is known, its exact size. */
static int get_exact(struct registry *r, const char *kind, const struct blob_ref *want, const char *const *accept,
		     struct document *d, struct err *e)
{
	char path[512], digest[DIGEST_TEXT_MAX + 1];

	digest_write(&want->digest, digest);
	(void)snprintf(path, sizeof(path), "%s/%s/%s", r->order->repository, kind, digest);
	if (get_document(r, path, accept, d, e) < 0)
		return -1;
	if (want->size > 0 && d->text.n != want->size)
		return err_set(e, ERR_INVALID, "the registry's answer is not what its digest says");
	return take_digest(d, &want->digest, e);
}

static int get_tagged(struct registry *r, struct document *d, struct err *e)
{
	struct blob_ref want = { 0 };
	char path[512];

	if (digest_parse(str_of(r->order->tag), &want.digest))
		return get_exact(r, "manifests", &want, manifest_types, d, e);
	(void)snprintf(path, sizeof(path), "%s/manifests/%s", r->order->repository, r->order->tag);
	if (get_document(r, path, manifest_types, d, e) < 0)
		return -1;
	if (digest_parse(str_of(d->claimed), &want.digest))
		return take_digest(d, &want.digest, e); /* by this one it can be had again */
	d->digest = digest_of(buf_str(&d->text), SHA256_SIZE);
	return 0;
}

/* ---- from an index to a manifest ---- */

static int follow_index(struct registry *r, const struct platform *want, struct document *d, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	struct index_entry entry;
	const char *accept[] = { NULL, NULL };
	char type[256];

	if (index_pick(buf_str(&d->text), want, &a, &entry, e) < 0)
		return -1;
	accept[0] = entry.media_type;
	if (get_exact(r, "manifests", &entry.blob, accept, d, e) < 0)
		return -1;
	(void)snprintf(type, sizeof(type), "%s", entry.media_type);
	return strcmp(d->type, type) == 0 ?
		       0 : err_set(e, ERR_INVALID, "the index says '%s', the registry '%s'", SHOWN(str_of(type)), SHOWN(str_of(d->type)));
}

static int find_manifest(struct registry *r, const struct platform *want, struct document *d, struct err *e)
{
	enum manifest_kind kind;

	if (get_tagged(r, d, e) < 0)
		return -1;
	for (unsigned depth = 0;; depth++) {
		if (manifest_kind(buf_str(&d->text), str_of(d->type), &kind, e) < 0)
			return -1;
		if (kind == MANIFEST_IMAGE)
			return 0;
		if (depth == MANIFEST_INDEX_DEPTH_MAX)
			return err_set(e, ERR_INVALID, "more than %d indexes one in another", MANIFEST_INDEX_DEPTH_MAX);
		if (follow_index(r, want, d, e) < 0)
			return -1;
	}
}

static int check_config(struct str text, const struct manifest *m, const struct platform *want, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	struct image_config c;

	return image_config_parse(text, &a, &c, e) < 0 ? -1 : image_check(m, &c, want, e);
}

/* ---- all of it ---- */

static void tell_phase(struct asker *a, enum fetch_phase phase)
{
	asker_progress(a, &(struct fetch_message){ .phase = phase }, true);
}

static int pull_from(struct registry *r, int blobs, struct err *e)
{
	AUTO(document_done) struct document manifest = DOCUMENT_INIT;
	AUTO(document_done) struct document config = DOCUMENT_INIT;
	const struct platform want = { r->order->os, r->order->arch };
	struct asker *a = r->session.asker;
	struct layers_spec layers = { .registry = r, .blobs = blobs };
	struct manifest m;

	if (find_manifest(r, &want, &manifest, e) < 0 || manifest_parse(buf_str(&manifest.text), &m, e) < 0)
		return -1;
	if (get_exact(r, "blobs", &m.config, no_types, &config, e) < 0 || check_config(buf_str(&config.text), &m, &want, e) < 0)
		return -1;
	if (asker_found(a, &manifest.digest, NULL, buf_str(&manifest.text), buf_str(&config.text), e) < 0 ||
	    asker_wants(a, layers.wanted, e) < 0)
		return -1;
	layers.manifest = &m;
	return layers_fetch(&layers, e);
}

static int pull_at(const struct registry_spec *spec, int blobs, struct err *e)
{
	AUTO(registry_close) struct registry r = { 0 };

	return registry_open(&r, spec, e) < 0 ? -1 : pull_from(&r, blobs, e);
}

static struct registry_spec spec_of(const struct order *o, struct asker *a, const struct own_addresses *own)
{
	return (struct registry_spec){ .order = o, .asker = a, .own = own, .host = o->registry,
				       .deadline_ms = clock_mono_ms() + (uint64_t)o->seconds * 1000 };
}

/* Whose images are somebody's is asked at the registry alone: a mirror could not tell. */
int pull_image(const struct order *o, struct asker *a, int blobs, struct err *e)
{
	AUTO(own_addresses_done) struct own_addresses own = OWN_ADDRESSES_INIT;
	const struct registry_rule *rule = order_rule(o, str_of(o->registry));
	struct registry_spec spec, mirror;

	if (own_addresses_read(&own, e) < 0)
		return -1;
	spec = mirror = spec_of(o, a, &own);
	tell_phase(a, FETCH_RESOLVING);
	if (rule && rule->mirror && !o->username) {
		mirror.host = rule->mirror;
		mirror.is_mirror = true;
		if (pull_at(&mirror, blobs, &(struct err){ 0 }) == 0) /* whatever went wrong there may be right at the registry */
			return 0;
	}
	if (asker_is_gone(a))
		return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
	return pull_at(&spec, blobs, e);
}

static int head(struct registry *r, struct err *e)
{
	AUTO(call_done) struct call c;
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/manifests/%s", r->order->repository, r->order->tag);
	call_init(&c, r, path);
	c.t.accept = manifest_types;
	c.t.is_head = true;
	if (call_follow(&c, e) < 0)
		return -1;
	if (c.t.status == 404)
		return err_set(e, ERR_NOT_FOUND, "'%s' no longer has this image", SHOWN(str_of(r->at.host)));
	return 0;
}

int pull_check(const struct order *o, struct asker *a, struct err *e)
{
	AUTO(own_addresses_done) struct own_addresses own = OWN_ADDRESSES_INIT;
	AUTO(registry_close) struct registry r = { 0 };
	struct registry_spec spec;

	if (own_addresses_read(&own, e) < 0)
		return -1;
	spec = spec_of(o, a, &own);
	return registry_open(&r, &spec, e) < 0 ? -1 : head(&r, e);
}
