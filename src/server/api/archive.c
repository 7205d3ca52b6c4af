// SPDX-License-Identifier: Apache-2.0
#include "server/api/archive.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "image/reference.h"
#include "image/tar_write.h"
#include "server/api/api.h"
#include "server/http/reply.h"

#include "base/banned.h"

#define PIECE ((size_t)64 * 1024)

void archive_done(struct archive *a)
{
	for (size_t i = 0; i < a->n; i++) {
		closep(&a->parts[i].fd);
		buf_done(&a->parts[i].bytes);
	}
	a->n = 0;
}

/* ---- what is in it ---- */

static struct archive_part *add_part(struct archive *a, const char *name)
{
	struct archive_part *p = &a->parts[a->n++];

	*p = (struct archive_part){ .fd = -1, .bytes = BUF_INIT(MANIFEST_BYTES_MAX + 1) };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

static void place_of(const struct digest *digest, char out[ARCHIVE_NAME_MAX])
{
	char hex[SHA512_HEX_LEN + 1];

	hex_encode(hex, digest->bytes, digest->size);
	(void)snprintf(out, ARCHIVE_NAME_MAX, "blobs/%s/%s", digest_kind(digest), hex);
}

static void add_document(struct archive *a, const struct digest *digest, struct str text)
{
	char place[ARCHIVE_NAME_MAX];

	place_of(digest, place);
	buf_add_str(&add_part(a, place)->bytes, text);
}

static void write_index(const struct runtime_image_parts *im, struct buf *b)
{
	struct json_out o = json_out(b);
	char text[DIGEST_TEXT_MAX + 1];

	digest_write(&im->digest, text);
	json_open(&o, '{');
	json_key(&o, "schemaVersion"), json_int(&o, 2);
	json_key(&o, "mediaType"), json_cstr(&o, TYPE_OCI_INDEX);
	json_key(&o, "manifests"), json_open(&o, '['), json_open(&o, '{');
	json_key(&o, "mediaType"), json_cstr(&o, manifest_media_type(im->manifest));
	json_key(&o, "digest"), json_cstr(&o, text);
	json_key(&o, "size"), json_uint(&o, im->manifest.n);
	json_key(&o, "platform"), json_open(&o, '{');
	json_key(&o, "architecture"), json_cstr(&o, im->arch);
	json_key(&o, "os"), json_cstr(&o, im->os);
	json_close(&o, '}');
	json_key(&o, "annotations"), json_open(&o, '{');
	json_key(&o, "io.containerd.image.name"), json_cstr(&o, im->name);
	json_close(&o, '}');
	json_close(&o, '}'), json_close(&o, ']');
	json_close(&o, '}');
}

/* For docker and all who read its archives. */
static void write_docker(const struct runtime_image_parts *im, const struct digest *config, struct buf *b)
{
	struct json_out o = json_out(b);
	char place[ARCHIVE_NAME_MAX];

	place_of(config, place);
	json_open(&o, '['), json_open(&o, '{');
	json_key(&o, "Config"), json_cstr(&o, place);
	json_key(&o, "RepoTags"), json_open(&o, '[');
	if (!strchr(im->name, '@'))
		json_cstr(&o, im->name);
	json_close(&o, ']');
	json_key(&o, "Layers"), json_open(&o, '[');
	for (size_t i = 0; i < im->n_layers; i++) {
		place_of(&im->layers[i].digest, place);
		json_cstr(&o, place);
	}
	json_close(&o, ']');
	json_close(&o, '}'), json_close(&o, ']');
}

static bool is_repeated(const struct runtime_image_parts *im, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (digest_eq(&im->layers[j].digest, &im->layers[i].digest))
			return true;
	return false;
}

static void add_layers(struct archive *a, const struct runtime_image_parts *im)
{
	for (size_t i = 0; i < im->n_layers; i++) {
		char place[ARCHIVE_NAME_MAX];
		struct archive_part *part;
		int fd = im->layers[i].fd;

		if (is_repeated(im, i)) {
			closep(&fd);
			continue;
		}
		place_of(&im->layers[i].digest, place);
		part = add_part(a, place);
		part->fd = fd;
		part->size = im->layers[i].size;
	}
}

int archive_fill(struct archive *a, const struct runtime_image_parts *im, struct err *e)
{
	struct manifest m;

	if (manifest_parse(im->manifest, &m, e) < 0)
		return -1;
	if (im->n_layers > MANIFEST_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d layers", MANIFEST_LAYERS_MAX);
	buf_add_str(&add_part(a, "oci-layout")->bytes, STR("{\"imageLayoutVersion\":\"1.0.0\"}"));
	write_index(im, &add_part(a, "index.json")->bytes);
	write_docker(im, &m.config.digest, &add_part(a, "manifest.json")->bytes);
	add_document(a, &im->digest, im->manifest);
	add_document(a, &m.config.digest, im->config);
	for (size_t i = 0; i < a->n; i++) {
		if (a->parts[i].bytes.failed) {
			archive_done(a);
			return err_no_memory(e);
		}
		a->parts[i].size = a->parts[i].bytes.n;
	}
	add_layers(a, im);
	return 0;
}

/* ---- sending it ---- */

static const char zeros[TAR_END_BYTES];

/* Bytes of the part at hand into OUT; -1: they cannot be read. */
static ssize_t take(const struct archive *a, char *out, size_t max)
{
	const struct archive_part *p = &a->parts[a->at];
	size_t n = (size_t)MIN((uint64_t)max, p->size - a->sent);

	if (p->fd >= 0)
		return n == 0 ? 0 : pread(p->fd, out, n, (off_t)a->sent);
	memcpy(out, p->bytes.p + a->sent, n);
	return (ssize_t)n;
}

/* -1: the archive cannot be finished. */
static int send_some(struct archive *a)
{
	const struct archive_part *p = &a->parts[a->at];
	unsigned char head[TAR_HEAD_MAX];
	char piece[PIECE];
	ssize_t n;

	if (!a->has_header) {
		reply_write(a->rp, (struct str){ (const char *)head, tar_head(p->name, p->size, head) });
		a->has_header = true;
	}
	n = take(a, piece, MIN(sizeof(piece), MAX(reply_room(a->rp), (size_t)1)));
	if (n < 0 || (n == 0 && a->sent < p->size))
		return -1;
	reply_write(a->rp, (struct str){ piece, (size_t)n });
	a->sent += (uint64_t)n;
	if (a->sent < p->size)
		return 0;
	reply_write(a->rp, (struct str){ zeros, tar_padding(p->size) });
	a->at++;
	a->sent = 0;
	a->has_header = false;
	return 0;
}

static void on_proceed(void *arg)
{
	struct archive *a = arg;
	int rc = 0;

	while (rc == 0 && a->at < a->n && reply_room(a->rp) > 0)
		rc = send_some(a);
	if (rc == 0 && a->at < a->n)
		return;
	if (rc == 0) {
		reply_write(a->rp, (struct str){ zeros, sizeof(zeros) });
		reply_end(a->rp);
	} else {
		reply_abort(a->rp);
	}
	a->ended(a->arg);
}

static uint64_t length_of(const struct archive *a)
{
	uint64_t n = TAR_END_BYTES;

	for (size_t i = 0; i < a->n; i++)
		n += tar_head_size(a->parts[i].name) + a->parts[i].size + tar_padding(a->parts[i].size);
	return n;
}

static void on_stop(void *arg)
{
	struct archive *a = arg;

	a->ended(a->arg);
}

int archive_send(struct archive *a, struct reply *rp, void (*ended)(void *arg), void *arg, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_stop };

	a->rp = rp;
	a->ended = ended;
	a->arg = arg;
	return reply_stream(rp, 200, "application/x-tar", length_of(a), &source, a, e);
}
