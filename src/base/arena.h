// SPDX-License-Identifier: Apache-2.0
/* base/arena.h - memory that dies together: a request, a document, a query.
 *
 * Allocation is a pointer bump; there is no free of one object. A ceiling bounds what a peer can make us
 * allocate. Returned memory is zeroed and aligned for any type. */
#pragma once
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"

struct arena_block;
struct arena {
	struct arena_block *blocks; /* newest first */
	char *at, *end;             /* free part of the newest block */
	size_t used, max;           /* bytes in blocks, and their ceiling */
};

#define ARENA_BLOCK_MAX (256 * 1024) /* of a block, unless one object is larger */
#define ARENA_INIT(limit) ((struct arena){ .max = (limit) })

void arena_done(struct arena *a); /* frees everything; usable again */
DEFINE_AUTO_DONE(struct arena, arena_done)
/* Forgets everything and keeps one block, of at most ARENA_BLOCK_MAX, for what comes next. */
void arena_reset(struct arena *a);

void *arena_alloc(struct arena *a, size_t n); /* NULL at the ceiling or out of memory */
void *arena_array(struct arena *a, size_t count, size_t size);
char *arena_strndup(struct arena *a, const char *p, size_t n); /* NUL-terminated copy */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline char *arena_dup(struct arena *a, struct str s)
{
	return arena_strndup(a, s.p, s.n);
}
