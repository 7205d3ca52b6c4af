// SPDX-License-Identifier: Apache-2.0
#include "ingress/trust.h"

#include <arpa/inet.h>

#include "base/err.h"
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool bytes_of(const struct sockaddr *sa, unsigned char out[16])
{
	const void *p = sa;

	if (sa->sa_family == AF_INET6) {
		memcpy(out, &((const struct sockaddr_in6 *)p)->sin6_addr, 16);
		return true;
	}
	memcpy(out, mapped, sizeof(mapped));
	if (sa->sa_family == AF_INET)
		memcpy(out + 12, &((const struct sockaddr_in *)p)->sin_addr, 4);
	return sa->sa_family == AF_INET;
}

/* An address alone: "192.0.2.1", "::1", "[::1]". */
static bool read_address(struct str text, struct addr *ret)
{
	char z[ADDR_HOST_MAX];

	if (text.n >= 2 && text.p[0] == '[' && text.p[text.n - 1] == ']')
		text = str_first(str_skip(text, 1), text.n - 2);
	if (text.n == 0 || text.n >= sizeof(z))
		return false;
	memcpy(z, text.p, text.n);
	z[text.n] = '\0';
	*ret = (struct addr){ .len = sizeof(ret->in), .in = { .sin_family = AF_INET } };
	if (inet_pton(AF_INET, z, &ret->in.sin_addr) == 1)
		return true;
	*ret = (struct addr){ .len = sizeof(ret->in6), .in6 = { .sin6_family = AF_INET6 } };
	return inet_pton(AF_INET6, z, &ret->in6.sin6_addr) == 1;
}

int trust_add(struct trust *t, struct str text, struct err *e)
{
	struct str host, bits;
	struct trust_net net = { .bits = 128 };
	bool has_bits = str_cut(str_trim(text), '/', &host, &bits);
	struct addr a;
	uint64_t n;

	if (t->n == TRUST_MAX)
		return err_set(e, ERR_LIMIT, "more than %d trusted proxies", TRUST_MAX);
	if (!read_address(host, &a) || (has_bits && !str_to_u64(bits, 0, a.sa.sa_family == AF_INET ? 32 : 128, &n)))
		return err_set(e, ERR_INVALID, "a trusted proxy is an address or a network such as 10.0.0.0/8");
	(void)bytes_of(&a.sa, net.bytes);
	if (has_bits)
		net.bits = (unsigned)n + (a.sa.sa_family == AF_INET ? 96 : 0);
	t->nets[t->n++] = net;
	return 0;
}

static bool is_in(const struct trust_net *net, const unsigned char bytes[16])
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;

	return memcmp(net->bytes, bytes, whole) == 0 && (rest == 0 || (net->bytes[whole] ^ bytes[whole]) >> (8 - rest) == 0);
}

bool trust_has(const struct trust *t, const struct sockaddr *sa)
{
	unsigned char bytes[16];

	if (!bytes_of(sa, bytes))
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (is_in(&t->nets[i], bytes))
			return true;
	return false;
}

/* Takes what follows the last ',' off LIST. */
static struct str take_last(struct str *list)
{
	size_t n = list->n;
	struct str last;

	while (n > 0 && list->p[n - 1] != ',')
		n--;
	last = str_trim(str_skip(*list, n));
	list->n = n > 0 ? n - 1 : 0;
	return last;
}

bool trust_client(const struct trust *t, const struct sockaddr *peer, const struct http_head *head, struct addr *ret)
{
	*ret = (struct addr){ 0 };
	ret->len = peer->sa_family == AF_INET6 ? sizeof(ret->in6) : peer->sa_family == AF_INET ? sizeof(ret->in) : sizeof(peer->sa_family);
	memcpy(&ret->sa, peer, ret->len);
	if (!trust_has(t, peer))
		return false;
	for (size_t i = head->n_headers; i > 0; i--) {
		struct str list = head->headers[i - 1].value;

		if (!str_eq_nocase(head->headers[i - 1].name, STR("X-Forwarded-For")))
			continue;
		while (list.n > 0) {
			struct addr a;

			if (!read_address(take_last(&list), &a))
				return true; /* whoever wrote that is the last one that is known */
			*ret = a;
			if (!trust_has(t, &a.sa))
				return true;
		}
	}
	return true;
}
