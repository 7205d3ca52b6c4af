// SPDX-License-Identifier: Apache-2.0
#include "fetch/load.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_out.h"
#include "fetch/asker.h"
#include "fetch/blob.h"
#include "fetch/load_impl.h"
#include "image/tar.h"

#include "base/banned.h"

#define PIECE ((size_t)128 * 1024)

/* ---- spooling ---- */

static int copy_in(struct load *l, int archive, struct err *e)
{
	static char piece[PIECE];
	struct fetch_message told = { .phase = FETCH_READING };

	for (;;) {
		ssize_t n = read(archive, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read the archive");
		if (n == 0)
			return l->spool.n > 0 ? 0 : err_set(e, ERR_INVALID, "the archive is empty");
		if (blob_add(&l->spool, piece, (size_t)n, e) < 0)
			return -1;
		told.bytes = l->spool.n;
		asker_progress(l->asker, &told, false);
	}
}

static int spool(struct load *l, int archive, struct err *e)
{
	const struct blob_spec spec = { .dir = l->blobs, .reserve = (uint64_t)l->order->reserve, .kind = SHA256_SIZE,
					.max = MANIFEST_BLOBS_MAX };

	if (blob_begin(&l->spool, &spec, e) < 0 || copy_in(l, archive, e) < 0)
		return -1;
	if (asker_is_gone(l->asker))
		return err_set(e, ERR_UNAVAILABLE, "cancelled by the client");
	l->fd = openat(l->blobs, l->spool.name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return l->fd < 0 ? err_sys(e, errno, "open the archive") : 0;
}

/* ---- the first look ---- */

static struct buf *document_of(struct load *l, const char *path)
{
	if (strcmp(path, "index.json") == 0)
		return &l->index;
	return strcmp(path, "manifest.json") == 0 ? &l->docker : NULL;
}

static int look_make(void *arg, const struct entry *en, struct err *e)
{
	struct load *l = arg;

	(void)e;
	l->to = en->kind == ENTRY_FILE && en->size <= MANIFEST_BYTES_MAX ? document_of(l, en->path) : NULL;
	if (l->to)
		buf_clear(l->to);
	l->is_layout = l->is_layout || strcmp(en->path, "oci-layout") == 0;
	return 0;
}

static int look_data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct load *l = arg;

	if (l->to && (at != l->to->n || !buf_add(l->to, p, n)))
		return err_set(e, ERR_INVALID, "a document with holes in it, or too large");
	return 0;
}

static int no_attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	(void)arg, (void)name, (void)value, (void)n, (void)e;
	return 0;
}

static int no_end(void *arg, struct err *e)
{
	(void)arg, (void)e;
	return 0;
}

int load_read(struct load *l, const struct tar_sink *sink, struct err *e)
{
	const struct tar_source source = { .fd = l->fd };
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;

	if (lseek(l->fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "read the archive from its start");
	return tar_read(&source, &limits, sink, l, e);
}

/* ---- a root file system ---- */

static void write_config(const struct load *l, const struct digest *diff_id, struct buf *b)
{
	struct json_out o = json_out(b);
	char digest[DIGEST_TEXT_MAX + 1];

	digest_write(diff_id, digest);
	json_open(&o, '{');
	json_key(&o, "os"), json_cstr(&o, l->order->os);
	json_key(&o, "architecture"), json_cstr(&o, l->order->arch);
	json_key(&o, "config"), json_open(&o, '{'), json_close(&o, '}');
	json_key(&o, "rootfs"), json_open(&o, '{');
	json_key(&o, "type"), json_cstr(&o, "layers");
	json_key(&o, "diff_ids"), json_open(&o, '['), json_cstr(&o, digest), json_close(&o, ']');
	json_close(&o, '}');
	json_close(&o, '}');
}

static int load_rootfs(struct load *l, struct err *e)
{
	AUTO(buf_done) struct buf config = BUF_INIT(MANIFEST_BYTES_MAX);
	struct made_layer layer = { .size = l->spool.n };
	struct digest diff_id;

	if (!l->order->name)
		return err_set(e, ERR_INVALID, "a root file system has no name of its own: give it one");
	if (tar_plain_digest(l->fd, &diff_id, &layer.packing, e) < 0)
		return -1;
	if (strcmp(layer.packing, "xz") == 0)
		return err_set(e, ERR_INVALID, "a layer can be plain, gzip or zstd, not xz");
	if (blob_keep(&l->spool, NULL, &layer.digest, e) < 0)
		return -1;
	write_config(l, &diff_id, &config);
	return load_found_made(l, l->order->name, &config, &layer, 1, e);
}

/* ---- all kinds ---- */

static void load_done(struct load *l)
{
	blob_drop(&l->spool);
	blob_drop(&l->blob);
	closep(&l->fd);
	buf_done(&l->index);
	buf_done(&l->docker);
	arena_done(&l->arena);
	map_done(&l->files);
}
DEFINE_AUTO_DONE(struct load, load_done)

static int load_kind(struct load *l, struct err *e)
{
	static const struct tar_sink look = { look_make, no_attr, look_data, no_end };

	if (load_read(l, &look, e) < 0)
		return -1;
	if (l->is_layout && l->index.n > 0)
		return load_layout(l, e);
	if (l->docker.n > 0 && load_is_docker(l))
		return load_docker(l, e);
	return load_rootfs(l, e);
}

int load_archive(const struct order *o, struct asker *a, int archive, int blobs, struct err *e)
{
	AUTO(load_done) struct load l = {
		.order = o, .asker = a, .blobs = blobs, .fd = -1, .spool = BLOB_INIT, .blob = BLOB_INIT,
		.index = BUF_INIT(MANIFEST_BYTES_MAX), .docker = BUF_INIT(MANIFEST_BYTES_MAX), .arena = ARENA_INIT(MANIFEST_ARENA_MAX),
	};

	if (archive < 0)
		return err_set(e, ERR_INTERNAL, "an order to load without an archive");
	if (tar_prepare(e) < 0 || spool(&l, archive, e) < 0 || load_kind(&l, e) < 0)
		return -1;
	return blobs_sync(blobs, e);
}
