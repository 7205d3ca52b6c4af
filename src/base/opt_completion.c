// SPDX-License-Identifier: Apache-2.0
/* Shell completion from the option tables. Each script first walks over the words before the cursor to find out
 * which command they name ("at"), then offers what that command's table holds. */
#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"

#include "base/banned.h"

#define PATH_MAX_BYTES 512
#define SENTENCE_MAX 72

struct script {
	struct buf *out;
	struct buf path; /* of the command that is being written: "osb sandbox" */
	const char *program;
	char function[64];
};

typedef void (*command_fn)(struct script *s, const struct opt_command *c);

static void path_shorten(struct script *s, size_t n)
{
	if (s->path.p) {
		s->path.n = n;
		s->path.p[n] = '\0';
	}
}

/* Calls FN for C and the commands below it. */
static void each_command(struct script *s, const struct opt_command *c, int depth, command_fn fn)
{
	size_t before = s->path.n;

	buf_addf(&s->path, "%s%s", depth > 0 ? " " : "", c->name);
	fn(s, c);
	for (const struct opt_command *sub = c->commands; sub && sub->name && depth < OPT_DEPTH_MAX; sub++)
		each_command(s, sub, depth + 1, fn);
	if (s->path.failed)
		s->out->failed = true;
	path_shorten(s, before);
}

static bool takes_value(const struct opt *o)
{
	return o->kind != OPT_FLAG && o->kind != OPT_COUNT && o->kind != OPT_TOGGLE;
}

static struct str first_sentence(const char *text)
{
	struct str s = str_of(text);
	const char *end = s.n > 0 ? memmem(s.p, s.n, ". ", 2) : NULL;

	if (end)
		s = str_first(s, (size_t)(end - s.p));
	else if (str_ends(s, STR(".")))
		s.n--;
	return s;
}

/* Single-quoted for bash and zsh, where a quote ends the string, stands alone, and begins it again. */
static void quoted(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\'') /* NOLINT(clang-analyzer-core.NullDereference): what has a length has bytes */
			buf_addf(b, "'\\''");
		else
			buf_add_char(b, s.p[i]);
	}
}

/* The case pattern for option O of the current command: 'osb --config' | 'osb -c' */
static void option_pattern(struct script *s, const struct opt *o)
{
	buf_addf(s->out, "\t\t'%s --%s'", buf_z(&s->path), o->name);
	if (o->short_name)
		buf_addf(s->out, " | '%s -%c'", buf_z(&s->path), o->short_name);
	buf_addf(s->out, ") ");
}

/* ---- bash and zsh ---------------------------------------------------------------------------------------- */

static void walk_cases(struct script *s, const struct opt_command *c)
{
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++)
		buf_addf(s->out, "\t\t'%s %s') at='%s %s' ;;\n", buf_z(&s->path), sub->name, buf_z(&s->path),
			 sub->name);
	for (const struct opt *o = c->opts; o && o->name; o++)
		if (takes_value(o)) {
			option_pattern(s, o);
			buf_addf(s->out, "i=$((i + 1)) ;;\n");
		}
}

static void choice_words(struct buf *b, const struct opt *o)
{
	for (const char *const *c = o->choices; *c; c++)
		buf_addf(b, "%s%s", c == o->choices ? "" : " ", *c);
}

static void bash_values(struct script *s, const struct opt_command *c)
{
	for (const struct opt *o = c->opts; o && o->name; o++) {
		if (!takes_value(o) || o->is_hidden)
			continue;
		option_pattern(s, o);
		if (o->choices) {
			buf_addf(s->out, "words='");
			choice_words(s->out, o);
			buf_addf(s->out, "' ;;\n");
		} else {
			buf_addf(s->out, "%sreturn ;;\n", o->is_file ? "" : "compopt +o default +o bashdefault; ");
		}
	}
}

static void bash_words(struct script *s, const struct opt_command *c)
{
	/* A command without commands of its own takes operands: files (or what a command lists), unless a dash says otherwise. */
	buf_addf(s->out, "\t\t'%s') ", buf_z(&s->path));
	if (c->completes)
		buf_addf(s->out, "if [[ $cur != -* ]]; then words=$(%s 2>/dev/null); else words='", c->completes);
	else
		buf_addf(s->out, "%swords='", c->commands ? "" : "[[ $cur == -* ]] && ");
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++)
		buf_addf(s->out, "%s ", sub->name);
	for (const struct opt *o = c->opts; o && o->name; o++)
		if (!o->is_hidden) {
			buf_addf(s->out, "--%s ", o->name);
			if (o->kind == OPT_TOGGLE)
				buf_addf(s->out, "--no-%s ", o->name);
		}
	buf_addf(s->out, "--help%s'%s ;;\n", c->version ? " --version" : "", c->completes ? "; fi" : "");
}

static void bash_script(struct script *s, const struct opt_command *program)
{
	buf_addf(s->out, "# bash completion for %s\n%s()\n{\n", s->program, s->function);
	buf_addf(s->out, "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at='%s'", s->program);
	buf_addf(s->out, " words='' i\n\n\tCOMPREPLY=()\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n");
	buf_addf(s->out, "\t\tcase \"$at ${COMP_WORDS[i]}\" in\n");
	each_command(s, program, 0, walk_cases);
	buf_addf(s->out, "\t\tesac\n\tdone\n\tcase \"$at $prev\" in\n");
	each_command(s, program, 0, bash_values);
	buf_addf(s->out, "\t\t*)\n\t\tcase \"$at\" in\n");
	each_command(s, program, 0, bash_words);
	buf_addf(s->out, "\t\tesac ;;\n\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n");
	buf_addf(s->out, "complete -o bashdefault -o default -F %s %s\n", s->function, s->program);
}

static void zsh_values(struct script *s, const struct opt_command *c)
{
	for (const struct opt *o = c->opts; o && o->name; o++) {
		if (!takes_value(o) || o->is_hidden)
			continue;
		option_pattern(s, o);
		if (o->choices) {
			buf_addf(s->out, "compadd -- ");
			choice_words(s->out, o);
		} else if (o->is_file) {
			buf_addf(s->out, "_files");
		} else {
			buf_addf(s->out, "_message '");
			quoted(s->out, str_of(o->arg ? o->arg : "VALUE"));
			buf_addf(s->out, "'");
		}
		buf_addf(s->out, "; return ;;\n");
	}
}

static void zsh_item(struct script *s, const char *dashes, const char *name, const char *text)
{
	buf_addf(s->out, " '%s%s:", dashes, name);
	quoted(s->out, str_first(first_sentence(text), SENTENCE_MAX));
	buf_addf(s->out, "'");
}

/* The names "commands" and "options" would collide with parameters of zsh itself. */
static void zsh_words(struct script *s, const struct opt_command *c)
{
	buf_addf(s->out, "\t\t'%s')\n\t\tsubs=(", buf_z(&s->path));
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++)
		zsh_item(s, "", sub->name, sub->summary);
	buf_addf(s->out, " )\n\t\tflags=(");
	for (const struct opt *o = c->opts; o && o->name; o++)
		if (!o->is_hidden) {
			zsh_item(s, "--", o->name, o->help);
			if (o->kind == OPT_TOGGLE)
				zsh_item(s, "--no-", o->name, o->help);
		}
	zsh_item(s, "--", "help", "Show this help");
	if (c->version)
		zsh_item(s, "--", "version", "Show the version");
	buf_addf(s->out, " )");
	if (c->completes)
		buf_addf(s->out, "\n\t\t[[ ${words[CURRENT]} == -* ]] || compadd -- ${(f)\"$(%s 2>/dev/null)\"}", c->completes);
	buf_addf(s->out, " ;;\n");
}

static void zsh_script(struct script *s, const struct opt_command *program)
{
	buf_addf(s->out, "#compdef %s\n%s()\n{\n", s->program, s->function);
	buf_addf(s->out, "\tlocal prev=${words[CURRENT-1]} at='%s' i\n\tlocal -a subs flags\n\n", s->program);
	buf_addf(s->out, "\tfor ((i = 2; i < CURRENT; i++)); do\n\t\tcase \"$at ${words[i]}\" in\n");
	each_command(s, program, 0, walk_cases);
	buf_addf(s->out, "\t\tesac\n\tdone\n\tcase \"$at $prev\" in\n");
	each_command(s, program, 0, zsh_values);
	buf_addf(s->out, "\tesac\n\tcase \"$at\" in\n");
	each_command(s, program, 0, zsh_words);
	buf_addf(s->out, "\tesac\n\tif [[ ${words[CURRENT]} == -* ]]; then\n\t\t_describe -o option flags\n");
	buf_addf(s->out, "\telif (( ${#subs} )); then\n\t\t_describe command subs\n\telse\n\t\t_files\n\tfi\n}\n");
	/* The file works both in $fpath, where it is the body of the function, and when it is sourced. */
	buf_addf(s->out, "if [[ ${funcstack[1]} == %s ]]; then\n\t%s \"$@\"\nelse\n\tcompdef %s %s\nfi\n", s->function,
		 s->function, s->function, s->program);
}

/* ---- fish ------------------------------------------------------------------------------------------------ */

static void fish_quoted(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\'' || s.p[i] == '\\')
			buf_add_char(b, '\\');
		buf_add_char(b, s.p[i]);
	}
}

static void fish_walk(struct script *s, const struct opt_command *c)
{
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++)
		buf_addf(s->out, "\t\t\tcase '%s %s'\n\t\t\t\tset at '%s %s'\n", buf_z(&s->path), sub->name,
			 buf_z(&s->path), sub->name);
	for (const struct opt *o = c->opts; o && o->name; o++)
		if (takes_value(o)) {
			buf_addf(s->out, "\t\t\tcase '%s --%s'", buf_z(&s->path), o->name);
			if (o->short_name)
				buf_addf(s->out, " '%s -%c'", buf_z(&s->path), o->short_name);
			buf_addf(s->out, "\n\t\t\t\tset skip 1\n");
		}
}

/* One "complete" line of the current command; the caller adds what is completed. */
static void fish_line(struct script *s, const char *text, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void fish_line(struct script *s, const char *text, const char *fmt, ...)
{
	va_list ap;

	buf_addf(s->out, "complete -c %s -n '_%s_at \"%s\"'", s->program, s->function, buf_z(&s->path));
	va_start(ap, fmt);
	buf_addv(s->out, fmt, ap);
	va_end(ap);
	buf_addf(s->out, " -d '");
	fish_quoted(s->out, str_first(first_sentence(text), SENTENCE_MAX));
	buf_addf(s->out, "'\n");
}

static void fish_option(struct script *s, const struct opt *o)
{
	AUTO(buf_done) struct buf how = BUF_INIT(4096);

	if (o->short_name)
		buf_addf(&how, " -s %c", o->short_name);
	if (takes_value(o))
		buf_addf(&how, o->is_file ? " -r -F" : " -x"); /* -x: a value is required and is no file */
	if (o->choices) {
		buf_addf(&how, " -a '");
		choice_words(&how, o);
		buf_addf(&how, "'");
	}
	if (how.failed)
		s->out->failed = true;
	fish_line(s, o->help, " -l %s%s", o->name, buf_z(&how));
	if (o->kind == OPT_TOGGLE)
		fish_line(s, o->help, " -l no-%s", o->name);
}

static void fish_words(struct script *s, const struct opt_command *c)
{
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++)
		fish_line(s, sub->summary, " -f -a %s", sub->name);
	for (const struct opt *o = c->opts; o && o->name; o++)
		if (!o->is_hidden)
			fish_option(s, o);
	if (c->completes)
		fish_line(s, "", " -a '(%s 2>/dev/null)'", c->completes);
	fish_line(s, "Show this help", " -l help");
	if (c->version)
		fish_line(s, "Show the version", " -l version");
}

static void fish_script(struct script *s, const struct opt_command *program)
{
	buf_addf(s->out, "# fish completion for %s\nfunction _%s_at\n\tset -l at '%s'\n\tset -l skip 0\n", s->program,
		 s->function, s->program);
	buf_addf(s->out, "\tfor word in (commandline -opc)[2..-1]\n\t\tif test $skip = 1\n");
	buf_addf(s->out, "\t\t\tset skip 0\n\t\t\tcontinue\n\t\tend\n\t\tswitch \"$at $word\"\n");
	each_command(s, program, 0, fish_walk);
	buf_addf(s->out, "\t\tend\n\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\n");
	each_command(s, program, 0, fish_words);
}

/* ---- all ------------------------------------------------------------------------------------------------- */

int opt_completion(const char *shell, const struct opt_command *program, struct buf *out, struct err *e)
{
	static const struct {
		const char *name;
		void (*write)(struct script *s, const struct opt_command *program);
	} shells[] = { { "bash", bash_script }, { "zsh", zsh_script }, { "fish", fish_script } };
	struct script s = { .out = out, .path = BUF_INIT(PATH_MAX_BYTES), .program = program->name, .function = "_" };

	for (size_t i = 0; program->name[i] && i + 2 < sizeof(s.function); i++)
		s.function[i + 1] = program->name[i] == '-' || program->name[i] == '.' ? '_' : program->name[i];
	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (str_is(str_of(shell), shells[i].name)) {
			shells[i].write(&s, program);
			buf_done(&s.path);
			if (out->failed)
				return err_set(e, ERR_LIMIT, "completion script for '%s' too long", program->name);
			return 0;
		}
	return err_set(e, ERR_INVALID, "no completion for shell '%s'; known are bash, zsh and fish", shell);
}
