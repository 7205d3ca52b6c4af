// SPDX-License-Identifier: Apache-2.0
/* execd/proxy_headers.h - the headers that the port proxy forwards. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "net/http/http1.h"

struct arena;
struct err;

#define PROXIED_HEADERS_MAX (HTTP_HEADERS_MAX - 4)    /* what the client can send on */
#define PROXIED_HEADER_BYTES_MAX ((size_t)12 * 1024) /* of an answer's, all together */

/* For the service: without what belongs to the connection or to us, the token above all, with X-Forwarded-For
 * and -Proto. PEER is the address of the client, empty if unknown. The number of headers in OUT; -1 with
 * ERR_LIMIT if there are too many, or without memory. */
int proxied_request_headers(const struct http_head *head, struct str peer, struct arena *a,
			    struct http_header out[PROXIED_HEADERS_MAX], struct err *e);

/* For the client. HAS_ID: our answer has an X-Request-ID of its own. */
bool proxied_response_header_passes(const struct http_head *head, struct str name, bool has_id);
