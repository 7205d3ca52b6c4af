// SPDX-License-Identifier: Apache-2.0
/* osb egress */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/values.h"

#include "base/banned.h"

#define TREE_MAX ((size_t)4 * 1024 * 1024)

static void write_rules(struct json_out *o, const struct osb_rule *rules, size_t n)
{
	json_open(o, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(o, '{');
		json_key(o, "action"), json_cstr(o, rules[i].action);
		json_key(o, "target"), json_cstr(o, rules[i].target);
		json_close(o, '}');
	}
	json_close(o, ']');
}

static int egress_get(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_policy_status *status = NULL;
	AUTO(buf_done) struct buf b = BUF_INIT(TREE_MAX);
	struct json_out out = json_out(&b);
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_egress_get(s, &status, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	json_open(&out, '{');
	json_key(&out, "default_action"), json_cstr(&out, status->policy.default_action);
	json_key(&out, "egress"), write_rules(&out, status->policy.egress, status->policy.n_egress);
	json_close(&out, '}');
	return cli_show(cli, cli_parse(cli, buf_str(&b)), "Egress Policy");
}

struct patch_options {
	const char *output;
	struct opt_list rules;
};

static const struct opt patch_opts[] = {
	OPT(struct patch_options, rules, OPT_LIST, "rule", 0, "ACTION=TARGET",
	    "Rule to add: allow=packages.example.org, deny=*.example.com.", .is_required = true),
	OPT_OUTPUT(struct patch_options, output_table),
	{ 0 },
};

static int show_patched(struct cli *cli, const struct osb_rule *rules, size_t n)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TREE_MAX);
	struct json_out out = json_out(&b);

	json_open(&out, '{');
	json_key(&out, "sandbox_id"), json_cstr(&out, cli->operands[0]);
	json_key(&out, "patched_rules"), write_rules(&out, rules, n);
	json_close(&out, '}');
	return cli_show_panel(cli, cli_parse(cli, buf_str(&b)), "Egress Policy Patched");
}

static int egress_patch(int argc, char **argv, void *arg)
{
	struct patch_options o = { 0 };
	struct osb_rule *rules;
	struct cli *cli = arg;
	struct osb_sandbox *s;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (value_rules(&o.rules, &cli->arena, &rules, &e) < 0)
		return cli_fail_usage(cli, &e);
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_egress_patch(s, rules, o.rules.n, NULL, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_patched(cli, rules, o.rules.n);
}

const struct opt_command egress_commands[] = {
	{ .name = "get", .summary = "show the network policy of a sandbox", .opts = cli_table_opts,
	  .run = egress_get, .operands = "SANDBOX",
	  .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX },
	{ .name = "patch", .summary = "add rules to it", .opts = patch_opts, .run = egress_patch, .operands = "SANDBOX",
	  .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX },
	{ 0 },
};
