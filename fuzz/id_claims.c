// SPDX-License-Identifier: Apache-2.0
/* The files of accounts and id ranges (N2). The first byte says which, the rest is the file: a claim that is found overlaps
 * the range that was asked for, and lies in the text; the whole range is free only when no half of it is claimed. */
#include <stdlib.h>

#include "box/preflight_ids.h"

#include "base/banned.h"

#define FIRST 1048576
#define LAST 1074790399
#define MIDDLE 500000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum id_file kind = size > 0 && data[0] == 'r' ? ID_FILE_RANGES : ID_FILE_ACCOUNTS;
	struct str text = str_skip((struct str){ (const char *)data, size }, 1);
	struct id_claim c, half;
	bool found = id_claim_find(text, kind, FIRST, LAST, &c);

	if (found && (c.first > LAST || c.last < FIRST || c.first > c.last))
		abort();
	if (found && (c.name.p < text.p || c.name.p + c.name.n > text.p + text.n))
		abort();
	if (found != (id_claim_find(text, kind, FIRST, MIDDLE, &half) || id_claim_find(text, kind, MIDDLE + 1, LAST, &half)))
		abort();
	return 0;
}
