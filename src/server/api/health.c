// SPDX-License-Identifier: Apache-2.0
#include "server/api/api.h"

#include "base/buf.h"
#include "base/json_out.h"
#include "server/http/service.h"
#include "server/model/plane.h"

#include "base/banned.h"

#define BODY_MAX 1024

/* The server is up whatever the host lacks: who restarts servers that are not must not do so. What is missing is said beside it. */
int health_get(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf body = BUF_INIT(BODY_MAX);
	const struct plane *p = plane_of(rq);
	const char *lacks = p ? p->spec.runtime->can.network_lacks : NULL;
	struct json_out o = json_out(&body);

	(void)e;
	json_open(&o, '{');
	json_key(&o, "status"), json_cstr(&o, "healthy");
	if (lacks) {
		json_key(&o, "warnings"), json_open(&o, '[');
		json_cstr(&o, lacks);
		json_close(&o, ']');
	}
	json_close(&o, '}');
	return reply_json(rp, 200, &body);
}
