// SPDX-License-Identifier: Apache-2.0
#include "egress/learned.h"

#include <string.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

unsigned learned_seconds(uint32_t ttl)
{
	uint64_t s = (uint64_t)ttl + LEARNED_SLACK_S;

	return (unsigned)(s < LEARNED_MIN_S ? LEARNED_MIN_S : s > LEARNED_MAX_S ? LEARNED_MAX_S : s);
}

/* The address, and the name behind it. */
static struct str key_of(const struct learned_pair *p)
{
	return (struct str){ (const char *)p, offsetof(struct learned_pair, name) + strlen(p->name) };
}

_Static_assert(offsetof(struct learned_pair, address) == 0 && offsetof(struct learned_pair, name) == 4, "the key is in one piece");

void learned_done(struct learned *l)
{
	struct learned_pair *p;
	struct str key;

	for (size_t i = 0; (p = map_next(&l->pairs, &i, &key));)
		free(p);
	map_done(&l->pairs);
}

struct learned_pair *learned_find(const struct learned *l, const char *name, uint32_t address)
{
	struct learned_pair wanted = { .address = address };
	size_t n = strlen(name);

	if (n >= sizeof(wanted.name))
		return NULL;
	memcpy(wanted.name, name, n + 1);
	return map_get(&l->pairs, key_of(&wanted));
}

static void learned_drop(struct learned *l, struct learned_pair *p)
{
	(void)map_del(&l->pairs, key_of(p));
	free(p);
}

/* At most MAX that count no more; how many. */
static size_t find_old(const struct learned *l, uint64_t now_ms, struct learned_pair **ret, size_t max)
{
	struct learned_pair *p;
	struct str key;
	size_t n = 0;

	for (size_t i = 0; n < max && (p = map_next(&l->pairs, &i, &key));)
		if (p->flows == 0 && p->until_ms <= now_ms)
			ret[n++] = p;
	return n;
}

void learned_sweep(struct learned *l, uint64_t now_ms)
{
	struct learned_pair *old[256]; /* nothing may change while the map is walked */
	size_t n;

	while ((n = find_old(l, now_ms, old, ARRAY_LEN(old))) > 0)
		while (n > 0)
			learned_drop(l, old[--n]);
}

struct learned_pair *learned_put(struct learned *l, const char *name, uint32_t address, uint64_t now_ms, struct err *e)
{
	struct learned_pair *p = learned_find(l, name, address);

	if (p)
		return p;
	if (l->pairs.n >= LEARNED_MAX)
		learned_sweep(l, now_ms);
	if (l->pairs.n >= LEARNED_MAX) {
		(void)err_set(e, ERR_LIMIT, "a sandbox with %d names and addresses", LEARNED_MAX);
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->address = address;
	memcpy(p->name, name, MIN(strlen(name), sizeof(p->name) - 1));
	if (!map_put(&l->pairs, key_of(p), p)) {
		free(p);
		(void)err_no_memory(e);
		return NULL;
	}
	return p;
}

bool learned_shares(const struct learned *l, const struct learned_pair *p, uint16_t port)
{
	const struct learned_pair *q;
	struct str key;

	for (size_t i = 0; (q = map_next(&l->pairs, &i, &key));) {
		if (q == p || q->address != p->address)
			continue;
		for (size_t k = 0; k < q->n_ports; k++)
			if (q->ports[k] == port)
				return true;
	}
	return false;
}
