// SPDX-License-Identifier: Apache-2.0
/* osb up, osb down: a server on this machine, in the background. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/config_edit.h"
#include "cli/home.h"
#include "cli/local_server.h"
#include "cli/settings.h"
#include "sys/fd.h"

#include "base/banned.h"

#define READY_MS 60000
#define LOOK_MS 50
#define STOP_MS 60000
#define LOG_TAIL 4096
#define KILL_PAGE 200
#define ENV_MAX 64

struct up_options {
	const char *output;
	int64_t port;
	bool force, keep;
};

const struct opt cli_up_opts[] = {
	OPT(struct up_options, port, OPT_INT, "port", 'p', "PORT",
	    "Listen on PORT instead of the configured port (8080).", .min = 1,
	    .max = 65535),
	OPT(struct up_options, force, OPT_FLAG, "force", 0, NULL, "Point the settings at it even if they name another server."),
	OPT_OUTPUT(struct up_options, output_table),
	{ 0 },
};
const struct opt cli_down_opts[] = {
	OPT(struct up_options, keep, OPT_FLAG, "keep", 'k', NULL,
	    "Leave its sandboxes running; the next 'osb up' adopts them."),
	OPT_OUTPUT(struct up_options, output_table),
	{ 0 },
};

/* ---- its configuration ---- */

static int make_config(struct cli *cli, const struct home *h, struct err *e)
{
	AUTO(buf_done) struct buf said = BUF_INIT(65536);
	char program[] = "opensandbox-server", init[] = "init-config", *path = arena_dup(&cli->arena, str_of(h->config));
	char *argv[] = { program, init, path, NULL };
	int status;

	if (faccessat(h->dirfd, HOME_CONFIG, F_OK, 0) == 0)
		return 0;
	if (!path)
		return err_no_memory(e);
	status = home_run(h, argv, &said, e);
	return status > 0 ? err_set(e, ERR_INTERNAL, "'%s init-config' failed", h->program) : status;
}

/* The settings keep another server that they name, unless told otherwise. *ret: they name this one now. */
static int point_settings(struct cli *cli, const struct home_server *s, bool force, bool *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(SETTINGS_FILE_MAX);
	AUTO(buf_done) struct buf a = BUF_INIT(SETTINGS_FILE_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(SETTINGS_FILE_MAX);
	const char *domain = cli->settings.domain;
	struct err why = { 0 };

	*ret = domain && strcmp(domain, s->address) == 0 && s->key && cli->settings.api_key && strcmp(cli->settings.api_key, s->key) == 0;
	if (*ret || (domain && strcmp(domain, s->address) != 0 && !force))
		return 0;
	if (fd_read_file(AT_FDCWD, cli->settings.path, SETTINGS_FILE_MAX, &text, &why) < 0) {
		if (why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
		buf_addf(&text, "%s", config_template);
	}
	config_edit(buf_str(&text), STR("connection"), STR("domain"), str_of(s->address), &a);
	config_edit(buf_str(&a), STR("connection"), STR("protocol"), STR("http"), &b);
	buf_clear(&a);
	config_edit(buf_str(&b), STR("connection"), STR("api_key"), str_of(s->key ? s->key : ""), &a);
	if (a.failed || b.failed)
		return err_no_memory(e);
	if (config_write_file(cli->settings.path, buf_str(&a), 0600, e) < 0)
		return -1;
	*ret = true;
	return 0;
}

/* ---- up ---- */

static bool is_healthy(struct osb_client *c)
{
	struct osb_call *call = osb_call_new(c);
	bool is_well;

	if (call)
		osb_call_set_deadline(call, 2000);
	is_well = osb_server_health(c, call) == 0;
	osb_call_free(call);
	return is_well;
}

/* The last that it wrote, which gives the reason it ended. */
static void show_log(const struct home *h)
{
	AUTO_FD fd = openat(h->dirfd, HOME_LOG, O_RDONLY | O_CLOEXEC);
	char text[LOG_TAIL];
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	ssize_t n = size < 0 ? -1 : pread(fd, text, sizeof(text), size > LOG_TAIL ? size - LOG_TAIL : 0);

	if (n > 0)
		(void)fwrite(text, 1, (size_t)n, stderr);
}

static int wait_healthy(struct cli *cli, const struct home *h, const struct home_server *s, const struct local_server *server)
{
	struct osb_client *c = home_client(cli, s);
	uint64_t until = clock_mono_ms() + READY_MS;
	int status = CLI_FAILED;

	while (c && status != CLI_OK && cli->interrupts == 0) {
		if (is_healthy(c)) {
			status = CLI_OK;
		} else if (local_server_wait(server, LOOK_MS)) {
			show_log(h);
			(void)cli_fail(cli, "the server has ended; '%s' says why, and 'osb doctor' looks at this machine", h->log);
			break;
		} else if (clock_mono_ms() > until) {
			(void)cli_fail(cli, "the server does not answer after %d seconds; '%s' may say why", READY_MS / 1000, h->log);
			break;
		}
	}
	osb_client_free(c);
	return status;
}

/* What the server gets of our environment: who it is, and its own settings. */
static char *const *server_env(struct cli *cli)
{
	static const char *const prefixes[] = { "HOME=", "PATH=", "LANG=", "TZ=", "OPENSANDBOX_", "ASAN_OPTIONS=", "http_proxy=", "https_proxy=",
						"no_proxy=", "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=" };
	char **env = arena_array(&cli->arena, ENV_MAX + 1, sizeof(*env));
	size_t n = 0;

	for (size_t i = 0; env && cli->env[i] && n < ENV_MAX; i++)
		for (size_t k = 0; k < ARRAY_LEN(prefixes); k++)
			if (str_starts(str_of(cli->env[i]), str_of(prefixes[k])))
				env[n++] = arena_dup(&cli->arena, str_of(cli->env[i]));
	return env;
}

static int start(struct cli *cli, const struct home *h, const struct home_server *s, int64_t port, struct local_server *ret, struct err *e)
{
	AUTO_FD log = openat(h->dirfd, HOME_LOG, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	char *argv[] = { arena_dup(&cli->arena, str_of(h->program)), arena_dup(&cli->arena, STR("--config")),
			 arena_dup(&cli->arena, str_of(h->config)), port > 0 ? arena_printf(&cli->arena, "--port=%lld", (long long)port) : NULL,
			 NULL };
	struct local_start how = { .program = h->program, .argv = argv, .envp = server_env(cli), .address = s->address, .log = log };

	if (log < 0)
		return err_sys(e, errno, "open '%s'", h->log);
	if (!argv[0] || !argv[1] || !argv[2] || !how.envp)
		return err_no_memory(e);
	return local_server_start(h->dirfd, &how, ret, e);
}

static int show_up(struct cli *cli, const struct home *h, const struct local_server *server, const char *status, bool is_pointed)
{
	char pid[16];
	int rc;

	(void)snprintf(pid, sizeof(pid), "%d", (int)server->pid);
	rc = cli_show_panel(cli, cli_object(cli, "status", status, "address", server->address, "pid", pid, "settings",
					    is_pointed ? cli->settings.path : NULL, "server_config", h->config, "log", h->log, NULL),
			    strcmp(status, "started") == 0 ? "Server started" : "Server is running");
	if (!is_pointed)
		(void)output_warning(&cli->out, "The settings name another server, %s; '--force' changes that, OPEN_SANDBOX_DOMAIN=%s does it once.",
				     cli->settings.domain ? cli->settings.domain : "-", server->address);
	else if (output_is_people(&cli->out))
		(void)output_info(&cli->out, "Try 'osb run host -- uname -a'; 'osb down' ends it.");
	return rc;
}

int cmd_up(int argc, char **argv, void *arg)
{
	AUTO(home_done) struct home h = HOME_INIT;
	AUTO(local_server_done) struct local_server server = LOCAL_SERVER_INIT;
	struct up_options o = { 0 };
	struct home_server s;
	struct cli *cli = arg;
	struct err e = { 0 };
	bool is_pointed = false;
	int found;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (geteuid() != 0)
		return cli_fail(cli, "sandboxes are made of namespaces, control groups and mounts, which takes root: 'sudo osb up'. As another "
				     "user you can use a server that somebody else runs: --domain HOST:PORT says where");
	if (home_open(cli, &h, &e) < 0 || local_server_lock(h.dirfd, &e) < 0 || (found = local_server_find(h.dirfd, &server, &e)) < 0)
		return cli_fail_err(cli, &e);
	if (found == 0 && !h.program)
		return cli_fail(cli, "opensandbox-server is not installed beside osb");
	if ((found == 0 && make_config(cli, &h, &e) < 0) || home_server_read(cli, &h, o.port, &s, &e) < 0)
		return cli_fail_err(cli, &e);
	if (found > 0)
		s.address = server.address;
	if (found == 0 && start(cli, &h, &s, o.port, &server, &e) < 0)
		return cli_fail_err(cli, &e);
	if (wait_healthy(cli, &h, &s, &server) != CLI_OK)
		return CLI_FAILED;
	if (point_settings(cli, &s, o.force, &is_pointed, &e) < 0)
		return cli_fail_err(cli, &e);
	return show_up(cli, &h, &server, found > 0 ? "running" : "started", is_pointed);
}

/* ---- down ---- */

/* The first page, until there is none: what has been killed is not listed again. */
static int kill_all(struct cli *cli, struct osb_client *c, uint64_t *ret_n)
{
	const struct osb_list filter = { .size = sizeof(filter), .page_size = KILL_PAGE };

	for (size_t n = 1; n > 0;) {
		AUTO(osb_free) struct osb_sandboxes *found = NULL;
		size_t killed = 0;

		if (osb_sandbox_list(c, &filter, &found, NULL) < 0)
			return cli_fail(cli, "its sandboxes cannot be listed: %s; '--keep' leaves them", osb_client_error(c)->message);
		n = found->n;
		for (size_t i = 0; i < n; i++)
			if (osb_sandbox_kill(c, found->items[i].id, NULL) == 0 || osb_client_error(c)->http_status == 404)
				killed++;
		*ret_n += killed;
		if (n > 0 && killed == 0)
			return cli_fail(cli, "its sandboxes cannot be deleted: %s; '--keep' leaves them", osb_client_error(c)->message);
	}
	return CLI_OK;
}

int cmd_down(int argc, char **argv, void *arg)
{
	AUTO(home_done) struct home h = HOME_INIT;
	AUTO(local_server_done) struct local_server server = LOCAL_SERVER_INIT;
	struct up_options o = { 0 };
	struct home_server s;
	struct osb_client *c;
	struct cli *cli = arg;
	struct err e = { 0 };
	uint64_t n_killed = 0;
	int found, status = CLI_OK;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (home_open(cli, &h, &e) < 0 || (found = local_server_find(h.dirfd, &server, &e)) < 0)
		return cli_fail_err(cli, &e);
	if (found == 0)
		return output_info(&cli->out, "No server that 'osb up' started is running.") < 0 ? CLI_FAILED : CLI_OK;
	if (!o.keep) {
		if (home_server_read(cli, &h, 0, &s, &e) < 0)
			return cli_fail_err(cli, &e);
		s.address = server.address;
		c = home_client(cli, &s);
		status = c ? kill_all(cli, c, &n_killed) : CLI_FAILED;
		osb_client_free(c);
	}
	if (status != CLI_OK)
		return status;
	if (local_server_stop(h.dirfd, &server, STOP_MS, &e) < 0)
		return cli_fail_err(cli, &e);
	if (o.keep)
		return cli_success(cli, "The server has ended; its sandboxes go on");
	return cli_success(cli, "The server has ended, and %llu sandbox%s with it", (unsigned long long)n_killed, n_killed == 1 ? "" : "es");
}
