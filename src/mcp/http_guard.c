// SPDX-License-Identifier: Apache-2.0
#include "mcp/http_guard.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "mcp/mcp.h"
#include "net/addr.h"
#include "net/http/header.h"
#include "net/http/server.h"

#include "base/banned.h"

static const char *const own_names[] = { "127.0.0.1", "localhost", "[::1]" };

/* ---- names ---- */

/* HOST without its port, if that is one. */
static struct str without_port(struct str host)
{
	size_t at = host.n;
	uint64_t port;

	while (at > 0 && host.p[at - 1] != ':' && host.p[at - 1] != ']')
		at--;
	if (at == 0 || host.p[at - 1] != ':')
		return host;
	return str_to_u64(str_skip(host, at), 1, 65535, &port) ? str_first(host, at - 1) : (struct str){ "", 0 };
}

bool http_guard_knows_host(const struct http_guard *g, struct str host)
{
	struct str name = without_port(host);

	for (size_t i = 0; i < ARRAY_LEN(own_names); i++)
		if (str_eq_nocase(name, str_of(own_names[i])))
			return true;
	for (size_t i = 0; g->hosts[i]; i++)
		if (str_eq_nocase(host, str_of(g->hosts[i])) || str_eq_nocase(name, str_of(g->hosts[i])))
			return true;
	return false;
}

/* ---- origins: scheme, name and port, all three ---- */

struct origin {
	bool is_tls;
	struct str name;
	unsigned port;
};

/* Of "http://name", "https://name:port"; nothing else is the origin of a page. */
static bool read_origin(struct str text, struct origin *ret)
{
	bool is_tls = str_starts(text, STR("https://"));
	struct str host = str_skip(text, is_tls ? 8 : 7);
	uint64_t port = is_tls ? 443 : 80;

	if (!is_tls && !str_starts(text, STR("http://")))
		return false;
	*ret = (struct origin){ .is_tls = is_tls, .name = without_port(host) };
	if (ret->name.n < host.n && !str_to_u64(str_skip(host, ret->name.n + 1), 1, 65535, &port))
		return false;
	ret->port = (unsigned)port;
	return ret->name.n > 0;
}

static bool is_same(const struct origin *a, const struct origin *b)
{
	return a->is_tls == b->is_tls && a->port == b->port && str_eq_nocase(a->name, b->name);
}

/* ENTRY is of the options: an origin, or a name that pages are from which something in front of us serves. Such a page has the port
 * that ENTRY names, else its scheme's own, or ours. */
static bool is_allowed_by(const struct http_guard *g, struct str entry, const struct origin *o)
{
	struct str name = without_port(entry);
	struct origin whole;
	uint64_t port;

	if (read_origin(entry, &whole))
		return is_same(&whole, o);
	if (!str_eq_nocase(name, o->name))
		return false;
	if (name.n < entry.n)
		return str_to_u64(str_skip(entry, name.n + 1), 1, 65535, &port) && port == o->port;
	return o->port == (o->is_tls ? 443U : 80U) || (!o->is_tls && o->port == g->port);
}

bool http_guard_knows_origin(const struct http_guard *g, struct str origin)
{
	struct origin o;

	if (!read_origin(origin, &o))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(own_names); i++)
		if (is_same(&o, &(struct origin){ .name = str_of(own_names[i]), .port = g->port }))
			return true;
	for (size_t i = 0; g->hosts[i]; i++)
		if (is_allowed_by(g, str_of(g->hosts[i]), &o))
			return true;
	return false;
}

/* ---- requests ---- */

/* Whether a list of media ranges covers MAJOR/MINOR. A quality of 0 is not looked at: nobody sends one. */
static bool accepts(struct str list, const char *major, const char *minor)
{
	struct str item, params, type, subtype;

	while (header_list_next(&list, &item)) {
		if (!str_cut(header_trim(header_value(item, &params)), '/', &type, &subtype))
			continue;
		if (str_is(type, "*") || (str_eq_nocase(type, str_of(major)) && (str_is(subtype, "*") || str_eq_nocase(subtype, str_of(minor)))))
			return true;
	}
	return false;
}

static bool is_json(struct str type)
{
	struct str params;

	return str_eq_nocase(header_trim(header_value(type, &params)), STR("application/json"));
}

static bool has_token(const struct http_guard *g, const struct request *rq)
{
	struct str value = request_header(rq, "Authorization"), scheme, token;

	if (!g->token)
		return true;
	(void)str_cut(value, ' ', &scheme, &token);
	return str_eq_nocase(scheme, STR("Bearer")) && secret_eq(str_trim(token), str_of(g->token));
}

static bool no(struct http_refusal *ret, unsigned status, const char *text)
{
	*ret = (struct http_refusal){ status, text };
	return false;
}

bool http_guard_admits(const struct http_guard *g, const struct request *rq, struct http_refusal *ret)
{
	struct str origin = request_header(rq, "Origin"), accept = request_header(rq, "Accept");
	bool is_post = str_is(rq->head->method, "POST"), is_get = str_is(rq->head->method, "GET");

	if (!http_guard_knows_host(g, rq->head->host))
		return no(ret, 421, "the name in the header Host is not one of this server's");
	if (origin.n > 0 && !http_guard_knows_origin(g, origin))
		return no(ret, 403, "the header Origin names a page that may not use this server");
	if (!has_token(g, rq))
		return no(ret, 401, "the header Authorization has no valid bearer token");
	if (is_post && !is_json(request_header(rq, "Content-Type")))
		return no(ret, 400, "Content-Type must be application/json");
	if (is_post && !(accepts(accept, "application", "json") && accepts(accept, "text", "event-stream")))
		return no(ret, 406, "Accept must cover application/json and text/event-stream");
	if (is_get && !accepts(accept, "text", "event-stream"))
		return no(ret, 406, "Accept must cover text/event-stream");
	return true;
}

/* ---- listening ---- */

static bool is_loopback(const struct addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return (ntohl(a->in.sin_addr.s_addr) >> 24) == 127;
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

static int parse_host(const struct mcp_options *o, struct addr *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(256);
	const char *host = strcmp(o->host, "localhost") == 0 ? "127.0.0.1" : o->host;

	(void)buf_addf(&b, strchr(host, ':') && host[0] != '[' ? "[%s]:%u" : "%s:%u", host, o->port);
	if (b.failed || sockaddr_parse(buf_str(&b), ret, e) < 0 || ret->sa.sa_family == AF_UNIX)
		return err_set(e, ERR_INVALID, "'%s' is no address to listen on", o->host);
	return 0;
}

int http_guard_init(struct http_guard *g, const struct mcp_options *o, struct err *e)
{
	*g = (struct http_guard){ .hosts = o->allowed_hosts, .token = o->token };
	if (o->token && strlen(o->token) < MCP_TOKEN_MIN)
		return err_set(e, ERR_INVALID, "the token is shorter than %d characters", MCP_TOKEN_MIN);
	if (o->path[0] != '/' || strpbrk(o->path, ":*?# "))
		return err_set(e, ERR_INVALID, "'%s' is no path to serve", o->path);
	return 0;
}

static unsigned port_of(int fd)
{
	struct addr a = { .len = sizeof(a.un) };

	if (getsockname(fd, &a.sa, &a.len) < 0)
		return 0;
	return ntohs(a.sa.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
}

int http_guard_listen(const struct mcp_options *o, int backlog, unsigned *ret_port, struct err *e)
{
	AUTO_FD fd = -1;
	struct addr a = { 0 };
	int on = 1;

	if (parse_host(o, &a, e) < 0)
		return -1;
	if (!o->token && !is_loopback(&a))
		return err_set(e, ERR_DENIED, "'%s' can be reached by others: listening there needs a token", o->host);
	fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, errno, "make a socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, &a.sa, a.len) < 0 || listen(fd, backlog) < 0)
		return err_sys(e, errno, "listen on %s port %u", o->host, o->port);
	*ret_port = port_of(fd);
	return take_fd(&fd);
}
