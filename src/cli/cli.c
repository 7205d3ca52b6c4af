// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/version.h"
#include "cli/hint.h"
#include "cli/render.h"
#include "cli/values.h"
#include "sys/secret_file.h"

#include "base/banned.h"

#define MESSAGE_MAX 4096
#define TEXT_MAX ((size_t)1024 * 1024)
#define TREE_MAX ((size_t)64 * 1024 * 1024)
#define SPIN_MS 80
#define SPIN_AFTER_MS 200 /* what is over sooner would only flicker */

const struct opt cli_table_opts[] = { OPT_OUTPUT(struct only_output, output_table), { 0 } };
const struct opt cli_raw_opts[] = { OPT_OUTPUT(struct only_output, output_raw), { 0 } };

void cli_done(struct cli *cli)
{
	if (cli->call)
		osb_call_free(cli->call);
	cli->call = NULL;
	if (cli->client)
		osb_client_free(cli->client);
	cli->client = NULL;
	arena_done(&cli->arena);
}

/* ---- the beginning --------------------------------------------------------------------------------------- */

static bool ends(struct cli *cli, int status)
{
	cli->status = status;
	return false;
}

static int show_help(struct cli *cli)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);

	opt_help(cli->command, cli->path, &text);
	return !text.failed && output_bytes(&cli->out, buf_str(&text)) == 0 ? CLI_OK : CLI_FAILED;
}

static void choose_format(struct cli *cli, const void *values)
{
	for (const struct opt *o = cli->command->opts; o && o->name; o++)
		if (str_is(str_of(o->name), "output") && o->choices) {
			const char *given = *(const char *const *)(const void *)((const char *)values + o->offset);

			cli->out.format = output_format_of(given ? given : o->choices[0]);
			return;
		}
}

static bool begin(struct cli *cli, int argc, char **argv, void *values, bool with_file)
{
	struct opt_result r;
	struct err e = { 0 };

	if (opt_parse(cli->command, argc, argv, values, &r, &e) < 0)
		return ends(cli, cli_fail_usage(cli, &e));
	if (r.action == OPT_HELP)
		return ends(cli, show_help(cli));
	cli->operands = r.argv;
	cli->n_operands = r.argc;
	if ((with_file ? settings_load : settings_without_file)(&cli->flags, cli->env, &cli->arena, &cli->settings, &e) < 0)
		return ends(cli, cli_fail_err(cli, &e));
	if (cli->settings.file_exists)
		cli_warn_of_secret("settings", cli->settings.path, cli->settings.file_has_key);
	output_begin(&cli->out, cli->is_plain || !cli->settings.color, cli->env);
	choose_format(cli, values);
	return true;
}

bool cli_begin(struct cli *cli, int argc, char **argv, void *values)
{
	return begin(cli, argc, argv, values, true);
}

bool cli_begin_local(struct cli *cli, int argc, char **argv, void *values)
{
	return begin(cli, argc, argv, values, false);
}

/* 0 would mean the default: a wait of no time is one of a moment. */
int cli_milliseconds(struct cli *cli, const char *duration, unsigned *ret_ms)
{
	struct err e = { 0 };
	int64_t s;

	if (!duration)
		return 0;
	if (value_duration(duration, &s, &e) < 0)
		return cli_fail_usage(cli, &e), -1;
	*ret_ms = (unsigned)MIN(MAX(s * 1000, (int64_t)1), (int64_t)INT_MAX);
	return 0;
}

/* ---- the server ------------------------------------------------------------------------------------------ */

struct osb_client *cli_client(struct cli *cli)
{
	struct osb_options o = OSB_OPTIONS;
	struct osb_error e = { 0 };

	if (cli->client)
		return cli->client;
	o.api_key = cli->settings.api_key;
	o.domain = cli->settings.domain;
	o.protocol = cli->settings.protocol;
	o.request_timeout_ms = (unsigned)(cli->settings.request_timeout_s * 1000); /* at most a day */
	o.use_server_proxy = cli->settings.use_server_proxy;
	o.user_agent = "osb/" OPENSANDBOX_VERSION;
	cli->client = osb_client_new(&o, &e);
	if (!cli->client) {
		output_error_panel(&cli->out, "Sandbox Error", e.message, hint_for(&e));
		cli->status = CLI_FAILED;
	}
	return cli->client;
}

/* The wait below sees that it is over: a call that calls back does not make its operation wait. */
static void on_done(struct osb_call *call, void *arg)
{
	(void)call;
	(void)arg;
}

struct osb_call *cli_call(struct cli *cli)
{
	if (!cli->call && cli->client)
		cli->call = osb_call_new(cli->client);
	if (cli->call && output_may_spin(&cli->out))
		osb_call_on_done(cli->call, on_done, cli);
	return cli->call;
}

int cli_wait(struct cli *cli, const char *doing, int begun)
{
	bool is_later = cli->call && output_may_spin(&cli->out);
	uint64_t draw_ms = clock_mono_ms() + SPIN_AFTER_MS;

	while (is_later && osb_call_is_busy(cli->call)) {
		if (doing && clock_mono_ms() >= draw_ms) {
			output_spin(&cli->out, doing);
			draw_ms = clock_mono_ms() + SPIN_MS;
		}
		if (osb_client_dispatch(cli->client, SPIN_MS) < 0)
			break;
	}
	output_spin_end(&cli->out);
	if (is_later)
		begun = osb_call_error(cli->call)->kind == OSB_OK ? 0 : -1;
	return begun;
}

const struct osb_error *cli_error(const struct cli *cli)
{
	return cli->call ? osb_call_error(cli->call) : osb_client_error(cli->client);
}

struct osb_sandbox *cli_connect(struct cli *cli, const char *id)
{
	const struct osb_connect how = { .size = sizeof(how), .skip_health_check = true };
	struct osb_sandbox *s = NULL;

	if (!cli_client(cli))
		return NULL;
	if (cli_wait(cli, NULL, osb_sandbox_connect(cli->client, id, &how, &s, cli_call(cli))) < 0) {
		(void)cli_fail_call(cli);
		return NULL;
	}
	return s;
}

struct osb_sandbox *cli_begin_in(struct cli *cli, int argc, char **argv, void *values)
{
	return cli_begin(cli, argc, argv, values) ? cli_connect(cli, cli->operands[0]) : NULL;
}

/* ---- trees ----------------------------------------------------------------------------------------------- */

const struct json *cli_parse(struct cli *cli, struct str json)
{
	const char *copy = arena_dup(&cli->arena, json);
	struct err e = { 0 };
	struct json *v = copy ? json_parse(&cli->arena, (struct str){ copy, json.n },
					   &(struct json_limits){ .bytes = TREE_MAX, .values = TREE_MAX / 64 }, NULL, &e)
			      : NULL;

	if (!v)
		(void)cli_fail(cli, "the result cannot be read: %s", copy ? e.msg : "out of memory");
	return v;
}

const struct json *cli_tree(struct cli *cli, const void *result)
{
	AUTO(free) char *json = osb_to_json(result);

	if (!json)
		(void)cli_fail(cli, "out of memory");
	return json ? cli_parse(cli, str_of(json)) : NULL;
}

const struct json *cli_object_of(struct cli *cli, const char *const *words, size_t n)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TREE_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	for (size_t i = 0; i + 1 < n; i += 2) {
		json_key(&o, words[i]);
		json_cstr(&o, words[i + 1]);
	}
	json_close(&o, '}');
	return cli_parse(cli, buf_str(&b));
}

/* ---- the end --------------------------------------------------------------------------------------------- */

/* What could not be written is told when the program ends. */
int cli_show(struct cli *cli, const struct json *v, const char *title)
{
	return v && output_dict(&cli->out, v, title) == 0 ? CLI_OK : CLI_FAILED;
}

int cli_show_rows(struct cli *cli, const struct json *v, const char *const *columns, const char *title)
{
	return v && output_rows(&cli->out, v, columns, title) == 0 ? CLI_OK : CLI_FAILED;
}

int cli_show_panel(struct cli *cli, const struct json *v, const char *title)
{
	return v && output_panel(&cli->out, v, title) == 0 ? CLI_OK : CLI_FAILED;
}

int cli_success(struct cli *cli, const char *fmt, ...)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	return output_success(&cli->out, "%s", buf_z(&text)) == 0 ? CLI_OK : CLI_FAILED;
}

/* Names of files, and what others said, may be in it. */
static void say(const char *kind, const char *text)
{
	AUTO(buf_done) struct buf shown = BUF_INIT(MESSAGE_MAX * 8);

	render_text(str_of(text), &shown);
	(void)fprintf(stderr, "%s: %s\n", kind, buf_z(&shown));
}

void cli_warn_of_secret(const char *what, const char *path, bool has_secret)
{
	enum secret_file_fault fault = secret_file_look(path, SECRET_FILE_PRIVATE);
	char text[SECRET_FILE_TEXT_MAX], line[SECRET_FILE_TEXT_MAX + 64];

	if (fault == SECRET_FILE_FINE || (fault == SECRET_FILE_READABLE && !has_secret))
		return;
	secret_file_say(fault, path, SECRET_FILE_PRIVATE, text);
	(void)snprintf(line, sizeof(line), "%s: %s", what, text);
	say("Warning", line);
}

int cli_fail(struct cli *cli, const char *fmt, ...)
{
	char text[MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* a longer message is cut */
	va_end(ap);
	output_spin_end(&cli->out);
	(void)fflush(stdout);
	say("Error", text);
	return cli->status = CLI_FAILED;
}

int cli_usage(struct cli *cli, const char *fmt, ...)
{
	const struct opt_command *c = cli->command;
	char text[MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "Usage: %s [OPTION...]%s%s\nTry '%s --help'.\n\n", cli->path,
		      c->commands ? " COMMAND [ARGUMENT...]" : c->operands ? " " : "", !c->commands && c->operands ? c->operands : "",
		      cli->path);
	say("Error", text);
	return cli->status = CLI_USAGE;
}

int cli_fail_err(struct cli *cli, const struct err *e)
{
	return cli_fail(cli, "%s", e->msg);
}

int cli_fail_usage(struct cli *cli, const struct err *e)
{
	return cli_usage(cli, "%s", e->msg);
}

int cli_fail_call(struct cli *cli)
{
	const struct osb_error *e;

	if (!cli->client)
		return cli->status; /* cli_client() has said why */
	e = cli_error(cli);
	if (cli->interrupts > 0) {
		output_spin_end(&cli->out);
		(void)fflush(stdout);
		(void)fprintf(stderr, "Aborted!\n");
		return cli->status = CLI_FAILED;
	}
	output_error_panel(&cli->out, "Sandbox Error", e->message, hint_for(e));
	if (cli->is_verbose)
		(void)fprintf(stderr, "code '%s', status %d, request '%s'\n", e->code, e->http_status, e->request_id);
	return cli->status = CLI_FAILED;
}
