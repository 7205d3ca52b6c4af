// SPDX-License-Identifier: Apache-2.0
/* A table of sets of four places each; a pair's set follows from a keyed hash, so that peers cannot choose whom they push out. */
#include "access/attempts.h"

#include <netinet/in.h>

#include "base/err.h"
#include "base/random.h"
#include "base/siphash.h"

#include "base/banned.h"

#define SETS 2048
#define WAYS 4
#define KEY_MAX 128

struct place {
	uint64_t key; /* 0: free */
	uint64_t since_ms;
	unsigned n;
};

struct attempts {
	uint64_t seed[2];
	struct place places[SETS][WAYS];
};

struct attempts *attempts_new(struct err *e)
{
	AUTO(attempts_free) struct attempts *a = calloc(1, sizeof(*a));

	if (!a) {
		(void)err_no_memory(e);
		return NULL;
	}
	if (random_bytes(a->seed, sizeof(a->seed), e) < 0)
		return NULL;
	return take_ptr(&a);
}

void attempts_free(struct attempts *a)
{
	free(a);
}

/* The part of an address that one peer cannot change. */
static struct str address_of(const struct sockaddr *peer)
{
	const void *p = peer;

	if (peer && peer->sa_family == AF_INET)
		return (struct str){ (const char *)&((const struct sockaddr_in *)p)->sin_addr, 4 };
	if (peer && peer->sa_family == AF_INET6) {
		const struct in6_addr *a = &((const struct sockaddr_in6 *)p)->sin6_addr;

		return IN6_IS_ADDR_V4MAPPED(a) ? (struct str){ (const char *)a->s6_addr + 12, 4 } : (struct str){ (const char *)a->s6_addr, 8 };
	}
	return (struct str){ "?", 1 };
}

/* ADDRESS empty: everybody. */
static uint64_t key_of(const struct attempts *a, struct str what, struct str address)
{
	char text[KEY_MAX];
	size_t n = MIN(what.n, sizeof(text) - 1 - 8);
	uint64_t key;

	memcpy(text, address.p, address.n);
	text[address.n] = (char)address.n; /* one pair has one spelling */
	memcpy(text + address.n + 1, what.p, n);
	key = siphash(a->seed, (struct str){ text, address.n + 1 + n });
	return key == 0 ? 1 : key;
}

static unsigned count(const struct attempts *a, uint64_t key, uint64_t now_ms)
{
	const struct place *set = a->places[key % SETS];

	for (size_t i = 0; i < WAYS; i++)
		if (set[i].key == key)
			return now_ms - set[i].since_ms < ATTEMPTS_WINDOW_MS ? set[i].n : 0;
	return 0;
}

static void add(struct attempts *a, uint64_t key, uint64_t now_ms)
{
	struct place *set = a->places[key % SETS], *to = NULL;

	for (size_t i = 0; i < WAYS; i++) {
		if (set[i].key != 0 && now_ms - set[i].since_ms >= ATTEMPTS_WINDOW_MS)
			set[i] = (struct place){ 0 };
		if (set[i].key == key) {
			set[i].n++;
			return;
		}
		if (!to || set[i].n < to->n)
			to = &set[i];
	}
	*to = (struct place){ .key = key, .since_ms = now_ms, .n = 1 };
}

bool attempts_exceeded(const struct attempts *a, struct str what, const struct sockaddr *peer, uint64_t now_ms)
{
	return count(a, key_of(a, what, address_of(peer)), now_ms) >= ATTEMPTS_PEER_MAX ||
	       count(a, key_of(a, what, (struct str){ "", 0 }), now_ms) >= ATTEMPTS_ALL_MAX;
}

void attempts_failed(struct attempts *a, struct str what, const struct sockaddr *peer, uint64_t now_ms)
{
	add(a, key_of(a, what, address_of(peer)), now_ms);
	add(a, key_of(a, what, (struct str){ "", 0 }), now_ms);
}
