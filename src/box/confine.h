// SPDX-License-Identifier: Apache-2.0
/* box/confine.h - what our unprivileged programs give up (P1): capabilities, new privileges, core files, and
 * system calls. Their filter is that of sandboxes without the calls that such programs do not need. */
#pragma once
#include <stddef.h>

struct err;

/* Of this process, with one thread, for good. DENIED are names of further calls. */
int confine_process(const char *const *denied, size_t n, struct err *e);
void confine_process_end(void); /* right before exit(): lets the leak checker of test builds do its work */
