// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/banned.h"

#define ARENA_ALIGN 16
#define ARENA_BLOCK_MIN 1024

struct arena_block {
	struct arena_block *next;
	size_t size; /* of the data */
	_Alignas(ARENA_ALIGN) char data[];
};

static void free_blocks(struct arena_block *b)
{
	while (b) {
		struct arena_block *next = b->next;

		free(b);
		b = next;
	}
}

void arena_done(struct arena *a)
{
	free_blocks(a->blocks);
	*a = ARENA_INIT(a->max);
}

/* The newest block that is not a large object's own: one request must not make every later one hold its memory. */
static struct arena_block *take_keeper(struct arena *a)
{
	struct arena_block **at = &a->blocks;
	struct arena_block *keep;

	while (*at && (*at)->size > ARENA_BLOCK_MAX)
		at = &(*at)->next;
	keep = *at;
	if (keep)
		*at = keep->next;
	return keep;
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = take_keeper(a);

	arena_done(a);
	if (!keep)
		return;
	keep->next = NULL;
	a->blocks = keep;
	a->used = keep->size;
	a->at = keep->data;
	a->end = keep->data + keep->size;
}

static bool arena_grow(struct arena *a, size_t need)
{
	size_t size = a->blocks ? MIN(a->blocks->size * 2, (size_t)ARENA_BLOCK_MAX) : ARENA_BLOCK_MIN;
	size_t room = a->used < a->max ? a->max - a->used : 0;
	struct arena_block *b;
	size_t total;

	size = MAX(size, need);
	if (size > room)
		size = room;
	if (size < need || __builtin_add_overflow(size, sizeof(*b), &total))
		return false;
	b = malloc(total);
	if (!b)
		return false;
	b->next = a->blocks;
	b->size = size;
	a->blocks = b;
	a->used += size;
	a->at = b->data;
	a->end = b->data + size;
	return true;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t need;
	void *p;

	if (__builtin_add_overflow(n, (size_t)(ARENA_ALIGN - 1), &need))
		return NULL;
	need &= ~(size_t)(ARENA_ALIGN - 1);
	if (need == 0)
		need = ARENA_ALIGN;
	if ((size_t)(a->end - a->at) < need && !arena_grow(a, need))
		return NULL;
	p = a->at;
	a->at += need;
	return memset(p, 0, n);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	size_t n;

	return __builtin_mul_overflow(count, size, &n) ? NULL : arena_alloc(a, n);
}

char *arena_strndup(struct arena *a, const char *p, size_t n)
{
	char *copy = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

	if (copy && n > 0)
		memcpy(copy, p, n);
	return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n >= 0)
		s = arena_alloc(a, (size_t)n + 1);
	if (s) {
		va_start(ap, fmt);
		(void)vsnprintf(s, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	return s;
}
