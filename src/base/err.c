// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static enum err_code code_from_errno(int sys)
{
	switch (sys) {
	case ENOENT:
	case ESRCH:
		return ERR_NOT_FOUND;
	case EEXIST:
	case EBUSY:
	case ENOTEMPTY:
	case EADDRINUSE:
		return ERR_CONFLICT;
	case EPERM:
	case EACCES:
	case EROFS:
		return ERR_DENIED;
	case EMFILE:
	case ENFILE:
	case ENOSPC:
	case EDQUOT:
	case E2BIG:
	case EFBIG:
		return ERR_LIMIT;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ENOMEM:
	case EAGAIN:
	case ENOSYS:
	case EOPNOTSUPP:
	case ECONNREFUSED:
		return ERR_UNAVAILABLE;
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
	case ENOTDIR:
	case EISDIR:
		return ERR_INVALID;
	default:
		return ERR_IO;
	}
}

#define SYS_TEXT_MAX 64 /* "Unknown error -2147483648" is the longest that is not a constant */

/* The text of an errno. glibc's strerror() allocates for a number that it does not know; other libcs have
 * constants only, and a strerror_r() of another type. */
static const char *sys_text(int sys, char buf[SYS_TEXT_MAX])
{
#ifdef __GLIBC__
	return strerror_r(sys, buf, SYS_TEXT_MAX);
#else
	(void)buf;
	return strerror(sys);
#endif
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	e->sys = 0;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap); /* a long message is cut: that is what the array is for */
	va_end(ap);
	return -1;
}

int err_sys(struct err *e, int sys, const char *fmt, ...)
{
	char text[SYS_TEXT_MAX];
	size_t n;
	va_list ap;

	e->code = code_from_errno(sys);
	e->sys = sys;
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	(void)snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", sys_text(sys, text));
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char inner[sizeof(e->msg)];
	size_t n;
	va_list ap;

	memcpy(inner, e->msg, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	(void)snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", inner);
	return -1;
}

int err_no_memory(struct err *e)
{
	(void)err_set(e, ERR_UNAVAILABLE, "out of memory");
	e->sys = ENOMEM;
	return -1;
}

bool err_is_disk_full(const struct err *e)
{
	return e->code == ERR_LIMIT && (e->sys == ENOSPC || e->sys == EDQUOT);
}

const char *err_code_name(enum err_code code)
{
	static const char *const names[] = {
		[ERR_NONE] = "none",         [ERR_INVALID] = "invalid", [ERR_NOT_FOUND] = "not-found",
		[ERR_CONFLICT] = "conflict", [ERR_DENIED] = "denied",   [ERR_LIMIT] = "limit",
		[ERR_TIMEOUT] = "timeout",   [ERR_IO] = "io",           [ERR_UNAVAILABLE] = "unavailable",
		[ERR_INTERNAL] = "internal",
	};

	/* A code that crossed a pipe can be anything. */
	return (unsigned)code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown";
}
