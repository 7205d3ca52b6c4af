// SPDX-License-Identifier: Apache-2.0
/* net/http/range.h - the Range request header, for one range of bytes of a body whose size is known. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

#define RANGE_COUNT_MAX 64 /* ranges in one header; more is malformed */

enum range_result {
	RANGE_NONE,          /* no header, or a unit other than bytes: send everything */
	RANGE_OK,            /* 206 */
	RANGE_MALFORMED,     /* 416 */
	RANGE_UNSATISFIABLE, /* 416 with "bytes *" "/SIZE" */
};

struct range {
	uint64_t first, length; /* length > 0, first + length <= size */
};

/* Reads "bytes=a-b", "a-" or "-n" against a body of SIZE bytes. Of several ranges all must be well-formed and
 * the first that overlaps the body is the result; an end beyond the body is clamped, also one beyond 64
 * bits. */
enum range_result range_parse(struct str value, uint64_t size, struct range *ret_range);

/* Append the value of Content-Range: "bytes a-b/size", and "bytes *" "/size" for RANGE_UNSATISFIABLE. */
bool range_write(struct buf *b, struct range r, uint64_t size);
bool range_write_unsatisfiable(struct buf *b, uint64_t size);
