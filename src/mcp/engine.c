// SPDX-License-Identifier: Apache-2.0
#include "mcp/engine.h"

#include "base/log.h"
#include "client/opensandbox.h"
#include "mcp/call.h"

#include "base/banned.h"

static void pump(void *arg)
{
	struct engine *en = arg;
	int ms;

	if (osb_client_dispatch(en->client, 0) < 0)
		log_error("the client library gave up");
	ms = osb_client_timeout_ms(en->client);
	if (ms >= 0)
		timer_in(&en->timer, (uint64_t)ms);
	else
		timer_cancel(&en->timer);
}

static void on_ready(unsigned ready, void *arg)
{
	(void)ready;
	pump(arg);
}

void engine_pump(struct engine *en)
{
	defer(&en->pump, en->loop, pump, en, "mcp client");
}

int engine_init(struct engine *en, struct loop *l, struct osb_client *client, const struct mcp_limits *limits, struct err *e)
{
	*en = (struct engine){ .loop = l, .client = client, .limits = *limits };
	if (timer_init(&en->timer, l, pump, en, "mcp client", e) < 0 ||
	    io_add(&en->io, l, osb_client_fd(client), IO_IN, on_ready, en, "mcp client", e) < 0) {
		timer_done(&en->timer);
		return -1;
	}
	return 0;
}

void engine_leave(struct engine *en)
{
	en->is_leaving = true;
	for (struct call *c = en->calls, *next; c; c = next) {
		next = c->next;
		mcp_call_cancel(c);
	}
}

void engine_done(struct engine *en)
{
	while (en->calls)
		mcp_call_free(en->calls);
	handles_done(&en->handles);
	defer_cancel(&en->pump);
	timer_done(&en->timer);
	io_del(&en->io);
}
