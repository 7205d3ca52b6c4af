// SPDX-License-Identifier: Apache-2.0
#include "server/api/api.h"

#include "base/banned.h"

int health_get(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)e;
	return reply_bytes(rp, 200, "application/json", STR("{\"status\":\"healthy\"}"));
}
