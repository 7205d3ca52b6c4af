// SPDX-License-Identifier: Apache-2.0
#include "cli/home.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/toml.h"
#include "cli/cli.h"
#include "cli/copy/copy_local.h"
#include "cli/hint.h"
#include "sys/fd.h"
#include "sys/path.h"
#include "sys/process.h"

#include "base/banned.h"

#define SERVER_PROGRAM "opensandbox-server"
#define CONFIG_MAX ((size_t)1024 * 1024)
#define OUTPUT_MAX ((size_t)1024 * 1024)
#define RUN_MS 60000
#define DEFAULT_PORT 8080

void home_done(struct home *h)
{
	closep(&h->dirfd);
	*h = HOME_INIT;
}

/* The program in the folder that ours is in; no search anywhere else: it is run as root. */
static const char *find_program(struct arena *a)
{
	char self[PATH_BYTES_MAX + 1];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *path;
	char *slash;

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	slash[1] = '\0';
	path = arena_printf(a, "%s" SERVER_PROGRAM, self);
	return path && access(path, X_OK) == 0 ? path : NULL;
}

int home_open(struct cli *cli, struct home *ret, struct err *e)
{
	const char *home = settings_env(cli->env, "HOME");
	AUTO(home_done) struct home h = HOME_INIT;

	if (!home)
		return err_set(e, ERR_INVALID, "HOME is not set: no folder for the settings");
	h.folder = arena_printf(&cli->arena, "%s/.opensandbox", home);
	h.config = arena_printf(&cli->arena, "%s/.opensandbox/" HOME_CONFIG, home);
	h.log = arena_printf(&cli->arena, "%s/.opensandbox/" HOME_LOG, home);
	if (!h.folder || !h.config || !h.log)
		return err_no_memory(e);
	if (mkdir(h.folder, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make the folder '%s'", h.folder);
	h.dirfd = copy_local_top(h.folder, e);
	if (h.dirfd < 0)
		return -1;
	h.program = find_program(&cli->arena);
	*ret = h;
	h = HOME_INIT;
	return 0;
}

/* ---- its configuration ---- */

static const struct json *server_table(struct cli *cli, const struct home *h, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(CONFIG_MAX);
	const struct json *root;
	const char *copy;

	if (fd_read_file(h->dirfd, HOME_CONFIG, CONFIG_MAX, &text, e) < 0)
		return NULL;
	copy = arena_dup(&cli->arena, buf_str(&text));
	if (!copy) {
		(void)err_no_memory(e);
		return NULL;
	}
	root = toml_parse(&cli->arena, (struct str){ copy, text.n }, NULL, NULL, e);
	if (!root) {
		(void)err_wrap(e, "'%s'", h->config);
		return NULL;
	}
	return json_get(root, "server") ? json_get(root, "server") : root;
}

static const char *text_of(struct cli *cli, const struct json *table, const char *key, const char *variable)
{
	const char *said = settings_env(cli->env, variable);
	struct str s = json_text(table, key);

	return said ? said : s.n > 0 ? arena_dup(&cli->arena, s) : NULL;
}

int home_server_read(struct cli *cli, const struct home *h, int64_t port, struct home_server *ret, struct err *e)
{
	const struct json *table = server_table(cli, h, e);
	const char *said = settings_env(cli->env, "OPENSANDBOX_SERVER_PORT");
	struct home_server s = { .port = port };
	bool is_any;

	if (!table)
		return -1;
	s.host = text_of(cli, table, "host", "OPENSANDBOX_SERVER_HOST");
	s.key = text_of(cli, table, "api_key", "OPENSANDBOX_SERVER_API_KEY");
	if (s.port == 0 && said && !str_to_i64(str_of(said), 1, 65535, &s.port))
		return err_set(e, ERR_INVALID, "OPENSANDBOX_SERVER_PORT is no port");
	if (s.port == 0)
		s.port = (int64_t)json_count(table, "port");
	if (s.port == 0)
		s.port = DEFAULT_PORT;
	is_any = !s.host || strcmp(s.host, "0.0.0.0") == 0 || strcmp(s.host, "::") == 0;
	s.address = arena_printf(&cli->arena, s.host && strchr(s.host, ':') && !is_any ? "[%s]:%lld" : "%s:%lld",
				 is_any ? "127.0.0.1" : s.host, (long long)s.port);
	if (!s.address)
		return err_no_memory(e);
	*ret = s;
	return 0;
}

struct osb_client *home_client(struct cli *cli, const struct home_server *s)
{
	struct osb_options o = OSB_OPTIONS;
	struct osb_error e = { 0 };
	struct osb_client *c;

	o.domain = s->address;
	o.protocol = "http";
	o.api_key = s->key ? s->key : "";
	c = osb_client_new(&o, &e);
	if (!c)
		output_error_panel(&cli->out, "Sandbox Error", e.message, hint_for(&e));
	return c;
}

/* ---- its program ---- */

int home_run(const struct home *h, char *const *argv, struct buf *out, struct err *e)
{
	struct spawn_spec sp = SPAWN_INIT(h->program, argv);
	struct process_end end;
	AUTO_FD pidfd = -1;
	AUTO_FD rd = -1;
	AUTO_FD wr = -1;
	int ends[2];

	if (out) {
		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_sys(e, errno, "make a pipe");
		rd = ends[0];
		wr = ends[1];
	}
	sp.envp = environ; /* its own settings may be there */
	sp.out = out ? wr : STDOUT_FILENO;
	sp.err = STDERR_FILENO;
	pidfd = process_spawn(&sp, NULL, e);
	if (pidfd < 0)
		return -1;
	closep(&wr);
	wr = -1;
	if (out && fd_read_all(rd, OUTPUT_MAX, out, e) < 0) {
		(void)process_kill_and_wait(pidfd, RUN_MS, &end, &(struct err){ 0 }); /* what it said is of no use without its end */
		return -1;
	}
	if (process_wait(pidfd, RUN_MS, &end, e) < 0)
		return -1;
	return end.by_signal ? err_set(e, ERR_INTERNAL, "'%s' died of signal %d", h->program, end.code) : end.code;
}
