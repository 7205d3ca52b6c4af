// SPDX-License-Identifier: Apache-2.0
/* osb skills: guides for coding assistants, installed where they look for them. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/skills.h"

#include "base/banned.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024)

static const char *const target_names[] = { "claude", "cursor", "codex", "copilot", "windsurf", "cline", "opencode", "all", NULL };

struct skills_options {
	const char *output, *target, *scope;
	bool all_builtins, force;
};

#define TARGET_AND_SCOPE \
	OPT(struct skills_options, target, OPT_STRING, "target", 't', "TARGET", "Assistant. Default: all.", .choices = target_names, \
	    .is_required = true), \
		OPT(struct skills_options, scope, OPT_STRING, "scope", 0, "SCOPE", "For this folder, or for all of yours.", \
		    .choices = skill_scopes, .is_required = true)

static const struct opt install_opts[] = {
	OPT(struct skills_options, all_builtins, OPT_FLAG, "all-builtins", 0, NULL, "All skills that osb has."),
	TARGET_AND_SCOPE,
	OPT(struct skills_options, force, OPT_FLAG, "force", 'f', NULL, "Accepted, and not needed: what is old is always updated."),
	OPT_OUTPUT(struct skills_options, output_table),
	{ 0 },
};
static const struct opt uninstall_opts[] = { TARGET_AND_SCOPE, OPT_OUTPUT(struct skills_options, output_table), { 0 } };

/* ---- the list ---- */

static const char *root_of(const struct cli *cli, enum skill_scope scope)
{
	const char *home = settings_env(cli->env, "HOME");

	return scope == SKILL_PROJECT ? "." : home ? home : "/";
}

static void write_skill(const struct skill *s, struct json_out *o)
{
	AUTO(buf_done) struct buf b = BUF_INIT(256);

	json_open(o, '{');
	json_key(o, "slug"), json_cstr(o, s->slug);
	(void)buf_addf(&b, "opensandbox-%s.md", s->slug);
	json_key(o, "package_file"), json_cstr(o, buf_z(&b));
	json_key(o, "title"), json_cstr(o, s->title);
	json_key(o, "summary"), json_cstr(o, s->summary);
	json_key(o, "trigger_hint"), json_cstr(o, s->trigger_hint);
	buf_clear(&b);
	(void)buf_addf(&b, "opensandbox-%s", s->slug);
	json_key(o, "marker_id"), json_cstr(o, buf_z(&b));
	json_key(o, "area"), json_cstr(o, skill_area(s));
	buf_clear(&b);
	(void)buf_addf(&b, "builtin:skills/%s.md", s->slug);
	json_key(o, "source_path"), json_cstr(o, buf_z(&b));
	json_close(o, '}');
}

/* How an assistant takes skills, in words. */
static const char *layout_of(struct cli *cli, const struct skill_target *t, const char *root)
{
	bool is_here = strcmp(root, ".") == 0;

	return arena_printf(&cli->arena, "%s %s%s%s", skill_target_is_shared(t) ? "aggregate into one instructions file at" : "install one file per skill under",
			    is_here ? "" : root, is_here ? "" : "/", t->shown);
}

static void write_target(struct cli *cli, const struct skill_target *t, enum skill_scope scope, struct json_out *o)
{
	const char *root = root_of(cli, scope);
	const struct skill *s;

	json_open(o, '{');
	json_key(o, "target"), json_cstr(o, t->name);
	json_key(o, "scope"), json_cstr(o, skill_scopes[scope]);
	json_key(o, "label"), json_cstr(o, t->label);
	json_key(o, "layout"), json_cstr(o, layout_of(cli, t, root));
	json_key(o, "skills"), json_open(o, '[');
	for (size_t i = 0; (s = skill_at(i)); i++) {
		const char *path = skill_path(&cli->arena, root, t, s->slug);

		json_open(o, '{');
		json_key(o, "skill"), json_cstr(o, s->slug);
		json_key(o, "status"), json_cstr(o, path && skill_is_installed(path, t, s) ? "installed" : "not installed");
		json_key(o, "path"), json_cstr(o, path);
		json_close(o, '}');
	}
	json_close(o, ']');
	json_close(o, '}');
}

static void write_list(struct cli *cli, struct json_out *o)
{
	const struct skill_target *t;
	const struct skill *s;

	json_open(o, '{');
	json_key(o, "skills"), json_open(o, '[');
	for (size_t i = 0; (s = skill_at(i)); i++)
		write_skill(s, o);
	json_close(o, ']');
	json_key(o, "targets"), json_open(o, '[');
	for (size_t i = 0; (t = skill_target_at(i)); i++)
		for (int scope = 0; scope < SKILL_SCOPES; scope++)
			write_target(cli, t, (enum skill_scope)scope, o);
	json_close(o, ']');
	json_close(o, '}');
}

static void show_list(struct cli *cli, struct buf *b)
{
	const struct skill_target *t;
	const struct skill *s;

	(void)buf_addf(b, "Bundled skills:\n\n");
	for (size_t i = 0; (s = skill_at(i)); i++)
		(void)buf_addf(b, "  %-25s [%s] %s\n  %-25s %s\n", s->slug, skill_area(s), s->summary, "", s->trigger_hint);
	(void)buf_addf(b, "\nSupported targets:\n\n");
	for (size_t i = 0; (t = skill_target_at(i)); i++)
		for (int scope = 0; scope < SKILL_SCOPES; scope++) {
			const char *root = root_of(cli, (enum skill_scope)scope), *layout = layout_of(cli, t, root);

			(void)buf_addf(b, "  %-11s %-9s %-16s %s\n", t->name, skill_scopes[scope], t->label, layout ? layout : "");
			for (size_t k = 0; (s = skill_at(k)); k++) {
				const char *path = skill_path(&cli->arena, root, t, s->slug);

				if (path && skill_is_installed(path, t, s))
					(void)buf_addf(b, "  %-39s installed: %s\n", "", path);
			}
		}
}

static int skills_list(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct only_output options = { 0 };
	struct json_out o = json_out(&b);
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &options))
		return cli->status;
	if (output_is_people(&cli->out)) {
		show_list(cli, &b);
		return output_bytes(&cli->out, buf_str(&b)) == 0 ? CLI_OK : CLI_FAILED;
	}
	write_list(cli, &o);
	return cli_show(cli, cli_parse(cli, buf_str(&b)), NULL);
}

/* ---- one of them ---- */

static const struct skill *named(struct cli *cli, const char *slug)
{
	AUTO(buf_done) struct buf all = BUF_INIT(1024);
	const struct skill *s = skill_find(slug);

	if (s)
		return s;
	for (size_t i = 0; (s = skill_at(i)); i++)
		(void)buf_addf(&all, "%s%s", i > 0 ? ", " : "", s->slug);
	cli->status = cli_usage(cli, "there is no skill '%s'; there are %s", slug, buf_z(&all));
	return NULL;
}

static void write_section(struct json_out *o, const char *key, const struct skill *s, const char *heading)
{
	struct str text = skill_section(s, heading);

	json_key(o, key);
	if (text.n > 0)
		json_str(o, text);
	else
		json_null(o);
}

static void write_one(const struct skill *s, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "skill"), json_cstr(o, s->slug);
	json_key(o, "title"), json_cstr(o, s->title);
	json_key(o, "area"), json_cstr(o, skill_area(s));
	json_key(o, "summary"), json_cstr(o, s->summary);
	json_key(o, "trigger_hint"), json_cstr(o, s->trigger_hint);
	write_section(o, "when_to_use", s, "When to use");
	write_section(o, "quick_start", s, "Quick start");
	write_section(o, "json_shapes", s, "JSON shapes");
	json_key(o, "content"), json_cstr(o, s->content);
	json_close(o, '}');
}

static int skills_show(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);
	struct only_output options = { 0 };
	struct json_out o = json_out(&b);
	struct cli *cli = arg;
	const struct skill *s;

	if (!cli_begin(cli, argc, argv, &options))
		return cli->status;
	s = named(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	if (output_is_people(&cli->out))
		return output_bytes(&cli->out, str_of(s->content)) == 0 ? CLI_OK : CLI_FAILED;
	write_one(s, &o);
	return cli_show(cli, cli_parse(cli, buf_str(&b)), NULL);
}

/* ---- installing ---- */

struct job {
	const struct skills_options *options;
	bool is_removal;
	struct buf json, text;
	struct json_out o;
};

static int apply(struct cli *cli, struct job *j, const struct skill *s, const struct skill_target *t, struct err *e)
{
	enum skill_scope scope = strcmp(j->options->scope, "global") == 0 ? SKILL_GLOBAL : SKILL_PROJECT;
	const char *path = skill_path(&cli->arena, root_of(cli, scope), t, s->slug);
	enum skill_status status = SKILL_NOT_INSTALLED;

	if (!path)
		return err_no_memory(e);
	if (scope == SKILL_PROJECT && config_file_stays_here(path, e) < 0)
		return -1;
	if ((j->is_removal ? skill_uninstall(path, t, s, &status, e) : skill_install(path, t, s, &status, e)) < 0)
		return -1;
	json_open(&j->o, '{');
	json_key(&j->o, "skill"), json_cstr(&j->o, s->slug);
	json_key(&j->o, "target"), json_cstr(&j->o, t->name);
	json_key(&j->o, "target_label"), json_cstr(&j->o, t->label);
	json_key(&j->o, "scope"), json_cstr(&j->o, skill_scopes[scope]);
	json_key(&j->o, "path"), json_cstr(&j->o, path);
	json_key(&j->o, "status"), json_cstr(&j->o, skill_status_name(status));
	json_key(&j->o, "requires_restart"), json_bool(&j->o, true);
	json_close(&j->o, '}');
	(void)buf_addf(&j->text, "  %-15s %s [%s]: %s -> %s\n", skill_status_name(status), t->label, skill_scopes[scope], s->slug, path);
	return 0;
}

/* One skill, or all of them (S NULL), for one assistant or all. */
static int apply_all(struct cli *cli, struct job *j, const struct skill *only, struct err *e)
{
	const struct skill_target *t;
	const struct skill *s;

	for (size_t i = 0; (s = skill_at(i)); i++) {
		if (only && s != only)
			continue;
		for (size_t k = 0; (t = skill_target_at(k)); k++) {
			bool is_wanted = strcmp(j->options->target, "all") == 0 || strcmp(j->options->target, t->name) == 0;

			if (is_wanted && apply(cli, j, s, t, e) < 0)
				return -1;
		}
	}
	return 0;
}

static int run_job(struct cli *cli, struct job *j, const struct skill *only)
{
	struct err e = { 0 };

	j->json = j->text = BUF_INIT(TEXT_MAX);
	j->o = json_out(&j->json);
	json_open(&j->o, '{');
	json_key(&j->o, "operations"), json_open(&j->o, '[');
	if (apply_all(cli, j, only, &e) < 0)
		return cli_fail_err(cli, &e);
	json_close(&j->o, ']');
	json_key(&j->o, "requires_restart"), json_bool(&j->o, true);
	json_close(&j->o, '}');
	if (!output_is_people(&cli->out))
		return cli_show(cli, cli_parse(cli, buf_str(&j->json)), NULL);
	if (!j->is_removal)
		(void)buf_addf(&j->text, "\nDone! Restart your assistant to pick up the skills.\n");
	return output_bytes(&cli->out, buf_str(&j->text)) == 0 ? CLI_OK : CLI_FAILED;
}

static int finish(struct job *j, int status)
{
	buf_done(&j->json);
	buf_done(&j->text);
	return status;
}

static int skills_install(int argc, char **argv, void *arg)
{
	struct skills_options options = { 0 };
	struct job j = { .options = &options };
	const struct skill *only = NULL;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &options))
		return cli->status;
	if (options.all_builtins && cli->n_operands > 0)
		return cli_usage(cli, "either a skill or --all-builtins");
	if (!options.all_builtins && cli->n_operands == 0)
		return cli_usage(cli, "A skill name is required unless --all-builtins is used.");
	if (cli->n_operands > 0) {
		only = named(cli, cli->operands[0]);
		if (!only)
			return cli->status;
	}
	return finish(&j, run_job(cli, &j, only));
}

static int skills_uninstall(int argc, char **argv, void *arg)
{
	struct skills_options options = { 0 };
	struct job j = { .options = &options, .is_removal = true };
	struct cli *cli = arg;
	const struct skill *only;

	if (!cli_begin(cli, argc, argv, &options))
		return cli->status;
	only = named(cli, cli->n_operands > 0 ? cli->operands[0] : SKILL_DEFAULT);
	return only ? finish(&j, run_job(cli, &j, only)) : cli->status;
}

const struct opt_command skills_commands[] = {
	{ .name = "list", .summary = "list skills, and where they can be installed", .opts = cli_table_opts, .run = skills_list },
	{ .name = "show", .summary = "show a skill", .operands = "SKILL", .opts = cli_table_opts, .min_operands = 1, .max_operands = 1,
	  .run = skills_show },
	{ .name = "install", .summary = "install a skill for a coding assistant", .operands = "[SKILL]", .opts = install_opts, .max_operands = 1,
	  .run = skills_install,
	  .about = "Writes a skill to where the assistant looks for it: below this folder, or below your home. In a file that is shared with "
		   "other instructions the skill is a marked block, and everything else stays." },
	{ .name = "uninstall", .summary = "remove a skill again", .operands = "[SKILL]", .opts = uninstall_opts, .max_operands = 1,
	  .run = skills_uninstall },
	{ 0 },
};
