// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_install.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/toml.h"
#include "mcp/cut.h"

#include "base/banned.h"

#define TABLE "[mcp_servers." MCP_NAME

static const struct mcp_client clients[] = {
	{ "claude", "Claude Code", ".mcp.json", ".claude.json", MCP_FORM_SERVERS },
	{ "claude-desktop", "Claude Desktop", NULL, ".config/Claude/claude_desktop_config.json", MCP_FORM_SERVERS },
	{ "cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json", MCP_FORM_SERVERS },
	{ "codex", "Codex", ".codex/config.toml", ".codex/config.toml", MCP_FORM_TOML },
	{ "windsurf", "Windsurf", NULL, ".codeium/windsurf/mcp_config.json", MCP_FORM_SERVERS },
	{ "cline", "Cline", NULL, ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", MCP_FORM_SERVERS },
	{ "opencode", "OpenCode", "opencode.json", ".config/opencode/opencode.json", MCP_FORM_OPENCODE },
	{ "vscode", "VS Code", ".vscode/mcp.json", ".config/Code/User/mcp.json", MCP_FORM_VSCODE },
};

const struct mcp_client *mcp_client_at(size_t i)
{
	return i < ARRAY_LEN(clients) ? &clients[i] : NULL;
}

const struct mcp_client *mcp_client_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		if (strcmp(clients[i].name, name) == 0)
			return &clients[i];
	return NULL;
}

/* ---- the entry ---- */

static const char *group_of(enum mcp_form form)
{
	return form == MCP_FORM_VSCODE ? "servers" : form == MCP_FORM_OPENCODE ? "mcp" : "mcpServers";
}

static void write_words(const struct mcp_command *c, bool with_program, struct json_out *o)
{
	json_open(o, '[');
	if (with_program)
		json_cstr(o, c->program);
	for (size_t i = 0; i < c->n_args; i++)
		json_cstr(o, c->args[i]);
	json_close(o, ']');
}

static void write_value(enum mcp_form form, const struct mcp_command *c, struct buf *b)
{
	struct json_out o = json_out(b);

	json_open(&o, '{');
	if (form == MCP_FORM_OPENCODE) {
		json_key(&o, "type"), json_cstr(&o, "local");
		json_key(&o, "command"), write_words(c, true, &o);
		json_key(&o, "enabled"), json_bool(&o, true);
	} else {
		if (form == MCP_FORM_VSCODE)
			json_key(&o, "type"), json_cstr(&o, "stdio");
		json_key(&o, "command"), json_cstr(&o, c->program);
		json_key(&o, "args"), write_words(c, false, &o);
	}
	json_close(&o, '}');
}

/* JSON's strings and arrays of them are TOML's, too. */
static void write_table(const struct mcp_command *c, struct buf *b)
{
	struct json_out program = json_out(b), args = json_out(b);

	(void)buf_addf(b, TABLE "]\ncommand = ");
	json_cstr(&program, c->program);
	(void)buf_addf(b, "\nargs = ");
	write_words(c, false, &args);
	(void)buf_add_char(b, '\n');
}

void mcp_entry_write(const struct mcp_client *c, const struct mcp_command *command, struct buf *out)
{
	struct err e;

	if (c->form == MCP_FORM_TOML)
		write_table(command, out);
	else if (mcp_entry_merge(c, command, STR("{}"), out, &e) < 0)
		out->failed = true;
}

/* ---- JSON as text: it has been parsed before, so that what follows what is known ---- */

static size_t after_blanks(struct str s, size_t at)
{
	while (at < s.n && (s.p[at] == ' ' || s.p[at] == '\t' || s.p[at] == '\n' || s.p[at] == '\r'))
		at++;
	return at;
}

static size_t after_string(struct str s, size_t at)
{
	for (at++; at < s.n && s.p[at] != '"'; at++)
		if (s.p[at] == '\\')
			at++;
	return at + 1;
}

static size_t after_value(struct str s, size_t at)
{
	unsigned depth = 0;

	do {
		char c = s.p[at];

		if (c == '"') {
			at = after_string(s, at);
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth > 0)
			depth--;
		else if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\n' || c == '\r'))
			return at;
		at++;
	} while (at < s.n && (depth > 0 || !strchr(",}] \t\r\n", s.p[at])));
	return at;
}

struct place {
	size_t from, to; /* of the value; both the place of the closing bracket if there is none */
	size_t last;     /* behind the last member; 0: it has none */
	bool is_there;
};

static bool key_is(struct str quoted, const char *key)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	const struct json *v = json_parse(&a, quoted, NULL, NULL, &(struct err){ 0 }); /* it was parsed before */

	return v && v->type == JSON_STRING && str_is(v->s, key);
}

/* The member KEY of the object that begins at AT. */
static struct place find_member(struct str s, size_t at, const char *key)
{
	struct place p = { 0 };

	for (at = after_blanks(s, at + 1); at < s.n && s.p[at] != '}'; at = after_blanks(s, at)) {
		size_t name_end = after_string(s, at), from = after_blanks(s, after_blanks(s, name_end) + 1), to = after_value(s, from);

		if (key_is((struct str){ s.p + at, name_end - at }, key))
			p = (struct place){ .from = from, .to = to, .is_there = true };
		p.last = to;
		at = after_blanks(s, to);
		if (at < s.n && s.p[at] == ',')
			at = after_blanks(s, at + 1);
	}
	if (!p.is_there)
		p.from = p.to = at;
	return p;
}

/* A value with the blanks that its depth asks for. */
static void add_indented(struct buf *out, struct str json, unsigned depth)
{
	for (size_t i = 0; i < json.n; i++) {
		(void)buf_add_char(out, json.p[i]);
		for (unsigned d = 0; json.p[i] == '\n' && d < depth; d++)
			(void)buf_add(out, "  ", 2);
	}
}

static void add_member(struct buf *out, struct str s, const struct place *p, const char *key, struct str value, unsigned depth)
{
	AUTO(buf_done) struct buf line = BUF_INIT(MCP_CONFIG_MAX);

	(void)buf_addf(&line, "\n\"%s\": %.*s", key, STR_ARG(value));
	(void)buf_add(out, s.p, p->last > 0 ? p->last : p->from);
	(void)buf_add_str(out, p->last > 0 ? STR(",") : STR(""));
	add_indented(out, buf_str(&line), depth);
	add_indented(out, STR("\n"), depth - 1);
	(void)buf_add_str(out, str_skip(s, p->from));
}

/* Sets GROUP.MCP_NAME of the object S to VALUE. */
static int set_member(struct str s, const char *group, struct str value, struct buf *out, struct err *e)
{
	AUTO(buf_done) struct buf whole = BUF_INIT(MCP_CONFIG_MAX);
	struct place outer = find_member(s, after_blanks(s, 0), group), inner;

	if (!outer.is_there) {
		(void)buf_addf(&whole, "{\n  \"" MCP_NAME "\": ");
		add_indented(&whole, value, 1);
		(void)buf_addf(&whole, "\n}");
		add_member(out, s, &outer, group, buf_str(&whole), 1);
		return 0;
	}
	if (s.p[outer.from] != '{')
		return err_set(e, ERR_INVALID, "'%s' in it is not an object", group);
	inner = find_member(s, outer.from, MCP_NAME);
	if (!inner.is_there) {
		add_member(out, s, &inner, MCP_NAME, value, 2);
		return 0;
	}
	(void)buf_add(out, s.p, inner.from);
	add_indented(out, value, 2);
	(void)buf_add_str(out, str_skip(s, inner.to));
	return 0;
}

static int merge_json(const struct mcp_client *c, const struct mcp_command *command, struct str text, struct buf *out, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)256 * 1024 * 1024);
	AUTO(buf_done) struct buf compact = BUF_INIT(MCP_CONFIG_MAX), value = BUF_INIT(MCP_CONFIG_MAX);
	const struct json_limits limits = { .depth = 128, .values = 1 << 20 };
	const struct json *v;

	if (str_trim(text).n == 0)
		text = STR("{}\n");
	v = json_parse(&a, text, &limits, NULL, e);
	if (!v || v->type != JSON_OBJECT)
		return err_set(e, ERR_INVALID, "it is no plain JSON object (comments?)");
	write_value(c->form, command, &compact);
	if (!json_indent(&value, buf_str(&compact)) || set_member(text, group_of(c->form), buf_str(&value), out, e) < 0)
		return value.failed ? err_no_memory(e) : -1;
	v = json_parse(&a, buf_str(out), &limits, NULL, e);
	return v && json_get(json_get(v, group_of(c->form)), MCP_NAME) ? 0 : err_set(e, ERR_INTERNAL, "it cannot be added to");
}

/* ---- TOML, by lines ---- */

/* A header of our table, or of one inside it. */
static bool is_ours(struct str line)
{
	struct str s = str_trim(line);

	return str_starts(s, STR(TABLE "]")) || str_starts(s, STR(TABLE "."));
}

static int merge_toml(const struct mcp_command *command, struct str text, struct buf *out, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)256 * 1024 * 1024);
	struct str rest = text, line;
	bool is_inside = false, is_done = false;

	if (!toml_parse(&a, text, NULL, NULL, e))
		return -1;
	while (rest.n > 0) {
		bool has_end = str_cut(rest, '\n', &line, &rest), was_inside = is_inside;

		if (str_starts(str_trim(line), STR("[")))
			is_inside = is_ours(line);
		if (is_inside && !is_done) {
			write_table(command, out);
			is_done = true;
		}
		if (was_inside && !is_inside)
			(void)buf_add_char(out, '\n');
		if (!is_inside)
			(void)buf_addf(out, "%.*s%s", STR_ARG(line), has_end ? "\n" : "");
	}
	if (!is_done && out->n > 0)
		(void)buf_add_str(out, str_ends(buf_str(out), STR("\n")) ? STR("\n") : STR("\n\n"));
	if (!is_done)
		write_table(command, out);
	return toml_parse(&a, buf_str(out), NULL, NULL, e) ? 0 : err_wrap(e, "the entry cannot be added");
}

int mcp_entry_merge(const struct mcp_client *c, const struct mcp_command *command, struct str text, struct buf *out, struct err *e)
{
	int r = c->form == MCP_FORM_TOML ? merge_toml(command, text, out, e) : merge_json(c, command, text, out, e);

	if (r == 0 && out->failed)
		return err_set(e, ERR_LIMIT, "the file is too large");
	return r;
}
