// SPDX-License-Identifier: Apache-2.0
/* Policies, names and targets: what is accepted reads back as the same policy, every name comes out in the one form that rules
 * are compared in, and a deny about an address is never passed over. */
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "access/policy.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void check_name(struct str text)
{
	char name[HOST_NAME_LEN_MAX + 1], again[HOST_NAME_LEN_MAX + 1];
	struct err e = { 0 };

	if (host_name(text, name, &e) < 0) {
		require(e.code == ERR_INVALID);
		return;
	}
	require(strlen(name) <= text.n && host_name(str_of(name), again, &e) == 0 && strcmp(name, again) == 0);
	require(!strstr(name, "..") && name[0] != '.' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(name));
}

static void check_rule(const struct policy *p, const struct policy_rule *r)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct policy_rule *found;

	if (r->kind == POLICY_NAME) {
		found = policy_match_name(p, r->name);
		require(found && found <= r); /* itself, or one before it */
	}
	if (r->kind != POLICY_NET || r->family != AF_INET)
		return;
	require(r->prefix <= 32);
	memcpy(&in.sin_addr, r->bytes, 4);
	found = policy_match_address(p, (const struct sockaddr *)&in);
	require(r->is_reserved || found);
	require(r->action != POLICY_DENY || found->action == POLICY_DENY);
}

static void check_policy(struct str text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8 << 20);
	AUTO(buf_done) struct buf c = BUF_INIT(8 << 20);
	AUTO(policy_free) struct policy *p = NULL;
	AUTO(policy_free) struct policy *q = NULL;
	struct err e = { 0 };

	p = policy_parse(text, 0, &e);
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		check_rule(p, &p->rules[i]);
	policy_write(p, &b);
	q = policy_parse(buf_str(&b), 0, &e);
	require(q && q->n == p->n && q->fallback == p->fallback);
	policy_write(q, &c);
	require(str_eq(buf_str(&b), buf_str(&c)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };
	AUTO(policy_free) struct policy *p = NULL;
	struct err e = { 0 };

	if (size > 64 * 1024)
		return 0;
	check_name(in);
	check_policy(in);
	p = policy_from_lines(in, POLICY_ALLOW, 0, &e);
	for (size_t i = 0; p && i < p->n; i++)
		check_rule(p, &p->rules[i]);
	return 0;
}
