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

#define FLAGS_END (2 * RFC3339_NO_SECONDS) /* every combination of flags is below it */

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

/* The instant, or tv_nsec = -1. */
static struct timespec parse(struct str text, unsigned flags)
{
	struct timespec t = { .tv_sec = -1, .tv_nsec = -1 };
	struct err e = { 0 };

	if (rfc3339_parse(text, flags, &t, &e) < 0) {
		if (t.tv_sec != -1 || t.tv_nsec != -1 || e.code != ERR_INVALID)
			abort();
	} else if (t.tv_sec < CIVIL_MIN_S || t.tv_sec > CIVIL_MAX_S || t.tv_nsec < 0 || t.tv_nsec >= NS_PER_S) {
		abort();
	}
	return t;
}

/* A flag takes nothing away: what is a time without it is the same time with it. */
static void check_flag(struct timespec without, struct timespec with)
{
	if (without.tv_nsec >= 0 && (with.tv_nsec != without.tv_nsec || with.tv_sec != without.tv_sec))
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
	struct timespec t[FLAGS_END];

	check_http_date(text);
	for (unsigned flags = 0; flags < FLAGS_END; flags++) {
		t[flags] = parse(text, flags);
		for (unsigned one = 1; one < FLAGS_END; one <<= 1)
			check_flag(t[flags & ~one], t[flags]);
	}
	if (t[FLAGS_END - 1].tv_nsec < 0)
		return 0;
	check(t[FLAGS_END - 1], rfc3339_format_ns, 1);
	check(t[FLAGS_END - 1], rfc3339_format, 1000);
	check(t[FLAGS_END - 1], rfc3339_format_ms, 1000000);
	return 0;
}
