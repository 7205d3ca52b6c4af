// SPDX-License-Identifier: Apache-2.0
/* warden/layers.h - the layers of images: WIRE_LAYER_ADD, WIRE_LAYER_DROP and WIRE_LAYERS.
 *
 * The server decides which of them are needed; others stay. Several adds of one layer wait for one unpacking,
 * and at most IMAGE_UNPACKINGS_MAX are unpacked at a time, operators' tars included. */
#pragma once
#include <stdbool.h>

#include "warden/images.h"

struct layer_add;
struct passed;
struct ticket;
struct warden;
struct wire_request;

#define LAYER_ADDS_MAX 256 /* different ones that are unpacked or wait for that */

/* RQ has been checked; all answer the ticket, sooner or later. */
void layers_add(struct warden *w, const struct wire_request *rq, struct passed *got, const struct ticket *t);
void layers_drop(struct warden *w, const struct wire_request *rq, const struct ticket *t);
void layers_list(struct warden *w, const struct ticket *t);

bool layers_are_adding(const struct warden *w); /* or wait for that */
void layers_done(struct warden *w);
