// SPDX-License-Identifier: Apache-2.0
#include "mcp/mcp.h"

#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "client/opensandbox.h"
#include "mcp/http.h"
#include "mcp/stdio.h"
#include "net/loop.h"
#include "sys/signals.h"

#include "base/banned.h"

#define LEAVING_MS 5000 /* for what was cancelled to end in the sandboxes */

struct server {
	struct loop *loop;
	struct osb_client *client;
	struct engine engine;
	struct stdio *stdio;
	struct mcp_http *http;
	int signals;
	struct io io;
	struct timer leaving;
	bool is_leaving;
};

static void stop(void *arg)
{
	struct server *s = arg;

	loop_stop(s->loop);
}

/* No more questions are taken, and what is under way is cancelled; when all of it has ended, or in a while, the loop stops. */
static void leave(void *arg)
{
	struct server *s = arg;

	if (s->is_leaving) {
		stop(s);
		return;
	}
	s->is_leaving = true;
	s->engine.idle = stop;
	s->engine.idle_arg = s;
	timer_in(&s->leaving, LEAVING_MS);
	engine_leave(&s->engine);
	if (s->http)
		mcp_http_leave(s->http, LEAVING_MS);
	if (!s->engine.calls)
		stop(s);
}

static void on_signal(unsigned ready, void *arg)
{
	struct server *s = arg;
	struct err e = { 0 };
	int signo;

	(void)ready;
	while (signals_read(s->signals, &signo, NULL, &e) > 0)
		leave(s);
}

static int open_transport(struct server *s, const struct mcp_options *o, struct err *e)
{
	if (o->is_http) {
		s->http = mcp_http_new(&s->engine, o, e);
		if (s->http && o->listening)
			o->listening(mcp_http_port(s->http), o->arg);
		return s->http ? 0 : -1;
	}
	s->stdio = stdio_new(&s->engine, STDIN_FILENO, STDOUT_FILENO, leave, s, e);
	return s->stdio ? 0 : -1;
}

static int open_signals(struct server *s, struct err *e)
{
	const sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);

	if (signals_block(&set, e) < 0)
		return -1;
	s->signals = signals_open(&set, e);
	if (s->signals < 0 || timer_init(&s->leaving, s->loop, stop, s, "mcp end", e) < 0)
		return -1;
	return io_add(&s->io, s->loop, s->signals, IO_IN, on_signal, s, "mcp signals", e);
}

static int run(struct server *s, const struct mcp_options *o, struct err *e)
{
	int r = -1;

	if (engine_init(&s->engine, s->loop, s->client, &o->limits, e) < 0)
		return -1;
	if (open_signals(s, e) == 0 && open_transport(s, o, e) == 0)
		r = loop_run(s->loop, e);
	s->engine.idle = NULL;
	mcp_http_free(s->http);
	stdio_free(s->stdio);
	io_del(&s->io);
	timer_done(&s->leaving);
	closep(&s->signals);
	engine_done(&s->engine);
	return r;
}

static int make_client(struct server *s, const struct osb_options *connection, struct err *e)
{
	struct osb_error why;

	s->client = osb_client_new(connection, &why);
	return s->client ? 0 : err_set(e, ERR_INVALID, "%s", why.message);
}

int mcp_serve(const struct mcp_options *options, struct err *e)
{
	struct server s = { .signals = -1 };
	int r = -1;

	s.loop = loop_new(e);
	if (!s.loop)
		return -1;
	if (make_client(&s, options->connection, e) == 0)
		r = run(&s, options, e);
	osb_client_free(s.client);
	loop_free(s.loop);
	return r;
}
