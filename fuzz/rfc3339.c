// SPDX-License-Identifier: Apache-2.0
/* Times of RFC 3339 and HTTP: what was parsed, written and parsed again is the same instant, and writing is a
 * fixpoint. */
#include <stdlib.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/http_date.h"
#include "base/rfc3339.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct timespec t, size_t (*format)(struct timespec t, char *out), long unit_ns)
{
	char text[RFC3339_SIZE], again[RFC3339_SIZE];
	struct err e = { 0 };
	struct timespec back;
	size_t n = format(t, text);

	if (n >= RFC3339_SIZE || text[n] || rfc3339_parse((struct str){ text, n }, 0, &back, &e) < 0)
		abort();
	if (back.tv_sec != t.tv_sec || back.tv_nsec != t.tv_nsec / unit_ns * unit_ns)
		abort();
	if (format(back, again) != n || memcmp(text, again, n) != 0)
		abort();
}

static void check_http_date(struct str text)
{
	char again[HTTP_DATE_LEN + 1];
	int64_t s, back;

	if (!http_date_parse(text, &s))
		return;
	http_date_format(s, again);
	if (!http_date_parse(str_of(again), &back) || back != s)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct timespec t = { .tv_sec = -1, .tv_nsec = -1 };
	struct err e = { 0 };

	check_http_date(text);
	if (rfc3339_parse(text, size % 2 ? RFC3339_SPACE : 0, &t, &e) < 0) {
		if (t.tv_sec != -1 || t.tv_nsec != -1 || e.code != ERR_INVALID)
			abort();
		return 0;
	}
	if (t.tv_sec < CIVIL_MIN_S || t.tv_sec > CIVIL_MAX_S || t.tv_nsec < 0 || t.tv_nsec >= NS_PER_S)
		abort();
	check(t, rfc3339_format_ns, 1);
	check(t, rfc3339_format, 1000);
	check(t, rfc3339_format_ms, 1000000);
	return 0;
}
