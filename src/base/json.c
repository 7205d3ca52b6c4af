// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json_scan.h"

#include "base/banned.h"

#define PATH_MAX_BYTES 256 /* of the path in an error; what does not fit is left out */
#define PATH_KEY_MAX 64    /* bytes of one name in it */
#define EXPONENT_MAX 99999 /* larger ones are zero or infinite just the same, in a number of JSON_NUMBER_MAX */
#define ARENA_SLACK 64     /* what an arena may lose by rounding up */

/* The parser is a loop, not a recursion. Invariants between two of its steps:
 *  1. `open` is the innermost array or object that is not closed yet, NULL outside of all.
 *  2. An open container is the last child of its parent, and its `next` (free until it has a sibling) points
 *     to that parent. Closing sets it to NULL.
 *  3. `depth` is the number of open containers. */
struct parser {
	const char *begin, *p, *end;
	struct arena *arena;
	struct json *root, *open;
	unsigned depth, depth_max;
	size_t values, values_max;
	bool in_value; /* an error belongs to the last child of `open`, not to `open` itself */
	size_t offset; /* of the error */
	struct err *e;
};

/* ---- errors ---- */

void json_path_key(struct buf *b, struct str key)
{
	struct str rest = str_first(key, PATH_KEY_MAX);

	(void)buf_add_char(b, '.');
	while (rest.n > 0) {
		uint32_t rune;
		size_t n = utf8_next(rest, &rune);

		if (n == 0)
			break; /* the cut went through a character */
		if (escape_needed(rune))
			(void)buf_add_char(b, '?');
		else
			(void)buf_add(b, rest.p, n);
		rest = str_skip(rest, n);
	}
	if (key.n > PATH_KEY_MAX)
		(void)buf_add_str(b, STR("..."));
}

void json_path_index(struct buf *b, size_t i)
{
	(void)buf_addf(b, "[%zu]", i);
}

int json_no_room(const struct arena *a, size_t need, struct err *e)
{
	size_t room = a->max > a->used ? a->max - a->used : 0;

	if (room < ARENA_SLACK || room - ARENA_SLACK < need)
		return err_set(e, ERR_LIMIT, "document needs more than %zu bytes of memory", a->max);
	return err_no_memory(e);
}

/* Every open container is the last child of its parent, so the path follows the last children. */
static void path_of_error(const struct parser *ps, struct buf *b)
{
	const struct json *v = ps->root;

	(void)buf_add_char(b, '$');
	while (v != ps->open || ps->in_value) {
		const struct json *child = v->kids.last;

		if (v->type == JSON_OBJECT)
			json_path_key(b, child->key);
		else
			json_path_index(b, v->kids.n - 1);
		if (v == ps->open)
			break;
		v = child;
	}
}

static int fail(struct parser *ps, const char *at, enum err_code code, const char *what)
{
	AUTO(buf_done) struct buf path = BUF_INIT(PATH_MAX_BYTES);

	ps->offset = (size_t)(at - ps->begin);
	(void)err_set(ps->e, code, "byte %zu: %s", ps->offset, what);
	if (!ps->open)
		return -1;
	path_of_error(ps, &path);
	return err_wrap(ps->e, "%s%s", buf_z(&path), path.failed ? "..." : "");
}

static int bad(struct parser *ps, const char *at, const char *what)
{
	return fail(ps, at, ERR_INVALID, at == ps->end ? "unexpected end of input" : what);
}

static int no_room(struct parser *ps, size_t need)
{
	ps->offset = (size_t)(ps->p - ps->begin);
	return json_no_room(ps->arena, need, ps->e);
}

/* ---- strings ---- */

/* By the character after a backslash: what it stands for, 0 when there is no such escape. */
static const char escapes[256] = {
	['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b', ['f'] = '\f',
	['n'] = '\n', ['r'] = '\r',  ['t'] = '\t', ['u'] = 'u',
};

/* Reads the four digits after \u at P. */
static bool hex4(const char *p, const char *end, uint32_t *ret)
{
	uint64_t v;

	if (end - p < 4 || !str_to_hex64((struct str){ p, 4 }, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Decodes the \u escape (or pair of them) whose 'u' is at *P, and moves *P behind it. */
static int unescape_rune(struct parser *ps, const char **p, const char *end, uint32_t *ret_rune)
{
	const char *at = *p - 1;
	uint32_t rune, low;

	if (!hex4(at + 2, end, &rune))
		return fail(ps, at, ERR_INVALID, "invalid \\u escape");
	*p = at + 6;
	if (rune >= 0xd800 && rune <= 0xdfff) {
		if (rune >= 0xdc00 || end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u' || !hex4(*p + 2, end, &low) ||
		    low < 0xdc00 || low > 0xdfff)
			return fail(ps, at, ERR_INVALID, "lone surrogate");
		rune = 0x10000 + ((rune - 0xd800) << 10) + (low - 0xdc00);
		*p += 6;
	}
	*ret_rune = rune;
	return 0;
}

/* Copies RAW, the validated inside a string with escapes; every escape is longer than what it stands for. */
static int unescape(struct parser *ps, struct str raw, struct str *ret)
{
	const char *p = raw.p, *end = raw.p + raw.n;
	char *out = arena_alloc(ps->arena, raw.n), *o = out;

	if (!out)
		return no_room(ps, raw.n);
	while (p < end) {
		const char *slash = memchr(p, '\\', (size_t)(end - p));
		size_t run = (size_t)((slash ? slash : end) - p);
		uint32_t rune = 0;

		memcpy(o, p, run);
		o += run;
		if (!slash)
			break;
		p = slash + 1;
		if (*p != 'u') {
			*o++ = escapes[(unsigned char)*p++];
			continue;
		}
		if (unescape_rune(ps, &p, end, &rune) < 0)
			return -1;
		o += utf8_put(o, rune);
	}
	*ret = (struct str){ out, (size_t)(o - out) };
	return 0;
}

/* A quote, backslash or anything beyond printable ASCII at P: returns where the string goes on, NULL on error. */
static const char *scan_special(struct parser *ps, const char *p)
{
	unsigned char c = (unsigned char)*p;
	uint32_t rune;
	size_t n;

	if (c == '\\') {
		if (ps->end - p >= 2 && escapes[(unsigned char)p[1]])
			return p + 2;
		(void)bad(ps, p + 1, "invalid escape");
		return NULL;
	}
	if (c < 0x20) {
		(void)bad(ps, p, "control character in a string");
		return NULL;
	}
	n = utf8_next((struct str){ p, (size_t)(ps->end - p) }, &rune);
	if (n == 0) {
		(void)bad(ps, p, "ill-formed UTF-8");
		return NULL;
	}
	return p + n;
}

/* At the opening quote. A string without escapes is returned where it is. */
static int parse_string(struct parser *ps, struct str *ret)
{
	const char *start = ps->p + 1, *p = json_plain(start, ps->end);
	bool escaped = false;

	while (p < ps->end && *p != '"') {
		escaped |= *p == '\\';
		p = scan_special(ps, p);
		if (!p)
			return -1;
		p = json_plain(p, ps->end);
	}
	if (p == ps->end)
		return bad(ps, p, "unterminated string");
	*ret = (struct str){ start, (size_t)(p - start) };
	if (escaped && unescape(ps, *ret, ret) < 0)
		return -1;
	ps->p = p + 1;
	return 0;
}

/* ---- numbers ---- */

struct number {
	uint64_t digits; /* all digits as one integer, meaningless when `wide` */
	bool negative, wide, is_real;
	int exponent;    /* the value is digits * 10^exponent */
};

/* Takes the digits at P; NULL when there are none. */
static const char *take_digits(struct number *n, const char *p, const char *end)
{
	const char *start = p;
	uint64_t digits = n->digits;

	for (; p < end && *p >= '0' && *p <= '9'; p++)
		n->wide |= __builtin_mul_overflow(digits, 10, &digits) ||
			   __builtin_add_overflow(digits, (uint64_t)(*p - '0'), &digits);
	n->digits = digits;
	return p > start ? p : NULL;
}

/* Takes what follows an 'e'; NULL when there are no digits. */
static const char *take_exponent(struct number *n, const char *p, const char *end)
{
	bool negative = p < end && *p == '-';
	const char *start;
	int v = 0;

	if (p < end && (*p == '-' || *p == '+'))
		p++;
	for (start = p; p < end && *p >= '0' && *p <= '9'; p++)
		v = MIN(v * 10 + (*p - '0'), EXPONENT_MAX);
	n->exponent += negative ? -v : v;
	return p > start ? p : NULL;
}

/* Follows the grammar of RFC 8259, section 6, and returns the end of the number. */
static const char *scan_number(struct parser *ps, struct number *n)
{
	const char *p = ps->p, *end = ps->end, *next;

	n->negative = *p == '-';
	p += n->negative;
	if (p < end && *p == '0')
		next = p + 1; /* a digit after it is left over, and refused by whatever comes next */
	else
		next = take_digits(n, p, end);
	if (next && next < end && *next == '.') {
		p = next + 1;
		next = take_digits(n, p, end);
		n->is_real = true;
		n->exponent = next ? -(int)MIN(next - p, (ptrdiff_t)EXPONENT_MAX) : 0;
	}
	if (next && next < end && (*next == 'e' || *next == 'E')) {
		p = next + 1;
		next = take_exponent(n, p, end);
		n->is_real = true;
	}
	if (!next)
		(void)bad(ps, p, "expected a digit");
	return next;
}

/* Exact where both the digits and the power of ten are exact doubles: then one rounding is the right rounding. */
static bool real_from_parts(const struct number *n, double *ret)
{
	static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
					 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	double d = (double)n->digits;

	if (n->wide || n->digits > (uint64_t)1 << 53 || n->exponent < -22 || n->exponent > 22)
		return false;
	d = n->exponent < 0 ? d / powers[-n->exponent] : d * powers[n->exponent];
	*ret = n->negative ? -d : d;
	return true;
}

/* TEXT has at most JSON_NUMBER_MAX characters. strtod() heeds the locale; our programs never call setlocale(), so
 * the decimal point is a point. */
static int real_from_text(struct parser *ps, struct str text, double *ret)
{
	char copy[JSON_NUMBER_MAX + 1];

	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	*ret = strtod(copy, NULL);
	return isinf(*ret) ? fail(ps, ps->p, ERR_INVALID, "number out of range") : 0;
}

static int parse_number(struct parser *ps, struct json *v)
{
	const uint64_t most = (uint64_t)INT64_MAX;
	struct number n = { 0 };
	const char *end = scan_number(ps, &n);

	if (!end)
		return -1;
	if (end - ps->p > JSON_NUMBER_MAX)
		return fail(ps, ps->p, ERR_LIMIT, "number is too long");
	if (!n.is_real && !n.wide && n.digits <= most + n.negative) {
		v->type = JSON_INT;
		v->i = (int64_t)(n.negative ? 0 - n.digits : n.digits);
	} else if (!n.is_real && !n.wide && !n.negative) {
		v->type = JSON_UINT;
		v->u = n.digits;
	} else {
		v->type = JSON_REAL;
		if (!real_from_parts(&n, &v->d) &&
		    real_from_text(ps, (struct str){ ps->p, (size_t)(end - ps->p) }, &v->d) < 0)
			return -1;
	}
	ps->p = end;
	return 0;
}

/* ---- structure ---- */

static inline void skip_blanks(struct parser *ps)
{
	while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\r' || *ps->p == '\t'))
		ps->p++;
}

static int parse_literal(struct parser *ps, struct json *v)
{
	struct str rest = { ps->p, (size_t)(ps->end - ps->p) };
	size_t n = 4;

	if (str_starts(rest, STR("true"))) {
		v->type = JSON_BOOL;
		v->b = true;
	} else if (str_starts(rest, STR("false"))) {
		v->type = JSON_BOOL;
		n = 5;
	} else if (!str_starts(rest, STR("null"))) {
		return bad(ps, ps->p, "expected a value");
	}
	ps->p += n;
	return 0;
}

void json_append(struct json *parent, struct json *v)
{
	if (parent->kids.last)
		parent->kids.last->next = v;
	else
		parent->kids.first = v;
	parent->kids.last = v;
	parent->kids.n++;
}

static struct json *add_node(struct parser *ps, struct str key)
{
	struct json *v, *parent = ps->open;

	if (ps->values == ps->values_max) {
		(void)fail(ps, ps->p, ERR_LIMIT, "too many values");
		return NULL;
	}
	ps->values++;
	v = arena_alloc(ps->arena, sizeof(*v));
	if (!v) {
		(void)no_room(ps, sizeof(*v));
		return NULL;
	}
	v->key = key;
	if (parent)
		json_append(parent, v);
	else
		ps->root = v;
	return v;
}

static int open_container(struct parser *ps, struct json *v)
{
	if (ps->depth == ps->depth_max)
		return fail(ps, ps->p, ERR_LIMIT, "nested too deeply");
	v->type = *ps->p == '{' ? JSON_OBJECT : JSON_ARRAY;
	v->next = ps->open;
	ps->open = v;
	ps->depth++;
	ps->p++;
	return 0;
}

static void close_container(struct parser *ps)
{
	struct json *parent = ps->open->next;

	ps->open->next = NULL;
	ps->open = parent;
	ps->depth--;
	ps->p++;
}

/* One value, or the opening bracket of one. */
static int parse_value(struct parser *ps, struct str key)
{
	struct json *v = add_node(ps, key);
	int r;

	if (!v)
		return -1;
	ps->in_value = ps->open != NULL;
	switch (ps->p < ps->end ? *ps->p : '\0') {
	case '"':
		v->type = JSON_STRING;
		r = parse_string(ps, &v->s);
		break;
	case '{':
	case '[':
		r = open_container(ps, v);
		break;
	case '-': case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		r = parse_number(ps, v);
		break;
	default:
		r = parse_literal(ps, v);
		break;
	}
	if (r == 0)
		ps->in_value = false;
	return r;
}

static int parse_key(struct parser *ps, struct str *ret)
{
	skip_blanks(ps);
	if (ps->p == ps->end || *ps->p != '"')
		return bad(ps, ps->p, "expected a name in double quotes");
	if (parse_string(ps, ret) < 0)
		return -1;
	skip_blanks(ps);
	if (ps->p == ps->end || *ps->p != ':')
		return bad(ps, ps->p, "expected ':'");
	ps->p++;
	return 0;
}

/* After a value: closes what ends here. 1 when another value follows a comma, 0 at the end of the document. */
static int finish_value(struct parser *ps)
{
	while (ps->open) {
		char bracket = ps->open->type == JSON_OBJECT ? '}' : ']';

		skip_blanks(ps);
		if (ps->p < ps->end && *ps->p == ',') {
			ps->p++;
			return 1;
		}
		if (ps->p == ps->end || *ps->p != bracket)
			return bad(ps, ps->p, bracket == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
		close_container(ps);
	}
	return 0;
}

static int parse_document(struct parser *ps)
{
	int more = 1;

	while (more > 0) {
		struct json *before = ps->open;
		struct str key = { 0 };

		if (before && before->type == JSON_OBJECT && parse_key(ps, &key) < 0)
			return -1;
		skip_blanks(ps);
		if (parse_value(ps, key) < 0)
			return -1;
		if (ps->open != before) {
			skip_blanks(ps);
			if (ps->p == ps->end || (*ps->p != '}' && *ps->p != ']'))
				continue; /* the first child follows */
		}
		more = finish_value(ps);
	}
	if (more < 0)
		return -1;
	skip_blanks(ps);
	return ps->p == ps->end ? 0 : bad(ps, ps->p, "more than one value");
}

struct json *json_parse(struct arena *a, struct str text, const struct json_limits *limits, size_t *ret_offset,
			struct err *e)
{
	const char *begin = text.n > 0 ? text.p : "";
	struct parser ps = {
		.begin = begin,
		.p = begin,
		.end = begin + text.n,
		.arena = a,
		.depth_max = limits && limits->depth > 0 ? limits->depth : JSON_DEPTH_MAX,
		.values_max = limits && limits->values > 0 ? limits->values : JSON_VALUES_MAX,
		.e = e,
	};

	if (limits && limits->bytes > 0 && text.n > limits->bytes) {
		ps.offset = limits->bytes;
		(void)err_set(e, ERR_LIMIT, "document is larger than %zu bytes", limits->bytes);
	} else if (parse_document(&ps) == 0) {
		return ps.root;
	}
	if (ret_offset)
		*ret_offset = ps.offset;
	return NULL;
}

/* ---- access ---- */

const struct json *json_get(const struct json *object, const char *key)
{
	struct str name = str_of(key);

	if (!object || object->type != JSON_OBJECT)
		return NULL;
	for (const struct json *v = object->kids.first; v; v = v->next)
		if (str_eq(v->key, name))
			return v;
	return NULL;
}

struct str json_text(const struct json *object, const char *key)
{
	const struct json *v = json_get(object, key);

	return v && v->type == JSON_STRING ? v->s : STR("");
}

uint64_t json_count(const struct json *object, const char *key)
{
	const struct json *v = json_get(object, key);

	return v && v->type == JSON_INT && v->i > 0 ? (uint64_t)v->i : 0;
}

const struct json *json_at(const struct json *array, size_t i)
{
	const struct json *v;

	if (!array || array->type != JSON_ARRAY)
		return NULL;
	for (v = array->kids.first; v && i > 0; v = v->next)
		i--;
	return v;
}

const char *json_type_name(enum json_type t)
{
	static const char *const names[] = {
		[JSON_NULL] = "null",
		[JSON_BOOL] = "boolean",
		[JSON_INT] = "integer",
		[JSON_UINT] = "integer",
		[JSON_REAL] = "number",
		[JSON_STRING] = "string",
		[JSON_ARRAY] = "array",
		[JSON_OBJECT] = "object",
		[JSON_DATETIME] = "date-time",
		[JSON_DATETIME_LOCAL] = "local date-time",
		[JSON_DATE_LOCAL] = "local date",
		[JSON_TIME_LOCAL] = "local time",
	};

	return names[t];
}
