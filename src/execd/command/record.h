// SPDX-License-Identifier: Apache-2.0
/* execd/command/record.h - records for the warden: how the entrypoint ended. */
#pragma once
#include <stdbool.h>

#include "base/guest.h"

struct err;
struct process_end;

/* One record of base/guest.h appended to FD (-1: none). A file that cannot be written is logged, never
 * fatal. */
void record_write(int fd, enum guest_kind kind, const char *text);
void record_failed(int fd, const struct err *why, bool is_image); /* IS_IMAGE: see GUEST_FLAG_IMAGE */
void record_exited(int fd, const struct process_end *end, bool is_oom);
