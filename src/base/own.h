// SPDX-License-Identifier: Apache-2.0
/* base/own.h - ownership that is visible at the declaration.
 *
 *     AUTO_FD fd = -1;                           closed at the end of the scope
 *     AUTO(free) char *line = NULL;              freed at the end of the scope
 *     AUTO(buf_done) struct buf b = BUF_INIT(64);
 *
 * A resource leaves its scope only through take_fd() or take_ptr(): the line where ownership moves. */
#pragma once
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn##p)))
#define AUTO_FD AUTO(close) int

/* For heap objects held by pointer (x_free, x_unref, fclose, ...). */
#define DEFINE_AUTO(type, fn) \
	static inline void fn##p(type *v) \
	{ \
		if (*v) \
			fn(*v); \
	}

/* For structs that live in place (x_done). */
#define DEFINE_AUTO_DONE(type, fn) \
	static inline void fn##p(type *v) \
	{ \
		fn(v); \
	}

/* Linux frees the number even on EINTR: never retry close(). */
static inline void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#define take_ptr(p) \
	({ \
		__typeof__(*(p)) taken_ = *(p); \
		*(p) = NULL; \
		taken_; \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) \
	({ \
		__typeof__(a) min_a_ = (a); \
		__typeof__(b) min_b_ = (b); \
		min_a_ < min_b_ ? min_a_ : min_b_; \
	})
#define MAX(a, b) \
	({ \
		__typeof__(a) max_a_ = (a); \
		__typeof__(b) max_b_ = (b); \
		max_a_ > max_b_ ? max_a_ : max_b_; \
	})
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
