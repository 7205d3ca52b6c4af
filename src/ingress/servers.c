// SPDX-License-Identifier: Apache-2.0
/* Sandboxes of one or several opensandbox-servers. All are asked who has an id; ids are random, so the first that says yes has
 * it. Requests go to that server's port for endpoints, with its key, which tells it that we have checked who may come in. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/uuid.h"
#include "ingress/gateway_link.h"
#include "ingress/provider.h"
#include "net/addr.h"
#include "net/dial.h"
#include "net/http/client.h"
#include "net/http/proxy_header.h"
#include "net/loop.h"
#include "net/resolve.h"
#include "net/tls.h"
#include "net/transport.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PORT_EXECD 44772 /* these need tokens of the server's */
#define PORT_EGRESS 18080
#define URL_MAX 255
#define KEY_MAX 1024
#define LOOK_UP_MS 3000
#define CONNECT_MS 5000
#define SEND_MS 180000
#define HEAD_MS 180000
#define BODY_MS 3600000
#define IDLE_MAX 512
#define IDLE_MS 60000 /* less than what the servers keep theirs for */
#define PORTS_MAX 4   /* that one server has had for its endpoints while we ran */
#define ROUTE_BODY_MAX 4096

/* One port of a server, and the connections there. */
struct line {
	struct server *server;
	unsigned port;
	struct http_client *client;
};

struct server {
	struct servers *all;
	char host[URL_MAX + 1]; /* a name or an address, without brackets */
	unsigned port;
	bool is_tls;
	struct addr to;
	struct tls_target target;
	struct line api, proxies[PORTS_MAX];
	struct gateway_link *link; /* NULL: all requests go through its proxy */
};

struct servers {
	struct provider provider;
	struct loop *loop;
	const char *key_file;
	char key[KEY_MAX + 1]; /* empty: none */
	struct tls_client *tls;
	size_t n;
	struct server servers[SERVERS_MAX];
};

static struct servers *servers_of(struct provider *p)
{
	return container_of(p, struct servers, provider);
}

/* ---- connections ---- */

static void on_dialled(struct transport *t, const struct err *e, void *arg)
{
	http_dial_done(arg, t, e);
}

static int dial_begin(struct http_dial *d, void *arg, struct err *e)
{
	const struct line *l = arg;
	struct server *s = l->server;
	struct addr to = s->to;
	struct transport_maker maker = { 0 };
	struct dial_spec spec = { .fd = -1, .to = &to.sa, .to_len = to.len, .timeout_ms = CONNECT_MS };

	if (to.sa.sa_family == AF_INET6)
		to.in6.sin6_port = htons((uint16_t)l->port);
	else
		to.in.sin_port = htons((uint16_t)l->port);
	if (s->is_tls) {
		maker = tls_client_maker(&s->target);
		spec.maker = &maker;
	}
	d->user = dial_start(s->all->loop, &spec, on_dialled, d, e);
	return d->user ? 0 : -1;
}

static void dial_stop(struct http_dial *d, void *arg)
{
	(void)arg;
	dial_cancel(d->user);
}

static int line_open(struct line *l, struct server *s, unsigned port, struct err *e)
{
	static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_stop };
	struct http_client_options o = {
		.dialer = &dialer, .dialer_arg = l, .max_idle = IDLE_MAX, .idle_ms = IDLE_MS, .trusts_peer = true,
		.deadlines = { .connect_ms = CONNECT_MS, .send_ms = SEND_MS, .head_ms = HEAD_MS, .body_ms = BODY_MS },
	};

	*l = (struct line){ .server = s, .port = port };
	l->client = http_client_new(s->all->loop, &o, e);
	return l->client ? 0 : -1;
}

/* A server that changes its port was started anew: the lines that were are left to what still uses them. */
static struct line *line_of(struct server *s, unsigned port, struct err *e)
{
	for (size_t i = 0; i < PORTS_MAX; i++) {
		struct line *l = &s->proxies[i];

		if (l->client && l->port == port)
			return l;
		if (!l->client)
			return line_open(l, s, port, e) < 0 ? NULL : l;
	}
	(void)err_set(e, ERR_LIMIT, "the server '%s' changes its port too often", s->host);
	return NULL;
}

/* ---- looking up ---- */

struct question {
	struct search *search;
	struct http_fetch *fetch; /* NULL: answered */
	size_t place;
};

struct search {
	struct servers *all;
	finding_fn *fn;
	void *arg;
	size_t open;
	struct finding worst; /* of those that did not say yes: what is told if nobody does */
	struct question questions[SERVERS_MAX];
};

static void search_free(struct search *s)
{
	for (size_t i = 0; i < s->all->n; i++)
		http_fetch_cancel(s->questions[i].fetch);
	free(s);
}

struct route_answer {
	bool is_ready;
	int64_t port;
	struct str token, state;
};

static const struct field route_fields[] = {
	FIELD(struct route_answer, is_ready, FIELD_BOOL, "isReady", .required = true),
	FIELD(struct route_answer, port, FIELD_INT, "proxyPort", .required = true, .min = 1, .max = 65535),
	FIELD(struct route_answer, token, FIELD_TEXT, "secureAccessToken", .max = PROVIDER_TOKEN_MAX),
	FIELD(struct route_answer, state, FIELD_TEXT, "state", .required = true, .max = 32),
	{ 0 },
};

static int read_route(struct str body, struct finding *f, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	struct json_limits limits = { .bytes = ROUTE_BODY_MAX, .depth = 4, .values = 64 };
	const struct json *v = json_parse(&a, body, &limits, NULL, e);
	struct decode d = { .arena = &a };
	struct route_answer r = { 0 };

	if (!v || decode(&d, v, route_fields, &r, e) < 0)
		return -1;
	f->found = r.is_ready ? FOUND_READY : FOUND_NOT_READY;
	f->detail = (unsigned)r.port;
	memcpy(f->token, r.token.p ? r.token.p : "", r.token.n);
	f->token[r.token.n] = '\0';
	(void)snprintf(f->why, sizeof(f->why), "it is %.*s", STR_ARG(r.state));
	return 0;
}

static void read_answer(const struct http_answer *answer, const struct err *e, struct finding *f)
{
	struct err bad = { 0 };

	f->found = FOUND_FAILED;
	if (!answer)
		(void)snprintf(f->why, sizeof(f->why), "%s", e->msg);
	else if (answer->head->status == 404)
		f->found = FOUND_NOWHERE;
	else if (answer->head->status != 200)
		(void)snprintf(f->why, sizeof(f->why), "a server answered %u", answer->head->status);
	else if (read_route(answer->body, f, &bad) < 0)
		(void)snprintf(f->why, sizeof(f->why), "a server's answer cannot be read");
}

static void on_answer(const struct http_answer *answer, const struct err *e, void *arg)
{
	struct question *q = arg;
	struct search *s = q->search;
	struct finding f = { .place = (unsigned)q->place };
	finding_fn *fn = s->fn;
	void *fn_arg = s->arg;

	q->fetch = NULL;
	s->open--;
	read_answer(answer, e, &f);
	if (f.found == FOUND_FAILED || s->worst.found != FOUND_FAILED)
		s->worst = f;
	if (f.found != FOUND_READY && f.found != FOUND_NOT_READY) {
		if (s->open > 0)
			return;
		f = s->worst;
	}
	search_free(s);
	fn(&f, fn_arg);
}

static struct search *find(struct provider *p, const char *id, finding_fn *fn, void *arg, struct err *e)
{
	static const struct http_deadlines deadlines = { LOOK_UP_MS, LOOK_UP_MS, LOOK_UP_MS, LOOK_UP_MS };
	struct servers *all = servers_of(p);
	struct search *s = calloc(1, sizeof(*s));
	struct http_header key = { STR("OPEN-SANDBOX-API-KEY"), str_of(all->key) };
	char path[ID_MAX + 32];
	struct http_request rq = { .method = STR("GET"), .headers = &key, .n_headers = all->key[0] != '\0',
				   .max_body = ROUTE_BODY_MAX, .deadlines = &deadlines };

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	*s = (struct search){ .all = all, .fn = fn, .arg = arg, .worst = { .found = FOUND_NOWHERE } };
	(void)snprintf(path, sizeof(path), "/sandboxes/%s/route", id);
	rq.target = str_of(path);
	for (size_t i = 0; i < all->n; i++) {
		struct question *q = &s->questions[i];

		*q = (struct question){ .search = s, .place = i };
		rq.host = str_of(all->servers[i].host);
		q->fetch = http_fetch(all->servers[i].api.client, &rq, on_answer, q, e);
		s->open += q->fetch != NULL;
	}
	if (s->open > 0)
		return s;
	search_free(s);
	return NULL;
}

/* ---- leading there ---- */

/* Straight into the sandbox. What its proxy would have kept from it stays here. */
static int lead_in(struct sandbox_port *way, unsigned port, struct arena *a, struct http_request *out,
		   struct http_header *headers,
		   struct led *ret, struct err *e)
{
	char *host = arena_printf(a, "localhost:%u", port);
	size_t n = 0;

	if (!host) {
		sandbox_port_release(way);
		return err_no_memory(e);
	}
	for (size_t i = 0; i < out->n_headers; i++)
		if (!proxy_header_is_token(headers[i].name))
			headers[n++] = headers[i];
	out->n_headers = n;
	out->host = str_of(host);
	*ret = (struct led){ sandbox_port_client(way), way };
	return 0;
}

static bool has_gateway_socket(unsigned port)
{
	return port != PORT_EXECD && port != PORT_EGRESS;
}

static int lead(struct provider *p, const struct finding *f, const char *id, unsigned port, struct arena *a,
		struct http_request *out, struct http_header *headers, struct led *ret, struct err *e)
{
	struct servers *all = servers_of(p);
	struct server *s = f->place < all->n ? &all->servers[f->place] : NULL;
	struct sandbox_port *way =
		s && s->link && has_gateway_socket(port) ? gateway_link_port(s->link, id, port) : NULL;
	struct line *l;
	char *target;

	if (way)
		return lead_in(way, port, a, out, headers, ret, e);
	l = s ? line_of(s, f->detail, e) : NULL;
	if (!l)
		return s ? -1 : err_set(e, ERR_INTERNAL, "a server that is not there");
	target = arena_printf(a, "/sandboxes/%s/proxy/%u%.*s", id, port, STR_ARG(out->target));
	if (!target)
		return err_no_memory(e);
	out->target = str_of(target);
	out->host = str_of(s->host);
	headers[out->n_headers++] = (struct http_header){ STR("OpenSandbox-Gateway"), STR("1") };
	if (all->key[0])
		headers[out->n_headers++] = (struct http_header){ STR("OPEN-SANDBOX-API-KEY"), str_of(all->key) };
	*ret = (struct led){ .client = l->client };
	return 0;
}

/* ---- life ---- */

/* http://HOST[:PORT][/] */
static int read_url(struct server *s, struct str url, struct err *e)
{
	struct str host, port = { "", 0 };
	uint64_t number;

	s->is_tls = str_starts(url, STR("https://"));
	if (!s->is_tls && !str_starts(url, STR("http://")))
		return err_set(e, ERR_INVALID, "a server is http://HOST[:PORT] or https://HOST[:PORT]");
	host = str_skip(url, s->is_tls ? sizeof("https://") - 1 : sizeof("http://") - 1);
	if (str_ends(host, STR("/")))
		host.n--;
	if (str_starts(host, STR("["))) {
		if (!str_cut(str_skip(host, 1), ']', &host, &port) || (port.n > 0 && port.p[0] != ':'))
			return err_set(e, ERR_INVALID, "a server with a '[' that is not closed");
		port = str_skip(port, 1);
	} else {
		(void)str_cut(host, ':', &host, &port);
	}
	number = s->is_tls ? 443 : 80;
	if (host.n == 0 || host.n > URL_MAX || memchr(host.p, '/', host.n) || (port.n > 0 && !str_to_u64(port, 1, 65535, &number)))
		return err_set(e, ERR_INVALID, "a server is http://HOST[:PORT] or https://HOST[:PORT]");
	memcpy(s->host, host.p, host.n);
	s->port = (unsigned)number;
	return 0;
}

static int read_key(const char *path, char key[KEY_MAX + 1], struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(KEY_MAX + 64);
	struct str trimmed;

	if (fd_read_file(AT_FDCWD, path, KEY_MAX + 32, &text, e) < 0)
		return -1;
	trimmed = str_trim(buf_str(&text));
	if (trimmed.n == 0 || trimmed.n > KEY_MAX || !http_is_field_value(trimmed)) {
		secret_wipe(text.p, text.n);
		return err_set(e, ERR_INVALID, "'%s' has no key that could be sent", path);
	}
	memcpy(key, trimmed.p, trimmed.n);
	key[trimmed.n] = '\0';
	secret_wipe(text.p, text.n);
	return 0;
}

static int reload(struct provider *p, struct err *e)
{
	struct servers *all = servers_of(p);
	struct addr to[SERVERS_MAX];
	char key[KEY_MAX + 1] = "";

	for (size_t i = 0; i < all->n; i++)
		if (resolve_host(all->servers[i].host, all->servers[i].port, &to[i], e) < 0)
			return -1;
	if (all->key_file && read_key(all->key_file, key, e) < 0)
		return -1;
	for (size_t i = 0; i < all->n; i++)
		all->servers[i].to = to[i];
	memcpy(all->key, key, sizeof(key));
	secret_wipe(key, sizeof(key));
	return 0;
}

static void servers_free(struct provider *p)
{
	struct servers *all = servers_of(p);

	for (size_t i = 0; i < all->n; i++) {
		http_client_free(all->servers[i].api.client);
		gateway_link_free(all->servers[i].link);
		for (size_t k = 0; k < PORTS_MAX; k++)
			http_client_free(all->servers[i].proxies[k].client);
	}
	tls_client_free(all->tls);
	secret_wipe(all->key, sizeof(all->key));
	free(all);
}

static int servers_init(struct servers *all, const struct servers_spec *spec, struct err *e)
{
	struct tls_client_options tls = { .ca_path = spec->ca_file };

	for (; all->n < spec->n; all->n++) {
		struct server *s = &all->servers[all->n];

		s->all = all;
		if (read_url(s, str_of(spec->urls[all->n]), e) < 0)
			return -1;
		if (s->is_tls && !all->tls) {
			all->tls = tls_client_new(&tls, e);
			if (!all->tls)
				return -1;
		}
		s->target = (struct tls_target){ all->tls, s->host };
		if (line_open(&s->api, s, s->port, e) < 0)
			return -1;
	}
	if (reload(&all->provider, e) < 0)
		return -1;
	if (spec->gateway_socket)
		all->servers[0].link = gateway_link_new(all->loop, spec->gateway_socket, all->key, e);
	return spec->gateway_socket && !all->servers[0].link ? -1 : 0;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of what is around the provider */
struct provider *provider_servers(const struct servers_spec *spec, struct err *e)
{
	static const struct provider_ops ops = { .find = find, .cancel = search_free, .lead = lead,
						 .used = sandbox_port_used,
						 .left = sandbox_port_release, .reload = reload,
							 .free = servers_free };
	struct servers *all;

	if (spec->n == 0 || spec->n > SERVERS_MAX) {
		(void)err_set(e, ERR_INVALID, "1 to %d servers can be asked", SERVERS_MAX);
		return NULL;
	}
	all = calloc(1, sizeof(*all));
	if (!all) {
		(void)err_no_memory(e);
		return NULL;
	}
	all->provider.ops = &ops;
	all->loop = spec->loop;
	all->key_file = spec->key_file;
	if (servers_init(all, spec, e) == 0)
		return &all->provider;
	servers_free(&all->provider);
	return NULL;
}
#pragma GCC diagnostic pop
