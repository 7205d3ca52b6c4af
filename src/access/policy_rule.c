// SPDX-License-Identifier: Apache-2.0
/* One rule: what its target means, and whether it is about a name or an address. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "access/policy.h"
#include "base/err.h"
#include "net/host_name.h"
#include "net/reserved.h"

#include "base/banned.h"

#define ADDRESS_MAX 64 /* characters of an address or a network */

/* What a target gives as its own when it has no port (W7). */
static const uint16_t ports_of_names[] = { 22, 80, 443 };

/* ---- names ---- */

static int bad_name(struct str text, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "'%.*s' is no name: %s", (int)MIN(text.n, (size_t)64), text.n ? text.p : "", why);
}

/* No name that anybody has ends in digits: it is an address that was mistyped. */
static bool ends_in_digits(const char *name)
{
	const char *dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;

	return last[strspn(last, "0123456789")] == '\0';
}

static int name_target(struct str text, struct policy_rule *r, char name[HOST_NAME_LEN_MAX + 1], struct err *e)
{
	struct str host, port;
	uint64_t v = 0;

	if (str_cut(text, ':', &host, &port) && !str_to_u64(port, 1, UINT16_MAX, &v))
		return bad_name(text, "behind ':' there is a port of 1 to 65535, and no scheme before it", e);
	r->kind = POLICY_NAME;
	if (str_starts(host, STR("*."))) {
		r->kind = POLICY_BELOW;
		host = str_skip(host, 2);
	}
	if (host_name(host, name, e) < 0)
		return -1;
	if (ends_in_digits(name))
		return bad_name(text, "it ends in digits, and is no address either", e);
	r->name = name;
	r->port = (uint16_t)v;
	return 0;
}

/* ---- networks ---- */

static void clear_host_bits(struct policy_rule *r)
{
	for (size_t i = 0; i < sizeof(r->bytes); i++) {
		unsigned kept = r->prefix > i * 8 ? r->prefix - (unsigned)i * 8 : 0;

		if (kept < 8)
			r->bytes[i] &= (uint8_t)(0xff00U >> kept);
	}
}

static struct sockaddr_storage rule_address(const struct policy_rule *r)
{
	struct sockaddr_storage ss = { .ss_family = r->family };

	if (r->family == AF_INET)
		memcpy(&((struct sockaddr_in *)(void *)&ss)->sin_addr, r->bytes, 4);
	else
		memcpy(&((struct sockaddr_in6 *)(void *)&ss)->sin6_addr, r->bytes, 16);
	return ss;
}

/* False: it does not even look like one. */
static bool net_target(struct str text, struct policy_rule *r)
{
	char address[ADDRESS_MAX];
	struct sockaddr_storage ss;
	struct str host, bits;
	bool has_bits = str_cut(text, '/', &host, &bits);
	uint64_t v = 0, most;

	if (host.n >= sizeof(address) || host.n == 0 || memchr(host.p, '\0', host.n))
		return false;
	memcpy(address, host.p, host.n);
	address[host.n] = '\0';
	memset(r->bytes, 0, sizeof(r->bytes));
	if (inet_pton(AF_INET, address, r->bytes) == 1)
		r->family = AF_INET;
	else if (inet_pton(AF_INET6, address, r->bytes) == 1)
		r->family = AF_INET6;
	else
		return false;
	most = r->family == AF_INET ? 32 : 128;
	if (has_bits && (!str_to_u64(bits, 0, most, &v) || bits.n > 3))
		return false;
	r->kind = POLICY_NET;
	r->prefix = (uint8_t)(has_bits ? v : most);
	clear_host_bits(r);
	ss = rule_address(r);
	r->is_reserved = network_is_reserved((const struct sockaddr *)&ss, r->prefix);
	return true;
}

int policy_target(struct str target, struct policy_rule *ret, char name[HOST_NAME_LEN_MAX + 1], struct err *e)
{
	struct policy_rule r = { .action = ret->action };

	if (target.n == 0)
		return err_set(e, ERR_INVALID, "egress target cannot be empty");
	if (target.n > POLICY_TARGET_MAX)
		return err_set(e, ERR_INVALID, "a target has at most %d characters", POLICY_TARGET_MAX);
	r.target = ret->target;
	if (!net_target(target, &r) && name_target(target, &r, name, e) < 0)
		return -1;
	if (r.action == POLICY_DENY)
		r.is_reserved = false;
	if (r.port != 0 && r.action == POLICY_DENY)
		return err_set(e, ERR_INVALID, "'%.*s': a name is denied as a whole, without a port", STR_ARG(target));
	*ret = r;
	return 0;
}

/* ---- matching ---- */

static bool rule_has_name(const struct policy_rule *r, const char *name, size_t n)
{
	size_t own;

	if (r->kind == POLICY_NET)
		return false;
	own = strlen(r->name);
	if (r->kind == POLICY_NAME)
		return own == n && memcmp(r->name, name, n) == 0;
	return n > own + 1 && name[n - own - 1] == '.' && memcmp(r->name, name + n - own, own) == 0;
}

const struct policy_rule *policy_match_name(const struct policy *p, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < p->n; i++)
		if (rule_has_name(&p->rules[i], name, n))
			return &p->rules[i];
	return NULL;
}

static void add_port(uint16_t port, uint16_t out[POLICY_PORTS_MAX], size_t *n)
{
	for (size_t i = 0; i < *n; i++)
		if (out[i] == port)
			return;
	if (*n < POLICY_PORTS_MAX)
		out[(*n)++] = port;
}

bool policy_ports(const struct policy *p, const char *name, uint16_t out[POLICY_PORTS_MAX], size_t *n)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < p->n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (!rule_has_name(r, name, length))
			continue;
		if (r->action == POLICY_DENY)
			return false;
		if (r->port != 0)
			add_port(r->port, out, n);
		for (size_t k = 0; r->port == 0 && k < ARRAY_LEN(ports_of_names); k++)
			add_port(ports_of_names[k], out, n);
	}
	return true;
}

static bool net_has(const struct policy_rule *r, sa_family_t family, const uint8_t *bytes, unsigned bits)
{
	unsigned whole = r->prefix / 8, rest = r->prefix % 8;

	if (r->kind != POLICY_NET || r->family != family || bits < r->prefix || memcmp(bytes, r->bytes, whole) != 0)
		return false;
	return rest == 0 || ((bytes[whole] ^ r->bytes[whole]) & (0xff00U >> rest) & 0xff) == 0;
}

const struct policy_rule *policy_match_address(const struct policy *p, const struct sockaddr *sa)
{
	const struct policy_rule *allow = NULL;
	const void *bytes;

	if (sa->sa_family == AF_INET)
		bytes = &((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	else if (sa->sa_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	else
		return NULL;
	for (size_t i = 0; i < p->n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (r->is_reserved || !net_has(r, sa->sa_family, bytes, 128))
			continue;
		if (r->action == POLICY_DENY)
			return r;
		if (!allow)
			allow = r;
	}
	return allow;
}

void policy_open(struct policy *p, const struct policy_rule *network)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].is_reserved && net_has(network, p->rules[i].family, p->rules[i].bytes, p->rules[i].prefix))
			p->rules[i].is_reserved = false;
}
