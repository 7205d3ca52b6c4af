// SPDX-License-Identifier: Apache-2.0
/* image/reference.h - names of images as users write them.
 *
 *     python:3.12                      docker.io/library/python:3.12
 *     ghcr.io/org/tool                 ghcr.io/org/tool:latest
 *     localhost:5000/a/b@sha256:...    that exact image, whatever its tags; @sha512:..., too
 *
 * The part before the first '/' is a registry if it contains a '.' or a ':', or is 'localhost'. */
#pragma once
#include <stdbool.h>

#include "base/digest.h"
#include "base/str.h"

struct buf;
struct err;

#define REFERENCE_REGISTRY_MAX 255
#define REFERENCE_REPOSITORY_MAX 255
#define REFERENCE_TAG_MAX 128
#define REFERENCE_TEXT_MAX 768 /* of all of it, as it is written */
#define REFERENCE_DEFAULT_REGISTRY "docker.io"

struct reference {
	/* host or host:port, in small letters; never with a scheme */
	char registry[REFERENCE_REGISTRY_MAX + 1];
	char repository[REFERENCE_REPOSITORY_MAX + 1];
	char tag[REFERENCE_TAG_MAX + 1]; /* "": there is only a digest */
	bool has_digest;                 /* then the tag says nothing */
	struct digest digest;
};

/* ERR_INVALID with a message for the user. */
int reference_parse(struct str text, struct reference *ret, struct err *e);

/* The whole name, one spelling for one image: "docker.io/library/python:3.12". With a digest, the tag is left
 * out. */
bool reference_write(const struct reference *r, struct buf *b);

/* "host", "host:port", "[::1]:port": what may stand in a URL, too. */
bool registry_valid(struct str host);
