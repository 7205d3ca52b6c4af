// SPDX-License-Identifier: Apache-2.0
/* Every grammar of base/quantity.h: a result is in range and, written in its base unit, reads back the same;
 * a refusal says why and leaves the result alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/quantity.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int (*quantity_fn)(struct str text, uint64_t *ret, struct err *e);

static void check(quantity_fn fn, const char *unit, struct str text)
{
	const uint64_t untouched = 0xfeedfacefeedface;
	struct err e = { 0 };
	uint64_t v = untouched, back = 0;
	char again[32];

	if (fn(text, &v, &e) < 0) {
		if (v != untouched || e.code != ERR_INVALID || !e.msg[0])
			abort();
		return;
	}
	if (v > INT64_MAX || e.code != ERR_NONE || text.n > QUANTITY_TEXT_MAX)
		abort();
	(void)snprintf(again, sizeof(again), "%" PRIu64 "%s", v, unit);
	if (fn(str_of(again), &back, &e) < 0 || back != v)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };

	check(quantity_cpu, "m", text);
	check(quantity_memory, "b", text);
	check(quantity_storage, "", text);
	return 0;
}
