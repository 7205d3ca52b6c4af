// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/api_tree.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/copy/file_transfer.h"

#include "base/banned.h"

#define ROWS_MAX ((size_t)4 * 1024 * 1024)
#define NEW_MODE 0644

int more_remove(struct cli *cli, int argc, char **argv, const char *what, more_remove_fn *fn)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
	struct json_out rows = json_out(&b);
	const char *const columns[] = { what, "status", NULL };
	struct only_output o = { 0 };
	int status = CLI_OK, i;

	if (!cli_begin(cli, argc, argv, &o) || !cli_client(cli))
		return cli->status;
	json_open(&rows, '[');
	for (i = 0; i < cli->n_operands; i++) {
		if (cli_wait(cli, NULL, fn(cli, cli->operands[i], cli_call(cli))) < 0) {
			status = cli_fail_call(cli);
			break;
		}
		json_open(&rows, '{');
		json_key(&rows, what), json_cstr(&rows, cli->operands[i]);
		json_key(&rows, "status"), json_cstr(&rows, "removed");
		json_close(&rows, '}');
	}
	json_close(&rows, ']');
	if (i > 0 && cli_show_rows(cli, cli_parse(cli, buf_str(&b)), columns, NULL) != CLI_OK)
		status = CLI_FAILED;
	return status;
}

int more_show_items(struct cli *cli, const struct osb_bytes *answer, const char *const *paths, const char *const *columns,
		    const char *title)
{
	const struct json *v = api_tree(cli, answer), *items = v ? json_get(v, "items") : NULL;

	if (!v)
		return cli->status;
	if (!output_is_people(&cli->out))
		return cli_show(cli, v, NULL);
	if (!json_first(items))
		return output_info(&cli->out, "No %s found.", title) < 0 ? CLI_FAILED : CLI_OK;
	return cli_show_rows(cli, api_rows(cli, items, paths, columns), columns, NULL);
}

int more_list(struct cli *cli, int argc, char **argv, more_list_fn *fn, const char *const *paths, const char *const *columns,
	      const char *title)
{
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct only_output o = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, fn(cli->client, &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return more_show_items(cli, answer, paths, columns, title);
}

int more_carried(struct cli *cli, const struct file_transfer *t, int begun)
{
	progress_clear(t->bar);
	if (begun == 0)
		return CLI_OK;
	return t->why.code && cli->interrupts == 0 ? cli_fail_err(cli, &t->why) : cli_fail_call(cli);
}

int more_save(struct cli *cli, struct file_transfer *t, int begun)
{
	struct err e = { 0 };

	if (more_carried(cli, t, begun) != CLI_OK)
		return cli->status;
	return file_transfer_finish(t, NEW_MODE, &e) < 0 ? cli_fail_err(cli, &e) : CLI_OK;
}
