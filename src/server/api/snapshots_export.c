// SPDX-License-Identifier: Apache-2.0
/* /snapshots/ID/archive: a snapshot as an image of its own: a layer for each of those of the image below it and for each
 * snapshot that it stands on, its own the uppermost. The runtime writes them, one after the other, to files without a name,
 * which go with this process; then all of it is sent. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/kill_point.h"
#include "image/reference.h"
#include "server/api/api.h"
#include "server/api/archive.h"
#include "server/http/reply.h"
#include "server/api/snapshots.h"
#include "server/images/pull.h"

#include "base/banned.h"

#define EXPORTS_AT_ONCE 2
#define SPARE_PART 20 /* of the disk, that others need: a twentieth */
#define RETRY_S 10

struct source { /* a layer, and its place in the runtime */
	bool is_snapshot;
	char snapshot[RUNTIME_LAYER_LEN + 1];
	unsigned char blob[SHA256_SIZE];
};

struct exporting {
	struct plane_job job;
	struct reply *rp; /* NULL: nobody waits for it any more */
	char id[ID_MAX + 1], os[32], arch[32];
	struct buf config; /* of the image below it */
	struct source sources[MANIFEST_LAYERS_MAX];
	struct archive_layer layers[MANIFEST_LAYERS_MAX];
	size_t n, at; /* layers, lowest first; those before the latter are there */
	int fd;       /* of the one that is being written */
	struct archive archive;
};

static void exporting_free(struct exporting *x)
{
	for (size_t i = 0; i < x->at; i++)
		closep(&x->layers[i].fd);
	closep(&x->fd);
	buf_done(&x->config);
	archive_done(&x->archive);
	free(x);
}
DEFINE_AUTO(struct exporting *, exporting_free)

static void finish(struct exporting *x)
{
	x->job.plane->exports--;
	plane_job_end(&x->job);
	exporting_free(x);
}

static void on_sent(void *arg)
{
	finish(arg);
}

static void exporting_drop(struct plane_job *job)
{
	exporting_free(container_of(job, struct exporting, job));
}

/* The runtime writes on: it is let go when that is over. */
static void on_hangup(void *arg)
{
	struct exporting *x = arg;

	x->rp = NULL;
}

static void fail(struct exporting *x, const struct fault *f)
{
	if (x->rp)
		(void)reply_fault(x->rp, f);
	finish(x);
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

static int send_archive(struct exporting *x, struct err *e)
{
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX);
	AUTO(buf_done) struct buf manifest = BUF_INIT(MANIFEST_BYTES_MAX);
	char name[REFERENCE_TEXT_MAX];
	struct archive_image im = { .name = name, .os = x->os, .arch = x->arch, .layers = x->layers, .n_layers = x->n };

	(void)snprintf(name, sizeof(name), "localhost/snapshot:%s", x->id);
	if (write_config(x, &config, e) < 0 || write_manifest(x, buf_str(&config), &manifest, e) < 0)
		return -1;
	im.config = buf_str(&config);
	im.manifest = buf_str(&manifest);
	im.digest = digest_of(im.manifest, SHA256_SIZE);
	if (archive_fill(&x->archive, &im, e) < 0)
		return -1;
	x->at = 0; /* the descriptors are the archive's now */
	return archive_send(&x->archive, x->rp, on_sent, x, e);
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
	return v.f_bavail > spare ? (v.f_bavail - spare) * v.f_frsize / EXPORTS_AT_ONCE : 0;
}

static void on_packed(const unsigned char digest[SHA256_SIZE], const struct runtime_failure *failure, void *arg)
{
	struct exporting *x = arg;
	struct fault f;
	struct stat st;

	if (!x->rp) {
		finish(x);
		return;
	}
	if (failure || fstat(x->fd, &st) < 0) {
		if (failure)
			(void)fault_of_runtime(&f, x->job.plane->spec.runtime, failure);
		else
			(void)fault_set(&f, 500, NULL, "INTERNAL", "a layer cannot be read");
		fail(x, &f);
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
	struct runtime *rt = x->job.plane->spec.runtime;
	const struct source *s = &x->sources[x->at];
	const struct runtime_layer layer = { .snapshot = s->is_snapshot ? s->snapshot : NULL, .blob = s->is_snapshot ? NULL : s->blob };
	struct err e = { 0 };
	struct fault f;

	if (x->at == x->n) {
		if (send_archive(x, &e) < 0) {
			(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "%s", e.code == ERR_UNAVAILABLE ? e.msg : "the archive cannot be sent");
			fail(x, &f);
		}
		return;
	}
	x->fd = open(x->job.plane->spec.state_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (x->fd < 0) {
		(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "no file can be made for a layer");
		fail(x, &f);
		return;
	}
	rt->ops->pack(rt, &layer, x->fd, room_at(x->fd), on_packed, x);
}

/* ---- beginning ---- */

static int cannot(struct reply *rp, const struct snapshot *sn, const char *why)
{
	return reply_error(rp, 409, "SNAPSHOT::NOT_EXPORTABLE", "snapshot '%s' cannot be exported: %s", sn->row.id, why);
}

static struct exporting *exporting_new(const struct snapshot *sn, const struct pulled_image *im)
{
	AUTO(exporting_free) struct exporting *x = calloc(1, sizeof(*x));
	struct str manifest, config;

	if (!x)
		return NULL;
	x->fd = -1;
	x->config = BUF_INIT(MANIFEST_BYTES_MAX + 1);
	images_documents(im, &manifest, &config);
	if (!buf_add_str(&x->config, config))
		return NULL;
	(void)snprintf(x->id, sizeof(x->id), "%s", sn->row.id);
	(void)snprintf(x->os, sizeof(x->os), "%s", im->os);
	(void)snprintf(x->arch, sizeof(x->arch), "%s", im->arch);
	for (size_t i = 0; i < im->n_layers; i++)
		memcpy(x->sources[x->n++].blob, im->layers[i].name, DIGEST_NAME_SIZE);
	for (size_t i = sn->row.layers.n; i > 0; i--) {
		struct source *s = &x->sources[x->n++];

		s->is_snapshot = true;
		(void)snprintf(s->snapshot, sizeof(s->snapshot), "%s", sn->row.layers.items[i - 1]);
	}
	return take_ptr(&x);
}

static int begin(struct request *rq, struct reply *rp, const struct snapshot *sn, const struct pulled_image *im, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct exporting *x;

	if (im->n_layers + sn->row.layers.n > MANIFEST_LAYERS_MAX)
		return cannot(rp, sn, "it has more layers than an image may have");
	x = exporting_new(sn, im);
	if (!x)
		return err_no_memory(e);
	x->rp = rp;
	plane->exports++;
	plane_job_begin(plane, &x->job, exporting_drop);
	(void)reply_hold(rp, on_hangup, x);
	pack_next(x);
	return 0;
}

int snapshot_archive_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct snapshot *sn = request_snapshot(rq, rp);
	const struct plane *plane = plane_of(rq);
	const struct pulled_image *im;
	struct fault f;

	if (!sn)
		return 0;
	if (snapshot_check_use(sn, &f) < 0)
		return reply_fault(rp, &f);
	if (!request_can(rq, rp, CAPABILITY_SNAPSHOT_EXPORT))
		return 0;
	im = sn->row.image_digest ? images_find(plane->spec.puller, sn->row.image_digest) : NULL;
	if (!im)
		return cannot(rp, sn, "the image below it is not one of a registry or an archive");
	if (plane->exports < EXPORTS_AT_ONCE)
		return begin(rq, rp, sn, im, e);
	(void)fault_set(&f, 429, NULL, "TOO_MANY_REQUESTS", "too many snapshots are being exported");
	f.retry_s = RETRY_S;
	return reply_fault(rp, &f);
}
