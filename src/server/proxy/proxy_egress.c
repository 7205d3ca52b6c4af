// SPDX-License-Identifier: Apache-2.0
/* The port of policies for sandboxes that have no network: egress knows nothing of them, and there is one answer to everything. */
#include "base/buf.h"
#include "base/err.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define TEXT "text/plain; charset=utf-8"
#define NO_NETWORK "the sandbox has no network"

static int say(struct reply *rp, unsigned status, struct str text)
{
	(void)reply_header(rp, "X-Content-Type-Options", STR("nosniff"));
	return reply_bytes(rp, status, TEXT, text);
}

static bool is_one_of(struct str method, const char *const *names)
{
	for (; *names; names++)
		if (str_is(method, *names))
			return true;
	return false;
}

int egress_of_none(struct request *rq, struct reply *rp, struct err *e)
{
	static const char *const reads[] = { "GET", "HEAD", NULL }, *const changes[] = { "POST", "PUT", "PATCH", "DELETE", NULL };

	(void)e;
	if (str_is(rq->rest, "healthz"))
		return say(rp, 200, STR("ok"));
	if (!str_is(rq->rest, "policy"))
		return say(rp, 404, STR("404 page not found\n"));
	if (is_one_of(rq->head->method, reads))
		return reply_bytes(rp, 200, "application/json",
				   STR("{\"status\":\"ok\",\"mode\":\"deny_all\",\"enforcementMode\":\"dns+nft\",\"reason\":\"" NO_NETWORK "\","
				       "\"policy\":{\"egress\":[],\"defaultAction\":\"deny\"}}\n"));
	if (is_one_of(rq->head->method, changes))
		return say(rp, 409, STR(NO_NETWORK ": no policy could have an effect\n"));
	(void)reply_header(rp, "Allow", STR("GET, POST, PUT, PATCH, DELETE"));
	return say(rp, 405, STR("method not allowed\n"));
}
