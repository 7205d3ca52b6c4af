// SPDX-License-Identifier: Apache-2.0
/* Calls every function of the library's that is about what a sandbox may reach.
 *
 *     egress DOMAIN KEY */
#include "trying.h"

#include "base/banned.h"

static void everything(void)
{
	const struct osb_rule first = { "allow", "a.example.com" }, more[] = { { "deny", "b.example.com" } };
	const struct osb_policy policy = { .default_action = "deny", .egress = &first, .n_egress = 1 };
	const struct osb_create create = { .image = "host", .network_policy = &policy, .timeout_s = 300 };
	const char *const target[] = { "b.example.com" };
	struct osb_policy_status *status = NULL;
	struct osb_sandbox *fenced = NULL;
	struct osb_bytes *bytes = NULL;

	MUST(osb_sandbox_create(client, &create, &fenced, call));
	MUST(osb_egress_get(fenced, &status, call));
	CHECK(same(status->policy.default_action, "deny") && status->policy.n_egress == 1 && same(status->policy.egress[0].target, "a.example.com"));
	show("policy", status);
	osb_free(status);
	MUST(osb_egress_patch(fenced, more, 1, NULL, call));
	MUST(osb_egress_get(fenced, &status, call));
	CHECK(status->policy.n_egress == 2 && same(status->policy.egress[0].action, "deny"));
	osb_free(status);
	MUST(osb_egress_delete(fenced, &(struct osb_strings){ target, 1 }, &status, call));
	osb_free(status);
	MUST(osb_egress_put(fenced, &(struct osb_policy){ .default_action = "allow" }, &status, call));
	osb_free(status);
	MUST(osb_egress_get(fenced, &status, call));
	CHECK(same(status->policy.default_action, "allow") && status->policy.n_egress == 0);
	osb_free(status);
	FAILS(osb_egress_patch(fenced, &(struct osb_rule){ "maybe", "x.example.com" }, 1, &status, call), OSB_ANSWER, 400);
	if (TRY(osb_vault(fenced, "GET", "", NULL, &bytes, call)) == 0)
		osb_free(bytes);
	else
		CHECK(error()->kind == OSB_ANSWER);
	FAILS(osb_vault(fenced, "GET", "/../policy", NULL, &bytes, call), OSB_INVALID, 0);
	FAILS(osb_vault(fenced, "GET X", "", NULL, &bytes, call), OSB_INVALID, 0);
	kill_and_free(fenced);
}

int main(int argc, char **argv)
{
	return try_both(argc, argv, everything);
}
