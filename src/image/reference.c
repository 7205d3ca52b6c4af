// SPDX-License-Identifier: Apache-2.0
#include "image/reference.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/hex.h"

#include "base/banned.h"

static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

/* ---- registries ---- */

static bool is_port(struct str s)
{
	uint64_t port;

	return s.n <= 5 && str_to_u64(s, 1, 65535, &port);
}

/* Labels of letters, digits and '-', none of them empty or with '-' at an end. */
static bool is_name(struct str host)
{
	struct str rest = host, label;

	do {
		(void)str_cut(rest, '.', &label, &rest);
		if (label.n == 0 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
			return false;
		for (size_t i = 0; i < label.n; i++)
			if (!is_word(label.p[i]) && label.p[i] != '-')
				return false;
	} while (rest.n > 0);
	return host.p[host.n - 1] != '.';
}

/* "[::1]" and what follows it. */
static bool is_v6(struct str s)
{
	struct str inner, tail;

	if (!str_cut(str_skip(s, 1), ']', &inner, &tail) || inner.n < 2)
		return false;
	for (size_t i = 0; i < inner.n; i++)
		if (hex_digit(inner.p[i]) < 0 && inner.p[i] != ':' && inner.p[i] != '.')
			return false;
	return tail.n == 0 || (tail.p[0] == ':' && is_port(str_skip(tail, 1)));
}

bool registry_valid(struct str s)
{
	struct str host, port;
	bool has_port;

	if (s.n == 0 || s.n > REFERENCE_REGISTRY_MAX)
		return false;
	if (s.p[0] == '[')
		return is_v6(s);
	has_port = str_cut(s, ':', &host, &port);
	return host.n > 0 && is_name(host) && (!has_port || is_port(port));
}

static bool looks_like_registry(struct str s)
{
	return memchr(s.p, '.', s.n) || memchr(s.p, ':', s.n) || str_eq_nocase(s, STR("localhost"));
}

/* ---- repositories ---- */

/* How many separators stand at the front of S: one '.', one or two '_', any number of '-'. 0: none that is allowed. */
static size_t separator(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] == s.p[0] && !is_lower(s.p[n]))
		n++;
	switch (s.p[0]) {
	case '.':
		return n == 1 ? n : 0;
	case '_':
		return n <= 2 ? n : 0;
	case '-':
		return n;
	default:
		return 0;
	}
}

static bool is_component(struct str s)
{
	size_t at = 0;

	while (at < s.n) {
		size_t word = 0, sep;

		while (at + word < s.n && is_lower(s.p[at + word]))
			word++;
		if (word == 0)
			return false;
		at += word;
		if (at == s.n)
			return true;
		sep = separator(str_skip(s, at));
		if (sep == 0)
			return false;
		at += sep;
	}
	return false; /* empty, or a separator at the end */
}

static int check_repository(struct str name, struct err *e)
{
	struct str rest = name, part;

	if (name.n == 0)
		return err_set(e, ERR_INVALID, "there is no name of an image in it");
	if (name.n > REFERENCE_REPOSITORY_MAX)
		return err_set(e, ERR_INVALID, "the name is longer than %d characters", REFERENCE_REPOSITORY_MAX);
	for (size_t i = 0; i < name.n; i++)
		if (name.p[i] >= 'A' && name.p[i] <= 'Z')
			return err_set(e, ERR_INVALID, "the name must be in small letters");
	if (name.p[name.n - 1] == '/')
		return err_set(e, ERR_INVALID, "the name ends with '/'");
	do {
		(void)str_cut(rest, '/', &part, &rest);
		if (!is_component(part))
			return err_set(e, ERR_INVALID, "'%s' is no part of a name: letters and digits, with single '.', '_', '__' "
				       "or '-' between them", SHOWN(part));
	} while (rest.n > 0);
	return 0;
}

static int check_tag(struct str tag, struct err *e)
{
	if (tag.n == 0 || tag.n > REFERENCE_TAG_MAX || !is_word(tag.p[0]))
		return err_set(e, ERR_INVALID, "the tag must begin with a letter, a digit or '_' and have at most %d characters",
			       REFERENCE_TAG_MAX);
	for (size_t i = 0; i < tag.n; i++)
		if (!is_word(tag.p[i]) && tag.p[i] != '.' && tag.p[i] != '-')
			return err_set(e, ERR_INVALID, "the tag may have letters, digits, '_', '.' and '-' only");
	return 0;
}

/* ---- all together ---- */

static void copy(char *out, struct str s)
{
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
}

static int take_registry(struct str *text, struct reference *r, struct err *e)
{
	struct str first, rest;

	copy(r->registry, STR(REFERENCE_DEFAULT_REGISTRY));
	if (!str_cut(*text, '/', &first, &rest) || !looks_like_registry(first))
		return 0;
	if (!registry_valid(first))
		return err_set(e, ERR_INVALID, "'%s' is no registry: a host with an optional port is", SHOWN(first));
	*text = rest;
	copy(r->registry, first);
	for (char *p = r->registry; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	if (strcmp(r->registry, "index.docker.io") == 0 || strcmp(r->registry, "registry-1.docker.io") == 0)
		copy(r->registry, STR(REFERENCE_DEFAULT_REGISTRY));
	return 0;
}

static int take_digest(struct str *text, struct reference *r, struct err *e)
{
	struct str name, digest;

	if (!str_cut(*text, '@', &name, &digest))
		return 0;
	if (!digest_parse(digest, &r->digest))
		return err_set(e, ERR_INVALID, "the digest must be 'sha256:' and 64, or 'sha512:' and 128 small hexadecimal digits");
	r->has_digest = true;
	*text = name;
	return 0;
}

static int take_tag(struct str *text, struct reference *r, struct err *e)
{
	struct str name, tag;

	if (!str_cut(*text, ':', &name, &tag)) {
		if (!r->has_digest)
			copy(r->tag, STR("latest"));
		return 0;
	}
	if (check_tag(tag, e) < 0)
		return -1;
	copy(r->tag, tag);
	*text = name;
	return 0;
}

static int take_repository(struct str name, struct reference *r, struct err *e)
{
	bool is_official = strcmp(r->registry, REFERENCE_DEFAULT_REGISTRY) == 0 && !memchr(name.p, '/', name.n);

	if (check_repository(name, e) < 0)
		return -1;
	if (!is_official) {
		copy(r->repository, name);
		return 0;
	}
	if (name.n + sizeof("library/") - 1 > REFERENCE_REPOSITORY_MAX)
		return err_set(e, ERR_INVALID, "the name is longer than %d characters", REFERENCE_REPOSITORY_MAX);
	copy(r->repository, STR("library/"));
	copy(r->repository + sizeof("library/") - 1, name);
	return 0;
}

static int parse(struct str text, struct reference *r, struct err *e)
{
	if (text.n == 0)
		return err_set(e, ERR_INVALID, "it is empty");
	if (text.n > REFERENCE_TEXT_MAX)
		return err_set(e, ERR_INVALID, "it is longer than %d characters", REFERENCE_TEXT_MAX);
	for (size_t i = 0; i + 2 < text.n; i++)
		if (memcmp(text.p + i, "://", 3) == 0)
			return err_set(e, ERR_INVALID, "it is written without a scheme: 'host/name:tag'");
	if (take_registry(&text, r, e) < 0 || take_digest(&text, r, e) < 0 || take_tag(&text, r, e) < 0)
		return -1;
	return take_repository(text, r, e);
}

int reference_parse(struct str text, struct reference *ret, struct err *e)
{
	struct reference r = { 0 };

	if (parse(text, &r, e) < 0)
		return err_wrap(e, "image '%s'", SHOWN(text));
	*ret = r;
	return 0;
}

bool reference_write(const struct reference *r, struct buf *b)
{
	char digest[DIGEST_TEXT_MAX + 1];

	if (!r->has_digest)
		return buf_addf(b, "%s/%s:%s", r->registry, r->repository, r->tag);
	digest_write(&r->digest, digest);
	return buf_addf(b, "%s/%s@%s", r->registry, r->repository, digest);
}
