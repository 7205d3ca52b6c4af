// SPDX-License-Identifier: Apache-2.0
#include "egress/cache.h"

#include <string.h>

#include "base/err.h"
#include "base/map.h"

#include "base/banned.h"

#define KEY_MAX (4 + 2 + HOST_NAME_LEN_MAX)

struct entry {
	struct entry *prev, *next; /* the last used first */
	uint64_t stored_ms, until_ms;
	unsigned rcode;
	struct dns_record *records;
	size_t n;
	struct arena arena;
	size_t key_n;
	char key[KEY_MAX];
};

struct owner { /* how many answers a sandbox has */
	uint32_t address;
	size_t n;
};

struct cache {
	struct map entries, owners;
	struct entry *first, *last;
};

static size_t make_key(uint32_t address, const char *name, uint16_t type, char out[KEY_MAX])
{
	size_t n = MIN(strlen(name), (size_t)HOST_NAME_LEN_MAX);

	memcpy(out, &address, 4);
	memcpy(out + 4, &type, 2);
	memcpy(out + 6, name, n);
	return 6 + n;
}

static struct owner *owner_of(const struct cache *c, uint32_t address)
{
	return map_get(&c->owners, (struct str){ (const char *)&address, sizeof(address) });
}

static void unlink_entry(struct cache *c, struct entry *x)
{
	*(x->prev ? &x->prev->next : &c->first) = x->next;
	*(x->next ? &x->next->prev : &c->last) = x->prev;
}

static void push_entry(struct cache *c, struct entry *x)
{
	x->prev = NULL;
	x->next = c->first;
	*(c->first ? &c->first->prev : &c->last) = x;
	c->first = x;
}

static void entry_free(struct entry *x)
{
	arena_done(&x->arena);
	free(x);
}

static void drop(struct cache *c, struct entry *x)
{
	uint32_t address;
	struct owner *o;

	memcpy(&address, x->key, 4);
	o = owner_of(c, address);
	if (o && --o->n == 0)
		free(map_del(&c->owners, (struct str){ (const char *)&address, sizeof(address) }));
	(void)map_del(&c->entries, (struct str){ x->key, x->key_n });
	unlink_entry(c, x);
	entry_free(x);
}

struct cache *cache_new(struct err *e)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		(void)err_no_memory(e);
	return c;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (c->first)
		drop(c, c->first);
	map_done(&c->entries);
	map_done(&c->owners);
	free(c);
}

bool cache_get(struct cache *c, uint32_t address, const char *name, uint16_t type, uint64_t now_ms, struct cached *ret)
{
	char key[KEY_MAX];
	struct entry *x = map_get(&c->entries, (struct str){ key, make_key(address, name, type, key) });

	if (x && x->until_ms <= now_ms) {
		drop(c, x);
		x = NULL;
	}
	if (!x)
		return false;
	unlink_entry(c, x);
	push_entry(c, x);
	*ret = (struct cached){ .rcode = x->rcode, .age_s = (uint32_t)((now_ms - x->stored_ms) / 1000), .records = x->records, .n = x->n };
	return true;
}

static uint32_t seconds_of(const struct dns_answer *a)
{
	uint32_t s = UINT32_MAX;

	if (a->n == 0)
		return a->negative_ttl == 0 ? CACHE_NEGATIVE_S : MIN(a->negative_ttl, (uint32_t)CACHE_NEGATIVE_MAX_S);
	for (size_t i = 0; i < a->n; i++)
		s = MIN(s, a->records[i].ttl);
	return s;
}

static bool copy_record(struct arena *a, const struct dns_record *from, struct dns_record *to)
{
	*to = *from;
	to->owner = arena_dup(a, str_of(from->owner));
	to->target = from->target ? arena_dup(a, str_of(from->target)) : NULL;
	to->rdata.p = arena_dup(a, from->rdata);
	return to->owner && to->rdata.p && (!from->target || to->target);
}

static struct entry *make_entry(const struct dns_answer *answer)
{
	struct entry *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->arena = ARENA_INIT(CACHE_BYTES_MAX);
	x->rcode = answer->rcode;
	x->records = arena_array(&x->arena, answer->n + 1, sizeof(*x->records));
	while (x->records && x->n < answer->n && copy_record(&x->arena, &answer->records[x->n], &x->records[x->n]))
		x->n++;
	if (x->records && x->n == answer->n)
		return x;
	entry_free(x);
	return NULL;
}

/* One more of this sandbox's, or false. */
static bool count(struct cache *c, uint32_t address)
{
	struct owner *o = owner_of(c, address);

	if (o)
		return o->n < CACHE_OWN_MAX ? ++o->n : false;
	o = calloc(1, sizeof(*o));
	if (!o)
		return false;
	*o = (struct owner){ address, 1 };
	if (map_put(&c->owners, (struct str){ (const char *)&o->address, sizeof(o->address) }, o))
		return true;
	free(o);
	return false;
}

void cache_put(struct cache *c, uint32_t address, const char *name, uint16_t type, const struct dns_answer *answer, uint64_t now_ms)
{
	uint32_t seconds = seconds_of(answer);
	struct entry *x, *old;

	if (seconds == 0)
		return;
	x = make_entry(answer);
	if (!x)
		return;
	x->stored_ms = now_ms;
	x->until_ms = now_ms + (uint64_t)seconds * 1000;
	x->key_n = make_key(address, name, type, x->key);
	old = map_get(&c->entries, (struct str){ x->key, x->key_n });
	if (old)
		drop(c, old);
	else if (c->entries.n >= CACHE_ANSWERS_MAX)
		drop(c, c->last);
	if (!count(c, address)) {
		entry_free(x);
		return;
	}
	push_entry(c, x);
	if (!map_put(&c->entries, (struct str){ x->key, x->key_n }, x))
		drop(c, x);
}

void cache_drop(struct cache *c, uint32_t address)
{
	struct entry *x = owner_of(c, address) ? c->first : NULL;

	while (x) {
		struct entry *next = x->next;

		if (memcmp(x->key, &address, 4) == 0)
			drop(c, x);
		x = next;
	}
}
