// SPDX-License-Identifier: Apache-2.0
#include "net/http/range.h"

#include <inttypes.h>

#include "base/buf.h"
#include "net/http/header.h"
#include "net/http/http1.h"

#include "base/banned.h"

/* Digits only; a number beyond 64 bits counts as the largest one, which no body reaches. */
static bool parse_offset(struct str s, uint64_t *ret)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	if (s.n > 0 && !str_to_u64(s, 0, UINT64_MAX, ret))
		*ret = UINT64_MAX;
	return s.n > 0;
}

static enum range_result parse_suffix(struct str digits, uint64_t size, struct range *ret)
{
	uint64_t n;

	if (!parse_offset(digits, &n))
		return RANGE_MALFORMED;
	if (n == 0 || size == 0)
		return RANGE_UNSATISFIABLE;
	n = MIN(n, size);
	*ret = (struct range){ size - n, n };
	return RANGE_OK;
}

static enum range_result parse_one(struct str spec, uint64_t size, struct range *ret)
{
	struct str left, right;
	uint64_t first, last = UINT64_MAX;

	if (!str_cut(spec, '-', &left, &right))
		return RANGE_MALFORMED;
	if (left.n == 0)
		return parse_suffix(right, size, ret);
	if (!parse_offset(left, &first) || (right.n > 0 && !parse_offset(right, &last)) || last < first)
		return RANGE_MALFORMED;
	if (first >= size)
		return RANGE_UNSATISFIABLE;
	last = MIN(last, size - 1);
	*ret = (struct range){ first, last - first + 1 };
	return RANGE_OK;
}

enum range_result range_parse(struct str value, uint64_t size, struct range *ret_range)
{
	enum range_result result = RANGE_UNSATISFIABLE;
	struct str unit, specs, spec;
	size_t count = 0;

	value = str_trim(value);
	if (value.n == 0)
		return RANGE_NONE;
	if (!str_cut(value, '=', &unit, &specs) || !http_is_token(unit))
		return RANGE_MALFORMED;
	if (!str_eq_nocase(unit, STR("bytes")))
		return RANGE_NONE;
	while (header_list_next(&specs, &spec)) {
		struct range r;
		enum range_result one = parse_one(spec, size, &r);

		if (one == RANGE_MALFORMED || ++count > RANGE_COUNT_MAX)
			return RANGE_MALFORMED;
		if (one == RANGE_OK && result != RANGE_OK) {
			*ret_range = r;
			result = RANGE_OK;
		}
	}
	return count > 0 ? result : RANGE_MALFORMED;
}

bool range_write(struct buf *b, struct range r, uint64_t size)
{
	return buf_addf(b, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, r.first, r.first + r.length - 1, size);
}

bool range_write_unsatisfiable(struct buf *b, uint64_t size)
{
	return buf_addf(b, "bytes */%" PRIu64, size);
}
