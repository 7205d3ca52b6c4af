// SPDX-License-Identifier: Apache-2.0
#include "net/http/header.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/http/http1.h"

#include "base/banned.h"

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct str skip_blanks(struct str s)
{
	while (s.n > 0 && is_blank(s.p[0]))
		s = str_skip(s, 1);
	return s;
}

struct str header_trim(struct str s)
{
	s = skip_blanks(s);
	while (s.n > 0 && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

/* ---- lists ------------------------------------------------------------------------------------------------- */

/* Bytes of S before the first SEP that is not inside a quoted string. */
static size_t find_unquoted(struct str s, char sep)
{
	bool quoted = false;

	for (size_t i = 0; i < s.n; i++) {
		if (quoted && s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			quoted = !quoted;
		else if (s.p[i] == sep && !quoted)
			return i;
	}
	return s.n;
}

bool header_list_next(struct str *in, struct str *ret_item)
{
	while (in->n > 0) {
		size_t n = find_unquoted(*in, ',');
		struct str item = header_trim(str_first(*in, n));

		*in = str_skip(*in, n + 1);
		if (item.n > 0) {
			*ret_item = item;
			return true;
		}
	}
	return false;
}

/* ---- parameters -------------------------------------------------------------------------------------------- */

struct str header_value(struct str field, struct str *ret_params)
{
	struct str head;

	(void)str_cut(field, ';', &head, ret_params);
	return header_trim(head);
}

/* IN begins with a quote. The closing one is the first that no backslash escapes. */
static int take_quoted(struct str *in, struct str *ret_value, struct err *e)
{
	struct str s = str_skip(*in, 1);

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n && (s.p[i + 1] == '"' || s.p[i + 1] == '\\')) {
			i++;
		} else if (s.p[i] == '"') {
			*ret_value = str_first(s, i);
			*in = str_skip(s, i + 1);
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "quoted string without an end");
}

static int take_value(struct str *in, struct header_param *p, struct err *e)
{
	size_t n = 0;

	p->quoted = in->n > 0 && in->p[0] == '"';
	if (p->quoted) {
		if (take_quoted(in, &p->value, e) < 0)
			return -1;
		*in = skip_blanks(*in);
		if (in->n > 0 && in->p[0] != ';')
			return err_set(e, ERR_INVALID, "text after a quoted string");
		return 0;
	}
	while (n < in->n && in->p[n] != ';')
		n++;
	p->value = header_trim(str_first(*in, n));
	*in = str_skip(*in, n);
	if (p->value.n > 0 && memchr(p->value.p, '"', p->value.n))
		return err_set(e, ERR_INVALID, "quote inside a parameter");
	return 0;
}

int header_param_next(struct str *params, struct header_param *ret_param, struct err *e)
{
	struct header_param p = { 0 };
	struct str in = *params;
	size_t n = 0;

	while (in.n > 0 && (in.p[0] == ';' || is_blank(in.p[0])))
		in = str_skip(in, 1);
	if (in.n == 0) {
		*params = in;
		return 0;
	}
	while (n < in.n && in.p[n] != '=' && in.p[n] != ';')
		n++;
	p.name = header_trim(str_first(in, n));
	if (n == in.n || in.p[n] == ';' || !http_is_token(p.name))
		return err_set(e, ERR_INVALID, "malformed parameter");
	in = skip_blanks(str_skip(in, n + 1));
	if (!http_is_field_value(header_trim(in)))
		return err_set(e, ERR_INVALID, "control byte in a parameter");
	if (take_value(&in, &p, e) < 0)
		return -1;
	*params = in;
	*ret_param = p;
	return 1;
}

struct str header_param_text(const struct header_param *param, char *out)
{
	struct str s = param->value;
	size_t n = 0;

	if (!param->quoted || s.n == 0 || !memchr(s.p, '\\', s.n))
		return s;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n && (s.p[i + 1] == '"' || s.p[i + 1] == '\\'))
			i++;
		out[n++] = s.p[i];
	}
	return (struct str){ out, n };
}

bool header_ext_value(struct str value, char *out, struct str *ret_text)
{
	struct str charset, language, rest;
	size_t n = 0;

	if (!str_cut(value, '\'', &charset, &rest) || !str_cut(rest, '\'', &language, &rest) ||
	    !str_eq_nocase(charset, STR("utf-8")))
		return false;
	for (size_t i = 0; i < rest.n; i++) {
		uint64_t byte = (unsigned char)rest.p[i];

		if (byte == '%') {
			if (rest.n - i < 3 || !str_to_hex64((struct str){ rest.p + i + 1, 2 }, &byte))
				return false;
			i += 2;
		}
		if (is_control((unsigned char)byte))
			return false;
		out[n++] = (char)byte;
	}
	*ret_text = (struct str){ out, n };
	return utf8_valid(*ret_text);
}

/* ---- file names -------------------------------------------------------------------------------------------- */

static bool is_plain_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (is_control(c) || c >= 0x80 || c == '"' || c == '\\' || c == '/')
			return false;
	}
	return true;
}

static void add_escaped(struct buf *b, struct str s)
{
	while (s.n > 0) {
		uint32_t rune = 0xfffd;
		size_t n = utf8_next(s, &rune);
		char bytes[4];
		size_t written = utf8_put(bytes, rune);

		if (rune < 0x80 && (is_alnum((unsigned char)rune) || memchr("-._~", (int)rune, 4)))
			buf_add_char(b, bytes[0]);
		else
			for (size_t i = 0; i < written; i++)
				buf_addf(b, "%%%02X", (unsigned char)bytes[i]);
		s = str_skip(s, MAX(n, (size_t)1));
	}
}

bool header_disposition_write(struct buf *b, struct str name)
{
	buf_add_str(b, STR("attachment"));
	if (name.n == 0)
		return !b->failed;
	buf_add_str(b, STR("; filename=\""));
	if (is_plain_name(name)) {
		buf_add_str(b, name);
		return buf_add_char(b, '"');
	}
	add_escaped(b, name);
	buf_add_str(b, STR("\"; filename*=UTF-8''"));
	add_escaped(b, name);
	return !b->failed;
}
