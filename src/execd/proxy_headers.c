// SPDX-License-Identifier: Apache-2.0
#include "execd/proxy_headers.h"

#include <arpa/inet.h>

#include "base/arena.h"
#include "base/err.h"
#include "net/http/header.h"

#include "base/banned.h"

static bool is_in(struct str name, const char *const *list)
{
	for (; *list; list++)
		if (str_eq_nocase(name, str_of(*list)))
			return true;
	return false;
}

static bool is_address(struct str s)
{
	unsigned char room[sizeof(struct in6_addr)];
	char text[INET6_ADDRSTRLEN];

	if (s.n == 0 || s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return strlen(text) == s.n && (inet_pton(AF_INET, text, room) == 1 || inet_pton(AF_INET6, text, room) == 1);
}

/* Where the request began, as far as anybody has said so: the first hop of X-Forwarded-For, X-Real-IP, or the peer. */
static struct str first_hop(const struct http_head *head, struct str peer)
{
	struct str list = http_value(head, "X-Forwarded-For"), first = { 0 }, real = http_value(head, "X-Real-IP");

	if (header_list_next(&list, &first) && is_address(first))
		return first;
	return is_address(real) ? real : peer;
}

static bool forwarded_for(const struct http_head *head, struct str peer, struct arena *a, struct str *ret)
{
	struct str first = first_hop(head, peer);
	char *both;

	*ret = first;
	if (first.n == 0 || peer.n == 0)
		return true;
	both = arena_printf(a, "%.*s, %.*s", STR_ARG(first), STR_ARG(peer));
	*ret = str_of(both);
	return both;
}

static int add(struct http_header *out, size_t *n, struct str name, struct str value, struct err *e)
{
	if (*n == PROXIED_HEADERS_MAX)
		return err_set(e, ERR_LIMIT, "too many headers");
	out[(*n)++] = (struct http_header){ name, value };
	return 0;
}

int proxied_request_headers(const struct http_head *head, struct str peer, struct arena *a,
			    struct http_header out[PROXIED_HEADERS_MAX], struct err *e)
{
	static const char *const dropped[] = {
		"Host", "Expect", "X-EXECD-ACCESS-TOKEN", "OPEN-SANDBOX-API-KEY", "OPENSANDBOX-EGRESS-AUTH",
		"OpenSandbox-Secure-Access", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", NULL,
	};
	struct str hops;
	size_t n = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		const struct http_header *h = &head->headers[i];

		if (!is_in(h->name, dropped) && !http_is_hop_by_hop(head, h->name) && add(out, &n, h->name, h->value, e) < 0)
			return -1;
	}
	if (!forwarded_for(head, peer, a, &hops))
		return err_no_memory(e);
	if (hops.n > 0 && add(out, &n, STR("X-Forwarded-For"), hops, e) < 0)
		return -1;
	return add(out, &n, STR("X-Forwarded-Proto"), STR("http"), e) < 0 ? -1 : (int)n;
}

bool proxied_response_header_passes(const struct http_head *head, struct str name, bool has_id)
{
	static const char *const ours[] = { "Date", NULL };

	return !is_in(name, ours) && !(has_id && str_eq_nocase(name, STR("X-Request-ID"))) && !http_is_hop_by_hop(head, name);
}
