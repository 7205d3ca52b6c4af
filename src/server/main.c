// SPDX-License-Identifier: Apache-2.0
/* opensandbox-server: the control plane. Started as root it becomes the supervisor (supervise.h), whose child without any
 * privileges is the server. The other commands need none. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "box/preflight.h"
#include "server/boot/doctor.h"
#include "server/boot/image_command.h"
#include "server/boot/recover.h"
#include "server/boot/serve.h"
#include "server/boot/snapshot_command.h"
#include "server/boot/supervise.h"
#include "server/boot/version.h"
#include "server/config/config.h"
#include "server/config/init_config.h"
#include "server/http/assets.h"
#include "server/native/kind.h"
#include "server/runtime/kind.h"
#include "sys/signals.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-server"
#define TEXT_MAX ((size_t)1024 * 1024)

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };
enum { COMMAND_INIT_CONFIG, COMMAND_CONFIG, COMMAND_DOCTOR, COMMAND_RECOVER, COMMAND_IMAGE, COMMAND_SNAPSHOT, COMMAND_COMPLETION }; /* rows of commands[] */

struct options {
	const char *config, *host, *log_level;
	int64_t port;
	bool reload;
};

struct init_options {
	const char *example;
	bool force;
};

struct doctor_options {
	const char *config;
	bool json;
};

/* ---- the command line ---- */

static const char *const examples[] = { "native", NULL }; /* those of other runtimes come with them */
static const char *const levels[] = { "debug", "info", "warning", "error", NULL };

#define CONFIG_OPT \
	OPT(struct options, config, OPT_STRING, "config", 'c', "FILE", "Read the configuration from FILE.", .is_file = true)
#define KEY_OPTS \
	OPT(struct options, host, OPT_STRING, "host", 0, "ADDRESS", "Listen on ADDRESS instead of server.host."), \
	OPT(struct options, port, OPT_INT, "port", 'p', "PORT", "Listen on PORT instead of server.port.", .min = 1, \
	    .max = 65535), \
	OPT(struct options, log_level, OPT_STRING, "log-level", 0, "LEVEL", "Log from LEVEL on instead of log.level.", \
	    .choices = levels)

static const struct opt run_opts[] = {
	CONFIG_OPT,
	KEY_OPTS,
	OPT(struct options, reload, OPT_FLAG, "reload", 0, NULL, "Without effect.", .is_hidden = true),
	{ 0 },
};

static const struct opt config_opts[] = { CONFIG_OPT, KEY_OPTS, { 0 } };
static const struct opt recover_opts[] = { CONFIG_OPT, { 0 } };

static const struct opt doctor_opts[] = {
	OPT(struct doctor_options, config, OPT_STRING, "config", 'c', "FILE", "Read the configuration from FILE.",
	    .is_file = true),
	OPT(struct doctor_options, json, OPT_FLAG, "json", 0, NULL, "Print one JSON object."),
	{ 0 },
};

static const struct opt init_opts[] = {
	OPT(struct init_options, example, OPT_STRING, "example", 0, "KIND", "Set what KIND needs: native, the only runtime of this version.",
	    .choices = examples),
	OPT(struct init_options, force, OPT_FLAG, "force", 'f', NULL, "Replace a file that exists."),
	{ 0 },
};

static const struct opt no_opts[] = { { 0 } };

static const struct opt_section sections[] = {
	{ "FILES", "~/.sandbox.toml", "The configuration, when neither --config nor SANDBOX_CONFIG_PATH names another." },
	{ "ENVIRONMENT", "SANDBOX_CONFIG_PATH", "The configuration file." },
	{ "ENVIRONMENT", "OPENSANDBOX_SECTION_KEY",
	  "Overrides a key of the file: OPENSANDBOX_SERVER_PORT=9000. Text is taken as it is, all else is a TOML value." },
	{ "ENVIRONMENT", "OPENSANDBOX_INSECURE_SERVER=YES",
	  "Allows to run without an API key, on a loopback address only." },
	{ "SIGNALS", "SIGTERM, SIGINT", "Stop: requests in progress get 10 seconds to end. A second one stops at once." },
	{ "SIGNALS", "SIGHUP", "Open the log file and read the certificate and its key anew, as the server's own user." },
	{ "EXIT STATUS", "0", "Stopped by a signal, or the command succeeded." },
	{ "EXIT STATUS", "1", "Failed; see standard error." },
	{ "EXIT STATUS", "2", "Wrong command line." },
	{ "EXIT STATUS", "3", "The database is damaged; nothing was changed. See the command 'recover'." },
	{ "EXIT STATUS", "4", "Another server runs with the same state directory." },
	{ 0 },
};

static const struct opt_command commands[] = {
	[COMMAND_INIT_CONFIG] =
	{ .name = "init-config", .summary = "write a commented configuration file", .operands = "[PATH]", .opts = init_opts,
	  .max_operands = 1,
	  .about = "Writes every key with its default and one line of help, and a new API key, to PATH (~/.sandbox.toml)." },
	[COMMAND_CONFIG] =
	{ .name = "config", .summary = "show the configuration in effect", .opts = config_opts,
	  .about =
		  "Prints the effective configuration (file, environment and options) as TOML, without secrets." },
	[COMMAND_DOCTOR] =
	{ .name = "doctor", .summary = "check what this host lacks for sandboxes", .opts = doctor_opts,
	  .about = "Tries what the native runtime needs of this host and of the configuration, and says what is missing, what "
		   "that costs and what to do. Nothing is changed.\n\n"
		   "The status is 0 when sandboxes can run (there may be warnings), and 1 when something needed is missing or "
		   "could not be tried without root." },
	[COMMAND_RECOVER] =
	{ .name = "recover", .summary = "make a new database from a damaged one", .opts = recover_opts,
	  .about = "Moves the damaged database aside and makes a new one from the records that can be read and from the "
		   "sandboxes that run. No sandbox is ended. The server must not be running; needs root." },
	[COMMAND_IMAGE] =
	{ .name = "image", .summary = "pull, list, remove, load and save images", .commands = image_commands,
	  .about = "Asks the server that runs with the same configuration, by its API and with its key." },
	[COMMAND_SNAPSHOT] =
	{ .name = "snapshot", .summary = "list, export and import snapshots", .commands = snapshot_commands,
	  .about = "Asks the server that runs with the same configuration, by its API and with its key." },
	[COMMAND_COMPLETION] =
	{ .name = "completion", .summary = "print a completion script", .operands = "bash|zsh|fish", .opts = no_opts,
	  .min_operands = 1, .max_operands = 1,
	  .about = "Prints a script for the shell to source: eval \"$(" PROGRAM " completion bash)\"" },
	{ 0 },
};

static const struct opt_command program = {
	.name = PROGRAM,
	.summary = "the OpenSandbox control plane",
	.about = "Serves the sandbox API over HTTP. Without a command it runs in the foreground until told to stop.\n\n"
		 "Every setting has a default: no file is needed. An API key is, unless the configuration says otherwise.",
	.version = OPENSANDBOX_VERSION,
	.opts = run_opts,
	.commands = commands,
	.is_command_optional = true,
	.sections = sections,
};

/* ---- output ---- */

static int fail(const struct err *e)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	return EXIT_FAILED;
}

static int fail_usage(const struct err *e)
{
	(void)fprintf(stderr, PROGRAM ": %s\nTry '" PROGRAM " --help'.\n", e->msg);
	return EXIT_USAGE;
}

static int fail_config(const struct buf *problems, const struct err *e)
{
	struct str rest = buf_str(problems), line;

	if (rest.n == 0)
		return fail(e);
	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		(void)fprintf(stderr, PROGRAM ": %.*s\n", STR_ARG(line));
	}
	return EXIT_FAILED;
}

static int print(const struct buf *text)
{
	struct err e = { 0 };

	if (text->failed || fputs(buf_z(text), stdout) < 0 || fflush(stdout) < 0) {
		(void)err_set(&e, ERR_IO, "cannot write to standard output");
		return fail(&e);
	}
	return EXIT_OK;
}

static int print_help(const struct opt_command *c, const char *path)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);

	opt_help(c, path, &text);
	return print(&text);
}

/* ---- what it can do ---- */

/* By the number of config.h; NULL: not in this version. */
static const struct runtime_kind *const kinds[] = { [RUNTIME_NATIVE] = &native_kind, [RUNTIME_KUBERNETES] = NULL };

enum action { ACTION_SERVE, ACTION_SHOW, ACTION_RECOVER };

/* Loads the configuration, and then. */
static int with_config(const struct options *o, const char *const *env, enum action action)
{
	AUTO(arena_done) struct arena arena = ARENA_INIT(CONFIG_ARENA_MAX);
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	char port[24];
	struct config_flag flags[] = {
		{ "--host", "server.host", o->host },
		{ "--port", "server.port", o->port ? port : NULL },
		{ "--log-level", "log.level", o->log_level },
		{ 0 },
	};
	struct config_sources sources = { .path = o->config, .env = env, .flags = flags };
	struct config c;
	struct auth auth;
	int status = EXIT_FAILED;
	struct serve_spec spec = { .config = &c, .auth = &auth, .find_asset = asset_find, .ready_fd = -1,
				   .ret_status = &status };
	struct err e = { 0 };

	(void)snprintf(port, sizeof(port), "%lld", (long long)o->port);
	if (config_load(&sources, &arena, &c, &text, &e) < 0)
		return fail_config(&text, &e);
	if (action == ACTION_SHOW) {
		(void)config_write(&c, &text);
		return print(&text);
	}
	spec.kind = kinds[c.runtime.type];
	if (!spec.kind) {
		(void)err_set(&e, ERR_UNAVAILABLE, "runtime.type: only 'native' is available in this version");
		return fail(&e);
	}
	if (action == ACTION_RECOVER)
		spec.job = recover;
	else if (serve_auth(&c, env, &auth, &e) < 0)
		return fail(&e);
	if (supervise(&spec, &e) < 0)
		(void)fail(&e);
	return status;
}

static int run_init_config(int argc, char **argv, const char *const *env)
{
	AUTO(arena_done) struct arena arena = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct init_options o = { 0 };
	struct opt_result r;
	struct err e = { 0 };
	const char *path;

	if (opt_parse(&commands[COMMAND_INIT_CONFIG], argc, argv, &o, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&commands[COMMAND_INIT_CONFIG], PROGRAM " init-config");
	path = config_expand_home(r.argc > 0 ? r.argv[0] : "~/.sandbox.toml", env, &arena, &e);
	if (!path || init_config(path, o.example, o.force, &e) < 0)
		return fail(&e);
	if (o.example)
		buf_addf(&text, "Wrote example config (%s) to %s\n", o.example, path);
	else
		buf_addf(&text, "Wrote full config skeleton to %s\n", path);
	return print(&text);
}

static int run_config(int argc, char **argv, struct options *o, const char *const *env)
{
	struct opt_result r;
	struct err e = { 0 };

	if (opt_parse(&commands[COMMAND_CONFIG], argc, argv, o, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&commands[COMMAND_CONFIG], PROGRAM " config");
	return with_config(o, env, ACTION_SHOW);
}

static int run_recover(int argc, char **argv, struct options *o, const char *const *env)
{
	struct opt_result r;
	struct err e = { 0 };

	if (opt_parse(&commands[COMMAND_RECOVER], argc, argv, o, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&commands[COMMAND_RECOVER], PROGRAM " recover");
	return with_config(o, env, ACTION_RECOVER);
}

/* As people expect of NO_COLOR: set and not empty. */
static bool wants_colour(const char *const *env)
{
	const char *no = config_env(env, "NO_COLOR");

	return isatty(STDOUT_FILENO) && (!no || !no[0]);
}

static int run_doctor(int argc, char **argv, struct options *global, const char *const *env)
{
	AUTO(arena_done) struct arena arena = ARENA_INIT(CONFIG_ARENA_MAX);
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct doctor_options o = { .config = global->config };
	static struct preflight_report report; /* large for the stack */
	struct config_sources sources = { .env = env };
	struct opt_result r;
	struct config c;
	struct err e = { 0 };
	int status;

	if (opt_parse(&commands[COMMAND_DOCTOR], argc, argv, &o, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&commands[COMMAND_DOCTOR], PROGRAM " doctor");
	sources.path = o.config;
	if (config_load(&sources, &arena, &c, &text, &e) < 0)
		return fail_config(&text, &e);
	doctor_examine(&c, &report);
	if (o.json)
		doctor_json(&report, &text);
	else
		doctor_page(&report, wants_colour(env), &text);
	status = print(&text);
	return status == EXIT_OK && !doctor_is_well(&report) ? EXIT_FAILED : status;
}

static int run_completion(int argc, char **argv)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct opt_result r;
	struct err e = { 0 };

	if (opt_parse(&commands[COMMAND_COMPLETION], argc, argv, NULL, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&commands[COMMAND_COMPLETION], PROGRAM " completion");
	if (opt_completion(r.argv[0], &program, &text, &e) < 0)
		return fail_usage(&e);
	return print(&text);
}

/* Secrets are not for cores. A limit of one byte stops core files and, unlike 0, also the pipe of a core handler;
 * children keep it across exec. Not being dumpable stops both here, and other processes of our user as well. */
static void forbid_cores(void)
{
	const struct rlimit one = { 1, 1 }, none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &one) < 0)
		(void)setrlimit(RLIMIT_CORE, &none); /* the hard limit is 0 already */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	const char *const *env = (const char *const *)environ;
	struct options o = { 0 };
	struct opt_result r;
	struct err e = { 0 };

	(void)umask(077);
	signals_prepare();
	forbid_cores();
	if (opt_parse(&program, argc, argv, &o, &r, &e) < 0)
		return fail_usage(&e);
	if (r.action == OPT_HELP)
		return print_help(&program, PROGRAM);
	if (r.action == OPT_VERSION)
		return printf(PROGRAM " " OPENSANDBOX_VERSION "\n") < 0 ? EXIT_FAILED : EXIT_OK;
	if (r.command == &commands[COMMAND_INIT_CONFIG])
		return run_init_config(r.argc, r.argv, env);
	if (r.command == &commands[COMMAND_CONFIG])
		return run_config(r.argc, r.argv, &o, env);
	if (r.command == &commands[COMMAND_DOCTOR])
		return run_doctor(r.argc, r.argv, &o, env);
	if (r.command == &commands[COMMAND_RECOVER])
		return run_recover(r.argc, r.argv, &o, env);
	if (r.command == &commands[COMMAND_IMAGE])
		return image_command(r.argc, r.argv, o.config, env);
	if (r.command == &commands[COMMAND_SNAPSHOT])
		return snapshot_command(r.argc, r.argv, o.config, env);
	if (r.command == &commands[COMMAND_COMPLETION])
		return run_completion(r.argc, r.argv);
	signals_prepare_daemon();
	return with_config(&o, env, ACTION_SERVE);
}
