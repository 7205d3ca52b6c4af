// SPDX-License-Identifier: Apache-2.0
#include "server/config/port_range.h"

#include <stdint.h>

#include "base/banned.h"

bool port_range_parse(struct str text, unsigned *ret_first, unsigned *ret_last)
{
	struct str a, b;
	uint64_t first, last;

	if (!str_cut(text, '-', &a, &b) || !str_to_u64(str_trim(a), PORT_RANGE_MIN, 65535, &first) ||
	    !str_to_u64(str_trim(b), first, 65535, &last))
		return false;
	*ret_first = (unsigned)first;
	*ret_last = (unsigned)last;
	return true;
}
