// SPDX-License-Identifier: Apache-2.0
/* warden/images.h - the images of the command line: the host's programs, and those of the operator.
 *
 * Image 0 is the host (host_image.h). Image N is the N-th --image: a directory, used in place, or a tar,
 * unpacked into a layer at its first use (tar_layer.h). The path is examined at every create: an image that
 * cannot be used fails its own creates only. Messages for clients contain no path; the log does. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/slot.h"

struct err;
struct image;
struct warden;

#define IMAGES_MAX 256
#define IMAGE_ID_BASE (SLOT_ID_BASE + (uint64_t)SLOT_NUMBER_MAX * USERNS_IDS) /* for unpacking: above those of all boxes */
#define IMAGE_UNPACKINGS_MAX 3 /* at a time; others wait (I2) */

struct image_use {
	char layer[SLOT_LAYER_NAME_MAX + 1]; /* "": none */
	struct slot_dir dir;
	bool has_host_usr;
};

struct images_spec {
	const char *const *paths;
	size_t n;
	const char *unpack; /* the program; NULL: beside this one */
};

/* Warns of images that cannot be used now, and sweeps unused layers. */
int images_open(struct warden *w, const struct images_spec *spec, struct err *e);
void images_done(struct warden *w);
bool images_are_busy(const struct warden *w); /* a worker unpacks */
const char *images_unpacker(const struct warden *w); /* the program */
/* Removes layers that nobody needs, in the background; not while any is unpacked. Blobs are the server's
 * (layers.h). */
void images_sweep(struct warden *w);

/* 1: ready; 0: it has to be waited for; -1: ERR_NOT_FOUND (no such number), ERR_INVALID (with words for the
 * client) or ERR_UNAVAILABLE. */
int image_find(struct warden *w, uint32_t number, struct image_use *ret, struct err *e);

/* Embedded in who waits. */
typedef void image_wait_fn(const struct err *failure, void *arg);
struct image_wait {
	struct image *at; /* NULL: not waiting */
	struct image_wait *next;
	image_wait_fn *fn;
	void *arg;
};

/* Unpacks what image_find() said has to be waited for. All who wait for one image wait for the same
 * unpacking. FN is called once, from the loop, unless the wait is cancelled: without a failure image_find()
 * is worth another try. */
void image_wait(struct warden *w, uint32_t number, struct image_wait *wait, image_wait_fn *fn, void *arg);
void image_wait_cancel(struct image_wait *wait);
