// SPDX-License-Identifier: Apache-2.0
/* image/manifest.h - the documents of an image: index, manifest and configuration, of OCI and Docker.
 *
 * They are hostile. What is decoded here obeys the limits of I2, names one kind of content each (I1), and has
 * a checked configuration (I6). The caller verifies that the bytes have the digest that was requested.
 * Strings and lists live in the arena. Errors are ERR_INVALID or ERR_LIMIT, with text for the user who named
 * the image. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/digest.h"
#include "base/str.h"

struct arena;
struct err;

#define MANIFEST_BYTES_MAX ((size_t)4 << 20) /* of an index, a manifest, a configuration */
#define MANIFEST_LAYERS_MAX 128
#define MANIFEST_BLOBS_MAX (UINT64_C(20) << 30) /* of all layers together, as they are stored */
#define MANIFEST_INDEX_DEPTH_MAX 2              /* an index may name another one */
#define MANIFEST_INDEX_MAX 1024                 /* entries */
#define MANIFEST_ARENA_MAX ((size_t)32 << 20)
#define MANIFEST_ENV_MAX 256
#define MANIFEST_ENV_BYTES_MAX ((size_t)128 << 10)
#define MANIFEST_ARGS_MAX 256

#define TYPE_OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define TYPE_OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define TYPE_OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define TYPE_OCI_LAYER "application/vnd.oci.image.layer.v1.tar"
#define TYPE_DOCKER_INDEX "application/vnd.docker.distribution.manifest.list.v2+json"
#define TYPE_DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"

struct platform {
	const char *os, *arch; /* "linux", "amd64" */
};
struct platform platform_of_host(void);

struct blob_ref { /* what a document says about another one, or about a layer */
	struct digest digest;
	uint64_t size;
};

enum manifest_kind { MANIFEST_INDEX, MANIFEST_IMAGE };

/* What a document is, by its own word and by TYPE, the media type that came with it ("": nothing came), which
 * must agree. */
int manifest_kind(struct str text, struct str type, enum manifest_kind *ret, struct err *e);

/* The media type of the manifest of an image: what it says of itself, or OCI's. It is not looked at any
 * closer. */
const char *manifest_media_type(struct str text);

/* The entry of an index that fits the platform. ERR_NOT_FOUND names those that there are. */
struct index_entry {
	struct blob_ref blob;
	const char *media_type; /* of an image or of an index, which the document will be held to */
};
int index_pick(struct str text, const struct platform *want, struct arena *a, struct index_entry *ret,
	       struct err *e);

/* The images of a layout: the entries of its index, each with the name that the writer gave it. */
#define LAYOUT_IMAGES_MAX 64
struct layout_entry {
	struct blob_ref blob;
	const char *media_type, *name; /* the latter "": none */
	bool is_other; /* it says that it is for another platform */
};
int layout_list(struct str text, const struct platform *want, struct arena *a,
		struct layout_entry ret[LAYOUT_IMAGES_MAX],
		size_t *ret_n, struct err *e);

struct manifest {
	struct blob_ref config;
	struct blob_ref layers[MANIFEST_LAYERS_MAX]; /* lowest first */
	size_t n_layers;
	uint64_t layers_bytes; /* of all of them */
};
int manifest_parse(struct str text, struct manifest *ret, struct err *e);

struct image_config {
	const char *os, *arch; /* "": not said */
	struct string_list env; /* "NAME=value" */
	struct string_list entrypoint, cmd;
	const char *workdir, *user; /* NULL: not said; what they say is for image_check_start() to judge */
	struct digest diff_ids[MANIFEST_LAYERS_MAX];
	size_t n_diff_ids;
};
int image_config_parse(struct str text, struct arena *a, struct image_config *ret, struct err *e);

/* Whether programs can be started as this user and in this directory (NULL: not said) as far as the words
 * tell. An image that names nonsense can be pulled and kept, but no sandbox can be made of it: ERR_INVALID,
 * which names USER or WORKDIR (I6). */
int image_check_start(const char *user, const char *workdir, struct err *e);

/* Whether configuration and manifest are of one image, and of one for this platform. */
int image_check(const struct manifest *m, const struct image_config *c, const struct platform *want,
		struct err *e);
