// SPDX-License-Identifier: Apache-2.0
/* Targets of rules: a network has no bits beyond its prefix, has its first and its last address and neither neighbour, and reads
 * back the same from its own text. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "access/policy.h"
#include "base/err.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static bool has(const struct policy_rule *r, uint32_t address)
{
	struct policy_rule rule = *r;
	const struct policy p = { .rules = &rule, .n = 1 };
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(address) } };

	rule.is_reserved = false;
	return policy_match_address(&p, (const struct sockaddr *)&in);
}

static void check_v4(const struct policy_rule *r)
{
	uint32_t first, last;

	memcpy(&first, r->bytes, 4);
	first = ntohl(first);
	last = r->prefix == 0 ? UINT32_MAX : first | (uint32_t)(UINT64_C(0xffffffff) >> r->prefix);
	require(r->prefix <= 32 && (r->prefix == 32 || (first & (UINT32_MAX >> r->prefix)) == 0));
	require(has(r, first) && has(r, last));
	require(first == 0 || !has(r, first - 1));
	require(last == UINT32_MAX || !has(r, last + 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_rule r = { .action = POLICY_ALLOW }, again = { .action = POLICY_ALLOW };
	char name[HOST_NAME_LEN_MAX + 1], text[INET6_ADDRSTRLEN], whole[64];
	struct err e = { 0 };

	if (policy_target((struct str){ (const char *)data, size }, &r, name, &e) < 0 || r.kind != POLICY_NET)
		return 0;
	if (r.family == AF_INET)
		check_v4(&r);
	require(inet_ntop(r.family, r.bytes, text, sizeof(text)) != NULL);
	(void)snprintf(whole, sizeof(whole), "%s/%u", text, r.prefix);
	require(policy_target(str_of(whole), &again, name, &e) == 0);
	require(again.prefix == r.prefix && again.is_reserved == r.is_reserved && memcmp(again.bytes, r.bytes, sizeof(r.bytes)) == 0);
	return 0;
}
