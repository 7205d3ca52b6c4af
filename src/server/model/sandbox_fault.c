// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "server/model/sandbox.h"

#include "base/banned.h"

int fault_set(struct fault *f, unsigned status, const char *prefix, const char *code, const char *fmt, ...)
{
	va_list ap;

	*f = (struct fault){ .status = status, .retry_s = status == 429 || status == 503 ? 1 : 0 };
	(void)snprintf(f->code, sizeof(f->code), "%s%s%s", prefix ? prefix : "", prefix ? "::" : "", code);
	va_start(ap, fmt);
	(void)vsnprintf(f->message, sizeof(f->message), fmt, ap); /* a message that repeats a long input is cut */
	va_end(ap);
	return -1;
}

int fault_of_store(struct fault *f, const struct err *e)
{
	if (e->code == ERR_LIMIT)
		return fault_set(f, 507, NULL, "INSUFFICIENT_STORAGE", "the server's disk is full");
	return fault_set(f, 503, NULL, "UNAVAILABLE", "the server cannot record changes at the moment");
}

/* What a code means, for people. */
static const char *sentence(const char *code)
{
	static const struct {
		const char *code, *says;
	} rows[] = {
		{ "SANDBOX_START_FAILED", "the sandbox could not be started" },
		{ "SANDBOX_IMAGE_PULL_FAILED", "the image could not be had" },
		{ "SANDBOX_EXECD_START_FAILED", "the sandbox's daemon could not be started" },
		{ "SANDBOX_DELETE_FAILED", "the sandbox could not be removed yet; the server goes on trying" },
		{ "SANDBOX_PAUSE_FAILED", "the sandbox could not be paused" },
		{ "SANDBOX_RESUME_FAILED", "the sandbox could not be resumed" },
		{ "SANDBOX_QUERY_FAILED", "the sandbox could not be asked" },
		{ "SANDBOX_NOT_FOUND", "there is no such sandbox" },
		{ "SNAPSHOT_FAILED", "the snapshot could not be taken" },
		{ "SNAPSHOT_DELETE_FAILED", "the snapshot could not be removed yet; the server goes on trying" },
		{ "VOLUME_CREATE_FAILED", "the volume could not be made" },
		{ "VOLUME_DELETE_FAILED", "the volume could not be removed yet; the server goes on trying" },
		{ "INSUFFICIENT_STORAGE", "the server's disk is almost full" },
		{ "DISK_LIMIT_UNSUPPORTED", "a disk limit cannot be enforced here" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].code, code) == 0)
			return rows[i].says;
	return "the runtime failed";
}

int fault_of_runtime(struct fault *f, const struct runtime *rt, const struct runtime_failure *failure)
{
	const char *says = failure->says;

	if (says[0] == '\0')
		says = failure->status < 500 && failure->err.msg[0] != '\0' ? failure->err.msg : sentence(failure->code);
	return fault_set(f, failure->status, failure->prefix ? failure->prefix : rt->code_prefix, failure->code, "%s", says);
}
