// SPDX-License-Identifier: Apache-2.0
#include "warden/ending.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "sys/process.h"

#include "base/banned.h"

static bool is_record(const struct guest_record *r)
{
	return r->magic == GUEST_RECORD_MAGIC && r->version == GUEST_RECORD_VERSION && r->kind >= GUEST_STARTED &&
	       r->kind <= GUEST_FAILED && memchr(r->text, '\0', sizeof(r->text));
}

static void take_exited(const struct guest_record *r, struct ending_records *ret)
{
	if (ret->has_exited || r->exit_code < 0 || r->exit_code > 255 || r->signal < 0 || r->signal >= NSIG)
		return;
	ret->has_exited = true;
	ret->exited = (struct wire_ending){ .reason = WIRE_END_EXITED, .exit_code = r->exit_code, .signal = r->signal,
					    .oom = (r->flags & GUEST_FLAG_OOM) != 0 };
}

static void take_failed(const struct guest_record *r, struct ending_records *ret)
{
	struct str rest = str_of(r->text);
	size_t n = 0, used;

	if (ret->has_failed)
		return;
	ret->has_failed = true;
	ret->is_image = (r->flags & GUEST_FLAG_IMAGE) != 0;
	while (rest.n > 0) {
		char out[ESCAPE_SIZE];
		struct str shown = escape_next(rest, out, &used);

		if (n + shown.n >= sizeof(ret->why))
			break;
		memcpy(ret->why + n, shown.p, shown.n);
		n += shown.n;
		rest = str_skip(rest, used);
	}
	ret->why[n] = '\0';
}

void ending_parse(struct str bytes, struct ending_records *ret)
{
	struct guest_record r;

	*ret = (struct ending_records){ 0 };
	bytes = str_first(bytes, ENDING_BYTES_MAX);
	for (; bytes.n >= sizeof(r); bytes = str_skip(bytes, sizeof(r))) {
		memcpy(&r, bytes.p, sizeof(r));
		if (!is_record(&r))
			continue;
		if (r.kind == GUEST_EXITED)
			take_exited(&r, ret);
		if (r.kind == GUEST_FAILED)
			take_failed(&r, ret);
	}
}

void ending_read(int dir, struct ending_records *ret)
{
	AUTO_FD fd = openat(dir, ENDING_STATE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char bytes[ENDING_BYTES_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, bytes, sizeof(bytes), 0);

	ending_parse((struct str){ bytes, n > 0 ? (size_t)n : 0 }, ret);
}

void ending_failure(const struct ending_records *r, struct err *ret)
{
	(void)err_set(ret, ERR_INVALID, "%s%s", r->is_image ? "" : "the entrypoint cannot be started: ", r->why);
	if (r->is_image)
		ret->sys = WIRE_FAULT_IMAGE_START;
}

struct wire_ending ending_of(const struct ending_records *r, const struct process_end *end, bool was_watched, bool had_oom)
{
	struct wire_ending ret = { .reason = was_watched ? WIRE_END_INIT : WIRE_END_LOST, .oom = had_oom };

	if (r->has_exited)
		return r->exited;
	if (!end)
		return ret;
	ret.reason = end->by_signal && end->code == SIGKILL ? WIRE_END_KILLED : WIRE_END_INIT;
	ret.exit_code = end->by_signal ? 128 + end->code : end->code;
	ret.signal = end->by_signal ? end->code : 0;
	return ret;
}
