// SPDX-License-Identifier: Apache-2.0
/* osb doctor: why does it not work? First the way to the server, then this machine, if a server is installed here. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/hint.h"
#include "cli/home.h"
#include "cli/human.h"
#include "cli/local_server.h"
#include "cli/render.h"

#include "base/banned.h"

#define REPORT_MAX ((size_t)1024 * 1024)
#define ANSWER_MS 5000
#define NAME_COLUMNS 20

struct doctor {
	struct cli *cli;
	struct buf text;
	struct json_out rows;
	bool is_ill;
};

enum outcome { WELL, WARNING, ILL };

static void find(struct doctor *d, const char *check, enum outcome o, const char *detail, const char *to_do)
{
	static const char *const names[] = { [WELL] = "ok", [WARNING] = "warning", [ILL] = "failed" };

	d->is_ill |= o == ILL;
	json_open(&d->rows, '{');
	json_key(&d->rows, "check"), json_cstr(&d->rows, check);
	json_key(&d->rows, "outcome"), json_cstr(&d->rows, names[o]);
	json_key(&d->rows, "detail"), json_cstr(&d->rows, detail);
	json_key(&d->rows, "to_do"), json_cstr(&d->rows, to_do);
	json_close(&d->rows, '}');
}

/* ---- the way to the server ---- */

static bool look_at_settings(struct doctor *d)
{
	struct cli *cli = d->cli;
	struct err e = { 0 };

	if (settings_load(&cli->flags, cli->env, &cli->arena, &cli->settings, &e) < 0) {
		find(d, "settings", ILL, e.msg, "Mend the file, or begin with a new one: 'osb config init --force'.");
		return false;
	}
	find(d, "settings", WELL, cli->settings.file_exists ? cli->settings.path : "there is no file; defaults are used", NULL);
	if (cli->settings.api_key)
		find(d, "key", WELL, "a key is set", NULL);
	else
		find(d, "key", WARNING, "no key is set", "'osb config set connection.api_key KEY', or OPEN_SANDBOX_API_KEY.");
	return true;
}

static struct osb_call *quick_call(struct osb_client *c)
{
	struct osb_call *call = osb_call_new(c);

	if (call)
		osb_call_set_deadline(call, ANSWER_MS);
	return call;
}

static const struct osb_error *error_of(struct cli *cli, const struct osb_call *call)
{
	return call ? osb_call_error(call) : osb_client_error(cli->client);
}

static void look_at_access(struct doctor *d, struct osb_call *call)
{
	const struct osb_list filter = { .size = sizeof(filter), .page_size = 1 };
	struct osb_sandboxes *found = NULL;
	char text[96];

	if (osb_sandbox_list(d->cli->client, &filter, &found, call) < 0) {
		const struct osb_error *e = error_of(d->cli, call);

		find(d, "access", ILL, e->message, hint_for(e));
		return;
	}
	(void)snprintf(text, sizeof(text), "the key is good; %lld sandboxes", (long long)found->pagination.total_items);
	find(d, "access", WELL, text, NULL);
	osb_free(found);
}

static void look_at_server(struct doctor *d)
{
	struct cli *cli = d->cli;
	struct osb_call *call;

	if (!cli_client(cli))
		return;
	call = quick_call(cli->client);
	if (osb_server_health(cli->client, call) < 0) {
		const struct osb_error *e = error_of(cli, call);

		find(d, "server", ILL, e->message, hint_for(e));
	} else {
		find(d, "server", WELL, cli->settings.domain ? cli->settings.domain : "localhost:8080", NULL);
		look_at_access(d, call);
	}
	osb_call_free(call);
}

/* ---- this machine ---- */

static void look_at_home(struct doctor *d, const struct home *h)
{
	AUTO(local_server_done) struct local_server server = LOCAL_SERVER_INIT;
	struct err e = { 0 };
	char text[LOCAL_ADDRESS_MAX + 64];
	int found = local_server_find(h->dirfd, &server, &e);

	(void)snprintf(text, sizeof(text), "process %d serves at %s", (int)server.pid, server.address);
	if (found < 0)
		find(d, "osb up", WARNING, e.msg, NULL);
	else
		find(d, "osb up", WELL, found ? text : "no server was started with it", NULL);
	if (h->program)
		find(d, "opensandbox-server", WELL, h->program, NULL);
	else
		find(d, "opensandbox-server", WELL, "it is not installed here: sandboxes run on another machine", NULL);
}

static int run_server_doctor(struct doctor *d, const struct home *h, struct buf *out, struct err *e)
{
	struct cli *cli = d->cli;
	bool has_config = faccessat(h->dirfd, HOME_CONFIG, F_OK, 0) == 0;
	char program[] = "opensandbox-server", name[] = "doctor", json[] = "--json", option[] = "--config";
	char *argv[] = { program, name, has_config ? option : NULL, has_config ? arena_dup(&cli->arena, str_of(h->config)) : NULL, NULL, NULL };

	if (out)
		argv[has_config ? 4 : 2] = json;
	(void)fflush(stdout);
	return home_run(h, argv, out, e);
}

/* ---- the command ---- */

static int show_json(struct doctor *d, const struct home *h)
{
	AUTO(buf_done) struct buf host = BUF_INIT(REPORT_MAX);
	AUTO(buf_done) struct buf all = BUF_INIT(2 * REPORT_MAX);
	struct json_out o = json_out(&all);
	struct err e = { 0 };
	int status = h->program ? run_server_doctor(d, h, &host, &e) : 0;

	json_open(&o, '{');
	json_key(&o, "version"), json_cstr(&o, OPENSANDBOX_VERSION);
	json_key(&o, "checks"), json_raw(&o, buf_str(&d->text));
	json_key(&o, "host");
	if (status >= 0 && h->program)
		json_raw(&o, str_trim(buf_str(&host)));
	else
		json_null(&o);
	json_close(&o, '}');
	if (cli_show(d->cli, cli_parse(d->cli, buf_str(&all)), NULL) != CLI_OK || status < 0)
		return CLI_FAILED;
	return d->is_ill || status > 0 ? CLI_FAILED : CLI_OK;
}

/* Laid out as the page that the server's own doctor writes below it. */
static void add_finding(struct buf *page, const struct json *row, bool is_ansi)
{
	struct str outcome = json_text(row, "outcome"), check = json_text(row, "check"), to_do = json_text(row, "to_do");
	enum render_color color = str_is(outcome, "ok") ? RENDER_BOLD_GREEN : str_is(outcome, "failed") ? RENDER_BOLD_RED : RENDER_BOLD_YELLOW;

	buf_addf(page, "  %s%.*s%s%*s", render_sgr(is_ansi, color), STR_ARG(outcome), is_ansi ? "\033[0m" : "", (int)(9 - outcome.n), "");
	human_cell(page, check, NAME_COLUMNS);
	render_text(json_text(row, "detail"), page);
	buf_add_char(page, '\n');
	if (to_do.n > 0)
		buf_addf(page, "%*sto do: %.*s\n", 2 + 9 + NAME_COLUMNS, "", STR_ARG(to_do));
}

static int show_page(struct doctor *d, const struct home *h)
{
	AUTO(buf_done) struct buf page = BUF_INIT(REPORT_MAX);
	const struct json *rows = cli_parse(d->cli, buf_str(&d->text));
	struct err e = { 0 };
	int status = 0;

	buf_addf(&page, "osb " OPENSANDBOX_VERSION "\n\nthe way to the server\n");
	for (const struct json *row = json_first(rows); row; row = row->next)
		add_finding(&page, row, d->cli->out.is_ansi_out);
	if (h->program)
		buf_add_char(&page, '\n');
	if (output_bytes(&d->cli->out, buf_str(&page)) < 0)
		return CLI_FAILED;
	if (h->program)
		status = run_server_doctor(d, h, NULL, &e);
	if (status < 0)
		return cli_fail_err(d->cli, &e);
	return d->is_ill || status > 0 ? CLI_FAILED : CLI_OK;
}

int cmd_doctor(int argc, char **argv, void *arg)
{
	AUTO(home_done) struct home h = HOME_INIT;
	struct doctor d = { .cli = arg, .text = BUF_INIT(REPORT_MAX) };
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct err e = { 0 };
	int status;

	if (!cli_begin_local(cli, argc, argv, &o))
		return cli->status;
	d.rows = json_out(&d.text);
	json_open(&d.rows, '[');
	if (look_at_settings(&d))
		look_at_server(&d);
	if (home_open(cli, &h, &e) < 0)
		find(&d, "home", WARNING, e.msg, NULL);
	else
		look_at_home(&d, &h);
	json_close(&d.rows, ']');
	status = output_is_people(&cli->out) ? show_page(&d, &h) : show_json(&d, &h);
	buf_done(&d.text);
	return status;
}
