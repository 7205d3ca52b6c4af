// SPDX-License-Identifier: Apache-2.0
#include "net/addr.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define UNIX_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)

static int set_unix(struct str path, struct addr *ret, struct err *e)
{
	struct addr a = { .un.sun_family = AF_UNIX };
	bool is_abstract = path.n > 0 && path.p[0] == '@';

	if (path.n == 0 || (is_abstract && path.n == 1))
		return err_set(e, ERR_INVALID, "a unix socket without a path");
	if (memchr(path.p, '\0', path.n))
		return err_set(e, ERR_INVALID, "a unix socket path with a NUL byte");
	if (path.n >= UNIX_PATH_MAX)
		return err_set(e, ERR_INVALID, "unix socket path of %zu bytes, at most %zu are possible", path.n,
			       UNIX_PATH_MAX - 1);
	memcpy(a.un.sun_path, path.p, path.n);
	if (is_abstract)
		a.un.sun_path[0] = '\0';
	/* The length of an abstract name counts; a path is counted with its NUL. */
	a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.n + (is_abstract ? 0 : 1));
	*ret = a;
	return 0;
}

int sockaddr_unix(const char *path, struct addr *ret_addr, struct err *e)
{
	if (path[0] == '@')
		return err_set(e, ERR_INVALID, "unix socket path '%.64s' is not a path", path);
	return set_unix(str_of(path), ret_addr, e);
}

static int set_inet(int family, struct str host, uint64_t port, struct addr *ret)
{
	struct addr a = { .sa.sa_family = (sa_family_t)family };
	char z[INET6_ADDRSTRLEN];

	if (host.n == 0 || host.n >= sizeof(z) || memchr(host.p, '\0', host.n))
		return -1;
	memcpy(z, host.p, host.n);
	z[host.n] = '\0';
	if (family == AF_INET) {
		a.in.sin_port = htons((uint16_t)port);
		a.len = sizeof(a.in);
	} else {
		a.in6.sin6_port = htons((uint16_t)port);
		a.len = sizeof(a.in6);
	}
	if (inet_pton(family, z, family == AF_INET ? (void *)&a.in.sin_addr : (void *)&a.in6.sin6_addr) != 1)
		return -1;
	*ret = a;
	return 0;
}

/* TEXT ends with ":PORT"; what is before is an IPv4 address or an IPv6 address in brackets. */
static int parse_inet(struct str text, struct addr *ret)
{
	const char *colon = text.n > 0 ? memrchr(text.p, ':', text.n) : NULL;
	struct str host, digits;
	uint64_t port;

	if (!colon)
		return -1;
	host = str_first(text, (size_t)(colon - text.p));
	digits = str_skip(text, host.n + 1);
	if (!str_to_u64(digits, 0, UINT16_MAX, &port))
		return -1;
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		return set_inet(AF_INET6, (struct str){ host.p + 1, host.n - 2 }, port, ret);
	return set_inet(AF_INET, host, port, ret);
}

int sockaddr_parse(struct str text, struct addr *ret_addr, struct err *e)
{
	if (str_starts(text, STR("unix:")))
		return set_unix(str_skip(text, 5), ret_addr, e);
	if (parse_inet(text, ret_addr) < 0)
		return err_set(e, ERR_INVALID, "address '%.*s' is none of '1.2.3.4:80', '[::1]:80' and 'unix:/path'",
			       (int)MIN(text.n, (size_t)128), text.p);
	return 0;
}

static void format_unix(const struct sockaddr_un *un, socklen_t len, char out[ADDR_TEXT_MAX])
{
	size_t start = offsetof(struct sockaddr_un, sun_path);
	size_t n = len > start ? MIN((size_t)len - start, UNIX_PATH_MAX) : 0;
	bool is_abstract = n > 0 && un->sun_path[0] == '\0';
	size_t at = 5;

	memcpy(out, "unix:", 5);
	if (!is_abstract)
		n = strnlen(un->sun_path, n);
	for (size_t i = 0; i < n; i++) {
		char c = is_abstract && i == 0 ? '@' : un->sun_path[i];

		out[at++] = (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
	}
	out[at] = '\0';
}

const char *sockaddr_format(const struct sockaddr *sa, socklen_t len, char out[ADDR_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN] = "?";
	struct addr a = { 0 };

	/* A copy: the address may lie in a smaller object than the largest kind. */
	memcpy(&a.sa, sa, MIN((size_t)len, sizeof(a) - offsetof(struct addr, sa)));
	if (len >= sizeof(a.in) && a.sa.sa_family == AF_INET) {
		(void)inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof(host));
		(void)snprintf(out, ADDR_TEXT_MAX, "%s:%u", host, ntohs(a.in.sin_port));
	} else if (len >= sizeof(a.in6) && a.sa.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof(host));
		(void)snprintf(out, ADDR_TEXT_MAX, "[%s]:%u", host, ntohs(a.in6.sin6_port));
	} else if (len >= sizeof(sa_family_t) && a.sa.sa_family == AF_UNIX) {
		format_unix(&a.un, len, out);
	} else {
		(void)snprintf(out, ADDR_TEXT_MAX, "unknown");
	}
	return out;
}

const char *sockaddr_host(const struct sockaddr *sa, char out[ADDR_HOST_MAX])
{
	const void *p = sa;

	_Static_assert(ADDR_HOST_MAX >= INET6_ADDRSTRLEN, "any address fits");
	out[0] = '\0';
	if (sa->sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &((const struct sockaddr_in *)p)->sin_addr, out, ADDR_HOST_MAX);
	else if (sa->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)p)->sin6_addr))
		(void)inet_ntop(AF_INET, ((const struct sockaddr_in6 *)p)->sin6_addr.s6_addr + 12, out, ADDR_HOST_MAX);
	else if (sa->sa_family == AF_INET6)
		(void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)p)->sin6_addr, out, ADDR_HOST_MAX);
	return out;
}
