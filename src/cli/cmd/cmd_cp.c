// SPDX-License-Identifier: Apache-2.0
/* osb cp: files and folders between here and a sandbox. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/copy/copy_job.h"
#include "cli/human.h"

#include "base/banned.h"

struct cp_options {
	const char *output;
	bool quiet, unsafe_links;
};

const struct opt cli_cp_opts[] = {
	OPT(struct cp_options, quiet, OPT_FLAG, "quiet", 'q', NULL, "Show no progress, and no result."),
	OPT(struct cp_options, unsafe_links, OPT_FLAG, "unsafe-links", 0, NULL,
	    "From a sandbox: also create symlinks that lead out of the folder. Programs that follow them write to paths that the sandbox chose."),
	OPT_OUTPUT(struct cp_options, output_table),
	{ 0 },
};

/* ---- for both directions ---- */

int copy_refuse(struct copy_job *j, const struct err *e)
{
	progress_clear(&j->bar);
	(void)cli_fail_err(j->cli, e);
	return -1;
}

int copy_wait(struct copy_job *j, int begun)
{
	if (cli_wait(j->cli, NULL, begun) == 0 && j->cli->interrupts == 0)
		return 0;
	progress_clear(&j->bar);
	(void)cli_fail_call(j->cli);
	return -1;
}

int copy_ended(struct copy_job *j, const struct file_transfer *t, int begun)
{
	return begun == 0 || more_carried(j->cli, t, begun) == CLI_OK ? 0 : -1;
}

bool copy_is_literal(struct copy_job *j, const char *path)
{
	if (path[0] != '~' && !strchr(path, '$'))
		return true;
	(void)cli_fail(j->cli, "'%s': links and names with a '$' need the whole path in the sandbox, without variables", SHOWN(str_of(path)));
	return false;
}

const char *copy_join(struct copy_job *j, const char *folder, struct str name)
{
	struct str f = str_of(folder);
	const char *path = arena_printf(&j->cli->arena, "%s%s%.*s", folder, str_ends(f, STR("/")) ? "" : "/", STR_ARG(name));

	if (!path)
		(void)cli_fail(j->cli, "out of memory");
	return path;
}

/* IS_TRIAL: whatever is wrong with it, it is not there. */
static int look_once(struct copy_job *j, const char *path, bool is_trial, struct osb_files **ret, enum copy_found *ret_found)
{
	const struct osb_strings paths = { &path, 1 };
	struct str type;

	*ret_found = COPY_FOUND_NONE;
	if (cli_wait(j->cli, NULL, osb_file_info(j->sandbox, &paths, ret, cli_call(j->cli))) < 0) {
		if (cli_error(j->cli)->http_status == 404 || is_trial)
			return 0;
		return cli_fail_call(j->cli), -1;
	}
	if ((*ret)->n != 1)
		return 0;
	type = str_of((*ret)->items[0].type ? (*ret)->items[0].type : "file");
	*ret_found = str_is(type, "file") ? COPY_FOUND_FILE : str_is(type, "directory") ? COPY_FOUND_DIR : COPY_FOUND_OTHER;
	return 0;
}

int copy_look(struct copy_job *j, const char *path, enum copy_found *ret, struct osb_file_info *ret_info)
{
	AUTO(osb_free) struct osb_files *found = NULL;
	AUTO(osb_free) struct osb_files *behind = NULL;
	bool is_link;

	if (look_once(j, path, false, &found, ret) < 0)
		return -1;
	is_link = found && found->n == 1 && found->items[0].type && strcmp(found->items[0].type, "symlink") == 0;
	if (is_link) { /* a folder has a "." behind the link; anything else is taken for a file, which a download says */
		enum copy_found what;
		const char *dot = copy_join(j, path, STR("."));

		if (!dot)
			return -1;
		*ret = look_once(j, dot, true, &behind, &what) == 0 && what == COPY_FOUND_DIR ? COPY_FOUND_DIR : COPY_FOUND_FILE;
	}
	if (found && found->n == 1 && ret_info)
		*ret_info = (struct osb_file_info){ .size = is_link ? -1 : found->items[0].size, .mode = is_link ? 0 : found->items[0].mode };
	return 0;
}

/* ---- the command ---- */

static int show_result(struct copy_job *j, bool is_shown)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct json_out o = json_out(&b);
	struct cli *cli = j->cli;

	progress_clear(&j->bar);
	if (j->n_skipped > 0)
		(void)fprintf(stderr, "osb: %llu were left out that are neither files, folders nor links\n", (unsigned long long)j->n_skipped);
	if (!is_shown)
		return j->n_refused > 0 ? CLI_FAILED : CLI_OK;
	if (output_is_people(&cli->out)) {
		(void)cli_success(cli, "Copied: %llu file%s, %s", (unsigned long long)j->n_files, j->n_files == 1 ? "" : "s", BYTES(j->n_bytes));
		return j->n_refused > 0 ? CLI_FAILED : CLI_OK;
	}
	json_open(&o, '{');
	json_key(&o, "files"), json_uint(&o, j->n_files);
	json_key(&o, "folders"), json_uint(&o, j->n_folders);
	json_key(&o, "links"), json_uint(&o, j->n_links);
	json_key(&o, "bytes"), json_uint(&o, j->n_bytes);
	json_key(&o, "skipped"), json_uint(&o, j->n_skipped);
	json_key(&o, "refused"), json_uint(&o, j->n_refused);
	json_close(&o, '}');
	return cli_show(cli, cli_parse(cli, buf_str(&b)), NULL) == CLI_OK && j->n_refused == 0 ? CLI_OK : CLI_FAILED;
}

/* Whether what is copied goes into the target, or becomes it. */
static int is_target_dir(struct copy_job *j, const struct copy_place *to, bool is_many, bool *ret)
{
	enum copy_found found = COPY_FOUND_NONE;
	struct stat st;

	if (to->side == COPY_LOCAL)
		found = stat(to->path, &st) == 0 ? (S_ISDIR(st.st_mode) ? COPY_FOUND_DIR : COPY_FOUND_FILE) : COPY_FOUND_NONE;
	else if (to->side == COPY_REMOTE && copy_look(j, to->path[0] ? to->path : ".", &found, NULL) < 0)
		return -1;
	*ret = found == COPY_FOUND_DIR || to->wants_dir;
	if (is_many && !*ret)
		return cli_fail(j->cli, "'%s' is no folder, and several things cannot become one", to->path), -1;
	return 0;
}

static int copy_all(struct copy_job *j, struct copy_place *places, size_t n)
{
	const struct copy_place *to = &places[n - 1];
	bool is_dir = false;

	if (is_target_dir(j, to, n > 2, &is_dir) < 0)
		return -1;
	for (size_t i = 0; i + 1 < n; i++)
		if ((to->side == COPY_REMOTE ? copy_up : copy_down)(j, &places[i], to, is_dir) < 0)
			return -1;
	return 0;
}

/* All on one side, and one sandbox on the other: NULL, or what is wrong. */
static const char *find_fault(const struct copy_place *places, size_t n)
{
	const struct copy_place *to = &places[n - 1];

	for (size_t i = 0; i + 1 < n; i++) {
		if (to->side == COPY_REMOTE && places[i].side == COPY_REMOTE)
			return "from one sandbox into another it takes two steps: copy it here first";
		if (to->side != COPY_REMOTE && places[i].side != COPY_REMOTE)
			return "none of them is in a sandbox: SANDBOX:PATH is";
		if (to->side != COPY_REMOTE && !str_eq(places[i].sandbox, places[0].sandbox))
			return "they are in different sandboxes";
	}
	return n > 2 && to->side == COPY_STREAM ? "several things do not fit into '-'" : NULL;
}

int cmd_cp(int argc, char **argv, void *arg)
{
	struct copy_job j = { .bar = { .fd = -1 } };
	struct cp_options o = { 0 };
	struct copy_place *places;
	struct cli *cli = j.cli = arg;
	const char *fault, *id;
	struct err e = { 0 };
	size_t n;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	n = (size_t)cli->n_operands;
	places = arena_array(&cli->arena, n, sizeof(*places));
	if (!places)
		return cli_fail(cli, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (copy_place_parse(cli->operands[i], &places[i], &e) < 0)
			return cli_fail_usage(cli, &e);
	fault = find_fault(places, n);
	if (fault)
		return cli_usage(cli, "%s", fault);
	id = arena_dup(&cli->arena, places[n - 1].side == COPY_REMOTE ? places[n - 1].sandbox : places[0].sandbox);
	j.sandbox = id ? cli_connect(cli, id) : NULL;
	if (!j.sandbox)
		return CLI_FAILED;
	j.is_quiet = o.quiet;
	j.keeps_unsafe_links = o.unsafe_links;
	return copy_all(&j, places, n) < 0 ? CLI_FAILED : show_result(&j, !o.quiet && places[n - 1].side != COPY_STREAM);
}
