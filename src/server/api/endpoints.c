// SPDX-License-Identifier: Apache-2.0
/* Where a port of a sandbox can be reached, and with which headers; the same for gateways. */
#include "base/decode.h"
#include "base/err.h"
#include "base/json_out.h"
#include "net/http/url.h"
#include "server/api/api.h"
#include "server/http/reply.h"
#include "server/proxy/access.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define DIGITS_MAX 18 /* that every integer here may have */

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

/* An integer all right, and a time that nobody will see. */
static bool is_beyond_time(struct request *rq)
{
	struct query q = { 0 };
	const struct query_pair *p = NULL;
	size_t n = 0;

	if (query_parse(rq->query, rq->arena, &q, &(struct err){ 0 }) == 0)
		p = query_get(&q, "expires");
	while (p && n < p->value.n && p->value.p[n] >= '0' && p->value.p[n] <= '9')
		n++;
	return p && n == p->value.n && n > DIGITS_MAX;
}

static int refuse_time(struct reply *rp, const char *why)
{
	struct fault f;

	(void)fault_set(&f, 400, "SANDBOX", "INVALID_PARAMETER", "expires: %s", why);
	return reply_fault(rp, &f);
}

int endpoint_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(16384);
	struct json_out o = json_out(&body);
	struct endpoint_query q = { 0 };
	struct endpoint_form form = { 0 };
	const struct sandbox *sb;
	struct fault f;
	int rc;

	if (is_beyond_time(rq))
		return refuse_time(rp, "is too far away");
	rc = request_query(rq, rp, query_fields, &q, e);
	if (rc == 0)
		rc = request_port(rq, rp, &form.port, e);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	form = (struct endpoint_form){ form.port, q.use_server_proxy, q.has_expires, (uint64_t)q.expires };
	sb = request_sandbox(rq, rp);
	if (!sb)
		return 0;
	if (q.expires < 0)
		return refuse_time(rp, "must be in the future");
	if (endpoint_check(rq, &form, &f) < 0)
		return reply_fault(rp, &f);
	json_open(&o, '{');
	endpoint_write(rq, sb, &form, &o);
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}

/* For a gateway: where requests for the sandbox are to be sent, and what they need. */
int sandbox_route_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(4096);
	struct json_out o = json_out(&body);
	const struct sandbox *sb = request_sandbox(rq, rp);
	char token[SANDBOX_TOKEN_LEN + 1];

	(void)e;
	if (!sb)
		return 0;
	json_open(&o, '{');
	json_key(&o, "id"), json_cstr(&o, sb->row.id);
	json_key(&o, "state"), json_cstr(&o, sandbox_state_name(sb->row.state));
	json_key(&o, "isReady"), json_bool(&o, sandbox_can_be_called(sb));
	json_key(&o, "proxyPort"), json_uint(&o, plane_of(rq)->spec.proxy_port);
	if (sb->row.is_secure) {
		sandbox_token(sb, "access", token);
		json_key(&o, "secureAccessToken"), json_cstr(&o, token);
		secret_wipe(token, sizeof(token));
	}
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}
