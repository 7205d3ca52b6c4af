// SPDX-License-Identifier: Apache-2.0
/* fetch/pull.h - pulls an image from a registry into the folder of blobs. */
#pragma once
struct asker;
struct err;
struct order;

#define PULL_LAYERS_AT_ONCE 3

int pull_image(const struct order *o, struct asker *a, int blobs, struct err *e);
/* whether the credentials are good for it */
int pull_check(const struct order *o, struct asker *a, struct err *e);
