// SPDX-License-Identifier: Apache-2.0
#include "access/cookie.h"

#include <string.h>

#include "base/buf.h"
#include "net/http/header.h"

#include "base/banned.h"

struct str cookie_prefix(struct str path, size_t n)
{
	size_t at = 0;

	for (; n > 0 && at < path.n; n--)
		for (at++; at < path.n && path.p[at] != '/';)
			at++;
	return str_first(path, at);
}

/* "/a" of "/a/b?c", as RFC 6265 section 5.1.4 has it but for the last slash: "" is "/". A folder that has a ';' in its name would be
 * read as more attributes: the cookie counts for all of the sandbox then. */
static struct str folder_of(struct str target)
{
	struct str path, rest;
	size_t n;

	(void)str_cut(target, '?', &path, &rest);
	for (n = path.n; n > 0 && path.p[n - 1] != '/';)
		n--;
	path = str_first(path, n > 0 ? n - 1 : 0);
	return path.n > 0 && memchr(path.p, ';', path.n) ? (struct str){ 0 } : path;
}

static bool is_named(struct str part, const char *name)
{
	struct str word, value;

	(void)str_cut(part, '=', &word, &value);
	return str_eq_nocase(header_trim(word), str_of(name));
}

/* The last one counts (section 5.3); one that is no path is as good as none. */
static void note_path(struct str part, struct str folder, struct str *path)
{
	struct str word, value;

	(void)str_cut(part, '=', &word, &value);
	value = header_trim(value);
	*path = value.n > 0 && value.p[0] == '/' ? value : folder;
}

bool cookie_confine(struct str value, struct str prefix, struct str target, struct buf *out)
{
	struct str folder = folder_of(target), path = folder, part;
	bool is_more = str_cut(value, ';', &part, &value);

	if (prefix.n > 0 && str_eq_nocase(str_first(header_trim(part), 7), STR("__Host-")))
		return false;
	buf_add_str(out, header_trim(part));
	while (is_more) {
		is_more = str_cut(value, ';', &part, &value);
		part = header_trim(part);
		if (part.n == 0 || is_named(part, "Domain"))
			continue;
		if (prefix.n > 0 && is_named(part, "Path")) {
			note_path(part, folder, &path);
			continue;
		}
		buf_addf(out, "; %.*s", STR_ARG(part));
	}
	if (prefix.n > 0)
		buf_addf(out, "; Path=%.*s%.*s", STR_ARG(prefix), STR_ARG(path));
	return !out->failed;
}
