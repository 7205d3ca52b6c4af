// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>

#include "base/banned.h"

#define BUF_MIN 64

void buf_done(struct buf *b)
{
	free(b->p);
	*b = BUF_INIT(b->max);
}

/* Makes cap >= n + more + 1 (the NUL). */
static bool buf_grow(struct buf *b, size_t more)
{
	size_t need, cap;
	char *p;

	if (b->failed || __builtin_add_overflow(b->n, more, &need) || need > b->max || need == SIZE_MAX) {
		b->failed = true;
		return false;
	}
	if (need < b->cap)
		return true;
	cap = MAX(b->cap * 2, (size_t)BUF_MIN);
	if (cap <= need)
		cap = need + 1;
	if (cap > b->max)
		cap = b->max + 1;
	p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	b->p[b->n] = '\0';
	return true;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
	if (!buf_grow(b, n))
		return false;
	if (n > 0)
		memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
	return true;
}

bool buf_addv(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0)
		b->failed = true;
	if (n >= 0 && buf_grow(b, (size_t)n)) {
		(void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
	return !b->failed;
}

bool buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	bool ok;

	va_start(ap, fmt);
	ok = buf_addv(b, fmt, ap);
	va_end(ap);
	return ok;
}

char *buf_reserve(struct buf *b, size_t n)
{
	return buf_grow(b, n) ? b->p + b->n : NULL;
}

void buf_commit(struct buf *b, size_t n)
{
	assert(b->cap > 0 && n < b->cap - b->n);
	b->n += n;
	b->p[b->n] = '\0';
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->n);
	if (n == 0)
		return;
	memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
	b->p[b->n] = '\0';
}

void buf_clear(struct buf *b)
{
	b->n = 0;
	b->failed = false;
	if (b->p)
		b->p[0] = '\0';
}
