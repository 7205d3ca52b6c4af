// SPDX-License-Identifier: Apache-2.0
/* A snapshot as an image of its own: a layer for each of those of the image below it and for each snapshot that it stands on, its
 * own the uppermost. The warden writes them, one after the other, to files without a name, which go with this process. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/kill_point.h"
#include "base/uuid.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "server/images/pull.h"
#include "server/native/native_impl.h"

#include "base/banned.h"

#define SPARE_PART 20 /* of the disk, that others need: a twentieth */

struct source { /* a layer, and its place in the runtime */
	bool is_snapshot;
	char snapshot[NATIVE_LAYER_LEN + 1];
	unsigned char blob[SHA256_SIZE];
};

struct exporting {
	struct exporting *prev, *next;
	struct native *n_;
	struct completion done;
	struct runtime_failure failure; /* of one that cannot begin */
	struct deferred later;
	char id[ID_MAX + 1], name[REFERENCE_TEXT_MAX], os[32], arch[32];
	struct buf config; /* of the image below it */
	struct source sources[MANIFEST_LAYERS_MAX];
	struct runtime_image_layer layers[MANIFEST_LAYERS_MAX];
	size_t n, at; /* layers, lowest first; those before the latter are there */
	int fd;       /* of the one that is being written */
};

static void exporting_free(struct exporting *x)
{
	*(x->prev ? &x->prev->next : &x->n_->exports) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	for (size_t i = 0; i < x->at; i++)
		closep(&x->layers[i].fd);
	closep(&x->fd);
	defer_cancel(&x->later);
	buf_done(&x->config);
	free(x);
}

static void fail(struct exporting *x, const struct runtime_failure *failure)
{
	struct completion done = x->done;
	struct runtime_failure f = *failure;

	exporting_free(x);
	completion_fail(&done, &f);
}

static void unavailable(struct exporting *x, const char *says)
{
	struct runtime_failure f = { .code = "SNAPSHOT_EXPORT_FAILED", .status = 503 };

	(void)err_set(&f.err, ERR_UNAVAILABLE, "%s", says);
	(void)snprintf(f.says, sizeof(f.says), "%s", says);
	fail(x, &f);
}

/* ---- documents ---- */

/* That of the image, with other layers and without the story of the old ones. */
static int write_config(const struct exporting *x, struct buf *b, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	const struct json_limits limits = { .bytes = MANIFEST_BYTES_MAX };
	const struct json *root = json_parse(&a, buf_str(&x->config), &limits, NULL, e);
	struct json_out o = json_out(b);
	char text[DIGEST_TEXT_MAX + 1];

	if (!root)
		return -1;
	json_open(&o, '{');
	for (const struct json *v = json_first(root); v; v = v->next)
		if (!str_is(v->key, "rootfs") && !str_is(v->key, "history"))
			json_key_str(&o, v->key), json_tree(&o, v);
	json_key(&o, "rootfs"), json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "layers");
	json_key(&o, "diff_ids"), json_open(&o, '[');
	for (size_t i = 0; i < x->n; i++) {
		digest_write(&x->layers[i].digest, text);
		json_cstr(&o, text);
	}
	json_close(&o, ']'), json_close(&o, '}');
	json_close(&o, '}');
	return b->failed ? err_no_memory(e) : 0;
}

static void write_descriptor(struct json_out *o, const char *type, const struct digest *digest, uint64_t size)
{
	char text[DIGEST_TEXT_MAX + 1];

	digest_write(digest, text);
	json_open(o, '{');
	json_key(o, "mediaType"), json_cstr(o, type);
	json_key(o, "digest"), json_cstr(o, text);
	json_key(o, "size"), json_uint(o, size);
	json_close(o, '}');
}

static int write_manifest(const struct exporting *x, struct str config, struct buf *b, struct err *e)
{
	struct json_out o = json_out(b);
	struct digest digest = digest_of(config, SHA256_SIZE);

	json_open(&o, '{');
	json_key(&o, "schemaVersion"), json_int(&o, 2);
	json_key(&o, "mediaType"), json_cstr(&o, TYPE_OCI_MANIFEST);
	json_key(&o, "config"), write_descriptor(&o, TYPE_OCI_CONFIG, &digest, config.n);
	json_key(&o, "layers"), json_open(&o, '[');
	for (size_t i = 0; i < x->n; i++)
		write_descriptor(&o, TYPE_OCI_LAYER, &x->layers[i].digest, x->layers[i].size);
	json_close(&o, ']');
	json_close(&o, '}');
	return b->failed ? err_no_memory(e) : 0;
}

static int tell(struct exporting *x, struct err *e)
{
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX);
	AUTO(buf_done) struct buf manifest = BUF_INIT(MANIFEST_BYTES_MAX);
	struct runtime_image_parts parts = { .name = x->name, .os = x->os, .arch = x->arch, .layers = x->layers, .n_layers = x->n };

	if (write_config(x, &config, e) < 0 || write_manifest(x, buf_str(&config), &manifest, e) < 0)
		return -1;
	parts.config = buf_str(&config);
	parts.manifest = buf_str(&manifest);
	parts.digest = digest_of(parts.manifest, SHA256_SIZE);
	if (x->done.fn.parts(&parts, NULL, x->done.arg))
		x->at = 0; /* the descriptors are the caller's now */
	exporting_free(x);
	return 0;
}

/* ---- layers ---- */

static void pack_next(struct exporting *x);

/* Two may be written at a time, and nobody else must go without. */
static uint64_t room_at(int fd)
{
	struct statvfs v;
	uint64_t spare;

	if (fstatvfs(fd, &v) < 0)
		return 0;
	spare = v.f_blocks / SPARE_PART;
	return v.f_bavail > spare ? (v.f_bavail - spare) * v.f_frsize / RUNTIME_EXPORTS_AT_ONCE : 0;
}

static void on_packed(const unsigned char digest[SHA256_SIZE], const struct runtime_failure *failure, void *arg)
{
	struct exporting *x = arg;
	struct stat st;

	if (failure) {
		fail(x, failure);
		return;
	}
	if (fstat(x->fd, &st) < 0) {
		unavailable(x, "a layer cannot be read");
		return;
	}
	x->layers[x->at].digest = digest_of_sha256(digest);
	x->layers[x->at].size = (uint64_t)st.st_size;
	x->layers[x->at++].fd = take_fd(&x->fd);
	KILL_POINT("server.export.packed");
	pack_next(x);
}

static void pack_next(struct exporting *x)
{
	const struct source *s = &x->sources[x->at];
	struct err e = { 0 };

	if (x->at == x->n) {
		if (tell(x, &e) < 0)
			unavailable(x, e.code == ERR_UNAVAILABLE ? e.msg : "the archive cannot be made");
		return;
	}
	x->fd = open(x->n_->scratch_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (x->fd < 0)
		unavailable(x, "no file can be made for a layer");
	else
		native_pack(x->n_, s->is_snapshot ? s->snapshot : NULL, s->is_snapshot ? NULL : s->blob, x->fd, room_at(x->fd), on_packed, x);
}

/* ---- beginning ---- */

static void on_begin(void *arg)
{
	struct exporting *x = arg;

	if (x->failure.code)
		fail(x, &x->failure);
	else
		pack_next(x);
}

static void cannot(struct exporting *x, const char *why)
{
	x->failure = (struct runtime_failure){ .prefix = "SNAPSHOT", .code = "NOT_EXPORTABLE", .status = 409 };
	(void)err_set(&x->failure.err, ERR_INVALID, "%s", why);
	(void)snprintf(x->failure.says, sizeof(x->failure.says), "snapshot '%s' cannot be exported: %s", x->id, why);
}

static int collect(struct exporting *x, const struct runtime_export *o, const struct pulled_image *im)
{
	struct str manifest, config;
	size_t n = native_count_layers(o->reference);
	const char *at = o->reference ? o->reference : "";

	images_documents(im, &manifest, &config);
	if (!buf_add_str(&x->config, config))
		return -1;
	(void)snprintf(x->os, sizeof(x->os), "%s", im->os);
	(void)snprintf(x->arch, sizeof(x->arch), "%s", im->arch);
	for (size_t i = 0; i < im->n_layers; i++)
		memcpy(x->sources[x->n++].blob, im->layers[i].name, DIGEST_NAME_SIZE);
	x->n += n;
	for (size_t i = 1; i <= n && native_next_layer(&at, x->sources[x->n - i].snapshot); i++) /* the uppermost comes first there */
		x->sources[x->n - i].is_snapshot = true;
	return 0;
}

void native_snapshot_export(struct runtime *rt, const struct runtime_export *o, runtime_parts_fn *fn, void *arg)
{
	struct native *n = native_of(rt);
	const struct pulled_image *im = o->image_digest ? images_find(n->puller, o->image_digest) : NULL;
	struct exporting *x = calloc(1, sizeof(*x));

	if (!x) {
		native_refuse(n, completion_parts(fn, arg));
		return;
	}
	*x = (struct exporting){ .n_ = n, .done = completion_parts(fn, arg), .next = n->exports, .fd = -1 };
	if (x->next)
		x->next->prev = x;
	n->exports = x;
	x->config = BUF_INIT(MANIFEST_BYTES_MAX + 1);
	(void)snprintf(x->id, sizeof(x->id), "%s", o->id);
	(void)snprintf(x->name, sizeof(x->name), "localhost/snapshot:%s", o->id);
	if (!im)
		cannot(x, "the image below it is not one of a registry or an archive");
	else if (im->n_layers + native_count_layers(o->reference) > MANIFEST_LAYERS_MAX)
		cannot(x, "it has more layers than an image may have");
	else if (collect(x, o, im) < 0)
		x->failure = native_no_memory;
	defer(&x->later, n->loop, on_begin, x, "export");
}

void native_exports_done(struct native *n)
{
	while (n->exports)
		exporting_free(n->exports);
}
