// SPDX-License-Identifier: Apache-2.0
/* base/http_date.h - the dates of HTTP headers: "Sun, 06 Nov 1994 08:49:37 GMT" (IMF-fixdate, RFC 9110).
 * The two obsolete formats are not accepted: a header with one counts as absent. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define HTTP_DATE_LEN 29

/* Seconds since 1970. The weekday must be the right one; a leap second (":60") counts as :59. */
bool http_date_parse(struct str text, int64_t *ret_s);
void http_date_format(int64_t s, char out[HTTP_DATE_LEN + 1]); /* clamped to the years 0001 to 9999 */
