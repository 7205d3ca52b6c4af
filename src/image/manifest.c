// SPDX-License-Identifier: Apache-2.0
#include "image/manifest.h"

#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "image/reference.h"

#include "base/banned.h"

#define TYPE_MAX 255 /* bytes of a media type */
#define SAID_MAX 8   /* platforms that an error lists */

struct platform platform_of_host(void)
{
#if defined(__x86_64__)
	return (struct platform){ "linux", "amd64" };
#else
	return (struct platform){ "linux", "arm64" };
#endif
}

/* ---- what all of them have ---- */

struct descriptor {
	const char *media_type, *digest;
	int64_t size;
	struct string_list urls;
	const char *os, *arch, *variant;
	bool has_platform;
	const char *ref_name, *full_name; /* annotations */
};

static const struct field platform_fields[] = {
	FIELD(struct descriptor, os, FIELD_STRING, "os", .max = 64),
	FIELD(struct descriptor, arch, FIELD_STRING, "architecture", .max = 64),
	FIELD(struct descriptor, variant, FIELD_STRING, "variant", .max = 64),
	{ 0 },
};

static const struct field annotation_fields[] = {
	FIELD(struct descriptor, ref_name, FIELD_STRING, "org.opencontainers.image.ref.name", .max = REFERENCE_TEXT_MAX),
	FIELD(struct descriptor, full_name, FIELD_STRING, "io.containerd.image.name", .max = REFERENCE_TEXT_MAX),
	{ 0 },
};

/* The fields of platform and annotations lie in the descriptor itself. */
static const struct field descriptor_fields[] = {
	FIELD(struct descriptor, media_type, FIELD_STRING, "mediaType", .max = TYPE_MAX),
	FIELD(struct descriptor, digest, FIELD_STRING, "digest", .required = true, .max = 256),
	FIELD(struct descriptor, size, FIELD_INT, "size", .required = true, .min = 0, .max = INT64_MAX),
	FIELD(struct descriptor, urls, FIELD_STRINGS, "urls", .min = 0, .max = 64),
	{ .name = "platform", .kind = FIELD_OBJECT, .offset = 0, .fields = platform_fields,
	  .has = HAS(struct descriptor, has_platform) },
	{ .name = "annotations", .kind = FIELD_OBJECT, .offset = 0, .fields = annotation_fields },
	{ 0 },
};

static const struct descriptor no_descriptor = { .media_type = "", .os = "", .arch = "", .variant = "", .ref_name = "",
						 .full_name = "" };

struct document {
	int64_t schema;
	const char *media_type;
	struct descriptor config;
	bool has_config;
	struct object_list layers, manifests;
	bool has_layers, has_manifests;
	const struct json *fs_layers; /* of what was before */
};

static const struct field document_fields[] = {
	FIELD(struct document, schema, FIELD_INT, "schemaVersion", .required = true, .min = 1, .max = 1000),
	FIELD(struct document, media_type, FIELD_STRING, "mediaType", .max = TYPE_MAX),
	FIELD(struct document, config, FIELD_OBJECT, "config", .fields = descriptor_fields,
	      .has = HAS(struct document, has_config)),
	FIELD(struct document, layers, FIELD_OBJECTS, "layers", .fields = descriptor_fields, .size = sizeof(struct descriptor),
	      .defaults = &no_descriptor, .min = 0, .max = MANIFEST_LAYERS_MAX, .has = HAS(struct document, has_layers)),
	FIELD(struct document, manifests, FIELD_OBJECTS, "manifests", .fields = descriptor_fields,
	      .size = sizeof(struct descriptor), .defaults = &no_descriptor, .min = 0, .max = MANIFEST_INDEX_MAX,
	      .has = HAS(struct document, has_manifests)),
	FIELD(struct document, fs_layers, FIELD_ANY, "fsLayers"),
	{ 0 },
};

static int read_json(struct str text, struct arena *a, const struct field *fields, void *out, struct err *e)
{
	const struct json_limits limits = { .bytes = MANIFEST_BYTES_MAX };
	struct json *root = json_parse(a, text, &limits, NULL, e);
	struct decode *d;

	if (!root)
		return -1;
	d = arena_alloc(a, sizeof(*d)); /* large for the stack */
	if (!d)
		return err_no_memory(e);
	d->arena = a;
	d->strict = true;
	return decode(d, root, fields, out, e);
}

static int check_shape(const struct document *doc, struct err *e)
{
	if (doc->schema == 1 || doc->fs_layers)
		return err_set(e, ERR_INVALID, "the manifest has schema version 1, which cannot be verified");
	if (doc->schema != 2)
		return err_set(e, ERR_INVALID, "the manifest is of version %lld, not 2", (long long)doc->schema);
	if (doc->has_manifests && (doc->has_layers || doc->has_config))
		return err_set(e, ERR_INVALID, "the manifest has both 'manifests' and 'layers'");
	if (!doc->has_manifests && !(doc->has_layers && doc->has_config))
		return err_set(e, ERR_INVALID, "the manifest has neither 'manifests' nor 'config' and 'layers'");
	return 0;
}

static int read_document(struct str text, struct arena *a, struct document *doc, struct err *e)
{
	*doc = (struct document){ .media_type = "", .config = no_descriptor };
	if (read_json(text, a, document_fields, doc, e) < 0)
		return err_wrap(e, "manifest");
	return check_shape(doc, e);
}

static int blob_of(const struct descriptor *d, const char *what, struct blob_ref *ret, struct err *e)
{
	if (!digest_parse(str_of(d->digest), &ret->digest))
		return err_set(e, ERR_INVALID, "%s: the digest '%s' is neither sha256 and 64 digits nor sha512 and 128", what,
			       SHOWN(str_of(d->digest)));
	ret->size = (uint64_t)d->size;
	return 0;
}

/* ---- kinds ---- */

static bool is_index_type(struct str type)
{
	return str_is(type, TYPE_OCI_INDEX) || str_is(type, TYPE_DOCKER_INDEX);
}

static bool is_image_type(struct str type)
{
	return str_is(type, TYPE_OCI_MANIFEST) || str_is(type, TYPE_DOCKER_MANIFEST);
}

static int check_type(struct str type, enum manifest_kind kind, struct err *e)
{
	if (type.n == 0 || (kind == MANIFEST_INDEX ? is_index_type(type) : is_image_type(type)))
		return 0;
	return err_set(e, ERR_INVALID, "the manifest is %s, but its media type is '%s'",
		       kind == MANIFEST_INDEX ? "an index" : "that of an image", SHOWN(type));
}

int manifest_kind(struct str text, struct str type, enum manifest_kind *ret, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	struct document doc;
	enum manifest_kind kind;

	if (read_document(text, &a, &doc, e) < 0)
		return -1;
	kind = doc.has_manifests ? MANIFEST_INDEX : MANIFEST_IMAGE;
	if (type.n > 0 && doc.media_type[0] && !str_is(type, doc.media_type))
		return err_set(e, ERR_INVALID, "the manifest came as '%s' and says '%s'", SHOWN(type), SHOWN(str_of(doc.media_type)));
	if (check_type(type, kind, e) < 0 || check_type(str_of(doc.media_type), kind, e) < 0)
		return -1;
	*ret = kind;
	return 0;
}

const char *manifest_media_type(struct str text)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	struct document doc;

	if (read_document(text, &a, &doc, &(struct err){ 0 }) == 0 && strcmp(doc.media_type, TYPE_DOCKER_MANIFEST) == 0)
		return TYPE_DOCKER_MANIFEST;
	return TYPE_OCI_MANIFEST;
}

/* ---- an index ---- */

/* How well an entry fits: the plain form of an architecture before its variants; 0: not at all. */
static unsigned fit(const struct descriptor *d, const struct platform *want)
{
	static const char *const plain[] = { "", "v8", "v1" };

	if (!d->has_platform || strcmp(d->os, want->os) != 0 || strcmp(d->arch, want->arch) != 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (strcmp(d->variant, plain[i]) == 0)
			return 3;
	return 2;
}

static int no_platform(const struct document *doc, const struct platform *want, struct err *e)
{
	const struct descriptor *d = doc->manifests.items;
	AUTO(buf_done) struct buf list = BUF_INIT(200);
	size_t n = 0;

	for (size_t i = 0; d && i < doc->manifests.n && n < SAID_MAX; i++)
		if (d[i].has_platform && strcmp(d[i].os, "unknown") != 0 && utf8_valid(str_of(d[i].os)))
			buf_addf(&list, "%s%s/%s", n++ > 0 ? ", " : "", SHOWN(str_of(d[i].os)), SHOWN(str_of(d[i].arch)));
	return err_set(e, ERR_NOT_FOUND, "there is none for %s/%s, only for: %s", want->os, want->arch, n > 0 ? buf_z(&list) : "nothing");
}

int index_pick(struct str text, const struct platform *want, struct arena *a, struct index_entry *ret, struct err *e)
{
	struct document doc;
	const struct descriptor *best = NULL, *d;
	unsigned best_fit = 0;

	if (read_document(text, a, &doc, e) < 0)
		return -1;
	if (!doc.has_manifests)
		return err_set(e, ERR_INVALID, "the manifest is none of an index");
	d = doc.manifests.items;
	for (size_t i = 0; d && i < doc.manifests.n; i++) {
		unsigned f = fit(&d[i], want);

		if (f > best_fit) {
			best_fit = f;
			best = &d[i];
		}
	}
	if (!best && d && doc.manifests.n == 1 && !d[0].has_platform) /* its configuration will tell */
		best = &d[0];
	if (!best)
		return no_platform(&doc, want, e);
	if (!is_image_type(str_of(best->media_type)) && !is_index_type(str_of(best->media_type)))
		return err_set(e, ERR_INVALID, "the index names something of the media type '%s'", SHOWN(str_of(best->media_type)));
	if ((uint64_t)best->size > MANIFEST_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the manifest has more than %zu bytes", MANIFEST_BYTES_MAX);
	ret->media_type = best->media_type;
	return blob_of(best, "index", &ret->blob, e);
}

/* ---- a layout ---- */

int layout_list(struct str text, const struct platform *want, struct arena *a, struct layout_entry ret[LAYOUT_IMAGES_MAX],
		size_t *ret_n, struct err *e)
{
	struct document doc;
	const struct descriptor *d;

	if (read_document(text, a, &doc, e) < 0)
		return -1;
	if (!doc.has_manifests || doc.manifests.n > LAYOUT_IMAGES_MAX)
		return err_set(e, doc.has_manifests ? ERR_LIMIT : ERR_INVALID, "the layout has no index of at most %d images",
			       LAYOUT_IMAGES_MAX);
	d = doc.manifests.items;
	for (size_t i = 0; i < doc.manifests.n; i++) {
		if (blob_of(&d[i], "index", &ret[i].blob, e) < 0)
			return -1;
		if (ret[i].blob.size > MANIFEST_BYTES_MAX)
			return err_set(e, ERR_LIMIT, "the manifest has more than %zu bytes", MANIFEST_BYTES_MAX);
		ret[i].media_type = d[i].media_type;
		ret[i].name = d[i].full_name[0] ? d[i].full_name : d[i].ref_name;
		ret[i].is_other = d[i].has_platform && fit(&d[i], want) == 0;
	}
	*ret_n = doc.manifests.n;
	return 0;
}

/* ---- a manifest ---- */

static bool is_layer_type(const char *type)
{
	static const char *const types[] = {
		TYPE_OCI_LAYER, TYPE_OCI_LAYER "+gzip", TYPE_OCI_LAYER "+zstd", "application/vnd.docker.image.rootfs.diff.tar",
		"application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.diff.tar.zstd",
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static int take_layer(const struct descriptor *d, struct manifest *m, struct err *e)
{
	struct blob_ref *to = &m->layers[m->n_layers];

	if (!is_layer_type(d->media_type))
		return err_set(e, ERR_INVALID, "layer %zu is of the media type '%s', which is no part of a file system", m->n_layers + 1,
			       SHOWN(str_of(d->media_type)));
	if (d->urls.n > 0)
		return err_set(e, ERR_INVALID, "layer %zu is to be had from elsewhere", m->n_layers + 1);
	if (blob_of(d, "layer", to, e) < 0)
		return -1;
	if (to->size == 0)
		return err_set(e, ERR_INVALID, "layer %zu has no bytes", m->n_layers + 1);
	if (__builtin_add_overflow(m->layers_bytes, to->size, &m->layers_bytes) || m->layers_bytes > MANIFEST_BLOBS_MAX)
		return err_set(e, ERR_LIMIT, "the layers have more than %llu bytes", (unsigned long long)MANIFEST_BLOBS_MAX);
	m->n_layers++;
	return 0;
}

int manifest_parse(struct str text, struct manifest *ret, struct err *e)
{
	static const char *const config_types[] = { TYPE_OCI_CONFIG, "application/vnd.docker.container.image.v1+json" };
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	struct document doc;
	const struct descriptor *layers;

	*ret = (struct manifest){ 0 };
	if (read_document(text, &a, &doc, e) < 0)
		return -1;
	if (!doc.has_layers)
		return err_set(e, ERR_INVALID, "the manifest is that of an index");
	if (strcmp(doc.config.media_type, config_types[0]) != 0 && strcmp(doc.config.media_type, config_types[1]) != 0)
		return err_set(e, ERR_INVALID, "the configuration is of the media type '%s': this is no image of a file system",
			       SHOWN(str_of(doc.config.media_type)));
	if (blob_of(&doc.config, "configuration", &ret->config, e) < 0)
		return -1;
	if (ret->config.size > MANIFEST_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the configuration has more than %zu bytes", MANIFEST_BYTES_MAX);
	layers = doc.layers.items;
	for (size_t i = 0; i < doc.layers.n; i++)
		if (take_layer(&layers[i], ret, e) < 0)
			return -1;
	return ret->n_layers > 0 ? 0 : err_set(e, ERR_INVALID, "the image has no layers");
}
