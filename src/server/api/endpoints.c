// SPDX-License-Identifier: Apache-2.0
/* Where a port of a sandbox can be reached, and with which headers. */
#include <stdio.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "server/api/api.h"
#include "server/api/proxy.h"
#include "server/api/reply.h"

#include "base/banned.h"

struct endpoint_query {
	bool use_server_proxy;
	int64_t expires;
	bool has_expires;
};

static const struct field query_fields[] = {
	FIELD(struct endpoint_query, use_server_proxy, FIELD_BOOL, "use_server_proxy"),
	FIELD(struct endpoint_query, expires, FIELD_INT, "expires", .has = HAS(struct endpoint_query, has_expires)),
	{ 0 },
};

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

static void write_endpoint(const struct request *rq, const struct sandbox *sb, unsigned port, bool by_server, struct buf *b)
{
	const struct plane_spec *s = &plane_of(rq)->spec;

	if (by_server) {
		buf_add_str(b, s->eip ? without_scheme(str_of(s->eip)) : rq->head->host);
	} else {
		write_public_host(rq, b);
		buf_addf(b, ":%u", s->proxy_port);
	}
	buf_addf(b, "/sandboxes/%s/proxy/%u", sb->row.id, port);
}

static void write_headers(struct json_out *o, const struct sandbox *sb, unsigned port)
{
	const struct guarded_port *g = guarded_port_find(port);
	char token[SANDBOX_TOKEN_LEN + 1];

	if (!g)
		return;
	sandbox_token(sb, g->purpose, token);
	json_key(o, "headers"), json_open(o, '{');
	json_key(o, g->header), json_cstr(o, token);
	json_close(o, '}');
	secret_wipe(token, sizeof(token));
}

static int check_expires(const struct endpoint_query *q, struct fault *f)
{
	if (q->has_expires && q->use_server_proxy)
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "expires cannot be used with use_server_proxy");
	if (q->has_expires)
		return fault_set(f, 400, "SANDBOX", "API_NOT_SUPPORTED", "expires: signed endpoints are not supported here");
	return 0;
}

int endpoint_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(16384);
	AUTO(buf_done) struct buf endpoint = BUF_INIT(8192);
	struct json_out o = json_out(&body);
	struct endpoint_query q = { 0 };
	const struct sandbox *sb;
	struct fault f;
	unsigned port;
	int rc = request_query(rq, rp, query_fields, &q, e);

	if (rc == 0)
		rc = request_port(rq, rp, &port, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	if (check_expires(&q, &f) < 0)
		return reply_fault(rp, &f);
	write_endpoint(rq, sb, port, q.use_server_proxy, &endpoint);
	json_open(&o, '{');
	json_key(&o, "endpoint"), json_str(&o, buf_str(&endpoint));
	write_headers(&o, sb, port);
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}
