// SPDX-License-Identifier: Apache-2.0
#include "server/http/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "access/route_token.h"
#include "base/err.h"
#include "net/http/http1.h"
#include "net/http/server.h"
#include "net/http/url.h"

#include "base/banned.h"

int auth_init(struct auth *a, const struct auth_policy *policy, struct err *e)
{
	struct str key = str_of(policy->api_key);

	*a = (struct auth){ .has_key = key.n > 0 };
	if (!a->has_key && !policy->allow_none)
		return err_set(e, ERR_DENIED, "no API key: set server.api_key, or server.unsafe_no_auth to run without one");
	if (!a->has_key && !policy->is_loopback)
		return err_set(e, ERR_DENIED, "without an API key server.host must be a loopback address");
	if (a->has_key && key.n < AUTH_KEY_MIN && !policy->is_loopback && !policy->allow_weak)
		return err_set(e, ERR_DENIED,
			       "server.api_key has less than %d characters: use a longer one, or set server.unsafe_weak_key",
			       AUTH_KEY_MIN);
	if (a->has_key)
		sha256(key, a->digest);
	return 0;
}

/* ---- paths ---- */

/* By the bytes of the path, whatever the method: routing comes later. */
static bool is_public(const struct route *routes, struct str path)
{
	for (const struct route *r = routes; r->method; r++)
		if ((r->flags & ROUTE_PUBLIC) && str_is(path, r->path))
			return true;
	return false;
}

static bool is_plain_segment(struct str s)
{
	return s.n > 0 && !str_is(s, ".") && !str_is(s, "..") && !memchr(s.p, '%', s.n) && !memchr(s.p, '\\', s.n);
}

static bool is_digits(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n > 0;
}

bool auth_is_proxy_path(struct str path)
{
	struct url_segments it = url_segments(path);
	struct str s;

	if (!url_segment_next(&it, &s))
		return false;
	if (str_is(s, "v1") && !url_segment_next(&it, &s))
		return false;
	if (!str_is(s, "sandboxes"))
		return false;
	if (!url_segment_next(&it, &s) || !is_plain_segment(s))
		return false;
	if (!url_segment_next(&it, &s) || !str_is(s, "proxy"))
		return false;
	return url_segment_next(&it, &s) && is_digits(s);
}

bool auth_is_signed_path(struct str path)
{
	struct route_token t;

	return route_read_path(path, &t, &(struct err){ 0 }) == 0 && t.is_signed && is_plain_segment(t.id);
}

bool auth_is_preflight(const struct http_head *head)
{
	return str_is(head->method, "OPTIONS") && http_find(head, "Origin") &&
	       http_find(head, "Access-Control-Request-Method");
}

/* ---- without a key ---- */

/* Splits "host", "host:port" and "[v6]:port". False when it is none of them; *ret_port is empty without a port. */
static bool split_host(struct str s, struct str *ret_name, struct str *ret_port)
{
	size_t end = 0;

	if (s.n > 0 && s.p[0] == '[') {
		while (end < s.n && s.p[end] != ']')
			end++;
		if (end == s.n)
			return false;
		end++;
	} else {
		while (end < s.n && s.p[end] != ':')
			end++;
	}
	*ret_name = str_first(s, end);
	*ret_port = str_skip(s, end + 1);
	return end > 0 && (end == s.n || (s.p[end] == ':' && is_digits(*ret_port) && ret_port->n <= 5));
}

bool auth_is_loopback_name(struct str host)
{
	char text[64];
	struct str name, port;
	struct in_addr v4;
	struct in6_addr v6;
	size_t skip;

	if (!split_host(host, &name, &port) || name.n >= sizeof(text))
		return false;
	if (str_eq_nocase(name, STR("localhost")))
		return true;
	skip = name.p[0] == '[';
	memcpy(text, name.p + skip, name.n - 2 * skip);
	text[name.n - 2 * skip] = '\0';
	if (skip)
		return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
	return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

bool auth_is_loopback_addr(const struct sockaddr *sa)
{
	const void *p = sa;

	switch (sa->sa_family) {
	case AF_INET:
		return ntohl(((const struct sockaddr_in *)p)->sin_addr.s_addr) >> 24 == 127;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)p)->sin6_addr);
	default:
		return sa->sa_family == AF_UNIX;
	}
}

bool auth_is_own_origin(struct str origin, struct str host, bool is_secure)
{
	struct str scheme = is_secure ? STR("https://") : STR("http://");
	struct str standard = is_secure ? STR("443") : STR("80");
	struct str name, port, host_name, host_port;

	if (!str_eq_nocase(str_first(origin, scheme.n), scheme))
		return false;
	if (!split_host(str_skip(origin, scheme.n), &name, &port) || !split_host(host, &host_name, &host_port))
		return false;
	return str_eq_nocase(name, host_name) &&
	       str_eq(port.n > 0 ? port : standard, host_port.n > 0 ? host_port : standard);
}

static enum auth_verdict check_local(const struct http_head *head, bool is_secure)
{
	if (!auth_is_loopback_name(head->host))
		return AUTH_HOST;
	for (size_t i = 0; i < head->n_headers; i++)
		if (str_eq_nocase(head->headers[i].name, STR("Origin")) &&
		    !auth_is_own_origin(head->headers[i].value, head->host, is_secure))
			return AUTH_ORIGIN;
	return AUTH_OK;
}

/* ---- with a key ---- */

bool auth_is_key(const struct auth *a, struct str given)
{
	unsigned char digest[SHA256_SIZE];

	if (!a->has_key)
		return true;
	sha256(given, digest);
	return secret_eq((struct str){ (const char *)digest, sizeof(digest) }, (struct str){ (const char *)a->digest, sizeof(a->digest) });
}

static enum auth_verdict check_key(const struct auth *a, const struct http_head *head)
{
	struct str given = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		if (str_eq_nocase(head->headers[i].name, STR(AUTH_HEADER))) {
			given = head->headers[i].value;
			n++;
		}
	}
	if (n == 0 || (n == 1 && given.n == 0))
		return AUTH_MISSING;
	return n == 1 && auth_is_key(a, given) ? AUTH_OK : AUTH_INVALID;
}

bool auth_has_key(const struct auth *a, const struct http_head *head)
{
	return !a->has_key || check_key(a, head) == AUTH_OK;
}

enum auth_verdict auth_check(const struct auth *a, const struct route *routes, const struct http_head *head, struct str path,
			     bool is_secure)
{
	if (!a->has_key)
		return check_local(head, is_secure);
	if (auth_is_preflight(head) || is_public(routes, path) || auth_is_proxy_path(path))
		return AUTH_EXEMPT;
	return check_key(a, head);
}
