// SPDX-License-Identifier: Apache-2.0
/* fetch/asker.h - the client of the fetcher: it sent the order and gets the messages. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "image/fetch.h"

struct err;

struct asker {
	int fd;
	uint64_t told_ms; /* when it heard of progress last */
};

/* Waits for the order: the descriptors of its memfd and, or -1, of an archive. */
int asker_receive(struct asker *a, int *ret_order, int *ret_archive, struct err *e);

/* Nobody waits for the outcome any more. */
bool asker_is_gone(const struct asker *a);

/* At most a few times a second, or always with MUST. A slow reader misses some. */
void asker_progress(struct asker *a, const struct fetch_message *m, bool must);

/* NAME may be NULL. The documents are sent as sealed memfds. */
int asker_found(struct asker *a, const struct digest *digest, const char *name, struct str manifest,
		struct str config, struct err *e);
/* the answer to it */
int asker_wants(struct asker *a, uint64_t ret_layers[MANIFEST_LAYERS_MAX / 64], struct err *e);

/* How it ended; ERR_NONE: well. */
void asker_end(struct asker *a, const struct err *outcome);
