// SPDX-License-Identifier: Apache-2.0
/* base/opt.h - command lines by table: parsing, help, man pages and shell completion from one description.
 *
 *     struct options { const char *config; int64_t port; bool verbose; };
 *     static const struct opt options[] = {
 *         OPT(struct options, config,  OPT_STRING, "config",  'c', "FILE", "Read FILE.", .is_file = true),
 *         OPT(struct options, port,    OPT_INT,    "port",    'p', "PORT", "Listen.", .min = 1, .max = 65535),
 *         OPT(struct options, verbose, OPT_FLAG,   "verbose", 'v', NULL,   "Say more."),
 *         { 0 }
 *     };
 *     static const struct opt_command program = {
 *         .name = "opensandbox-server", .summary = "run sandboxes", .opts = options, .version = "1.0",
 *     };
 *
 *     struct options o = { .port = 8080 };                       the struct holds the defaults before
 *     if (opt_parse(&program, argc, argv, &o, &r, &e) < 0) ...   usage error: exit 2
 *
 * Accepted: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, bundled flags (-abc), --no-name, --name=true and
 * --name=false for a flag, "--" as the end of the options, and -h, --help and (with a version) --version,
 * which the caller acts upon. A lone "-" is an operand. Programs with commands are parsed level by level: the
 * program's own options up to the command's name, then the command's table with what is left. Nothing is
 * printed: texts go to a buf. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum opt_kind {
	OPT_FLAG,   /* bool */
	OPT_COUNT,  /* int: one more each time */
	OPT_STRING, /* const char *, a pointer into argv; one of .choices if there are any */
	OPT_INT,    /* int64_t; min and max bound it unless both are 0 */
	OPT_LIST,   /* struct opt_list: every value given */
	OPT_TOGGLE, /* int: 1 for --name, 0 for --no-name; what it was before says that neither was given */
};

#define OPT_LIST_MAX 256
struct opt_list {
	const char *items[OPT_LIST_MAX];
	size_t n;
};

struct opt {
	const char *name; /* without dashes; NULL ends the table */
	char short_name;  /* 0: none */
	enum opt_kind kind;
	size_t offset;    /* of the value in the caller's struct */
	const char *arg;  /* what help calls the value: "FILE" */
	const char *help; /* full sentences */
	int64_t min, max;
	const char *const *choices; /* NULL-terminated, or NULL */
	bool ignores_case; /* of choices: "JSON" is taken for "json" */
	bool is_required; /* of a string, a list or an integer: NULL, none or 0 in the end is an error */
	bool is_file;     /* completed with file names */
	bool is_hidden;   /* parsed, but not shown or completed */
};

#define OPT(type_, member_, kind_, name_, short_, arg_, help_, ...) \
	{ \
		.name = (name_), .short_name = (short_), .kind = (kind_), .offset = offsetof(type_, member_), \
		.arg = (arg_), .help = (help_), __VA_ARGS__ \
	}

/* One more part of help and man page: { "ENVIRONMENT", "OSB_CONFIG", "The settings file." }. Items of the
 * same title follow each other; without a term the text is a paragraph of its own. */
struct opt_section {
	const char *title; /* NULL ends the table */
	const char *term;
	const char *text;
};

#define OPT_OPERANDS_ANY UINT_MAX
#define OPT_DEPTH_MAX 4 /* levels of commands */

/* A program, or a command of one. */
struct opt_command {
	const char *name;    /* NULL ends a table of commands */
	const char *summary; /* "create a sandbox": one line, lower case, no full stop */
	const char *about;   /* DESCRIPTION; an empty line separates paragraphs; or NULL */
	const char *operands; /* for the synopsis: "SANDBOX [PATH...]", or NULL */
	const char *version; /* accept --version */
	const struct opt *opts;
	const struct opt_command *commands;
	const struct opt_section *sections;
	unsigned min_operands, max_operands;
	const char *completes; /* a shell command that prints what an operand may be, one plain word per line; NULL: files. Bash expands
				* them: quotes, '$' and the like must not be among them */
	bool is_command_optional; /* with commands: it does something without one too */
	bool stops_at_operand;  /* options end at the first operand, for commands that pass the rest on */
	int (*run)(int argc, char **argv, void *arg); /* for the caller: not called here */
};

enum opt_action { OPT_RUN, OPT_HELP, OPT_VERSION };

struct opt_result {
	enum opt_action action;
	const struct opt_command *command; /* the one that was named, or NULL */
	int argc;    /* without commands: the operands. With: the command's name and all that follows it, */
	char **argv; /* to be parsed by its own table. NULL-terminated */
};

/* ARGV[0] is skipped, and the array is reordered so that operands may stand before options. VALUES is the
 * struct that the offsets refer to. -1 with ERR_INVALID: "unknown option '--foo'; did you mean '--force'?" */
int opt_parse(const struct opt_command *c, int argc, char **argv, void *values, struct opt_result *ret,
	      struct err *e);

/* PATH is how the command is called ("osb sandbox create"). 80 columns, laid out like a man page. */
void opt_help(const struct opt_command *c, const char *path, struct buf *out);

/* A page of the manual in roff (man macros); DATE ("2026-06-15") and SOURCE ("opensandbox 1.0") go to its
 * footer. */
void opt_man(const struct opt_command *c, const char *path, const char *date, const char *source,
	     struct buf *out);

/* A completion script for SHELL (bash, zsh or fish) that covers the program and all its commands. */
int opt_completion(const char *shell, const struct opt_command *program, struct buf *out, struct err *e);
