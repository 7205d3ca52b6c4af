// SPDX-License-Identifier: Apache-2.0
#include "image/challenge.h"

#include "base/err.h"
#include "net/http/http1.h"

#include "base/banned.h"

enum scheme { SCHEME_OTHER, SCHEME_BASIC, SCHEME_BEARER };

struct param {
	struct str name;
	char value[CHALLENGE_TEXT_MAX + 1];
};

static int bad(struct err *e)
{
	return err_set(e, ERR_INVALID, "the registry's challenge does not follow the rules");
}

static struct str skip_blanks(struct str s)
{
	size_t n = 0;

	while (n < s.n && (s.p[n] == ' ' || s.p[n] == '\t'))
		n++;
	return str_skip(s, n);
}

static struct str take_token(struct str *in)
{
	struct str token;
	size_t n = 0;

	while (n < in->n && http_is_token((struct str){ in->p + n, 1 }))
		n++;
	token = str_first(*in, n);
	*in = str_skip(*in, n);
	return token;
}

/* token68: letters, digits and "-._~+/", then any number of '='. */
static size_t token68_length(struct str s)
{
	size_t n = 0;

	while (n < s.n && (http_is_token((struct str){ s.p + n, 1 }) || s.p[n] == '/') && !strchr("!#$%&'*^`|", s.p[n]))
		n++;
	while (n > 0 && n < s.n && s.p[n] == '=')
		n++;
	return n;
}

static int put(char out[CHALLENGE_TEXT_MAX + 1], size_t *n, char c, struct err *e)
{
	if (*n == CHALLENGE_TEXT_MAX)
		return err_set(e, ERR_INVALID, "the registry's challenge has a value of more than %d bytes", CHALLENGE_TEXT_MAX);
	out[(*n)++] = c;
	out[*n] = '\0';
	return 0;
}

static int take_quoted(struct str *in, char out[CHALLENGE_TEXT_MAX + 1], struct err *e)
{
	size_t at = 1, n = 0;

	out[0] = '\0';
	while (at < in->n && in->p[at] != '"') {
		if (in->p[at] == '\\' && ++at == in->n)
			return bad(e);
		if (put(out, &n, in->p[at++], e) < 0)
			return -1;
	}
	if (at == in->n)
		return bad(e);
	*in = str_skip(*in, at + 1);
	return 0;
}

static int take_value(struct str *in, char out[CHALLENGE_TEXT_MAX + 1], struct err *e)
{
	struct str token;
	size_t n = 0;

	if (in->n > 0 && in->p[0] == '"')
		return take_quoted(in, out, e);
	token = take_token(in);
	if (token.n == 0)
		return bad(e);
	for (size_t i = 0; i < token.n; i++)
		if (put(out, &n, token.p[i], e) < 0)
			return -1;
	return 0;
}

/* 1 and a parameter; 0: what stands there is none, but a scheme, and *in is where it was; -1. */
static int take_param(struct str *in, struct param *ret, struct err *e)
{
	struct str at = *in;

	ret->name = take_token(&at);
	if (ret->name.n == 0)
		return bad(e);
	at = skip_blanks(at);
	if (at.n == 0 || at.p[0] != '=')
		return 0;
	at = skip_blanks(str_skip(at, 1));
	if (take_value(&at, ret->value, e) < 0)
		return -1;
	*in = skip_blanks(at);
	return in->n == 0 || in->p[0] == ',' ? 1 : bad(e);
}

static char *place_of(struct challenge *c, struct str name)
{
	if (str_eq_nocase(name, STR("realm")))
		return c->realm;
	if (str_eq_nocase(name, STR("service")))
		return c->service;
	return str_eq_nocase(name, STR("scope")) ? c->scope : NULL;
}

static void keep(struct challenge *c, const struct param *p)
{
	char *to = place_of(c, p->name);

	if (to && to[0] == '\0') /* of two, the first counts */
		memcpy(to, p->value, strlen(p->value) + 1);
}

/* Over commas and the blanks around them. */
static struct str skip_commas(struct str s)
{
	s = skip_blanks(s);
	while (s.n > 0 && s.p[0] == ',')
		s = skip_blanks(str_skip(s, 1));
	return s;
}

static int take_params(struct str *in, bool is_kept, struct challenge *c, struct err *e)
{
	struct param p;

	for (size_t n = 0; in->n > 0; n++) {
		int r = take_param(in, &p, e);

		if (r <= 0)
			return r;
		if (n == CHALLENGE_PARAMS_MAX)
			return err_set(e, ERR_INVALID, "the registry's challenge has more than %d parts", CHALLENGE_PARAMS_MAX);
		if (is_kept)
			keep(c, &p);
		*in = skip_commas(*in);
	}
	return 0;
}

static enum scheme scheme_of(struct str name)
{
	if (str_eq_nocase(name, STR("basic")))
		return SCHEME_BASIC;
	return str_eq_nocase(name, STR("bearer")) ? SCHEME_BEARER : SCHEME_OTHER;
}

/* A scheme, and token68 or parameters behind it. */
static int take_challenge(struct str *in, struct challenge *c, struct err *e)
{
	struct str name = take_token(in), rest = skip_blanks(*in);
	enum scheme scheme = scheme_of(name);
	bool is_kept = scheme == SCHEME_BEARER && !c->has_bearer;
	size_t length;

	if (name.n == 0 || (rest.n > 0 && rest.p == in->p && rest.p[0] != ','))
		return bad(e);
	c->has_basic = c->has_basic || scheme == SCHEME_BASIC;
	c->has_bearer = c->has_bearer || scheme == SCHEME_BEARER;
	length = token68_length(rest);
	*in = rest;
	if (rest.n > 0 && rest.p[0] != ',' && length > 0) {
		struct str behind = skip_blanks(str_skip(rest, length));

		if (behind.n == 0 || behind.p[0] == ',') /* "abc=" and "abc"; a parameter would go on */
			*in = behind;
		else if (take_params(in, is_kept, c, e) < 0)
			return -1;
	} else if (rest.n > 0 && rest.p[0] != ',' && take_params(in, is_kept, c, e) < 0) {
		return -1;
	}
	*in = skip_commas(*in);
	return is_kept && c->realm[0] == '\0' ? err_set(e, ERR_INVALID, "the registry asks for a token and does not say where from") : 0;
}

int challenge_parse(struct str value, struct challenge *ret, struct err *e)
{
	struct challenge c = { 0 };

	if (value.n > CHALLENGE_MAX)
		return err_set(e, ERR_INVALID, "the registry's challenge is longer than %d bytes", CHALLENGE_MAX);
	for (size_t i = 0; i < value.n; i++)
		if ((unsigned char)value.p[i] < 0x20 && value.p[i] != '\t')
			return err_set(e, ERR_INVALID, "the registry's challenge has control characters");
		else if ((unsigned char)value.p[i] >= 0x7f)
			return err_set(e, ERR_INVALID, "the registry's challenge has characters beyond ASCII");
	value = skip_commas(value);
	for (size_t n = 0; value.n > 0; n++) {
		if (n == CHALLENGE_SCHEMES_MAX)
			return err_set(e, ERR_INVALID, "the registry's challenge names more than %d schemes", CHALLENGE_SCHEMES_MAX);
		if (take_challenge(&value, &c, e) < 0)
			return -1;
	}
	*ret = c;
	return 0;
}
