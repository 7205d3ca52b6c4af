// SPDX-License-Identifier: Apache-2.0
/* base/buf.h - owned bytes that grow up to a ceiling chosen where the buffer is born.
 *
 * Append many times, check `failed` once: after the first failure (ceiling or memory) the content stays
 * as it was and every later append is refused too. There is always a NUL after the last byte (once p is
 * set). */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "base/str.h"

struct buf {
	char *p;
	size_t n, cap, max;
	bool failed;
};

#define BUF_INIT(limit) ((struct buf){ .max = (limit) })

void buf_done(struct buf *b); /* frees; the buffer is empty and usable again, with the same ceiling */
DEFINE_AUTO_DONE(struct buf, buf_done)

bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static inline bool buf_add_str(struct buf *b, struct str s)
{
	return buf_add(b, s.p, s.n);
}

static inline bool buf_add_char(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

/* Room for N more bytes, to be written at the returned place and then made part of the content with
 * buf_commit(). NULL when the ceiling or memory does not allow it. */
char *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);

void buf_consume(struct buf *b, size_t n); /* drops the first n bytes; what follows moves to the front */
void buf_clear(struct buf *b);             /* empties, forgets a failure, keeps the memory */

static inline struct str buf_str(const struct buf *b)
{
	return (struct str){ b->p, b->n };
}

static inline const char *buf_z(const struct buf *b)
{
	return b->p ? b->p : "";
}
