// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "server/api/api.h"
#include "server/http/assets.h"
#include "server/http/service.h"

#include "base/banned.h"

static int reply_asset(struct request *rq, struct reply *rp, const char *name, struct err *e)
{
	const struct service *s = service_of(rq);
	const struct asset *a = s->spec.find_asset ? s->spec.find_asset(name) : NULL;

	if (!a)
		return err_set(e, ERR_INTERNAL, "the program lacks '%s'", name);
	(void)reply_header(rp, "X-Content-Type-Options", STR("nosniff"));
	(void)reply_header(rp, "Cache-Control", STR("no-cache"));
	return reply_bytes(rp, 200, a->type, a->bytes);
}

/* The page brings its own style and script, known to the browser by their digests, and fetches nothing but the
 * description of the API from here. */
int docs_get(struct request *rq, struct reply *rp, struct err *e)
{
	const struct service *s = service_of(rq);
	const struct asset *policy = s->spec.find_asset ? s->spec.find_asset("docs.html.csp") : NULL;

	if (!policy || reply_header(rp, "Content-Security-Policy", policy->bytes) < 0)
		return err_set(e, ERR_INTERNAL, "the program lacks the policy of its page");
	(void)reply_header(rp, "Referrer-Policy", STR("no-referrer"));
	return reply_asset(rq, rp, "docs.html", e);
}

int openapi_get(struct request *rq, struct reply *rp, struct err *e)
{
	return reply_asset(rq, rp, "server.json", e);
}
