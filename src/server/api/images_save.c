// SPDX-License-Identifier: Apache-2.0
/* /images/save: an image as an archive that others can read: an OCI layout with docker's manifest.json in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "image/tar_write.h"
#include "server/api/api.h"
#include "server/api/images.h"
#include "server/api/reply.h"
#include "server/pull.h"

#include "base/banned.h"

#define PIECE ((size_t)64 * 1024)
#define DOCUMENT_MAX ((size_t)256 * 1024)
#define PLACE_MAX 80
#define PARTS_MAX (MANIFEST_LAYERS_MAX + 5)

/* A file of the archive: bytes at hand, or a blob. */
struct part {
	char name[PLACE_MAX];
	struct buf bytes;
	int fd; /* -1: bytes */
	uint64_t size;
};

struct saving {
	struct plane_job job;
	struct reply *rp;
	struct pull op;
	struct part parts[PARTS_MAX];
	size_t n, at;  /* parts; the one that is being sent */
	uint64_t sent; /* of it */
	bool has_header;
};

static void saving_free(struct saving *s)
{
	pull_cancel(&s->op);
	for (size_t i = 0; i < s->n; i++) {
		closep(&s->parts[i].fd);
		buf_done(&s->parts[i].bytes);
	}
	free(s);
}

static void saving_drop(struct plane_job *job)
{
	saving_free(container_of(job, struct saving, job));
}

static void on_hangup(void *arg)
{
	struct saving *s = arg;

	plane_job_end(&s->job);
	saving_free(s);
}

/* ---- what is in it ---- */

static struct part *add_part(struct saving *s, const char *name)
{
	struct part *p = &s->parts[s->n++];

	*p = (struct part){ .fd = -1, .bytes = BUF_INIT(MANIFEST_BYTES_MAX + 1) };
	(void)snprintf(p->name, sizeof(p->name), "%s", name);
	return p;
}

static void place_of(const unsigned char digest[SHA256_SIZE], char out[PLACE_MAX])
{
	char hex[SHA256_HEX_LEN + 1];

	hex_encode(hex, digest, SHA256_SIZE);
	(void)snprintf(out, PLACE_MAX, "blobs/sha256/%s", hex);
}

static void add_document(struct saving *s, struct str text)
{
	unsigned char digest[SHA256_SIZE];
	char place[PLACE_MAX];

	sha256(text, digest);
	place_of(digest, place);
	buf_add_str(&add_part(s, place)->bytes, text);
}

static void write_index(const struct pulled_image *im, struct str manifest, struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	json_key(&o, "schemaVersion"), json_int(&o, 2);
	json_key(&o, "mediaType"), json_cstr(&o, TYPE_OCI_INDEX);
	json_key(&o, "manifests"), json_open(&o, '['), json_open(&o, '{');
	json_key(&o, "mediaType"), json_cstr(&o, manifest_media_type(manifest));
	json_key(&o, "digest"), json_cstr(&o, im->digest);
	json_key(&o, "size"), json_uint(&o, manifest.n);
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
static void write_docker(const struct pulled_image *im, struct str config, struct buf *b)
{
	struct json_out o = json_out(b);
	unsigned char digest[SHA256_SIZE];
	char place[PLACE_MAX];

	sha256(config, digest);
	place_of(digest, place);
	json_open(&o, '['), json_open(&o, '{');
	json_key(&o, "Config"), json_cstr(&o, place);
	json_key(&o, "RepoTags"), json_open(&o, '[');
	if (!strchr(im->name, '@'))
		json_cstr(&o, im->name);
	json_close(&o, ']');
	json_key(&o, "Layers"), json_open(&o, '[');
	for (size_t i = 0; i < im->n_layers; i++) {
		place_of(im->layers[i].digest, place);
		json_cstr(&o, place);
	}
	json_close(&o, ']');
	json_close(&o, '}'), json_close(&o, ']');
}

static bool is_repeated(const struct pulled_image *im, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (memcmp(im->layers[j].digest, im->layers[i].digest, SHA256_SIZE) == 0)
			return true;
	return false;
}

/* Descriptors now: the blobs may be swept the next moment. */
static int add_layers(struct saving *s, struct puller *p, const struct pulled_image *im, struct err *e)
{
	for (size_t i = 0; i < im->n_layers; i++) {
		char place[PLACE_MAX];
		struct part *part;
		int fd;

		if (is_repeated(im, i))
			continue;
		fd = pull_open_blob(p, im->layers[i].digest, e);
		if (fd < 0)
			return -1;
		place_of(im->layers[i].digest, place);
		part = add_part(s, place);
		part->fd = fd;
		part->size = im->layers[i].size;
	}
	return 0;
}

static int collect(struct saving *s, struct puller *p, const struct pulled_image *im, struct err *e)
{
	struct str manifest, config;

	images_documents(im, &manifest, &config);
	buf_add_str(&add_part(s, "oci-layout")->bytes, STR("{\"imageLayoutVersion\":\"1.0.0\"}"));
	write_index(im, manifest, &add_part(s, "index.json")->bytes);
	write_docker(im, config, &add_part(s, "manifest.json")->bytes);
	add_document(s, manifest);
	add_document(s, config);
	for (size_t i = 0; i < s->n; i++) {
		if (s->parts[i].bytes.failed)
			return err_no_memory(e);
		s->parts[i].size = s->parts[i].bytes.n;
	}
	return add_layers(s, p, im, e);
}

/* ---- sending it ---- */

static const char zeros[TAR_END_BYTES];

/* Bytes of the part at hand into OUT; -1: they cannot be read. */
static ssize_t take(const struct saving *s, char *out, size_t max)
{
	const struct part *p = &s->parts[s->at];
	size_t n = (size_t)MIN((uint64_t)max, p->size - s->sent);

	if (p->fd >= 0)
		return n == 0 ? 0 : pread(p->fd, out, n, (off_t)s->sent);
	memcpy(out, p->bytes.p + s->sent, n);
	return (ssize_t)n;
}

/* -1: the archive cannot be finished. */
static int send_some(struct saving *s)
{
	const struct part *p = &s->parts[s->at];
	unsigned char header[TAR_RECORD];
	char piece[PIECE];
	ssize_t n;

	if (!s->has_header) {
		if (!tar_header(p->name, p->size, header))
			return -1;
		reply_write(s->rp, (struct str){ (const char *)header, sizeof(header) });
		s->has_header = true;
	}
	n = take(s, piece, MIN(sizeof(piece), MAX(reply_room(s->rp), (size_t)1)));
	if (n < 0 || (n == 0 && s->sent < p->size))
		return -1;
	reply_write(s->rp, (struct str){ piece, (size_t)n });
	s->sent += (uint64_t)n;
	if (s->sent < p->size)
		return 0;
	reply_write(s->rp, (struct str){ zeros, tar_padding(p->size) });
	s->at++;
	s->sent = 0;
	s->has_header = false;
	return 0;
}

static void on_proceed(void *arg)
{
	struct saving *s = arg;
	int rc = 0;

	while (rc == 0 && s->at < s->n && reply_room(s->rp) > 0)
		rc = send_some(s);
	if (rc == 0 && s->at < s->n)
		return;
	if (rc == 0) {
		reply_write(s->rp, (struct str){ zeros, sizeof(zeros) });
		reply_end(s->rp);
	} else {
		reply_abort(s->rp);
	}
	plane_job_end(&s->job);
	saving_free(s);
}

static uint64_t length_of(const struct saving *s)
{
	uint64_t n = TAR_END_BYTES;

	for (size_t i = 0; i < s->n; i++)
		n += TAR_RECORD + s->parts[i].size + tar_padding(s->parts[i].size);
	return n;
}

static int begin(struct saving *s, const struct pulled_image *im, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_hangup };

	if (collect(s, s->job.plane->spec.puller, im, e) < 0)
		return -1;
	return reply_stream(s->rp, 200, "application/x-tar", length_of(s), &source, s, e);
}

static void on_pulled(const struct pulled_image *im, const struct err *e, void *arg)
{
	struct saving *s = arg;
	struct err why = { 0 };
	unsigned status;

	if (im && begin(s, im, &why) == 0)
		return;
	if (e)
		why = *e;
	status = why.code == ERR_DENIED ? 403 : http_status_of(&why);
	plane_job_end(&s->job);
	(void)reply_error(s->rp, status, why.code == ERR_NOT_FOUND ? "IMAGES::NOT_FOUND" : "IMAGES::PULL_FAILED", "%s",
			  status >= 500 && !e ? "something went wrong" : why.msg);
	saving_free(s);
}

int images_save_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct puller *p = request_puller(rq, rp);
	struct image_request ir = { 0 };
	struct saving *s;
	int rc = p ? image_request_decode(rq, rp, &ir, e) : 1;

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_no_memory(e);
	s->rp = rp;
	rc = reply_hold(rp, on_hangup, s);
	if (rc < 0) {
		free(s);
		return -1;
	}
	plane_job_begin(plane_of(rq), &s->job, saving_drop);
	pull_start(p, &(struct pull_order){ .uri = ir.uri, .username = ir.auth.username, .password = ir.auth.password,
					    .os = ir.platform.os, .arch = ir.platform.arch, .with_blobs = true },
		   &s->op, NULL, on_pulled, s);
	return 0;
}
