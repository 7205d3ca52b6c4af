// SPDX-License-Identifier: Apache-2.0
/* osb mcp: an MCP server, and its place in the configuration of MCP clients. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/mcp_install.h"
#include "cli/skills.h"
#include "mcp/mcp.h"

#include "base/banned.h"

#define TOKEN_VARIABLE "OPENSANDBOX_MCP_TOKEN"
#define TOKEN_FILE_MAX 4096
#define TIMEOUT_MAX_S 86400.0

static const char *const transports[] = { "stdio", "streamable-http", NULL };
static const char *const protocols[] = { "http", "https", NULL };

struct mcp_words {
	const char *transport, *api_key, *domain, *protocol, *request_timeout;
	const char *host, *path, *token_file;
	int64_t port, output, file, message;
	struct opt_list hosts;
	const char *scope;
	bool write;
};

const struct opt mcp_opts[] = {
	OPT(struct mcp_words, transport, OPT_STRING, "transport", 0, "TRANSPORT",
	    "Transport. Default: stdio.",
	    .choices = transports),
	OPT(struct mcp_words, api_key, OPT_STRING, "api-key", 0, "KEY",
	    "API key of the OpenSandbox server. Others can see it in the "
	    "list of processes: OPEN_SANDBOX_API_KEY or the settings file are better places."),
	OPT(struct mcp_words, domain, OPT_STRING, "domain", 0, "HOST:PORT",
	    "Address of the OpenSandbox server."),
	OPT(struct mcp_words, protocol, OPT_STRING, "protocol", 0, "PROTOCOL", "Protocol of the server.",
	    .choices = protocols),
	OPT(struct mcp_words, request_timeout, OPT_STRING, "request-timeout-seconds", 0, "SECONDS",
	    "Timeout for its answers."),
	OPT(struct mcp_words, host, OPT_STRING, "host", 0, "ADDRESS", "Of HTTP: where to listen; 127.0.0.1 unless something else is said. An "
	    "address that others can reach needs a token."),
	OPT(struct mcp_words, port, OPT_INT, "port", 0, "PORT", "HTTP only. Default: 8000; 0: any free port.",
	    .min = 0, .max = 65535),
	OPT(struct mcp_words, path, OPT_STRING, "path", 0, "PATH", "HTTP only. Default: /mcp."),
	OPT(struct mcp_words, hosts, OPT_LIST, "allowed-host", 0, "NAME", "Of HTTP: a name (or name:port) that may stand in Host, beside "
	    "this machine's own, and whose pages may use the server; or the origin of such pages (https://name:port)."),
	OPT(struct mcp_words, token_file, OPT_STRING, "token-file", 0, "FILE", "Of HTTP: ask for the token in FILE as 'Authorization: Bearer'.",
	    .is_file = true),
	OPT(struct mcp_words, output, OPT_INT, "max-output", 0, "BYTES",
	    "Output of a command in one result; longer output is cut in the middle.",
	    .min = 1000, .max = 4000000),
	OPT(struct mcp_words, file, OPT_INT, "max-file", 0, "BYTES", "Bytes of a file in one result.",
	    .min = 1000, .max = 4000000),
	OPT(struct mcp_words, message, OPT_INT, "max-message", 0, "BYTES",
	    "Bytes of one message of a client.", .min = 10000,
	    .max = 32 * 1024 * 1024),
	OPT(struct mcp_words, scope, OPT_STRING, "scope", 0, "SCOPE",
	    "With install: for this folder, or for all of yours.", .choices = skill_scopes),
	OPT(struct mcp_words, write, OPT_FLAG, "write", 0, NULL,
	    "With install: write the file, and save the old one as FILE.bak."),
	{ 0 },
};

/* ---- serving ---- */

static int read_timeout(const char *text, unsigned *ret_ms, struct err *e)
{
	char *end;
	double s;

	if (!text)
		return 0;
	s = strtod(text, &end);
	if (end == text || *end || !(s > 0 && s <= TIMEOUT_MAX_S))
		return err_set(e, ERR_INVALID, "'--request-timeout-seconds' is not a number of seconds up to %.0f", TIMEOUT_MAX_S);
	*ret_ms = (unsigned)ceil(s * 1000);
	return 0;
}

/* From the file, or the environment. NULL: none. */
static int read_token(struct cli *cli, const char *file, const char **ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TOKEN_FILE_MAX);
	struct str token;

	*ret = settings_env(cli->env, TOKEN_VARIABLE);
	if (!file)
		return 0;
	if (config_file_read(file, &b, e) < 0)
		return -1;
	cli_warn_of_secret("--token-file", file, true);
	token = str_trim(buf_str(&b));
	*ret = arena_strndup(&cli->arena, token.p ? token.p : "", token.n);
	secret_wipe(b.p, b.n);
	return *ret ? 0 : err_no_memory(e);
}

static void tell_listening(unsigned port, void *arg)
{
	const struct mcp_options *o = arg;

	(void)fprintf(stderr, "osb mcp: listening on http://%s:%u%s\n", o->host, port, o->path);
}

static int serve(struct cli *cli, const struct mcp_words *w)
{
	const struct settings *s = &cli->settings;
	struct osb_options connection = {
		.size = sizeof(connection),
		.api_key = w->api_key ? w->api_key : s->api_key,
		.domain = w->domain ? w->domain : s->domain,
		.protocol = w->protocol ? w->protocol : s->protocol,
		.request_timeout_ms = (unsigned)s->request_timeout_s * 1000,
		.use_server_proxy = s->use_server_proxy,
	};
	struct mcp_options o = {
		.connection = &connection,
		.is_http = w->transport && strcmp(w->transport, "streamable-http") == 0,
		.host = w->host ? w->host : "127.0.0.1",
		.path = w->path ? w->path : "/mcp",
		.port = (unsigned)w->port,
		.limits = MCP_LIMITS,
		.listening = tell_listening,
		.arg = &o,
	};
	struct err e = { 0 };

	if (w->hosts.n >= MCP_HOSTS_MAX)
		return cli_usage(cli, "there are too many of --allowed-host");
	for (size_t i = 0; i < w->hosts.n; i++)
		o.allowed_hosts[i] = w->hosts.items[i];
	o.limits.output = w->output ? (size_t)w->output : o.limits.output;
	o.limits.file = w->file ? (size_t)w->file : o.limits.file;
	o.limits.message = w->message ? (size_t)w->message : o.limits.message;
	if (read_timeout(w->request_timeout, &connection.request_timeout_ms, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (read_token(cli, w->token_file, &o.token, &e) < 0 || mcp_serve(&o, &e) < 0)
		return cli_fail_err(cli, &e);
	return CLI_OK;
}

/* ---- installing ---- */

/* How a client starts us: by the whole path, because many clients have no PATH to speak of, and with what was said on this command
 * line. A key is not written into files that are shared: it comes from the settings or the environment. */
static int find_command(struct cli *cli, const struct mcp_words *w, struct mcp_command *ret, struct err *e)
{
	const char **args = arena_array(&cli->arena, 8, sizeof(*args));
	const char *domain = w->domain ? w->domain : cli->flags.domain, *config = cli->flags.config;
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program));
	size_t k = 0;

	if (n <= 0 || n == (ssize_t)sizeof(program))
		return err_set(e, ERR_IO, "where osb is cannot be found out");
	ret->program = arena_strndup(&cli->arena, program, (size_t)n);
	if (!ret->program || !args)
		return err_no_memory(e);
	if (config)
		args[k++] = "--config", args[k++] = config;
	if (domain)
		args[k++] = "--domain", args[k++] = domain;
	args[k++] = "mcp";
	ret->args = args;
	ret->n_args = k;
	return 0;
}

static const char *file_of(struct cli *cli, const struct mcp_client *c, const char *scope)
{
	const char *home = settings_env(cli->env, "HOME");
	bool is_project = scope ? strcmp(scope, "project") == 0 : false;

	if (is_project)
		return c->project;
	return arena_printf(&cli->arena, "%s/%s", home ? home : "", c->global);
}

static int write_one(struct cli *cli, const struct mcp_client *c, const struct mcp_command *command, const char *path)
{
	AUTO(buf_done) struct buf old = BUF_INIT(MCP_CONFIG_MAX), new = BUF_INIT(2 * MCP_CONFIG_MAX);
	struct err e = { 0 };

	if ((path == c->project && config_file_stays_here(path, &e) < 0) || config_file_read(path, &old, &e) < 0)
		return cli_fail_err(cli, &e);
	if (mcp_entry_merge(c, command, buf_str(&old), &new, &e) < 0)
		return cli_fail(cli, "'%s' was left as it is: %s; 'osb mcp install %s' prints what to add by hand", path, e.msg, c->name);
	if (str_eq(buf_str(&old), buf_str(&new)))
		return output_success(&cli->out, "%s: %s has it already", c->label, path) == 0 ? CLI_OK : CLI_FAILED;
	if (config_file_backup(path, &e) < 0 || config_file_write(path, buf_str(&new), &e) < 0)
		return cli_fail_err(cli, &e);
	return output_success(&cli->out, "%s: %s written; restart it", c->label, path) == 0 ? CLI_OK : CLI_FAILED;
}

static int print_one(struct cli *cli, const struct mcp_client *c, const struct mcp_command *command, const char *path)
{
	AUTO(buf_done) struct buf b = BUF_INIT(MCP_CONFIG_MAX);

	(void)buf_addf(&b, "%s, in %s:\n\n", c->label, path);
	mcp_entry_write(c, command, &b);
	(void)buf_addf(&b, "%s\n", str_ends(buf_str(&b), STR("\n")) ? "" : "\n");
	return output_bytes(&cli->out, buf_str(&b)) == 0 ? CLI_OK : CLI_FAILED;
}

static int install_one(struct cli *cli, const struct mcp_words *w, const struct mcp_client *c)
{
	const char *path = file_of(cli, c, w->scope);
	struct mcp_command command;
	struct err e = { 0 };

	if (!path)
		return cli_usage(cli, "%s has no configuration for a single folder: use '--scope global'", c->label);
	if (find_command(cli, w, &command, &e) < 0)
		return cli_fail_err(cli, &e);
	return w->write ? write_one(cli, c, &command, path) : print_one(cli, c, &command, path);
}

static int install(struct cli *cli, const struct mcp_words *w)
{
	AUTO(buf_done) struct buf all = BUF_INIT(1024);
	const struct mcp_client *c;
	int status = CLI_OK;

	for (size_t i = 0; (c = mcp_client_at(i)); i++)
		(void)buf_addf(&all, "%s%s", i > 0 ? ", " : "", c->name);
	if (cli->n_operands < 2)
		return cli_usage(cli, "say for which client: %s", buf_z(&all));
	for (int i = 1; i < cli->n_operands; i++)
		if (!mcp_client_find(cli->operands[i]))
			return cli_usage(cli, "there is no client '%s'; there are %s", cli->operands[i], buf_z(&all));
	for (int i = 1; i < cli->n_operands && status == CLI_OK; i++)
		status = install_one(cli, w, mcp_client_find(cli->operands[i]));
	return status;
}

int mcp_run(int argc, char **argv, void *arg)
{
	struct mcp_words w = { .port = 8000 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &w))
		return cli->status;
	if (cli->n_operands == 0 || (cli->n_operands == 1 && strcmp(cli->operands[0], "serve") == 0))
		return serve(cli, &w);
	if (strcmp(cli->operands[0], "install") == 0)
		return install(cli, &w);
	return cli_usage(cli, "'%s' is neither serve nor install", cli->operands[0]);
}
