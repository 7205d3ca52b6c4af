// SPDX-License-Identifier: Apache-2.0
#include "net/http/url.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define PORT_MAX 65535

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

static bool contains(struct str s, char c)
{
	return s.n > 0 && memchr(s.p, c, s.n);
}

/* ---- request targets --------------------------------------------------------------------------------------- */

/* host[:port], where the host may be an address in brackets. */
static int check_authority(struct str s, bool need_port, struct err *e)
{
	struct str port = s;
	bool has_port = false;
	uint64_t v;

	for (size_t i = 0; i < s.n; i++) {
		if (!is_alnum((unsigned char)s.p[i]) && !contains(STR("-._~:[]"), s.p[i]))
			return err_set(e, ERR_INVALID, "bad character in the authority of the request target");
		if (s.p[i] == ':') {
			port = str_skip(s, i + 1);
			has_port = true;
		} else if (s.p[i] == ']') {
			has_port = false;
		}
	}
	if (s.n == 0 || (has_port && port.n + 1 == s.n))
		return err_set(e, ERR_INVALID, "no host in the request target");
	if (need_port && !has_port)
		return err_set(e, ERR_INVALID, "no port in the request target");
	if (has_port && !str_to_u64(port, 1, PORT_MAX, &v))
		return err_set(e, ERR_INVALID, "bad port in the request target");
	return 0;
}

static void split_path(struct str s, struct url_target *t)
{
	t->has_query = str_cut(s, '?', &t->path, &t->query);
	if (t->path.n == 0)
		t->path = STR("/");
}

static int parse_absolute(struct str rest, struct url_target *t, struct err *e)
{
	size_t n = 0;

	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	t->form = URL_ABSOLUTE;
	t->authority = str_first(rest, n);
	split_path(str_skip(rest, n), t);
	return check_authority(t->authority, false, e);
}

static int parse_form(struct str raw, struct url_target *t, struct err *e)
{
	if (raw.p[0] == '/') {
		t->form = URL_ORIGIN;
		split_path(raw, t);
		return 0;
	}
	if (str_is(raw, "*")) {
		t->form = URL_ASTERISK;
		return 0;
	}
	if (str_eq_nocase(str_first(raw, 7), STR("http://")))
		return parse_absolute(str_skip(raw, 7), t, e);
	if (str_eq_nocase(str_first(raw, 8), STR("https://")))
		return parse_absolute(str_skip(raw, 8), t, e);
	t->form = URL_AUTHORITY;
	t->authority = raw;
	return check_authority(raw, true, e);
}

int url_target_parse(struct str raw, struct url_target *ret_target, struct err *e)
{
	struct url_target t = { 0 };

	if (raw.n == 0)
		return err_set(e, ERR_INVALID, "empty request target");
	for (size_t i = 0; i < raw.n; i++) {
		unsigned char c = (unsigned char)raw.p[i];

		if (is_control(c) || c == ' ' || c == '#')
			return err_set(e, ERR_INVALID, "bad character in the request target");
	}
	if (parse_form(raw, &t, e) < 0)
		return -1;
	*ret_target = t;
	return 0;
}

/* ---- decoding ---------------------------------------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes written, or -1 at a bad escape. OUT has room for as many bytes as RAW has. */
static ssize_t unescape(struct str raw, bool plus_is_blank, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < raw.n; i++) {
		char c = raw.p[i];

		if (c == '%') {
			int high = i + 2 < raw.n ? hex_value(raw.p[i + 1]) : -1;
			int low = i + 2 < raw.n ? hex_value(raw.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -1;
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		out[n++] = c;
	}
	return (ssize_t)n;
}

static int decode_bytes(struct str raw, bool plus_is_blank, struct arena *a, struct str *ret_text, struct err *e)
{
	struct str text = raw;

	if (contains(raw, '%') || (plus_is_blank && contains(raw, '+'))) {
		char *out = arena_alloc(a, raw.n);
		ssize_t n = out ? unescape(raw, plus_is_blank, out) : 0;

		if (!out)
			return err_no_memory(e);
		if (n < 0)
			return err_set(e, ERR_INVALID, "bad percent escape");
		text = (struct str){ out, (size_t)n };
	}
	if (contains(text, '\0'))
		return err_set(e, ERR_INVALID, "NUL byte");
	*ret_text = text;
	return 0;
}

static int decode_text(struct str raw, bool plus_is_blank, struct arena *a, struct str *ret_text, struct err *e)
{
	struct str text = { 0 };

	if (decode_bytes(raw, plus_is_blank, a, &text, e) < 0)
		return -1;
	if (!utf8_valid(text))
		return err_set(e, ERR_INVALID, "not UTF-8");
	*ret_text = text;
	return 0;
}

int url_decode(struct str raw, struct arena *a, struct str *ret_bytes, struct err *e)
{
	return decode_bytes(raw, false, a, ret_bytes, e);
}

/* ---- path segments ----------------------------------------------------------------------------------------- */

bool url_segment_next(struct url_segments *it, struct str *ret_raw)
{
	struct str s = str_skip(it->rest, 1);
	struct str tail;

	if (it->rest.n == 0)
		return false;
	if (s.n == 0) {
		it->trailing_slash = it->has_begun;
		return false;
	}
	if (str_cut(s, '/', ret_raw, &tail))
		it->rest = str_skip(s, ret_raw->n);
	else
		it->rest = (struct str){ 0 };
	it->has_begun = true;
	return true;
}

int url_segment_decode(struct str raw, struct arena *a, struct str *ret_text, struct err *e)
{
	struct str s;

	if (decode_text(raw, false, a, &s, e) < 0)
		return err_wrap(e, "path segment");
	if (s.n == 0)
		return err_set(e, ERR_INVALID, "empty path segment");
	if (str_is(s, ".") || str_is(s, ".."))
		return err_set(e, ERR_INVALID, "path segment '%.*s'", STR_ARG(s));
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '/' || s.p[i] == '\\')
			return err_set(e, ERR_INVALID, "path segment: '%c'", s.p[i]);
		if (is_control((unsigned char)s.p[i]))
			return err_set(e, ERR_INVALID, "path segment: control byte");
	}
	*ret_text = s;
	return 0;
}

/* ---- query strings ----------------------------------------------------------------------------------------- */

static int decode_pair(struct str raw_key, struct str raw_value, const char *bytes_of, struct arena *a,
		       struct query_pair *ret_pair, struct err *e)
{
	struct query_pair pair;
	bool is_bytes;

	if (decode_text(raw_key, true, a, &pair.key, e) < 0)
		return err_wrap(e, "query key");
	is_bytes = bytes_of && str_is(pair.key, bytes_of);
	if ((is_bytes ? decode_bytes : decode_text)(raw_value, true, a, &pair.value, e) < 0)
		return err_wrap(e, "query value");
	*ret_pair = pair;
	return 0;
}

struct query_iter {
	struct str rest;
	size_t n; /* given out so far */
	const char *bytes_of; /* as of query_parse_bytes(), or NULL */
};

/* 1 and a pair, 0 at the end, -1. */
static int query_iter_next(struct query_iter *it, struct arena *a, struct query_pair *ret_pair, struct err *e)
{
	while (it->rest.n > 0) {
		struct str field, key, value;

		(void)str_cut(it->rest, '&', &field, &it->rest);
		if (field.n == 0)
			continue;
		if (it->n == QUERY_PAIRS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d query parameters", QUERY_PAIRS_MAX);
		it->n++;
		(void)str_cut(field, '=', &key, &value);
		return decode_pair(key, value, it->bytes_of, a, ret_pair, e) < 0 ? -1 : 1;
	}
	return 0;
}

/* Room for as many pairs as RAW can have. */
static struct query_pair *pairs_alloc(struct str raw, struct arena *a)
{
	size_t fields = 1;

	for (size_t i = 0; i < raw.n; i++)
		fields += raw.p[i] == '&';
	return arena_array(a, MIN(fields, (size_t)QUERY_PAIRS_MAX), sizeof(struct query_pair));
}

int query_parse(struct str raw, struct arena *a, struct query *ret_query, struct err *e)
{
	return query_parse_bytes(raw, NULL, a, ret_query, e);
}

int query_parse_bytes(struct str raw, const char *bytes_of, struct arena *a, struct query *ret_query, struct err *e)
{
	struct query q = { .pairs = pairs_alloc(raw, a) };
	struct query_iter it = { .rest = raw, .bytes_of = bytes_of };
	struct query_pair pair;
	int got;

	if (!q.pairs)
		return err_no_memory(e);
	while ((got = query_iter_next(&it, a, &pair, e)) > 0)
		q.pairs[q.n++] = pair;
	if (got < 0)
		return -1;
	*ret_query = q;
	return 0;
}

static void put_last(struct query *q, struct query_pair pair)
{
	for (size_t i = 0; i < q->n; i++) {
		if (str_eq(q->pairs[i].key, pair.key)) {
			q->pairs[i] = pair;
			return;
		}
	}
	q->pairs[q->n++] = pair;
}

int query_parse_strict(struct str text, struct arena *a, struct query *ret_query, struct err *e)
{
	struct query q = { .pairs = pairs_alloc(text, a) };
	bool more = text.n > 0;

	if (!q.pairs)
		return err_no_memory(e);
	for (size_t fields = 0; more; fields++) {
		struct query_pair pair;
		struct str field, key, value;

		more = str_cut(text, '&', &field, &text);
		if (fields == QUERY_PAIRS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d fields", QUERY_PAIRS_MAX);
		if (!str_cut(field, '=', &key, &value))
			return err_set(e, ERR_INVALID, "field %zu has no '='", fields + 1);
		if (decode_pair(key, value, NULL, a, &pair, e) < 0)
			return err_wrap(e, "field %zu", fields + 1);
		put_last(&q, pair);
	}
	*ret_query = q;
	return 0;
}

const struct query_pair *query_next(const struct query *q, const char *key, const struct query_pair *found)
{
	for (size_t i = found ? (size_t)(found - q->pairs) + 1 : 0; i < q->n; i++)
		if (str_is(q->pairs[i].key, key))
			return &q->pairs[i];
	return NULL;
}

const struct query_pair *query_get(const struct query *q, const char *key)
{
	return query_next(q, key, NULL);
}

/* ---- encoding ---------------------------------------------------------------------------------------------- */

static bool encode(struct buf *b, struct str s, struct str also_kept)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		char escaped[3] = { '%', digits[c >> 4], digits[c & 15] };

		if (is_alnum(c) || contains(also_kept, s.p[i]))
			buf_add_char(b, s.p[i]);
		else
			buf_add(b, escaped, sizeof(escaped));
	}
	return !b->failed;
}

bool url_encode_segment(struct buf *b, struct str s)
{
	return encode(b, s, STR("-._~!$&'()*+,;=:@"));
}

bool url_encode_query(struct buf *b, struct str s)
{
	return encode(b, s, STR("-._~"));
}

bool url_parse_bool(struct str s, bool *ret_value)
{
	static const char *const words[] = { "false", "true", "0", "1", "no", "yes", "off", "on", "f", "t", "n", "y" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (str_eq_nocase(s, str_of(words[i]))) {
			*ret_value = i % 2 == 1;
			return true;
		}
	}
	return false;
}
