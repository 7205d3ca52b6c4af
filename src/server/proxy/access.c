// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/access.h"

#include "access/attempts.h"
#include "access/route_token.h"
#include "base/json_out.h"
#include "net/loop.h"
#include "server/config/config.h"
#include "server/proxy/host_ports.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define ADDRESS_MAX 1024

/* ---- who may come in ---- */

static uint64_t now_s(const struct plane *p)
{
	return (uint64_t)(sandboxes_wall_us(p->sandboxes) / 1000000);
}

int access_admit(const struct request *rq, const struct sandbox *sb, const struct route_token *route, struct fault *f)
{
	const struct http_header *header = http_find(rq->head, ACCESS_HEADER);
	struct access_request in = { .has_token = header != NULL, .route = route };
	struct plane *p = plane_of(rq);
	uint64_t now_ms = loop_now_ms(p->spec.loop);
	char token[SANDBOX_TOKEN_LEN + 1];
	enum access_verdict v;

	if (!sb->row.is_secure || service_is_gateway(rq))
		return 0;
	if (attempts_exceeded(p->attempts, str_of(sb->row.id), rq->peer, now_ms)) {
		(void)fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many wrong tokens or signatures for this sandbox");
		f->retry_s = ATTEMPTS_WINDOW_MS / 1000;
		return -1;
	}
	if (header)
		in.token = header->value;
	sandbox_token(sb, "access", token);
	v = access_check(str_of(token), &in, &p->keys, now_s(p));
	secret_wipe(token, sizeof(token));
	if (v == ACCESS_OK)
		return 0;
	if (access_is_guess(v))
		attempts_failed(p->attempts, str_of(sb->row.id), rq->peer, now_ms);
	return fault_set(f, access_status(v), NULL, "SECURE_ACCESS_DENIED", "%s", access_text(v));
}

/* ---- where it is ---- */

/* "https://a.b:80/c/" -> "a.b:80/c" */
static struct str without_scheme(struct str s)
{
	for (size_t i = 0; i + 3 <= s.n; i++) {
		if (memcmp(s.p + i, "://", 3) == 0) {
			s = str_skip(s, i + 3);
			break;
		}
	}
	while (s.n > 0 && s.p[s.n - 1] == '/')
		s.n--;
	return s;
}

/* "a.b:80/c" -> "a.b", "[::1]:80" -> "[::1]" */
static struct str host_only(struct str s)
{
	size_t n = 0;

	(void)str_cut(s, '/', &s, &(struct str){ 0 });
	if (s.n > 0 && s.p[0] == '[') {
		while (n < s.n && s.p[n] != ']')
			n++;
		return str_first(s, n + 1);
	}
	while (n < s.n && s.p[n] != ':')
		n++;
	return str_first(s, n);
}

static bool is_wildcard(const char *host)
{
	return !host || host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* What clients find this machine by: what the operator says, the address that is listened on, or the name that
 * this client has just found it by. */
static void write_public_host(const struct request *rq, struct buf *b)
{
	const struct plane_spec *s = &plane_of(rq)->spec;

	if (s->eip)
		buf_add_str(b, host_only(without_scheme(str_of(s->eip))));
	else if (is_wildcard(s->host))
		buf_add_str(b, host_only(rq->head->host));
	else if (strchr(s->host, ':'))
		buf_addf(b, "[%s]", s->host);
	else
		buf_addf(b, "%s", s->host);
}

/* ---- routes ---- */

static const struct config_gateway *gateway_of(const struct plane *p)
{
	const struct config_ingress *in = p->spec.ingress;

	return in && in->mode == INGRESS_GATEWAY && in->has_gateway ? &in->gateway : NULL;
}

/* ID-PORT or ID/PORT, by SEP, and its signature. */
static void write_route(const struct plane *p, const struct sandbox *sb, const struct endpoint_form *form, char sep, struct buf *b)
{
	char expires[ROUTE_EXPIRES_MAX + 1], signature[ROUTE_SIGNATURE_LEN + 1];
	struct str id = str_of(sb->row.id);

	buf_addf(b, "%s%c%u", sb->row.id, sep, form->port);
	if (!form->is_signed)
		return;
	(void)route_expires_write(form->expires, expires);
	if (!route_sign(&p->keys, p->spec.ingress->secure_access.active_key[0], id, form->port, form->expires, signature))
		b->failed = true; /* endpoint_check() has seen the key */
	buf_addf(b, "%c%s%c%s", sep, expires, sep, signature);
}

static void write_by_gateway(const struct plane *p, const struct config_gateway *g, const struct sandbox *sb,
			     const struct endpoint_form *form, struct buf *b)
{
	struct str address = str_of(g->address);

	switch (g->route.mode) {
	case GATEWAY_WILDCARD:
		write_route(p, sb, form, '-', b);
		buf_add_char(b, '.');
		buf_add_str(b, str_skip(address, str_starts(address, STR("*.")) ? 2 : 0));
		break;
	case GATEWAY_HEADER:
		buf_add_str(b, address);
		break;
	default:
		buf_add_str(b, without_scheme(address));
		buf_add_char(b, '/');
		write_route(p, sb, form, '/', b);
	}
}

/* What the port of the endpoint proxy takes for a signed route is what a gateway takes in its URI mode. */
static void write_address(const struct request *rq, const struct sandbox *sb, const struct endpoint_form *form, struct buf *b)
{
	const struct plane *p = plane_of(rq);

	if (form->by_server) {
		buf_add_str(b, p->spec.eip ? without_scheme(str_of(p->spec.eip)) : rq->head->host);
		buf_addf(b, "/sandboxes/%s/proxy/%u", sb->row.id, form->port);
		return;
	}
	if (gateway_of(p)) {
		write_by_gateway(p, gateway_of(p), sb, form, b);
		return;
	}
	write_public_host(rq, b);
	if (!form->is_signed && host_port_of(sb, form->port) != 0) { /* straight there */
		buf_addf(b, ":%u", host_port_of(sb, form->port));
		return;
	}
	buf_addf(b, ":%u/", p->spec.proxy_port);
	if (form->is_signed)
		write_route(p, sb, form, '/', b);
	else
		buf_addf(b, "sandboxes/%s/proxy/%u", sb->row.id, form->port);
}

/* ---- headers ---- */

static void write_token(struct json_out *o, const struct sandbox *sb, const char *header, const char *purpose)
{
	char token[SANDBOX_TOKEN_LEN + 1];

	sandbox_token(sb, purpose, token);
	json_key(o, header), json_cstr(o, token);
	secret_wipe(token, sizeof(token));
}

static void write_headers(const struct plane *p, const struct sandbox *sb, const struct endpoint_form *form, struct json_out *o)
{
	AUTO(buf_done) struct buf route = BUF_INIT(ADDRESS_MAX);
	const struct guarded_port *g = guarded_port_find(form->port);
	const struct config_gateway *gateway = form->by_server ? NULL : gateway_of(p);
	bool by_header = gateway && gateway->route.mode == GATEWAY_HEADER;
	bool has_token = sb->row.is_secure && !form->is_signed;

	if (!g && !by_header && !has_token)
		return;
	json_key(o, "headers"), json_open(o, '{');
	if (by_header) {
		write_route(p, sb, form, '-', &route);
		json_key(o, "OpenSandbox-Ingress-To"), json_str(o, buf_str(&route));
	}
	if (g)
		write_token(o, sb, g->header, g->purpose);
	if (has_token)
		write_token(o, sb, ACCESS_HEADER, "access");
	json_close(o, '}');
}

/* ---- both ---- */

int endpoint_check(const struct request *rq, const struct endpoint_form *form, struct fault *f)
{
	const struct plane *p = plane_of(rq);
	uint64_t now = now_s(p), most;

	if (!form->is_signed)
		return 0;
	if (form->by_server)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "expires cannot be used with use_server_proxy");
	if (p->keys.n == 0)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "expires: ingress.secure_access has no keys to sign with");
	if (form->expires <= now)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "expires: must be in the future");
	most = (uint64_t)p->spec.ingress->secure_access.max_ttl_seconds;
	if (form->expires - now > most)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "expires: must be at most %llu seconds from now",
				 (unsigned long long)most);
	return 0;
}

void endpoint_write(const struct request *rq, const struct sandbox *sb, const struct endpoint_form *form, struct json_out *o)
{
	AUTO(buf_done) struct buf address = BUF_INIT((size_t)8 * ADDRESS_MAX);

	write_address(rq, sb, form, &address);
	json_key(o, "endpoint"), json_str(o, buf_str(&address));
	write_headers(plane_of(rq), sb, form, o);
}
