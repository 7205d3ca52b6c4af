// SPDX-License-Identifier: Apache-2.0
/* server/proxy/proxy_headers.h - the headers that the endpoint proxy forwards. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "net/http/http1.h"

struct arena;
struct err;

struct proxy_request_rules {
	const char *own_token; /* the header of ours that this port may see; NULL: none */
	struct str host;       /* as the client wrote it */
	struct str peer;       /* its address as text; empty: unknown */
	bool is_secure;
	bool is_gateway;       /* it has said so itself, and what it sends of its peer is for the sandbox */
};

#define PROXY_HEADERS_MAX (HTTP_HEADERS_MAX - 4) /* what the client can send on */
#define PROXY_HEADER_BYTES_MAX ((size_t)12 * 1024) /* of an answer's, all together: the server adds its own */

/* For the sandbox: without what belongs to the connection or to us, with X-Forwarded-* of our own. The number
 * of headers in OUT; -1 with ERR_LIMIT if there are too many. Values are views of HEAD or of RULES. */
int proxy_request_headers(const struct http_head *head, const struct proxy_request_rules *rules,
			  struct http_header out[PROXY_HEADERS_MAX], struct err *e);

/* For the client: without what belongs to the connection, to this server's origin as a whole, or is added by
 * the server itself. WITH_CORS: it adds its own CORS headers. */
bool proxy_response_header_passes(const struct http_head *head, struct str name, bool with_cors);
