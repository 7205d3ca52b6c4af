// SPDX-License-Identifier: Apache-2.0
/* warden/layer_pack.h - writes a layer of an image or snapshot as the tar of an OCI layer: WIRE_LAYER_PACK.
 *
 * This process and its workers do not read the contents, which a sandbox may have written: opensandbox-unpack
 * reads them, without privileges (image/pack.h), and writes to a file of the server. A layer cannot be
 * removed while it is being read. */
#pragma once
#include <stdbool.h>

struct layer_pack;
struct passed;
struct ticket;
struct warden;
struct wire_request;

#define LAYER_PACKS_MAX 4 /* that are packed, or wait for that */

/* RQ has been checked; answers the ticket, sooner or later. ERR_NOT_FOUND, ERR_LIMIT and ERR_INVALID say what
 * about the layer. */
void layer_pack(struct warden *w, const struct wire_request *rq, struct passed *got, const struct ticket *t);

bool layer_is_packed(const struct warden *w, const char *layer);
void layer_packs_done(struct warden *w);
