// SPDX-License-Identifier: Apache-2.0
#include "execd/duration.h"

#include "base/own.h"

#include "base/banned.h"

/* A number with at most one point, in front of a unit: its value in units of a thousandth. */
static bool take_thousandths(struct str *in, uint64_t *ret)
{
	uint64_t value = 0, scale = 1000;
	bool has_point = false, has_digit = false;

	for (; in->n > 0 && (in->p[0] == '.' || (in->p[0] >= '0' && in->p[0] <= '9')); *in = str_skip(*in, 1)) {
		if (in->p[0] == '.') {
			if (has_point)
				return false;
			has_point = true;
			continue;
		}
		has_digit = true;
		if (!has_point && (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(in->p[0] - '0') * 1000, &value)))
			return false;
		scale /= has_point ? 10 : 1;
		value += has_point ? (uint64_t)(in->p[0] - '0') * scale : 0;
	}
	*ret = value;
	return has_digit;
}

bool duration_ms(struct str s, uint64_t *ret)
{
	static const struct {
		struct str name;
		uint64_t us;
	} units[] = { { STR("ns"), 0 }, { STR("us"), 1 }, { STR("ms"), 1000 }, { STR("s"), 1000000 }, { STR("m"), 60000000 },
		      { STR("h"), UINT64_C(3600000000) } };
	bool is_negative = s.n > 0 && s.p[0] == '-';
	uint64_t sum = 0;

	if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		s = str_skip(s, 1);
	*ret = 0;
	if (str_eq(s, STR("0")))
		return true;
	if (s.n == 0)
		return false;
	while (s.n > 0) {
		uint64_t thousandths;
		size_t unit = 0;

		if (!take_thousandths(&s, &thousandths))
			return false;
		while (unit < ARRAY_LEN(units) && !str_starts(s, units[unit].name))
			unit++;
		if (unit == ARRAY_LEN(units) || __builtin_mul_overflow(thousandths, units[unit].us, &thousandths) ||
		    __builtin_add_overflow(sum, thousandths, &sum))
			return false;
		s = str_skip(s, units[unit].name.n);
	}
	*ret = is_negative ? 0 : sum / 1000000;
	return true;
}
