// SPDX-License-Identifier: Apache-2.0
/* base/rfc3339.h - timestamps as text: "2026-06-15T09:46:58.120431Z".
 *
 * Parsing accepts 'T' or 't', 'Z' or 'z' or a numeric offset up to +-23:59, and a fraction of any number of
 * digits, cut after nine. A time without offset names no instant and is refused, unless a flag allows it. A
 * leap second (":60", at 23:59 UTC on the last day of a month only) becomes .999999 of the second before it,
 * so that it stays in its day. Dates are checked against the proleptic Gregorian calendar; the instant must
 * lie in the years 0001 to 9999. */
#pragma once
#include <stddef.h>
#include <time.h>

#include "base/str.h"

struct err;

#define RFC3339_SIZE 31     /* of the longest text, with its NUL: nine digits and 'Z' */
#define RFC3339_TEXT_MAX 64 /* bytes of input that are looked at: longer text is refused */

enum rfc3339_flags {
	RFC3339_SPACE = 1,      /* a single space may stand for the 'T' */
	RFC3339_NAIVE_UTC = 2,  /* a time without offset is taken for UTC */
	/* seconds (and with them the fraction) may be left out: "2026-01-01T10:15+08:00" */
	RFC3339_NO_SECONDS = 4,
};

int rfc3339_parse(struct str text, unsigned flags, struct timespec *ret, struct err *e);

/* Formatting: UTC with 'Z', NUL-terminated, returns the length. A time outside the years 0001 to 9999 (a
 * file can have one) is written as the nearest one inside. Digits that do not fit are cut, not rounded. */
/* no fraction when zero, else six digits */
size_t rfc3339_format(struct timespec t, char out[RFC3339_SIZE]);
size_t rfc3339_format_ms(struct timespec t, char out[RFC3339_SIZE]); /* always three digits */
size_t rfc3339_format_ns(struct timespec t, char out[RFC3339_SIZE]); /* up to nine, no trailing zeros */
