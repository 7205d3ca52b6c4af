// SPDX-License-Identifier: Apache-2.0
/* base/err.h - one error struct, always the last parameter, with context added on the way up.
 *
 * Functions return 0, a descriptor or a pointer on success and -1 or NULL on failure; on success the
 * error is untouched. The pointer is never NULL: to ignore a failure pass a scratch one and say so. */
#pragma once
#include <stdbool.h>

enum err_code {
	ERR_NONE,
	ERR_INVALID,     /* the input is wrong; its sender can mend it */
	ERR_NOT_FOUND,
	ERR_CONFLICT,    /* the thing exists but is in the wrong state */
	ERR_DENIED,
	ERR_LIMIT,       /* a ceiling of ours was reached */
	ERR_TIMEOUT,
	ERR_UNAVAILABLE, /* try again later, or not supported on this host */
	ERR_IO,
	ERR_INTERNAL,
};

/* No heap: it works after fork and out of memory, and crosses a pipe in one atomic write. */
struct err {
	enum err_code code; /* what the caller can do about it; an HTTP status is derived in one place */
	int sys;            /* errno at the point of failure, or 0 */
	char msg[496];      /* "start 'ab12': mount '/proc': Operation not permitted" */
};

/* All three return -1, so that a failing function can end with them. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_sys(struct err *e, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int err_no_memory(struct err *e);             /* ERR_UNAVAILABLE, "out of memory" */
bool err_is_disk_full(const struct err *e);      /* a file system, or the part of it that is allowed, has no room left */
const char *err_code_name(enum err_code code); /* "invalid", "not-found", ... for logs */
