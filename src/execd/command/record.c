// SPDX-License-Identifier: Apache-2.0
#include "execd/command/record.h"

#include <endian.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "execd/io/events.h"
#include "net/utf8.h"
#include "sys/fd.h"
#include "sys/process.h"

#include "base/banned.h"

static void append(int fd, const struct guest_record *r)
{
	struct timespec now = clock_wall();
	struct guest_record wire = *r;
	struct err e = { 0 };

	if (fd < 0)
		return;
	wire.magic = htole32(GUEST_RECORD_MAGIC);
	wire.version = htole16(GUEST_RECORD_VERSION);
	wire.kind = htole16(r->kind);
	wire.exit_code = (int32_t)htole32((uint32_t)r->exit_code);
	wire.signal = (int32_t)htole32((uint32_t)r->signal);
	wire.flags = htole32(r->flags);
	wire.time_ns = (int64_t)htole64((uint64_t)(now.tv_sec * NS_PER_S + now.tv_nsec));
	if (fd_write_all(fd, &wire, sizeof(wire), &e) < 0)
		log_error("the state file cannot be written", LOG_ERR(&e));
}

static void write_text(int fd, enum guest_kind kind, uint32_t flags, const char *text)
{
	struct guest_record r = { .kind = (uint16_t)kind, .flags = flags };
	size_t n;

	(void)snprintf(r.text, sizeof(r.text), "%s", text); /* cut where it does not fit, */
	n = utf8_valid_prefix(str_of(r.text));              /* but not within a character */
	memset(r.text + n, 0, sizeof(r.text) - n);
	append(fd, &r);
}

void record_write(int fd, enum guest_kind kind, const char *text)
{
	write_text(fd, kind, 0, text);
}

void record_failed(int fd, const struct err *why, bool is_image)
{
	write_text(fd, GUEST_FAILED, is_image ? GUEST_FLAG_IMAGE : 0, why->msg);
}

void record_exited(int fd, const struct process_end *end, bool is_oom)
{
	struct guest_record r = {
		.kind = GUEST_EXITED,
		.exit_code = exit_code_of(end),
		.signal = end->by_signal ? end->code : 0,
		.flags = is_oom ? GUEST_FLAG_OOM : 0,
	};

	append(fd, &r);
}
