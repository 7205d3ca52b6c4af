// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "client/remote.h"

#include "base/banned.h"

static bool take_scheme(struct str *text, struct address *a)
{
	static const struct str http = STR("http://"), https = STR("https://");

	a->is_tls = str_eq_nocase(str_first(*text, https.n), https);
	a->has_scheme = a->is_tls || str_eq_nocase(str_first(*text, http.n), http);
	if (a->has_scheme)
		*text = str_skip(*text, a->is_tls ? https.n : http.n);
	return a->has_scheme;
}

static bool is_host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == ':';
}

static int take_host(struct str host, struct address *a, struct err *e)
{
	if (host.n == 0 || host.n > REMOTE_HOST_MAX)
		return err_set(e, ERR_INVALID, "a host of %zu characters", host.n);
	for (size_t i = 0; i < host.n; i++)
		if (!is_host_char(host.p[i]))
			return err_set(e, ERR_INVALID, "a host with characters that none has");
	memcpy(a->host, host.p, host.n);
	a->host[host.n] = '\0';
	return 0;
}

/* "host", "host:port", "[v6]:port". */
static int take_authority(struct str text, struct address *a, struct err *e)
{
	struct str host, rest;
	uint64_t port = 0;
	bool has_port;

	if (text.n > 0 && text.p[0] == '[') {
		if (!str_cut(str_skip(text, 1), ']', &host, &rest))
			return err_set(e, ERR_INVALID, "an address without its ']'");
		has_port = rest.n > 0 && rest.p[0] == ':';
		if (rest.n > 0 && !has_port)
			return err_set(e, ERR_INVALID, "an address with something behind its ']'");
		rest = str_skip(rest, 1);
	} else {
		has_port = str_cut(text, ':', &host, &rest);
		if (rest.n > 0 && memchr(rest.p, ':', rest.n))
			return err_set(e, ERR_INVALID, "an IPv6 address without brackets");
	}
	if (has_port && !str_to_u64(rest, 1, 65535, &port))
		return err_set(e, ERR_INVALID, "'%.*s' is no port", (int)MIN(rest.n, (size_t)32), rest.p);
	a->port = (unsigned)port;
	return take_host(host, a, e);
}

static int take_path(struct str path, struct address *a, struct err *e)
{
	while (path.n > 0 && path.p[path.n - 1] == '/')
		path.n--;
	for (size_t i = 0; i < path.n; i++)
		if (path.p[i] <= ' ' || path.p[i] >= 0x7f || path.p[i] == '?' || path.p[i] == '#')
			return err_set(e, ERR_INVALID, "a path with characters that must be escaped");
	if (path.n >= sizeof(a->path))
		return err_set(e, ERR_INVALID, "a path of %zu characters", path.n);
	if (path.n > 0)
		memcpy(a->path, path.p, path.n);
	a->path[path.n] = '\0';
	return 0;
}

int address_parse(struct str text, struct address *ret, struct err *e)
{
	struct address a = { 0 };
	const char *slash;
	size_t n;

	text = str_trim(text);
	(void)take_scheme(&text, &a);
	slash = text.n > 0 ? memchr(text.p, '/', text.n) : NULL;
	n = slash ? (size_t)(slash - text.p) : text.n;
	if (take_authority(str_first(text, n), &a, e) < 0 || take_path(str_skip(text, n), &a, e) < 0)
		return -1;
	*ret = a;
	return 0;
}
