// SPDX-License-Identifier: Apache-2.0
/* sys/overlay.h - the overlay of a sandbox, made from descriptors of its folders, in the way that this kernel
 * supports.
 *
 *     enum overlay_way way;
 *
 *     if (overlay_find_way(dir, "trial", &way, e) < 0)      once, when the program starts
 *         return -1;
 *     fd = overlay_make(way, &(struct overlay_spec){ "root", lowers, n, upper, work, dir, "place" }, e);
 *
 * Every way gives the same mount: detached, nosuid, nodev, volatile, without redirects and metacopy, which
 * the writer of a layer could forge. Nothing here uses the heap. The caller maps the ids of layers; overlays
 * accept id-mapped layers since Linux 5.19. */
#pragma once
#include <stddef.h>

struct err;

enum overlay_way {
	OVERLAY_BY_FD,    /* Linux 6.13: each folder is a descriptor */
	OVERLAY_BY_NAME,  /* Linux 6.7: each layer is an option of its own, "/proc/self/fd/N" */
	OVERLAY_BY_MOUNT, /* before: mount(2), with all layers in one option */
	OVERLAY_WAYS,
};

#define OVERLAY_LOWERS_MAX 260 /* the page of options that mount(2) takes has room for twice as many */

struct overlay_spec {
	const char *source; /* what mountinfo shows */
	/* the uppermost first. In mounts of this namespace that have a place, each folder once */
	const int *lowers;
	size_t n_lowers;
	int upper, work;
	/* PLACE below DIR: a folder in a private mount, where OVERLAY_BY_MOUNT has the overlay for a moment.
	 * It may be O_PATH. */
	int dir;
	const char *place;
};

/* The root of the overlay, a detached mount. All descriptors of SP may be O_PATH. All ways but the first need
 * /proc. */
int overlay_make(enum overlay_way way, const struct overlay_spec *sp, struct err *e);

/* The first way that works, tried with a small overlay on a tmpfs of its own at PLACE below DIR, of which
 * nothing stays. The error tells why each of them does not. */
int overlay_find_way(int dir, const char *place, enum overlay_way *ret, struct err *e);

const char *overlay_way_name(enum overlay_way way); /* for people */
