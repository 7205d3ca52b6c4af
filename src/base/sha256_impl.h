// SPDX-License-Identifier: Apache-2.0
/* base/sha256_impl.h - what sha256.c and sha256_x86.c share. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint32_t sha256_k[64];

void sha256_blocks_plain(uint32_t state[8], const unsigned char *p, size_t n);

/* Adds N blocks by the instructions that the CPU has for it. False: it has none, and nothing was done. */
bool sha256_blocks_fast(uint32_t state[8], const unsigned char *p, size_t n);
