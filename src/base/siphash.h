// SPDX-License-Identifier: Apache-2.0
/* base/siphash.h - SipHash-1-3: a short keyed hash, so that a peer who chooses keys cannot choose collisions.
 * For hash tables only; to authenticate a message use base/sha256.h. */
#pragma once
#include <stdint.h>

#include "base/str.h"

uint64_t siphash(const uint64_t seed[2], struct str s);
