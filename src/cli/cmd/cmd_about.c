// SPDX-License-Identifier: Apache-2.0
/* osb metadata, osb network: what is known about a sandbox, and what it tried to reach. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/api_tree.h"
#include "cli/cli.h"
#include "cli/commands_more.h"

#include "base/banned.h"

const struct opt cli_metadata_opts[] = { OPT_OUTPUT(struct only_output, output_table), { 0 } };

/* ---- metadata ---- */

/* "KEY=VALUE" sets, "KEY-" removes. */
static int read_changes(struct cli *cli, struct osb_map *ret, struct err *e)
{
	size_t n = (size_t)cli->n_operands - 1;
	struct osb_pair *pairs = arena_array(&cli->arena, n, sizeof(*pairs));

	if (!pairs)
		return err_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		struct str word = str_of(cli->operands[i + 1]), key, value;
		bool sets = str_cut(word, '=', &key, &value);

		if (!sets && str_ends(word, STR("-")))
			key = str_first(word, word.n - 1);
		if (key.n == 0 || (!sets && key.n == word.n))
			return err_set(e, ERR_INVALID, "'%s' is neither KEY=VALUE nor KEY-", cli->operands[i + 1]);
		pairs[i].key = arena_dup(&cli->arena, key);
		pairs[i].value = sets ? value.p : NULL;
		if (!pairs[i].key)
			return err_no_memory(e);
	}
	*ret = (struct osb_map){ pairs, n };
	return 0;
}

int cmd_metadata(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_sandbox_info *info = NULL;
	struct only_output o = { 0 };
	struct osb_map changes = { 0 };
	const struct json *v;
	struct cli *cli = arg;
	struct err e = { 0 };
	int begun;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (cli->n_operands > 1 && read_changes(cli, &changes, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli))
		return cli->status;
	if (cli->n_operands > 1)
		begun = osb_sandbox_patch_metadata(cli->client, cli->operands[0], &changes, &info, cli_call(cli));
	else
		begun = osb_sandbox_get(cli->client, cli->operands[0], &info, cli_call(cli));
	if (cli_wait(cli, NULL, begun) < 0)
		return cli_fail_call(cli);
	if (info->metadata.n == 0 && output_is_people(&cli->out))
		return output_info(&cli->out, "No metadata.") < 0 ? CLI_FAILED : CLI_OK;
	v = cli_tree(cli, info);
	v = v ? json_get(v, "metadata") : NULL;
	return cli_show(cli, v && v->type == JSON_OBJECT ? v : cli_object(cli, NULL), "Metadata");
}

/* ---- network ---- */

static int show_activity(struct cli *cli, const struct json *v)
{
	static const char *const paths[] = { "decision", "kind", "target", "address", "port", "count", "last", "reason", NULL };
	const struct json *recent = json_get(v, "recent"), *traffic = json_get(v, "traffic");

	(void)output_info(&cli->out, "network %.*s, mode %.*s, %llu bytes received, %llu sent", STR_ARG(json_text(v, "network")),
			  STR_ARG(json_text(v, "mode")), (unsigned long long)(traffic ? json_count(traffic, "received_bytes") : 0),
			  (unsigned long long)(traffic ? json_count(traffic, "sent_bytes") : 0));
	if (!json_first(recent))
		return output_info(&cli->out, "It has tried to reach nothing.") < 0 ? CLI_FAILED : CLI_OK;
	return cli_show_rows(cli, api_rows(cli, recent, paths, paths), paths, NULL);
}

int cmd_network(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct only_output o = { 0 };
	const struct json *v;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_diagnostics_network(cli->client, cli->operands[0], &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = api_tree(cli, answer);
	if (!v || !output_is_people(&cli->out))
		return cli_show(cli, v, NULL);
	return show_activity(cli, v);
}
