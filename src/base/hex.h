// SPDX-License-Identifier: Apache-2.0
/* base/hex.h - bytes as hexadecimal digits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Writes 2 * N lower-case digits and a NUL. */
void hex_encode(char *out, const void *p, size_t n);

/* Exactly N bytes from exactly 2 * N digits of either case; false and OUT unspecified otherwise. */
bool hex_decode(struct str text, void *out, size_t n);
