// SPDX-License-Identifier: Apache-2.0
#include "cli/skills.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/config_file.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- what there is ---- */

static const struct {
	const char *slug, *area;
} order[] = {
	{ SKILL_DEFAULT, "Troubleshooting" }, { "sandbox-lifecycle", "Lifecycle" }, { "command-execution", "Execution" },
	{ "file-operations", "Files" },       { "network-egress", "Network" },      { "credential-vault", "General" },
};

const struct skill *skill_find(const char *slug)
{
	for (const struct skill *s = skills; s->slug; s++)
		if (strcmp(s->slug, slug) == 0)
			return s;
	return NULL;
}

const struct skill *skill_at(size_t i)
{
	return i < ARRAY_LEN(order) ? skill_find(order[i].slug) : NULL;
}

const char *skill_area(const struct skill *s)
{
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (strcmp(order[i].slug, s->slug) == 0)
			return order[i].area;
	return "General";
}

static bool is_heading(struct str line, const char *heading)
{
	return str_starts(line, STR("## ")) && (!heading || str_is(str_trim(str_skip(line, 3)), heading));
}

struct str skill_section(const struct skill *s, const char *heading)
{
	struct str rest = str_of(s->body), line, found = { "", 0 };
	bool is_inside = false;

	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (is_inside && is_heading(line, NULL))
			break;
		if (is_inside)
			found.n = (size_t)(line.p + line.n - found.p);
		if (is_heading(line, heading)) {
			is_inside = true;
			found = (struct str){ rest.p, 0 };
		}
	}
	return str_trim(found);
}

const char *const skill_scopes[] = { "project", "global", NULL };

static const struct skill_target targets[] = {
	{ "claude", "Claude Code", ".claude/skills/%s.md", ".claude/skills/<skill-name>.md", true, false },
	{ "cursor", "Cursor", ".cursor/rules/%s.mdc", ".cursor/rules/<skill-name>.mdc", false, false },
	{ "codex", "Codex", ".codex/skills/%s/SKILL.md", ".codex/skills/<skill-name>/SKILL.md", true, true },
	{ "copilot", "GitHub Copilot", ".github/copilot-instructions.md", ".github/copilot-instructions.md", false, false },
	{ "windsurf", "Windsurf", ".windsurfrules", ".windsurfrules", false, false },
	{ "cline", "Cline", ".clinerules", ".clinerules", false, false },
	{ "opencode", "OpenCode", ".agents/skills/%s/SKILL.md", ".agents/skills/<skill-name>/SKILL.md", true, true },
};

const struct skill_target *skill_target_at(size_t i)
{
	return i < ARRAY_LEN(targets) ? &targets[i] : NULL;
}

bool skill_target_is_shared(const struct skill_target *t)
{
	return !strstr(t->path, "%s");
}

const char *skill_path(struct arena *a, const char *root, const struct skill_target *t, const char *slug)
{
	const char *at = strstr(t->path, "%s");
	const char *prefix = strcmp(root, ".") == 0 ? "" : root, *slash = prefix[0] ? "/" : "";

	if (!at)
		return arena_printf(a, "%s%s%s", prefix, slash, t->path);
	return arena_printf(a, "%s%s%.*s%s%s", prefix, slash, (int)(at - t->path), t->path, slug, at + 2);
}

const char *skill_status_name(enum skill_status status)
{
	static const char *const names[] = { "installed", "updated", "already_present", "removed", "not_installed" };

	return names[status];
}

/* ---- texts ---- */

/* What its own file has, or what stands between the marks. */
static void write_text(const struct skill_target *t, const struct skill *s, struct buf *out)
{
	if (t->keeps_front_matter)
		(void)buf_add_str(out, str_of(s->content));
	else
		(void)buf_addf(out, "# %s\n\n%s\n\n%s", s->title, s->summary, s->body);
}

static void write_block(const struct skill_target *t, const struct skill *s, struct buf *out)
{
	(void)buf_addf(out, "<!-- BEGIN opensandbox-%s -->\n", s->slug);
	write_text(t, s, out);
	(void)buf_addf(out, "<!-- END opensandbox-%s -->\n", s->slug);
}

/* Where the block stands in TEXT, its line ends included. An end without a beginning, or the other way round, is none. */
static bool find_block(struct str text, const struct skill *s, struct str *ret_before, struct str *ret_after)
{
	AUTO(buf_done) struct buf begin = BUF_INIT(256), end = BUF_INIT(256);
	const char *from, *to;

	if (text.n == 0)
		return false;
	(void)buf_addf(&begin, "<!-- BEGIN opensandbox-%s -->", s->slug);
	(void)buf_addf(&end, "<!-- END opensandbox-%s -->", s->slug);
	from = memmem(text.p, text.n, begin.p, begin.n);
	to = from ? memmem(from, (size_t)(text.p + text.n - from), end.p, end.n) : NULL;
	if (!to)
		return false;
	*ret_before = (struct str){ text.p, (size_t)(from - text.p) };
	*ret_after = str_skip(text, (size_t)(to - text.p) + end.n);
	if (str_starts(*ret_after, STR("\n")))
		*ret_after = str_skip(*ret_after, 1);
	return true;
}

/* TEXT with the block in it. */
static void put_block(struct str text, const struct skill_target *t, const struct skill *s, struct buf *out)
{
	struct str before = text, after = { "", 0 };
	bool is_there = find_block(text, s, &before, &after);

	(void)buf_add_str(out, before);
	if (!is_there && out->n > 0 && !str_ends(buf_str(out), STR("\n")))
		(void)buf_add_char(out, '\n');
	if (!is_there && out->n > 0)
		(void)buf_add_char(out, '\n');
	write_block(t, s, out);
	(void)buf_add_str(out, after);
}

static void drop_block(struct str before, struct str after, struct buf *out)
{
	while (after.n > 0 && after.p[0] == '\n')
		after = str_skip(after, 1);
	if (after.n == 0)
		while (before.n > 1 && str_ends(before, STR("\n\n")))
			before.n--;
	(void)buf_add_str(out, before);
	(void)buf_add_str(out, after);
}

/* ---- files ---- */

bool skill_is_installed(const char *path, const struct skill_target *t, const struct skill *s)
{
	AUTO(buf_done) struct buf text = BUF_INIT(SKILL_FILE_MAX);
	struct str before, after;

	if (!skill_target_is_shared(t))
		return access(path, F_OK) == 0;
	return config_file_read(path, &text, &(struct err){ 0 }) == 0 && find_block(buf_str(&text), s, &before, &after);
}

int skill_install(const char *path, const struct skill_target *t, const struct skill *s, enum skill_status *ret, struct err *e)
{
	AUTO(buf_done) struct buf old = BUF_INIT(SKILL_FILE_MAX), new = BUF_INIT(2 * SKILL_FILE_MAX);
	bool was_there = skill_is_installed(path, t, s);

	if (config_file_read(path, &old, e) < 0)
		return -1;
	if (skill_target_is_shared(t))
		put_block(buf_str(&old), t, s, &new);
	else
		write_text(t, s, &new);
	if (new.failed)
		return err_no_memory(e);
	*ret = !was_there ? SKILL_INSTALLED : str_eq(buf_str(&old), buf_str(&new)) ? SKILL_ALREADY_PRESENT : SKILL_UPDATED;
	return *ret == SKILL_ALREADY_PRESENT ? 0 : config_file_write(path, buf_str(&new), e);
}

/* The file, and its folder if that is the skill's own or has nothing else in it. */
static int remove_file(const char *path, struct err *e)
{
	AUTO(buf_done) struct buf folder = BUF_INIT(4096);
	const char *slash = strrchr(path, '/');

	if (unlink(path) < 0)
		return err_sys(e, errno, "remove '%s'", path);
	if (slash && buf_add(&folder, path, (size_t)(slash - path)))
		(void)rmdir(folder.p); /* one that is not empty stays */
	return 0;
}

static int remove_block(const char *path, const struct skill *s, struct err *e)
{
	AUTO(buf_done) struct buf old = BUF_INIT(SKILL_FILE_MAX), new = BUF_INIT(SKILL_FILE_MAX);
	struct str before, after;

	if (config_file_read(path, &old, e) < 0)
		return -1;
	if (!find_block(buf_str(&old), s, &before, &after))
		return err_set(e, ERR_CONFLICT, "'%s' has changed meanwhile", path);
	drop_block(before, after, &new);
	if (new.failed)
		return err_no_memory(e);
	return str_trim(buf_str(&new)).n == 0 ? remove_file(path, e) : config_file_write(path, buf_str(&new), e);
}

int skill_uninstall(const char *path, const struct skill_target *t, const struct skill *s, enum skill_status *ret, struct err *e)
{
	if (!skill_is_installed(path, t, s)) {
		*ret = SKILL_NOT_INSTALLED;
		return 0;
	}
	*ret = SKILL_REMOVED;
	return skill_target_is_shared(t) ? remove_block(path, s, e) : remove_file(path, e);
}
