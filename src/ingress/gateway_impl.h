// SPDX-License-Identifier: Apache-2.0
/* ingress/gateway_impl.h - shared by the files of the gateway. */
#pragma once
#include "ingress/gateway.h"
#include "ingress/provider.h"

/* A client's request has room for ours: four here, the provider's, and those that the HTTP client writes. */
#define GATEWAY_PASSED_MAX (HTTP_HEADERS_MAX - 4 - 4 - PROVIDER_HEADERS_MAX)
#define GATEWAY_HEADERS_MAX (HTTP_HEADERS_MAX - 4)
#define GATEWAY_HEADER_BYTES_MAX ((size_t)12 * 1024) /* of an answer's, all together */

/* Those of a request that are passed on, and where it came from: what TRUST's proxies said of that stays. How
 * many; -1 with ERR_LIMIT: too many. */
int gateway_request_headers(const struct request *rq, const struct trust *trust,
			    struct http_header out[GATEWAY_HEADERS_MAX], struct err *e);
/* Where an answer belongs, for its cookies (access/cookie.h). */
struct gateway_scope {
	/* of the client's path, that leads to the sandbox; empty: the sandbox has a host of its own */
	struct str prefix;
	struct str target; /* as the sandbox was asked for it */
};
/* Those of an answer, onto ours. -1: too large, and nothing has been added. */
int gateway_response_headers(const struct http_head *head, const struct gateway_scope *scope,
			     struct reply *rp, struct err *e);
