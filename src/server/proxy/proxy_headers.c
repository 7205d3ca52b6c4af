// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/proxy_headers.h"

#include "base/err.h"
#include "net/http/proxy_header.h"

#include "base/banned.h"

static bool is_in(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

/* ---- towards the sandbox ---- */

static bool request_header_passes(const struct http_head *head, const struct proxy_request_rules *rules, struct str name)
{
	/* What clients send to this server's origin is for this server; what they send to a gateway is not. */
	static const char *const dropped_here[] = {
		"Authorization", "Cookie", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", NULL,
	};

	if (rules->own_token && str_eq_nocase(name, str_of(rules->own_token)))
		return true;
	if (!rules->is_gateway && is_in(name, dropped_here))
		return false;
	return !proxy_header_is_ours(name) && !proxy_header_is_token(name) && !http_is_hop_by_hop(head, name);
}

static int add(struct http_header *out, size_t *n, const char *name, struct str value, struct err *e)
{
	if (*n == PROXY_HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "too many headers");
	out[(*n)++] = (struct http_header){ str_of(name), value };
	return 0;
}

int proxy_request_headers(const struct http_head *head, const struct proxy_request_rules *rules,
			  struct http_header out[PROXY_HEADERS_MAX], struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		const struct http_header *h = &head->headers[i];

		if (!request_header_passes(head, rules, h->name))
			continue;
		if (n == PROXY_HEADERS_MAX)
			return err_set(e, ERR_LIMIT, "too many headers");
		out[n++] = *h;
	}
	if (rules->is_gateway)
		return (int)n;
	if (add(out, &n, "X-Forwarded-Proto", rules->is_secure ? STR("https") : STR("http"), e) < 0 ||
	    (rules->host.n > 0 && add(out, &n, "X-Forwarded-Host", rules->host, e) < 0) ||
	    (rules->peer.n > 0 && add(out, &n, "X-Forwarded-For", rules->peer, e) < 0))
		return -1;
	return (int)n;
}

/* ---- towards the client ---- */

bool proxy_response_header_passes(const struct http_head *head, struct str name, bool with_cors)
{
	static const char *const cors[] = { "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", NULL };

	return !proxy_header_is_for_origin(name) && !(with_cors && is_in(name, cors)) && !http_is_hop_by_hop(head, name);
}
