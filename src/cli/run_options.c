// SPDX-License-Identifier: Apache-2.0
#include "cli/run_options.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"
#include "cli/commands_more.h"
#include "cli/hint.h"
#include "cli/render.h"
#include "cli/values.h"

#include "base/banned.h"

#define NOTE_MAX 2048

const struct opt cli_run_opts[] = {
	OPT(struct run_options, interactive, OPT_FLAG, "interactive", 'i', NULL, "Without effect: standard input is always passed on."),
	OPT(struct run_options, terminal, OPT_FLAG, "tty", 't', NULL, "Run the command on a terminal."),
	OPT(struct run_options, no_stdin, OPT_FLAG, "no-stdin", 'n', NULL, "Give the command no input."),
	OPT(struct run_options, detach, OPT_FLAG, "detach", 'd', NULL,
	    "Make the command the sandbox's own, print the id, and leave it running; 'osb logs' shows what it writes."),
	OPT(struct run_options, keep, OPT_FLAG, "keep", 'k', NULL, "Do not delete the sandbox when the command has ended."),
	OPT(struct run_options, env, OPT_LIST, "env", 'e', "KEY=VALUE", "Set a variable of the environment."),
	OPT(struct run_options, workdir, OPT_STRING, "workdir", 'w', "FOLDER",
	    "Run it in FOLDER, which is created if missing."),
	OPT(struct run_options, volumes, OPT_LIST, "volume", 'v', "SOURCE:PATH[:ro]",
	    "Show the volume SOURCE at PATH; a SOURCE with a '/' at its beginning is a folder of the server."),
	OPT(struct run_options, timeout, OPT_STRING, "timeout", 0, "DURATION", "End it after DURATION: '30s', '10m', '2h'."),
	OPT(struct run_options, resource, OPT_LIST, "resource", 0, "KEY=VALUE", "Limit it: 'cpu=2', 'memory=1Gi'."),
	OPT(struct run_options, policy_file, OPT_STRING, "network-policy-file", 0, "FILE",
	    "Network policy, as JSON.", .is_file = true),
	OPT(struct run_options, volumes_file, OPT_STRING, "volumes-file", 0, "FILE", "Volumes, as a JSON array.", .is_file = true),
	OPT(struct run_options, metadata, OPT_LIST, "metadata", 'm', "KEY=VALUE", "Add metadata."),
	OPT(struct run_options, name, OPT_STRING, "name", 0, "NAME", "The same as --metadata name=NAME."),
	OPT(struct run_options, extensions, OPT_LIST, "extension", 0, "KEY=VALUE", "A parameter that the server knows."),
	OPT(struct run_options, pool, OPT_STRING, "pool", 0, "POOL", "Take a sandbox of POOL."),
	OPT(struct run_options, snapshot, OPT_STRING, "snapshot", 0, "SNAPSHOT",
	    "Start from SNAPSHOT instead of IMAGE."),
	OPT(struct run_options, username, OPT_STRING, "image-auth-username", 0, "NAME",
	    "Credentials for the registry of a private image."),
	OPT(struct run_options, password, OPT_STRING, "image-auth-password", 0, "SECRET", "The same."),
	OPT(struct run_options, quiet, OPT_FLAG, "quiet", 'q', NULL,
	    "Show no progress, and not what was kept."),
	OPT(struct run_options, remove, OPT_FLAG, "rm", 0, NULL, "Without effect.", .is_hidden = true),
	{ 0 },
};

int run_volume_parse(struct arena *a, const char *text, size_t n, struct osb_volume *ret, struct err *e)
{
	struct str source, rest, path, how;
	struct osb_volume v = { .create_if_missing = true };
	const char *copy;

	if (!str_cut(str_of(text), ':', &source, &rest) || source.n == 0)
		return err_set(e, ERR_INVALID, "--volume: '%s' is not SOURCE:PATH[:ro]", SHOWN(str_of(text)));
	v.read_only = str_cut(rest, ':', &path, &how) && str_is(how, "ro");
	if (path.n == 0 || path.p[0] != '/' || (how.n > 0 && !v.read_only && !str_is(how, "rw")))
		return err_set(e, ERR_INVALID, "--volume: '%s' is not SOURCE:PATH[:ro]", SHOWN(str_of(text)));
	v.name = arena_printf(a, "v%zu", n + 1);
	v.mount_path = arena_dup(a, path);
	copy = arena_dup(a, source);
	if (!v.name || !v.mount_path || !copy)
		return err_no_memory(e);
	if (source.p[0] == '/')
		v.host_path = copy;
	else
		v.claim_name = copy;
	*ret = v;
	return 0;
}

static int read_volumes(struct cli *cli, const struct opt_list *list, struct osb_create *create, struct err *e)
{
	struct osb_volume *v = arena_array(&cli->arena, MAX(list->n, (size_t)1), sizeof(*v));

	if (!v)
		return err_no_memory(e);
	for (size_t i = 0; i < list->n; i++)
		if (run_volume_parse(&cli->arena, list->items[i], i, &v[i], e) < 0)
			return -1;
	create->volumes = v;
	create->n_volumes = list->n;
	return 0;
}

static int add(struct opt_list *list, struct arena *a, const char *key, const char *value, struct err *e)
{
	if (!value)
		return 0;
	if (list->n >= OPT_LIST_MAX)
		return err_set(e, ERR_LIMIT, "more than %d pairs", OPT_LIST_MAX);
	list->items[list->n] = arena_printf(a, "%s=%s", key, value);
	return list->items[list->n++] ? 0 : err_no_memory(e);
}

/* IMAGE, perhaps "--", and the command. */
static int read_operands(struct cli *cli, struct run_options *o, struct osb_create *create, struct err *e)
{
	o->words = cli->operands;
	o->n_words = cli->n_operands;
	if (o->snapshot) {
		create->snapshot_id = o->snapshot;
	} else if (o->n_words > 0 && !str_is(str_of(o->words[0]), "--")) {
		create->image = *o->words++;
		o->n_words--;
	} else {
		create->image = cli->settings.default_image;
	}
	if (o->n_words > 0 && str_is(str_of(o->words[0]), "--")) {
		o->words++;
		o->n_words--;
	}
	if (!create->image && !create->snapshot_id)
		return err_set(e, ERR_INVALID, "which image? 'osb run host -- true' is a complete command");
	return 0;
}

int run_options_read(struct cli *cli, struct run_options *o, struct osb_create *create, int64_t *ret_timeout_s, struct err *e)
{
	struct arena *a = &cli->arena;

	if (read_operands(cli, o, create, e) < 0 || add(&o->metadata, a, "name", o->name, e) < 0 ||
	    add(&o->extensions, a, "poolRef", o->pool, e) < 0)
		return -1;
	if (value_pairs(&o->env, a, &create->env, e) < 0 || value_pairs(&o->metadata, a, &create->metadata, e) < 0 ||
	    value_pairs(&o->extensions, a, &create->extensions, e) < 0 || value_pairs(&o->resource, a, &create->resource, e) < 0 ||
	    read_volumes(cli, &o->volumes, create, e) < 0)
		return -1;
	if (o->timeout && value_duration(o->timeout, ret_timeout_s, e) < 0)
		return err_wrap(e, "--timeout");
	if (!o->username != !o->password)
		return err_set(e, ERR_INVALID, "--image-auth-username and --image-auth-password go together");
	if (o->volumes.n > 0 && o->volumes_file)
		return err_set(e, ERR_INVALID, "--volume and --volumes-file do not go together");
	create->image_username = o->username;
	create->image_password = o->password;
	if (o->detach)
		create->entrypoint = (struct osb_strings){ (const char *const *)o->words, (size_t)o->n_words };
	return 0;
}

int run_options_load(struct cli *cli, const struct run_options *o, struct osb_create *create, struct err *e)
{
	struct osb_policy *policy;

	if (o->volumes_file && create_read_volumes(cli, o->volumes_file, create, e) < 0)
		return -1;
	if (!o->policy_file)
		return 0;
	policy = arena_alloc(&cli->arena, sizeof(*policy));
	if (!policy)
		return err_no_memory(e);
	create->network_policy = policy;
	return create_read_policy(cli, o->policy_file, policy, e);
}

void run_note(const char *fmt, ...)
{
	AUTO(buf_done) struct buf text = BUF_INIT(NOTE_MAX);
	AUTO(buf_done) struct buf shown = BUF_INIT(8 * NOTE_MAX);
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	render_text(buf_str(&text), &shown);
	(void)fprintf(stderr, "osb: %s\n", buf_z(&shown));
}

void run_fail(struct cli *cli, const struct osb_error *e)
{
	bool has_no_shell = strstr(e->message, "exec: No such file") != NULL;

	output_error_panel(&cli->out, "Sandbox Error", e->message,
			   has_no_shell ? "Commands are run by a shell, and the image has none." : hint_for(e));
}
