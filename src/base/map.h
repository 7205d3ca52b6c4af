// SPDX-License-Identifier: Apache-2.0
/* base/map.h - a hash map from bytes to pointers.
 *
 * Keys are borrowed: they must live as long as their entry (usually as a part of the value). The hash has a
 * random key per map, so that a peer cannot construct collisions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct map_slot;
struct map {
	struct map_slot *slots;
	size_t n, cap;    /* entries; slots, 0 or a power of two */
	uint64_t seed[2]; /* drawn with the first insertion */
};

#define MAP_INIT ((struct map){ 0 })

void map_done(struct map *m); /* frees the table, not the values */
DEFINE_AUTO_DONE(struct map, map_done)

void *map_get(const struct map *m, struct str key);              /* NULL when absent */
/* value != NULL; replaces; false: out of memory */
bool map_put(struct map *m, struct str key, void *value);
void *map_del(struct map *m, struct str key);                    /* the value it had, or NULL */

/* Iteration, in no order: for (size_t i = 0; (v = map_next(&m, &i, &key)); ). No changes meanwhile. */
void *map_next(const struct map *m, size_t *i, struct str *ret_key);
