// SPDX-License-Identifier: Apache-2.0
#include "base/quantity.h"

#include <stdbool.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

/* "12.50" as its digits before and after the point. */
struct decimal {
	struct str whole, part;
	bool has_point;
};

static struct str take_digits(struct str *in)
{
	struct str s = *in;
	size_t n = 0;

	while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	*in = str_skip(s, n);
	return str_first(s, n);
}

static struct decimal take_decimal(struct str *in)
{
	struct decimal d = { .whole = take_digits(in) };

	if (in->n > 0 && in->p[0] == '.') {
		*in = str_skip(*in, 1);
		d.has_point = true;
		d.part = take_digits(in);
	}
	return d;
}

/* D * UNIT in whole units of one, a part being one more; false when the result is above MAX (at most INT64_MAX). UNIT is at most
 * 2^60, so that ten times it fits. The part is multiplied digit by digit from its end:
 * 0.d1d2 * u = (d1 * u + (d2 * u) / 10) / 10, exact for any number of digits. */
static bool scale(const struct decimal *d, uint64_t unit, uint64_t max, uint64_t *ret)
{
	uint64_t whole = 0, part = 0;
	bool is_exact = true;

	if (d->whole.n > 0 && !str_to_u64(d->whole, 0, max, &whole))
		return false;
	for (size_t i = d->part.n; i > 0; i--) {
		part += (uint64_t)(d->part.p[i - 1] - '0') * unit;
		is_exact = is_exact && part % 10 == 0;
		part /= 10;
	}
	if (!is_exact)
		part++;
	if (__builtin_mul_overflow(whole, unit, &whole) || __builtin_add_overflow(whole, part, &whole) || whole > max)
		return false;
	*ret = whole;
	return true;
}

static int bad(struct err *e, const char *what, struct str text, const char *problem)
{
	text = str_first(text, QUANTITY_TEXT_MAX);
	return err_set(e, ERR_INVALID, "bad %s '%.*s': %s", what, STR_ARG(text), problem);
}

int quantity_cpu(struct str text, uint64_t *ret_milli, struct err *e)
{
	static const char what[] = "cpu count";
	struct str in = str_trim(text);
	struct decimal d;
	uint64_t unit = 1000, v;

	if (text.n > QUANTITY_TEXT_MAX)
		return bad(e, what, text, "too long");
	d = take_decimal(&in);
	if (d.whole.n + d.part.n == 0)
		return bad(e, what, text, "does not begin with a number");
	if (str_eq_nocase(in, STR("m")))
		unit = 1;
	else if (in.n > 0)
		return bad(e, what, text, "the only unit is 'm'");
	if (!scale(&d, unit, QUANTITY_CPU_MAX_MILLI, &v))
		return bad(e, what, text, "more than a million CPUs");
	if (v == 0)
		return bad(e, what, text, "must be above zero");
	*ret_milli = v;
	return 0;
}

struct unit {
	struct str name;
	uint64_t size;
};

static const struct unit *find_unit(const struct unit *units, size_t n, struct str name, bool nocase)
{
	for (size_t i = 0; i < n; i++)
		if (nocase ? str_eq_nocase(units[i].name, name) : str_eq(units[i].name, name))
			return &units[i];
	return NULL;
}

#define U(name, size) { { (name), sizeof(name) - 1 }, (size) }

/* How one kind of byte sizes is written. */
struct sizes {
	const char *what;
	const struct unit *units;
	size_t n_units;
	const char *problem; /* of a unit that is none of them */
	bool nocase, fractions;
};

/* TEXT is what messages repeat, IN the part of it that counts. */
static int size_parse(const struct sizes *k, struct str text, struct str in, uint64_t *ret, struct err *e)
{
	const struct unit *u;
	struct decimal d;

	if (text.n > QUANTITY_TEXT_MAX)
		return bad(e, k->what, text, "too long");
	d = take_decimal(&in);
	if (d.whole.n == 0)
		return bad(e, k->what, text, "does not begin with a number");
	if (d.has_point && !k->fractions)
		return bad(e, k->what, text, "fractions are not allowed");
	if (d.has_point && d.part.n == 0)
		return bad(e, k->what, text, "no digits after '.'");
	u = find_unit(k->units, k->n_units, in, k->nocase);
	if (!u)
		return bad(e, k->what, text, k->problem);
	if (!scale(&d, u->size, INT64_MAX, ret))
		return bad(e, k->what, text, "too large");
	return 0;
}

int quantity_memory(struct str text, uint64_t *ret_bytes, struct err *e)
{
	static const struct unit units[] = {
		U("", 1),                 U("b", 1),
		U("k", 1000),             U("kb", 1000),             U("ki", UINT64_C(1) << 10),
		U("m", 1000000),          U("mb", 1000000),          U("mi", UINT64_C(1) << 20),
		U("g", 1000000000),       U("gb", 1000000000),       U("gi", UINT64_C(1) << 30),
		U("t", 1000000000000),    U("tb", 1000000000000),    U("ti", UINT64_C(1) << 40),
	};
	static const struct sizes memory = {
		.what = "memory size",
		.units = units,
		.n_units = ARRAY_LEN(units),
		.problem = "unknown unit; known are b, k, kb, ki, m, mb, mi, g, gb, gi, t, tb and ti",
		.nocase = true,
	};

	return size_parse(&memory, text, str_trim(text), ret_bytes, e);
}

int quantity_storage(struct str text, uint64_t *ret_bytes, struct err *e)
{
	static const struct unit units[] = {
		U("", 1),
		U("Ki", UINT64_C(1) << 10), U("Mi", UINT64_C(1) << 20), U("Gi", UINT64_C(1) << 30),
		U("Ti", UINT64_C(1) << 40), U("Pi", UINT64_C(1) << 50), U("Ei", UINT64_C(1) << 60),
	};
	static const struct sizes storage = {
		.what = "storage size",
		.units = units,
		.n_units = ARRAY_LEN(units),
		.problem = "unknown unit; known are Ki, Mi, Gi, Ti, Pi and Ei",
		.fractions = true,
	};

	return size_parse(&storage, text, text, ret_bytes, e);
}
