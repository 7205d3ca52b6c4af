// SPDX-License-Identifier: Apache-2.0
/* execd/duration.h - durations as they are written in the environment of this daemon: "1h15m30.5s", "500ms",
 * "0". */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

bool duration_ms(struct str s, uint64_t *ret); /* a negative one is 0; false: it is none, or too long */
