// SPDX-License-Identifier: Apache-2.0
/* fetch/layers.h - downloads the layers of an image into the folder of blobs, a few at a time. */
#pragma once
#include <stdint.h>

#include "image/manifest.h"

struct err;
struct registry;

struct layers_spec {
	struct registry *registry;
	const struct manifest *manifest;
	uint64_t wanted[MANIFEST_LAYERS_MAX / 64]; /* bit i: layer i */
	int blobs;
};

/* Each of them is there, verified and on the disk; or nothing new is but whole ones. */
int layers_fetch(const struct layers_spec *spec, struct err *e);
