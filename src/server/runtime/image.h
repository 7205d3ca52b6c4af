// SPDX-License-Identifier: Apache-2.0
/* server/runtime/image.h - images as a runtime keeps them: what is there, what is asked for, and the parts of one that leaves. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decode.h"
#include "base/digest.h"
#include "base/str.h"

struct runtime_failure;
struct runtime_progress;

struct runtime_image {
	const char *name, *os, *arch; /* the former whole: "docker.io/library/python:3.12" */
	const char *digest;           /* of the manifest: "sha256:..." */
	struct string_list layers;    /* their digests, lowest first */
	uint64_t size;                /* of all layers */
	bool is_private;              /* was had with credentials */
	bool is_kept;                 /* its name means another image now, or nothing: it is here for those who stand on it */
	int64_t pulled_us;            /* wall clock */
};

struct runtime_image_order { /* of a pull, or of one that is saved */
	const char *uri;
	const char *username, *password; /* for its registry; NULL: none */
	const char *os, *arch;           /* NULL: this host's */
	bool refresh;                    /* ask the registry even if the image is there: a tag may have moved */
};

struct runtime_image_load {
	const char *name; /* what the image in the archive is called, whatever that says; NULL: it says so */
	bool is_kept;     /* they are known by their digests alone, and are there for who stands on them when it is done */
};

/* An image with all that an archive of it needs. */
struct runtime_image_layer {
	struct digest digest;
	uint64_t size;
	int fd; /* of its blob */
};

struct runtime_image_parts {
	const char *name, *os, *arch;
	struct digest digest; /* that it is known by: of its manifest */
	struct str manifest, config;
	const struct runtime_image_layer *layers; /* lowest first; one may be there twice */
	size_t n_layers;
};

/* ---- completions, as those of runtime.h ---- */

typedef void runtime_image_fn(const struct runtime_image *image, const struct runtime_failure *failure, void *arg);
typedef void runtime_images_fn(const struct runtime_image *images, size_t n, const struct runtime_failure *failure, void *arg);
/* True: it has taken the descriptors, all of them. */
typedef bool runtime_parts_fn(const struct runtime_image_parts *parts, const struct runtime_failure *failure, void *arg);
typedef void runtime_image_progress_fn(const struct runtime_progress *p, void *arg);
