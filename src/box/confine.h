// SPDX-License-Identifier: Apache-2.0
/* box/confine.h - what programs that hear strangers give up besides their files (P1): capabilities, new privileges, cores, and of the
 * system calls that sandboxes may make those that they have no business with. */
#pragma once
#include <stddef.h>

struct err;

/* Of this process, with one thread, for good. DENIED are names of further calls. */
int confine_process(const char *const *denied, size_t n, struct err *e);
void confine_process_end(void); /* right before exit(): lets the leak checker of test builds do its work */
