// SPDX-License-Identifier: Apache-2.0
/* mcp/http.h - the HTTP transport ("streamable HTTP"): one path, sessions by header, answers as event
 * streams.
 *
 *     POST    messages of the client; requests are answered in a stream of their own, anything else by 202
 *     GET     a stream for messages of the server, one for each session; comments keep it alive
 *     DELETE  the end of the session
 *
 * Requests of foreign web pages are refused: Host and Origin must be names of the operator, or of this
 * machine. Streams cannot be resumed: events carry no ids. A request whose connection broke continues, and
 * its answer is lost. */
#pragma once
#include "base/own.h"

struct engine;
struct err;
struct mcp_http;
struct mcp_options;

struct mcp_http *mcp_http_new(struct engine *en, const struct mcp_options *options, struct err *e);
void mcp_http_free(struct mcp_http *h);
DEFINE_AUTO(struct mcp_http *, mcp_http_free)

/* At the engine's end: nobody can connect any more, and connections that are there get 503 for what they
 * still ask. */
void mcp_http_leave(struct mcp_http *h, unsigned deadline_ms);

unsigned mcp_http_port(const struct mcp_http *h);
