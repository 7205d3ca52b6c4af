// SPDX-License-Identifier: Apache-2.0
/* cli/human.h - amounts in human-readable units. Pure.
 *
 *     printf("%s of %s", BYTES(done), BYTES(total));     "1.2 MiB of 3.0 GiB" */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct buf;

struct human {
	char z[16];
};

const char *human_bytes(struct human *out, uint64_t bytes); /* "0 B", "1023 B", "1.0 KiB", "512 MiB" */
/* the two largest units: "45s", "3m20s", "2h5m", "4d3h" */
const char *human_span(struct human *out, uint64_t seconds);

/* The same, in memory that lives as long as the enclosing block. */
#define BYTES(n) human_bytes(&(struct human){ .z = "" }, (n))
#define SPAN(s) human_span(&(struct human){ .z = "" }, (s))

/* Foreign text in exactly COLUMNS columns of a terminal: escaped, padded with spaces, or cut with "~" at its
 * end. Each character is taken for one column wide: right for what names of images and files are made of,
 * near enough for the rest. */
void human_cell(struct buf *out, struct str text, unsigned columns);
