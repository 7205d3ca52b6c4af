// SPDX-License-Identifier: Apache-2.0
/* warden/stack.h - the layers above a box's image, as the server names them in a create.
 *
 * They are directories in the host's layers/: "blob-SHA256" was unpacked from a blob of an image, "snap-ID"
 * is the disk of a sandbox. A box uses them as long as it lives, so they are recorded in its folder, in the
 * file "stack", before it is woken; recorded layers are not removed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"
#include "box/slot.h"
#include "box/wire.h"

struct err;
struct warden;

#define STACK_FILE_NAME "stack"

struct stack { /* the uppermost first */
	struct slot_layer *layers; /* or NULL */
	size_t n;
	bool is_unknown; /* what was noted is lost: it may be any layer, and stack_has() says so */
};

void stack_done(struct stack *s);
DEFINE_AUTO_DONE(struct stack, stack_done)

void stack_layer_name(const struct wire_layer *layer, char ret[SLOT_LAYER_NAME_MAX + 1]);

/* What a create names. HAS_USR: for a box with the host's (box/disk.h). ERR_NOT_FOUND for a layer that is not
 * there. */
int stack_find(const struct warden *w, const struct wire_request *rq, bool has_usr, struct stack *ret,
	       struct err *e);
bool stack_has(const struct stack *s, const char *name);

/* In the folder DIR of a box; one without layers has no file. */
int stack_write(int dir, const struct stack *s, struct err *e);
int stack_read(int dir, struct stack *ret, struct err *e);
int stack_decode(struct str bytes, struct stack *ret, struct err *e); /* as they are in memory. ERR_INVALID */
