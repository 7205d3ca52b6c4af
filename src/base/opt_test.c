// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"

#include "base/banned.h"

struct options {
	bool force, quiet, color;
	int verbose;
	const char *config, *format;
	int64_t port, delta;
	struct opt_list env;
};

static const char *const formats[] = { "text", "json", NULL };

static const struct opt options[] = {
	OPT(struct options, force, OPT_FLAG, "force", 'f', NULL, "Do it anyway."),
	OPT(struct options, quiet, OPT_FLAG, "quiet", 'q', NULL, "Say less."),
	OPT(struct options, color, OPT_FLAG, "color", 0, NULL, "Use colours. It's on by default."),
	OPT(struct options, verbose, OPT_COUNT, "verbose", 'v', NULL, "Say more; twice for even more."),
	OPT(struct options, config, OPT_STRING, "config", 'c', "FILE", "Read the settings from FILE.", .is_file = true),
	OPT(struct options, format, OPT_STRING, "format", 0, "FORMAT", "Write FORMAT.", .choices = formats),
	OPT(struct options, port, OPT_INT, "port", 'p', "PORT", "Listen on PORT.", .min = 1, .max = 65535),
	OPT(struct options, delta, OPT_INT, "delta", 'd', NULL, "Any number."),
	OPT(struct options, env, OPT_LIST, "env", 'e', "KEY=VALUE", "Set an environment variable of the command."),
	OPT(struct options, quiet, OPT_FLAG, "secret-knob", 'x', NULL, "Not shown.", .is_hidden = true),
	{ 0 }
};

static const struct opt_command tool = {
	.name = "tool",
	.summary = "try things",
	.opts = options,
	.operands = "[FILE...]",
	.version = "1.0",
	.max_operands = OPT_OPERANDS_ANY,
};

#define WORDS_MAX 16

/* The words of a command line, split at blanks; the first is the program's name. */
struct words {
	char text[512];
	char *argv[WORDS_MAX + 1];
	int argc;
};

static void words_init(struct words *w, const char *text)
{
	struct str in, word;

	*w = (struct words){ 0 };
	(void)snprintf(w->text, sizeof(w->text), "tool %s", text);
	in = str_of(w->text);
	while (w->argc < WORDS_MAX && str_take_word(&in, &word, SIZE_MAX)) {
		w->argv[w->argc] = w->text + (word.p - w->text);
		w->argv[w->argc++][word.n] = '\0';
		in = str_skip(in, 1);
	}
}

static int parse(const struct opt_command *c, struct words *w, struct options *o, struct opt_result *r, struct err *e)
{
	*o = (struct options){ .color = true, .port = 80 };
	*r = (struct opt_result){ 0 };
	*e = (struct err){ 0 };
	return opt_parse(c, w->argc, w->argv, o, r, e);
}

static void every_spelling_of_a_value_is_accepted(void **state)
{
	static const char *const lines[] = { "--port 8080", "--port=8080", "-p 8080", "-p8080", "-fp8080", "-fp 8080" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct words w;
		struct options o;
		struct opt_result r;
		struct err e;

		words_init(&w, lines[i]);
		assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
		assert_int_equal(o.port, 8080);
		assert_int_equal(o.force, i > 3);
		assert_int_equal(r.argc, 0);
		assert_int_equal(r.action, OPT_RUN);
	}
}

static void flags_counts_strings_and_lists_are_set(void **state)
{
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "-fqvv --verbose --no-color --config= --format json -e A=1 --env B= --delta -5");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_true(o.force && o.quiet && !o.color);
	assert_int_equal(o.verbose, 3);
	assert_string_equal(o.config, "");
	assert_string_equal(o.format, "json");
	assert_int_equal(o.env.n, 2);
	assert_string_equal(o.env.items[0], "A=1");
	assert_string_equal(o.env.items[1], "B=");
	assert_int_equal(o.delta, -5);
	words_init(&w, "--no-force -f --color");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_true(o.force && o.color);
	words_init(&w, "--secret-knob --no-quiet -x");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_true(o.quiet);
}

static void operands_may_stand_before_options(void **state)
{
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "a -p 1 - b --force -- -q -- c");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_true(o.force);
	assert_false(o.quiet);
	assert_int_equal(r.argc, 6);
	assert_string_equal(r.argv[0], "a");
	assert_string_equal(r.argv[1], "-");
	assert_string_equal(r.argv[2], "b");
	assert_string_equal(r.argv[3], "-q");
	assert_string_equal(r.argv[4], "--");
	assert_string_equal(r.argv[5], "c");
	assert_null(r.argv[6]);
}

static void an_empty_command_line_has_no_operands(void **state)
{
	char *nothing[] = { NULL };
	struct opt_result r = { 0 };
	struct options o = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(opt_parse(&tool, 0, nothing, &o, &r, &e), 0);
	assert_int_equal(r.argc, 0);
	assert_null(r.argv[0]);
}

static void help_and_version_are_the_callers_business(void **state)
{
	static const struct {
		const char *line;
		enum opt_action want;
	} cases[] = {
		{ "--help", OPT_HELP }, { "-h", OPT_HELP }, { "-fh", OPT_HELP }, { "--version", OPT_VERSION },
		{ "a --help --unknown", OPT_HELP }, { "-- --help", OPT_RUN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct words w;
		struct options o;
		struct opt_result r;
		struct err e;

		words_init(&w, cases[i].line);
		assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
		assert_int_equal(r.action, cases[i].want);
	}
}

struct picky {
	const char *output, *scope;
	int64_t port;
	int proxy;
	struct opt_list rules;
};

static const struct opt picky_options[] = {
	OPT(struct picky, output, OPT_STRING, "output", 'o', "FORMAT", "Write FORMAT.", .choices = formats, .ignores_case = true),
	OPT(struct picky, scope, OPT_STRING, "scope", 's', "SCOPE", "Of what.", .is_required = true),
	OPT(struct picky, port, OPT_INT, "port", 'p', "PORT", "Where.", .min = 1, .max = 65535, .is_required = true),
	OPT(struct picky, rules, OPT_LIST, "rule", 0, "RULE", "What.", .is_required = true),
	OPT(struct picky, proxy, OPT_TOGGLE, "proxy", 0, NULL, "Go another way."),
	{ 0 }
};

static const struct opt_command picky_tool = { .name = "tool", .summary = "try things", .opts = picky_options,
					       .operands = "THING", .max_operands = 1, .completes = "tool things" };

static void what_is_required_must_be_given(void **state)
{
	static const struct {
		const char *line, *want; /* the error, or NULL */
	} cases[] = {
		{ "-s a -p 1 --rule x", NULL },
		{ "-p 1 --rule x", "missing option '--scope'" },
		{ "-s a --rule x", "missing option '--port'" },
		{ "-s a -p 1", "missing option '--rule'" },
		{ "-s a -p 1 --rule x -o yaml", "option '--output': 'yaml' is not one of text, json" },
		{ "--help", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct picky o = { .proxy = -1 };
		struct opt_result r;
		struct err e = { 0 };
		struct words w;

		words_init(&w, cases[i].line);
		assert_int_equal(opt_parse(&picky_tool, w.argc, w.argv, &o, &r, &e), cases[i].want ? -1 : 0);
		assert_string_equal(e.msg, cases[i].want ? cases[i].want : "");
		assert_int_equal(o.proxy, -1);
	}
}

static void a_choice_may_be_spelt_in_any_case(void **state)
{
	struct picky o = { 0 };
	struct opt_result r;
	struct err e = { 0 };
	struct words w;

	(void)state;
	words_init(&w, "-s a -p 1 --rule x -o JSON");
	assert_int_equal(opt_parse(&picky_tool, w.argc, w.argv, &o, &r, &e), 0);
	assert_string_equal(o.output, "json");
}

static void a_toggle_knows_on_off_and_neither(void **state)
{
	struct picky o = { .proxy = -1 };
	struct opt_result r;
	struct err e = { 0 };
	struct words w;

	(void)state;
	words_init(&w, "-s a -p 1 --rule x --proxy");
	assert_int_equal(opt_parse(&picky_tool, w.argc, w.argv, &o, &r, &e), 0);
	assert_int_equal(o.proxy, 1);
	words_init(&w, "-s a -p 1 --rule x --proxy --no-proxy");
	assert_int_equal(opt_parse(&picky_tool, w.argc, w.argv, &o, &r, &e), 0);
	assert_int_equal(o.proxy, 0);
}

static void operands_are_completed_by_a_command(void **state)
{
	static const struct {
		const char *shell, *want;
	} cases[] = {
		{ "bash", "words=$(tool things 2>/dev/null)" },
		{ "bash", "--proxy --no-proxy" },
		{ "zsh", "compadd -- ${(f)\"$(tool things 2>/dev/null)\"}" },
		{ "fish", "-a '(tool things 2>/dev/null)'" },
		{ "fish", "-l no-proxy" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
		struct err e = { 0 };

		assert_int_equal(opt_completion(cases[i].shell, &picky_tool, &b, &e), 0);
		assert_non_null(strstr(buf_z(&b), cases[i].want));
	}
}

static void flags_may_say_true_or_false(void **state)
{
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "--force=true");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_true(o.force);
	words_init(&w, "--force --force=false");
	assert_int_equal(parse(&tool, &w, &o, &r, &e), 0);
	assert_false(o.force);
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *line, *want;
	} cases[] = {
		{ "--foce", "unknown option '--foce'; did you mean '--force'?" },
		{ "--prot=1", "unknown option '--prot'; did you mean '--port'?" },
		{ "--halp", "unknown option '--halp'; did you mean '--help'?" },
		{ "--versoin", "unknown option '--versoin'; did you mean '--version'?" },
		{ "--nothing-like-it", "unknown option '--nothing-like-it'" },
		{ "--a-word-that-is-far-too-long-to-be-a-misspelt-name",
		  "unknown option '--a-word-that-is-far-too-long-to-be-a-misspelt-name'" },
		{ "--secret-knop", "unknown option '--secret-knop'" },
		{ "--no-port", "unknown option '--no-port'" },
		{ "--help=x", "option '--help' takes no value" },
		{ "-z", "unknown option '-z'" },
		{ "-fz", "unknown option '-z'" },
		{ "-\xc3\xa4", "unknown option '-\xc3\xa4'" },
		{ "--port", "option '--port' needs a value" },
		{ "-p", "option '--port' needs a value" },
		{ "--force=1", "option '--force' takes no value" },
		{ "--no-color=1", "option '--no-color' takes no value" },
		{ "--port 0", "option '--port': 0 is below 1" },
		{ "--port 65536", "option '--port': 65536 is above 65535" },
		{ "--port x", "option '--port': 'x' is not an integer" },
		{ "--port=", "option '--port': '' is not an integer" },
		{ "--delta 9223372036854775808", "option '--delta': '9223372036854775808' is not an integer" },
		{ "--format xml", "option '--format': 'xml' is not one of text, json" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct words w;
		struct options o;
		struct opt_result r;
		struct err e;

		words_init(&w, cases[i].line);
		assert_int_equal(parse(&tool, &w, &o, &r, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_string_equal(e.msg, cases[i].want);
	}
}

static void a_list_has_a_ceiling(void **state)
{
	static char option[] = "-eA", name[] = "tool";
	char *argv[OPT_LIST_MAX + 3];
	struct options o = { 0 };
	struct opt_result r;
	struct err e = { 0 };

	(void)state;
	argv[0] = name;
	for (size_t i = 1; i <= OPT_LIST_MAX + 1; i++)
		argv[i] = option;
	argv[OPT_LIST_MAX + 1] = NULL;
	assert_int_equal(opt_parse(&tool, OPT_LIST_MAX + 1, argv, &o, &r, &e), 0);
	assert_int_equal(o.env.n, OPT_LIST_MAX);
	argv[1] = option;
	argv[2] = NULL;
	assert_int_equal(opt_parse(&tool, 2, argv, &o, &r, &e), -1);
	assert_string_equal(e.msg, "option '--env' given more than 256 times");
}

static void operands_are_counted(void **state)
{
	static const struct opt_command two = {
		.name = "mv", .operands = "FROM TO", .min_operands = 2, .max_operands = 2,
	};
	static const struct opt_command none = { .name = "true", .min_operands = 0 };
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "a");
	assert_int_equal(parse(&two, &w, &o, &r, &e), -1);
	assert_string_equal(e.msg, "missing operand: FROM TO");
	words_init(&w, "a b c");
	assert_int_equal(parse(&two, &w, &o, &r, &e), -1);
	assert_string_equal(e.msg, "unexpected operand 'c'");
	words_init(&w, "a b");
	assert_int_equal(parse(&two, &w, &o, &r, &e), 0);
	words_init(&w, "--help a");
	assert_int_equal(parse(&two, &w, &o, &r, &e), 0);
	words_init(&w, "a");
	assert_int_equal(parse(&none, &w, &o, &r, &e), -1);
	words_init(&w, "--version");
	assert_int_equal(parse(&none, &w, &o, &r, &e), -1);
	assert_string_equal(e.msg, "unknown option '--version'");
}

static void a_command_may_pass_options_on(void **state)
{
	static const struct opt_command run = {
		.name = "run",
		.opts = options,
		.min_operands = 1,
		.max_operands = OPT_OPERANDS_ANY,
		.stops_at_operand = true,
	};
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "-f ls -q --unknown --");
	assert_int_equal(parse(&run, &w, &o, &r, &e), 0);
	assert_true(o.force && !o.quiet);
	assert_int_equal(r.argc, 4);
	assert_string_equal(r.argv[0], "ls");
	assert_string_equal(r.argv[3], "--");
}

static const struct opt_section sections[] = {
	{ "ENVIRONMENT", "OSB_CONFIG", "The settings file." },
	{ "ENVIRONMENT", "OSB_TOKEN", "The token." },
	{ "FILES", "~/.osb.toml", "Settings." },
	{ "NOTES", NULL, ".dots and 'quotes' begin no request." },
	{ 0 }
};

static const struct opt create_options[] = {
	OPT(struct options, config, OPT_STRING, "image", 'i', "IMAGE", "Use IMAGE\\tag."),
	OPT(struct options, format, OPT_STRING, "format", 'h', "FORMAT", "Write FORMAT.", .choices = formats),
	{ 0 }
};

static const struct opt_command sandbox_commands[] = {
	{ .name = "create", .summary = "create a sandbox", .opts = create_options, .operands = "[COMMAND...]" },
	{ .name = "list", .summary = "list what there is" },
	{ 0 }
};

static const struct opt_command commands[] = {
	{ .name = "sandbox", .summary = "manage sandboxes", .commands = sandbox_commands },
	{ .name = "image", .summary = "manage images" },
	{ 0 }
};

static const struct opt_command program = {
	.name = "osb",
	.summary = "talk to a sandbox server",
	.about = "Every word of this first paragraph is there to be wrapped at the eightieth column, as it should be.\n\n"
		 "The second one is short.",
	.version = "1.0",
	.opts = options,
	.commands = commands,
	.sections = sections,
};

static void commands_are_found_level_by_level(void **state)
{
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	words_init(&w, "-f sandbox create -i alpine --unknown");
	assert_int_equal(parse(&program, &w, &o, &r, &e), 0);
	assert_true(o.force);
	assert_ptr_equal(r.command, &commands[0]);
	assert_int_equal(r.argc, 5);
	assert_string_equal(r.argv[0], "sandbox");
	assert_int_equal(opt_parse(r.command, r.argc, r.argv, &o, &r, &e), 0);
	assert_ptr_equal(r.command, &sandbox_commands[0]);
	assert_int_equal(opt_parse(r.command, r.argc, r.argv, &o, &r, &e), -1);
	assert_string_equal(o.config, "alpine");
	words_init(&w, "");
	assert_int_equal(parse(&program, &w, &o, &r, &e), 0);
	assert_null(r.command);
	words_init(&w, "sandbx");
	assert_int_equal(parse(&program, &w, &o, &r, &e), -1);
	assert_string_equal(e.msg, "unknown command 'sandbx'; did you mean 'sandbox'?");
	words_init(&w, "frobnicate");
	assert_int_equal(parse(&program, &w, &o, &r, &e), -1);
	assert_string_equal(e.msg, "unknown command 'frobnicate'");
}

static void help_reads_like_a_manual_page(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16384);

	(void)state;
	opt_help(&program, "osb", &b);
	assert_false(b.failed);
	assert_string_equal(buf_z(&b),
		"NAME\n    osb - talk to a sandbox server\n\n"
		"SYNOPSIS\n    osb [OPTION...] COMMAND [ARGUMENT...]\n\n"
		"DESCRIPTION\n    Every word of this first paragraph is there to be wrapped at the eightieth\n"
		"    column, as it should be.\n\n    The second one is short.\n\n"
		"COMMANDS\n    sandbox\n        manage sandboxes\n    image\n        manage images\n\n"
		"OPTIONS\n    -f, --force\n        Do it anyway.\n    -q, --quiet\n        Say less.\n"
		"    --color\n        Use colours. It's on by default.\n"
		"    -v, --verbose\n        Say more; twice for even more.\n"
		"    -c, --config FILE\n        Read the settings from FILE.\n"
		"    --format FORMAT\n        Write FORMAT. One of text, json.\n"
		"    -p, --port PORT\n        Listen on PORT. From 1 to 65535.\n"
		"    -d, --delta VALUE\n        Any number.\n"
		"    -e, --env KEY=VALUE\n"
		"        Set an environment variable of the command. May be given more than once.\n"
		"    -h, --help\n        Show this help.\n    --version\n        Show the version.\n\n"
		"ENVIRONMENT\n    OSB_CONFIG\n        The settings file.\n    OSB_TOKEN\n        The token.\n\n"
		"FILES\n    ~/.osb.toml\n        Settings.\n\n"
		"NOTES\n    .dots and 'quotes' begin no request.\n");
}

static void no_line_of_help_is_longer_than_80_columns(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16384);
	struct str rest, text;

	(void)state;
	opt_help(&program, "osb", &b);
	rest = buf_str(&b);
	while (rest.n > 0) {
		(void)str_cut(rest, '\n', &text, &rest);
		assert_true(text.n <= 80);
	}
}

static void a_command_that_owns_h_keeps_it(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16384);
	struct words w;
	struct options o;
	struct opt_result r;
	struct err e;

	(void)state;
	opt_help(&sandbox_commands[0], "osb sandbox create", &b);
	assert_non_null(strstr(b.p, "osb sandbox create [OPTION...] [COMMAND...]\n"));
	assert_non_null(strstr(b.p, "    -h, --format FORMAT\n"));
	assert_non_null(strstr(b.p, "    --help\n"));
	words_init(&w, "-h json");
	assert_int_equal(parse(&sandbox_commands[0], &w, &o, &r, &e), 0);
	assert_string_equal(o.format, "json");
}

static void a_manual_page_is_escaped_roff(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16384);

	(void)state;
	opt_man(&program, "osb", "2026-06-15", "opensandbox 1.0", &b);
	assert_true(str_starts(buf_str(&b), STR(".TH \"osb\" 1 \"2026-06-15\" \"opensandbox 1.0\"\n"
						".SH NAME\nosb \\- talk to a sandbox server\n.SH SYNOPSIS\n")));
	assert_non_null(strstr(b.p, ".SH OPTIONS\n.TP\n\\fB\\-f, \\-\\-force\\fR\nDo it anyway.\n"));
	assert_non_null(strstr(b.p, "as it should be.\n.PP\nThe second one is short.\n"));
	assert_non_null(strstr(b.p, ".SH NOTES\n\\&.dots and"));
	buf_clear(&b);
	opt_man(&sandbox_commands[0], "osb sandbox create", "2026-06-15", "opensandbox 1.0", &b);
	assert_non_null(strstr(b.p, ".TH \"osb-sandbox-create\" 1"));
	assert_non_null(strstr(b.p, "osb\\-sandbox\\-create \\- create a sandbox\n"));
	assert_non_null(strstr(b.p, "Use IMAGE\\etag."));
}

static void texts_that_do_not_fit_are_failures(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(100);
	struct err e = { 0 };

	(void)state;
	opt_help(&program, "osb", &b);
	assert_true(b.failed);
	buf_clear(&b);
	opt_man(&program, "osb", "", "", &b);
	assert_true(b.failed);
	buf_clear(&b);
	assert_int_equal(opt_completion("bash", &program, &b, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void completion_knows_three_shells(void **state)
{
	static const struct {
		const char *shell, *want[6];
	} cases[] = {
		{ "bash",
		  { "complete -o bashdefault -o default -F _osb osb\n", "'osb sandbox create') at='osb sandbox create' ;;",
		    "'osb --config' | 'osb -c') return ;;", "'osb --format') words='text json' ;;",
		    "'osb --port' | 'osb -p') compopt +o default +o bashdefault; return ;;",
		    "'osb sandbox') words='create list --help' ;;\n"
		    "\t\t'osb sandbox create') [[ $cur == -* ]] && words='--image " } },
		{ "zsh",
		  { "#compdef osb\n", "'osb --config' | 'osb -c') _files; return ;;", "compadd -- text json; return ;;",
		    "subs=( 'sandbox:manage sandboxes' 'image:manage images' )", "'--color:Use colours'",
		    "_message 'PORT'" } },
		{ "fish",
		  { "complete -c osb -n '__osb_at \"osb\"' -f -a sandbox -d 'manage sandboxes'\n", "-l config -s c -r -F -d",
		    "-l format -x -a 'text json' -d 'Write FORMAT'", "case 'osb --port' 'osb -p'\n\t\t\t\tset skip 1\n",
		    "-n '__osb_at \"osb sandbox create\"' -l image -s i -x -d 'Use IMAGE\\\\tag'", "-l version" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(65536);
		struct err e = { 0 };

		assert_int_equal(opt_completion(cases[i].shell, &program, &b, &e), 0);
		for (size_t j = 0; j < ARRAY_LEN(cases[i].want); j++)
			if (!strstr(b.p, cases[i].want[j]))
				fail_msg("%s: no %s", cases[i].shell, cases[i].want[j]);
		assert_null(strstr(b.p, "--secret-knob"));
	}
}

static void quotes_in_help_do_not_break_the_scripts(void **state)
{
	static const struct opt tricky[] = {
		OPT(struct options, config, OPT_STRING, "name", 0, "BOX'S NAME", "It's the box's name."),
		{ 0 }
	};
	static const struct opt_command c = { .name = "a-b.c", .summary = "x", .opts = tricky };
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(opt_completion("zsh", &c, &b, &e), 0);
	assert_non_null(strstr(b.p, "'--name:It'\\''s the box'\\''s name'"));
	assert_non_null(strstr(b.p, "_message 'BOX'\\''S NAME'"));
	assert_non_null(strstr(b.p, "_a_b_c()\n"));
	buf_clear(&b);
	assert_int_equal(opt_completion("fish", &c, &b, &e), 0);
	assert_non_null(strstr(b.p, "-d 'It\\'s the box\\'s name'"));
}

static void an_unknown_shell_is_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(opt_completion("tcsh", &program, &b, &e), -1);
	assert_string_equal(e.msg, "no completion for shell 'tcsh'; known are bash, zsh and fish");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_spelling_of_a_value_is_accepted),
		cmocka_unit_test(flags_counts_strings_and_lists_are_set),
		cmocka_unit_test(operands_may_stand_before_options),
		cmocka_unit_test(an_empty_command_line_has_no_operands),
		cmocka_unit_test(help_and_version_are_the_callers_business),
		cmocka_unit_test(flags_may_say_true_or_false),
		cmocka_unit_test(what_is_required_must_be_given),
		cmocka_unit_test(a_choice_may_be_spelt_in_any_case),
		cmocka_unit_test(a_toggle_knows_on_off_and_neither),
		cmocka_unit_test(operands_are_completed_by_a_command),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(a_list_has_a_ceiling),
		cmocka_unit_test(operands_are_counted),
		cmocka_unit_test(a_command_may_pass_options_on),
		cmocka_unit_test(commands_are_found_level_by_level),
		cmocka_unit_test(help_reads_like_a_manual_page),
		cmocka_unit_test(no_line_of_help_is_longer_than_80_columns),
		cmocka_unit_test(a_command_that_owns_h_keeps_it),
		cmocka_unit_test(a_manual_page_is_escaped_roff),
		cmocka_unit_test(texts_that_do_not_fit_are_failures),
		cmocka_unit_test(completion_knows_three_shells),
		cmocka_unit_test(quotes_in_help_do_not_break_the_scripts),
		cmocka_unit_test(an_unknown_shell_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
