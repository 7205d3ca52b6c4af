// SPDX-License-Identifier: Apache-2.0
#include "base/map.h"

#include "base/err.h"
#include "base/random.h"
#include "base/siphash.h"

#include "base/banned.h"

#define MAP_MIN 8

/* Open addressing with linear probing. Invariant: between an entry's home slot (hash & (cap - 1)) and the
 * slot it sits in, no slot is empty; and at least a quarter of the slots is empty, so every search ends. */
struct map_slot {
	uint64_t hash;
	struct str key;
	void *value; /* NULL: empty */
};

void map_done(struct map *m)
{
	free(m->slots);
	*m = MAP_INIT;
}

/* The slot that holds KEY, or the empty one where it would go. */
static struct map_slot *map_find(const struct map *m, uint64_t hash, struct str key)
{
	size_t i = hash & (m->cap - 1);

	while (m->slots[i].value && !(m->slots[i].hash == hash && str_eq(m->slots[i].key, key)))
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static bool map_grow(struct map *m)
{
	struct map_slot *old = m->slots, *slots;
	size_t n = m->cap, cap = n > 0 ? n * 2 : MAP_MIN;

	/* Without a secret seed the table would be open to chosen collisions: better none. */
	if (n == 0 && random_bytes(m->seed, sizeof(m->seed), &(struct err){ 0 }) < 0)
		return false;
	slots = calloc(cap, sizeof(*slots)); /* refuses a size that overflows long before n * 2 does */
	if (!slots)
		return false;
	m->slots = slots;
	m->cap = cap;
	for (size_t i = 0; i < n; i++)
		if (old[i].value)
			*map_find(m, old[i].hash, old[i].key) = old[i];
	free(old);
	return true;
}

void *map_get(const struct map *m, struct str key)
{
	return m->n > 0 ? map_find(m, siphash(m->seed, key), key)->value : NULL;
}

bool map_put(struct map *m, struct str key, void *value)
{
	struct map_slot *s;
	uint64_t hash;

	if (m->n >= m->cap / 4 * 3 && !map_grow(m))
		return false;
	hash = siphash(m->seed, key);
	s = map_find(m, hash, key);
	if (!s->value)
		m->n++;
	/* The key is replaced too: the old one may live inside the old value. */
	*s = (struct map_slot){ .hash = hash, .key = key, .value = value };
	return true;
}

/* Closes the gap at slot HOLE by moving later entries of the run back, so that no search breaks off early. */
static void map_close_gap(struct map *m, size_t hole)
{
	size_t mask = m->cap - 1;

	for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
		size_t home = m->slots[i].hash & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* its home lies behind the hole: it must not move in front of it */
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole] = (struct map_slot){ 0 };
}

void *map_del(struct map *m, struct str key)
{
	struct map_slot *s;
	void *value;

	if (m->n == 0)
		return NULL;
	s = map_find(m, siphash(m->seed, key), key);
	value = s->value;
	if (value) {
		map_close_gap(m, (size_t)(s - m->slots));
		m->n--;
	}
	return value;
}

void *map_next(const struct map *m, size_t *i, struct str *ret_key)
{
	while (*i < m->cap) {
		const struct map_slot *s = &m->slots[(*i)++];

		if (!s->value)
			continue;
		if (ret_key)
			*ret_key = s->key;
		return s->value;
	}
	return NULL;
}
