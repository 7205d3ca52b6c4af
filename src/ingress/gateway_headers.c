// SPDX-License-Identifier: Apache-2.0
#include "ingress/gateway_impl.h"

#include "access/cookie.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "ingress/trust.h"
#include "net/addr.h"
#include "net/http/proxy_header.h"

#include "base/banned.h"

static bool is_in(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

static bool request_header_passes(const struct http_head *head, struct str name, bool is_trusted)
{
	static const char *const forwarded[] = { "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", NULL };

	return !proxy_header_is_ours(name) && (is_trusted || !is_in(name, forwarded)) && !http_is_hop_by_hop(head, name);
}

int gateway_request_headers(const struct request *rq, const struct trust *trust, struct http_header out[GATEWAY_HEADERS_MAX], struct err *e)
{
	char text[ADDR_HOST_MAX];
	const char *peer = arena_dup(rq->arena, str_of(sockaddr_host(rq->peer, text)));
	bool is_trusted = trust_has(trust, rq->peer);
	size_t n = 0;

	if (!peer)
		return err_no_memory(e);
	for (size_t i = 0; i < rq->head->n_headers; i++) {
		const struct http_header *h = &rq->head->headers[i];

		if (!request_header_passes(rq->head, h->name, is_trusted))
			continue;
		if (n == GATEWAY_PASSED_MAX)
			return err_set(e, ERR_LIMIT, "too many headers");
		out[n++] = *h;
	}
	if (!is_trusted || !http_find(rq->head, "X-Forwarded-Proto"))
		out[n++] = (struct http_header){ STR("X-Forwarded-Proto"), rq->is_secure ? STR("https") : STR("http") };
	if (rq->head->host.n > 0 && (!is_trusted || !http_find(rq->head, "X-Forwarded-Host")))
		out[n++] = (struct http_header){ STR("X-Forwarded-Host"), rq->head->host };
	if (peer[0]) /* behind what those in front of it have said */
		out[n++] = (struct http_header){ STR("X-Forwarded-For"), str_of(peer) };
	return (int)n;
}

static void pass_cookie(struct reply *rp, struct str value, const struct gateway_scope *scope)
{
	AUTO(buf_done) struct buf b = BUF_INIT(2 * GATEWAY_HEADER_BYTES_MAX);

	if (cookie_confine(value, scope->prefix, scope->target, &b))
		(void)reply_header(rp, "Set-Cookie", buf_str(&b)); /* what cannot stand in a header is left out */
}

int gateway_response_headers(const struct http_head *head, const struct gateway_scope *scope, struct reply *rp, struct err *e)
{
	size_t bytes = 0;

	for (size_t i = 0; i < head->n_headers; i++)
		bytes += head->headers[i].name.n + head->headers[i].value.n + 4;
	if (bytes > GATEWAY_HEADER_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "an answer with %zu bytes of headers", bytes);
	for (size_t i = 0; i < head->n_headers; i++) {
		const struct http_header *h = &head->headers[i];
		char name[256];

		if (h->name.n >= sizeof(name) || proxy_header_is_for_origin(h->name) || http_is_hop_by_hop(head, h->name))
			continue;
		if (str_eq_nocase(h->name, STR("Set-Cookie"))) {
			pass_cookie(rp, h->value, scope);
			continue;
		}
		memcpy(name, h->name.p, h->name.n);
		name[h->name.n] = '\0';
		(void)reply_header(rp, name, h->value); /* what cannot stand in a header is left out */
	}
	(void)reply_header(rp, "Reverse-Proxy-Server-PowerBy", STR("OpenSandbox-ingress"));
	return 0;
}
