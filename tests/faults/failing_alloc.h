// SPDX-License-Identifier: Apache-2.0
/* failing_alloc.h - an allocator that fails when it is told to, in the thread that called failing_alloc_here(). It takes the
 * place of the real one at link time. */
#pragma once
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t count, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t count, size_t n);

static long countdown = -1; /* allocations until the one that fails; negative: none does */
static bool has_failed;
static pthread_t failing_thread;

static inline void failing_alloc_here(void)
{
	failing_thread = pthread_self();
}

static inline bool fails(void)
{
	if (countdown < 0 || !pthread_equal(pthread_self(), failing_thread) || countdown-- > 0)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
	return fails() ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t count, size_t n)
{
	return fails() ? NULL : __real_reallocarray(p, count, n);
}
