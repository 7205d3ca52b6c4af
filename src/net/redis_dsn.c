// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/err.h"
#include "net/redis.h"
#include "net/resolve.h"

#include "base/banned.h"

#define PORT_DEFAULT 6379
#define DB_MAX 65535

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, "a Redis DSN: %s", what);
}

/* Percent-decodes one part. */
static int take_word(struct str in, char out[REDIS_WORD_MAX + 1], const char *what, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];

		if (c == '%') {
			if (in.n - i < 3 || hex_digit(in.p[i + 1]) < 0 || hex_digit(in.p[i + 2]) < 0)
				return bad(e, "a bad escape");
			c = (char)(hex_digit(in.p[i + 1]) * 16 + hex_digit(in.p[i + 2]));
			i += 2;
		}
		if (n == REDIS_WORD_MAX || c == '\0')
			return bad(e, what);
		out[n++] = c;
	}
	out[n] = '\0';
	return 0;
}

/* "user:password@rest": takes it off *in. */
static int take_credentials(struct str *in, struct redis_dsn *d, struct err *e)
{
	struct str user, password;
	size_t at = in->n;

	for (size_t i = 0; i < in->n && in->p[i] != '/' && in->p[i] != '?'; i++)
		if (in->p[i] == '@')
			at = i;
	if (at == in->n)
		return 0;
	if (!str_cut(str_first(*in, at), ':', &user, &password)) { /* "password@", as some write it */
		password = user;
		user = (struct str){ "", 0 };
	}
	*in = str_skip(*in, at + 1);
	if (take_word(user, d->user, "the user is too long", e) < 0)
		return -1;
	return take_word(password, d->password, "the password is too long", e);
}

static int take_db(struct str text, struct redis_dsn *d, struct err *e)
{
	uint64_t db;

	if (text.n == 0)
		return 0;
	if (!str_to_u64(text, 0, DB_MAX, &db))
		return bad(e, "the database must be a number");
	d->db = (unsigned)db;
	return 0;
}

static int parse_unix(struct str in, struct redis_dsn *d, struct err *e)
{
	char path[REDIS_WORD_MAX + 1];
	struct str place, query, name, value;

	(void)str_cut(in, '?', &place, &query);
	if (take_word(place, path, "the path is too long", e) < 0)
		return -1;
	if (path[0] != '/')
		return bad(e, "the path of a socket must be absolute");
	if (sockaddr_unix(path, &d->to, e) < 0)
		return -1;
	if (query.n == 0)
		return 0;
	(void)str_cut(query, '=', &name, &value);
	return str_is(name, "db") ? take_db(value, d, e) : bad(e, "only 'db' can stand in the query");
}

/* "host", "host:port", "[v6]:port" */
static int take_host(struct str in, struct redis_dsn *d, struct err *e)
{
	struct str host = in, port = { "", 0 };
	char text[REDIS_WORD_MAX + 16];
	uint64_t number = PORT_DEFAULT;

	if (in.n > 0 && in.p[0] == '[') {
		if (!str_cut(str_skip(in, 1), ']', &host, &port))
			return bad(e, "a '[' without its ']'");
		if (port.n > 0 && port.p[0] != ':')
			return bad(e, "the host is not one");
		port = str_skip(port, 1);
	} else {
		(void)str_cut(in, ':', &host, &port);
	}
	if (host.n == 0)
		host = STR("127.0.0.1");
	if (port.n > 0 && !str_to_u64(port, 1, 65535, &number))
		return bad(e, "the port must be a number of 1 to 65535");
	d->port = (unsigned)number;
	if (take_word(host, d->host, "the host is too long", e) < 0)
		return -1;
	(void)snprintf(text, sizeof(text), strchr(d->host, ':') ? "[%s]:%u" : "%s:%u", d->host, d->port);
	(void)sockaddr_parse(str_of(text), &d->to, &(struct err){ 0 }); /* a name is looked up later */
	return 0;
}

int redis_dsn_parse(struct str text, struct redis_dsn *ret, struct err *e)
{
	struct redis_dsn d = { 0 };
	struct str in, host, rest, query;

	text = str_trim(text);
	if (str_starts(text, STR("unix://"))) {
		in = str_skip(text, sizeof("unix://") - 1);
		if (take_credentials(&in, &d, e) < 0 || parse_unix(in, &d, e) < 0)
			return -1;
		*ret = d;
		return 0;
	}
	d.is_tls = str_starts(text, STR("rediss://"));
	if (!d.is_tls && !str_starts(text, STR("redis://")))
		return bad(e, "must begin with redis://, rediss:// or unix://");
	in = str_skip(text, d.is_tls ? sizeof("rediss://") - 1 : sizeof("redis://") - 1);
	if (take_credentials(&in, &d, e) < 0)
		return -1;
	if (str_cut(in, '?', &in, &query) && query.n > 0)
		return bad(e, "options in the query are not known here");
	(void)str_cut(in, '/', &host, &rest);
	if (take_host(host, &d, e) < 0 || take_db(rest, &d, e) < 0)
		return -1;
	*ret = d;
	return 0;
}

int redis_dsn_resolve(struct redis_dsn *d, struct err *e)
{
	return d->to.len > 0 ? 0 : resolve_host(d->host, d->port, &d->to, e);
}
