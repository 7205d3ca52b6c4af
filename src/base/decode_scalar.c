// SPDX-License-Identifier: Apache-2.0
/* Bounds, and the values that are not made of others. */
#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode_private.h"

#include "base/banned.h"

#define EXACT_REAL 9007199254740992.0 /* 2^53: from there on a double no longer tells integers apart */
#define NAMES_MAX 448                 /* bytes of the names of an enumeration in a message */

/* ---- bounds ---- */

static bool has_bounds(const struct field *f)
{
	return f->min != 0 || f->max != 0;
}

static int below(struct binding *b, const struct spot *at, const struct field *f)
{
	struct decode_problem p = { .type = "greater_than_equal", .ctx_key = "ge", .ctx_value = f->min };

	return problem_add(b, at, &p, "Input should be greater than or equal to %" PRId64, f->min);
}

static int above(struct binding *b, const struct spot *at, const struct field *f)
{
	struct decode_problem p = { .type = "less_than_equal", .ctx_key = "le", .ctx_value = f->max };

	return problem_add(b, at, &p, "Input should be less than or equal to %" PRId64, f->max);
}

/* Strings: N is in UNITs, "character" or "byte". */
static int check_length(struct binding *b, const struct spot *at, const struct field *f, size_t n, const char *unit)
{
	struct decode_problem p = { .type = "string_too_short", .ctx_key = "min_length", .ctx_value = f->min };

	if (!has_bounds(f))
		return 0;
	if (f->min > 0 && n < (uint64_t)f->min)
		return problem_add(b, at, &p, "String should have at least %" PRId64 " %s%s", f->min, unit,
				   f->min == 1 ? "" : "s");
	if (f->max < f->min || n <= (uint64_t)f->max)
		return 0;
	p = (struct decode_problem){ .type = "string_too_long", .ctx_key = "max_length", .ctx_value = f->max };
	return problem_add(b, at, &p, "String should have at most %" PRId64 " %s%s", f->max, unit,
			   f->max == 1 ? "" : "s");
}

int bind_check_count(struct binding *b, const struct spot *at, const struct field *f, const char *what)
{
	struct decode_problem p = { .type = "too_short", .ctx_key = "min_length", .ctx_value = f->min };
	size_t n = at->v->kids.n;

	if (!has_bounds(f))
		return 0;
	if (f->min > 0 && n < (uint64_t)f->min)
		return problem_add(b, at, &p, "%s should have at least %" PRId64 " item%s after validation, not %zu",
				   what, f->min, f->min == 1 ? "" : "s", n);
	if (f->max < f->min || n <= (uint64_t)f->max)
		return 0;
	p = (struct decode_problem){ .type = "too_long", .ctx_key = "max_length", .ctx_value = f->max };
	return problem_add(b, at, &p, "%s should have at most %" PRId64 " item%s after validation, not %zu", what,
			   f->max, f->max == 1 ? "" : "s", n);
}

/* ---- scalars ---- */

int bind_take_string(struct binding *b, const struct spot *at, const char **ret)
{
	struct str s = at->v->s;

	if (at->v->type != JSON_STRING)
		return problem_say(b, at, "string_type", "Input should be a valid string");
	if (s.n > 0 && memchr(s.p, '\0', s.n))
		return problem_say(b, at, "value_error", "Value error, must not contain a NUL character");
	*ret = arena_dup(b->d->arena, s);
	return *ret ? 0 : decode_no_room(b, s.n, 1);
}

static size_t count_characters(struct str s)
{
	size_t count = 0;

	for (size_t i = 0; i < s.n; i++)
		count += (s.p[i] & 0xc0) != 0x80;
	return count;
}

int bind_string(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	const char *copy = NULL;

	if (bind_take_string(b, at, &copy) < 0)
		return -1;
	if (!copy)
		return 0;
	*(const char **)to = copy;
	return check_length(b, at, f, count_characters(at->v->s), "character");
}

int bind_text(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	if (at->v->type != JSON_STRING)
		return problem_say(b, at, "string_type", "Input should be a valid string");
	*(struct str *)to = at->v->s;
	return check_length(b, at, f, at->v->s.n, "byte");
}

/* An integer that int64_t does not hold: out of bounds where there are any, too large to be read otherwise. */
static int refuse_huge(struct binding *b, const struct spot *at, const struct field *f, bool negative)
{
	if (negative && has_bounds(f))
		return below(b, at, f);
	if (!negative && has_bounds(f) && f->max >= f->min)
		return above(b, at, f);
	return problem_say(b, at, "int_parsing_size",
		       "Unable to parse input string as an integer, exceeded maximum size");
}

static int check_range(struct binding *b, const struct spot *at, const struct field *f, int64_t v, int64_t *to)
{
	if (has_bounds(f) && v < f->min)
		return below(b, at, f);
	if (has_bounds(f) && f->max >= f->min && v > f->max)
		return above(b, at, f);
	*to = v;
	return 0;
}

static int int_from_real(struct binding *b, const struct spot *at, const struct field *f, int64_t *to)
{
	double d = at->v->d;

	if (!(d > -EXACT_REAL && d < EXACT_REAL)) /* this way round, what is not a number is refused, too */
		return refuse_huge(b, at, f, d < 0);
	if ((double)(int64_t)d != d)
		return problem_say(b, at, "int_from_float",
			       "Input should be a valid integer, got a number with a fractional part");
	return check_range(b, at, f, (int64_t)d, to);
}

static bool all_digits(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n > 0;
}

static int int_from_string(struct binding *b, const struct spot *at, const struct field *f, int64_t *to)
{
	struct str s = at->v->s;
	bool negative = str_starts(s, STR("-"));
	int64_t v;

	if (str_to_i64(s, INT64_MIN, INT64_MAX, &v))
		return check_range(b, at, f, v, to);
	if (all_digits(str_skip(s, negative)))
		return refuse_huge(b, at, f, negative);
	return problem_say(b, at, "int_parsing",
		       "Input should be a valid integer, unable to parse string as an integer");
}

int bind_int(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	const struct json *v = at->v;

	if (v->type == JSON_INT)
		return check_range(b, at, f, v->i, to);
	if (v->type == JSON_UINT)
		return refuse_huge(b, at, f, false);
	if (v->type == JSON_REAL && !b->d->strict)
		return int_from_real(b, at, f, to);
	if (v->type == JSON_STRING && !b->d->strict)
		return int_from_string(b, at, f, to);
	return problem_say(b, at, "int_type", "Input should be a valid integer");
}

static int refuse_real(struct binding *b, const struct spot *at, const char *type, const char *key, double bound)
{
	struct json *ctx = arena_alloc(b->d->arena, sizeof(*ctx));
	struct decode_problem p = { .type = type, .ctx_key = key, .ctx_json = ctx };

	if (!ctx)
		return decode_no_room(b, 1, sizeof(*ctx));
	ctx->type = JSON_REAL;
	ctx->d = bound;
	return problem_add(b, at, &p, "Input should be %s than or equal to %g", key[0] == 'g' ? "greater" : "less", bound);
}

int bind_real(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	const struct json *v = at->v;
	bool bounded = f->real_min != 0 || f->real_max != 0;
	double d;

	if (v->type == JSON_REAL)
		d = v->d;
	else if (v->type == JSON_INT)
		d = (double)v->i;
	else if (v->type == JSON_UINT)
		d = (double)v->u;
	else
		return problem_say(b, at, "float_type", "Input should be a valid number");
	if (!isfinite(d)) /* TOML has them */
		return problem_say(b, at, "finite_number", "Input should be a finite number");
	if (bounded && d < f->real_min)
		return refuse_real(b, at, "greater_than_equal", "ge", f->real_min);
	if (bounded && f->real_max >= f->real_min && d > f->real_max)
		return refuse_real(b, at, "less_than_equal", "le", f->real_max);
	*(double *)to = d;
	return 0;
}

int bind_bool(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	(void)f;
	if (at->v->type == JSON_BOOL) {
		*(bool *)to = at->v->b;
		return 0;
	}
	if (at->v->type == JSON_ARRAY || at->v->type == JSON_OBJECT)
		return problem_say(b, at, "bool_type", "Input should be a valid boolean");
	return problem_say(b, at, "bool_parsing", "Input should be a valid boolean, unable to interpret input");
}

static int refuse_name(struct binding *b, const struct spot *at, const struct field *f)
{
	AUTO(buf_done) struct buf names = BUF_INIT(NAMES_MAX);
	struct json *expected = arena_alloc(b->d->arena, sizeof(*expected));
	struct decode_problem p = { .type = "literal_error", .ctx_key = "expected", .ctx_json = expected };
	char *text;

	for (size_t i = 0; f->names[i]; i++)
		(void)buf_addf(&names, "%s'%s'", i == 0 ? "" : f->names[i + 1] ? ", " : " or ", f->names[i]);
	text = arena_dup(b->d->arena, buf_str(&names));
	if (!expected || !text)
		return decode_no_room(b, names.n + sizeof(*expected), 1);
	expected->type = JSON_STRING;
	expected->s = buf_str(&names);
	expected->s.p = text;
	return problem_add(b, at, &p, "Input should be %s", text);
}

int bind_enum(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	if (at->v->type == JSON_STRING) {
		for (int i = 0; f->names[i]; i++) {
			if (str_is(at->v->s, f->names[i])) {
				*(int *)to = i;
				return 0;
			}
		}
	}
	return refuse_name(b, at, f);
}
