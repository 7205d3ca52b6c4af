// SPDX-License-Identifier: Apache-2.0
/* osb code run: a program in a language, in the interpreter of a sandbox. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/copy/copy_local.h"
#include "cli/local_file.h"
#include "sys/fd.h"

#include "base/banned.h"

#define CODE_MAX ((size_t)16 * 1024 * 1024)
#define PICTURE_MAX ((size_t)64 * 1024 * 1024)
#define ENDING_MS 5000 /* for the end of a context that nobody waits for */

struct code_options {
	const char *output, *language, *context, *file, *save_dir;
	bool new_context;
};

static const struct opt run_opts[] = {
	OPT(struct code_options, language, OPT_STRING, "language", 'l', "LANGUAGE",
	    "python (what it is without this), javascript, typescript, bash, or any that has a kernel in the image."),
	OPT(struct code_options, file, OPT_STRING, "file", 'f', "FILE", "Run the contents of FILE.",
	    .is_file = true),
	OPT(struct code_options, context, OPT_STRING, "context", 'c', "CONTEXT",
	    "Run it in CONTEXT. Default: the shared context of the language."),
	OPT(struct code_options, new_context, OPT_FLAG, "new-context", 0, NULL,
	    "Run it in a new context, which is deleted afterwards."),
	OPT(struct code_options, save_dir, OPT_STRING, "save-dir", 0, "FOLDER",
	    "Save images of its results in FOLDER.", .is_file = true),
	OPT_OUTPUT(struct code_options, output_raw_table),
	{ 0 },
};

struct code_run {
	struct cli *cli;
	int dir; /* for pictures; -1: none */
	unsigned n_pictures;
	bool is_live; /* output as it comes */
	bool has_error;
	struct err why;
};

/* ---- pictures ---- */

static const struct {
	const char *type, *suffix;
	bool is_text;
} picture_types[] = {
	{ "image/png", "png", false }, { "image/jpeg", "jpg", false }, { "image/gif", "gif", false }, { "image/webp", "webp", false },
	{ "image/svg+xml", "svg", true }, { "application/pdf", "pdf", false }, { "text/html", "html", true },
};

static int save_picture(struct code_run *r, size_t type, struct str value, struct err *e)
{
	AUTO(buf_done) struct buf bytes = BUF_INIT(PICTURE_MAX);
	AUTO(landing_done) struct landing l = LANDING_INIT;
	char name[32];

	(void)snprintf(name, sizeof(name), "result-%u.%s", ++r->n_pictures, picture_types[type].suffix);
	if (picture_types[type].is_text && !buf_add_str(&bytes, value))
		return err_set(e, ERR_LIMIT, "a picture of more than %zu bytes", PICTURE_MAX);
	if (!picture_types[type].is_text && base64_decode(&bytes, value, BASE64_STD, e) < 0)
		return err_wrap(e, "a picture");
	if (landing_open(&l, r->dir, name, e) < 0 || fd_write_all(l.fd, bytes.p, bytes.n, e) < 0 || landing_land(&l, 0644, e) < 0)
		return -1;
	(void)fprintf(stderr, "osb: saved %s\n", name);
	return 0;
}

/* Bytes of base64 that programs break into lines. */
static struct str unbroken(struct str value, struct buf *b)
{
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != '\n' && value.p[i] != '\r')
			buf_add_char(b, value.p[i]);
	return buf_str(b);
}

static void save_pictures(struct code_run *r, const struct osb_map *results)
{
	for (size_t i = 0; i < results->n && r->dir >= 0; i++) {
		for (size_t k = 0; k < ARRAY_LEN(picture_types); k++) {
			AUTO(buf_done) struct buf b = BUF_INIT(2 * PICTURE_MAX);
			struct str value = str_of(results->items[i].value);

			if (strcmp(results->items[i].key, picture_types[k].type) != 0)
				continue;
			if (!picture_types[k].is_text)
				value = unbroken(value, &b);
			if (save_picture(r, k, value, &r->why) < 0)
				r->dir = -1;
		}
	}
}

/* ---- what comes of it ---- */

static const char *value_of(const struct osb_map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->items[i].key, key) == 0)
			return m->items[i].value;
	return NULL;
}

static void show_result(const struct code_run *r, const struct osb_map *results)
{
	const char *text = value_of(results, "text");

	if (text)
		(void)output_line(&r->cli->out, str_of(text));
}

static void show_error(const struct osb_event *event)
{
	if (event->traceback.n == 0)
		(void)fprintf(stderr, "%s: %s\n", event->name ? event->name : "error", event->value ? event->value : "");
	for (size_t i = 0; i < event->traceback.n; i++)
		(void)fprintf(stderr, "%s\n", event->traceback.items[i]);
}

static void on_event(const struct osb_event *event, void *arg)
{
	struct code_run *r = arg;

	if (event->kind == OSB_EVENT_RESULT)
		save_pictures(r, &event->results);
	if (event->kind == OSB_EVENT_ERROR)
		r->has_error = true;
	if (!r->is_live)
		return;
	if (event->kind == OSB_EVENT_STDOUT && event->text)
		(void)output_bytes(&r->cli->out, (struct str){ event->text, event->n_text });
	else if (event->kind == OSB_EVENT_STDERR && event->text)
		(void)fwrite(event->text, 1, event->n_text, stderr);
	else if (event->kind == OSB_EVENT_RESULT)
		show_result(r, &event->results);
	else if (event->kind == OSB_EVENT_ERROR)
		show_error(event);
	if (output_flush(&r->cli->out) < 0)
		osb_call_cancel(r->cli->call); /* nobody reads it any more */
}

/* ---- the command ---- */

/* The words behind the sandbox, a file, or standard input. */
static int read_code(struct cli *cli, const struct code_options *o, struct buf *out, struct err *e)
{
	int first = cli->n_operands > 1 && strcmp(cli->operands[1], "--") == 0 ? 2 : 1;

	if (cli->n_operands == first + 1 && strcmp(cli->operands[first], "-") == 0)
		cli->n_operands = first;
	if (o->file && cli->n_operands > first)
		return err_set(e, ERR_INVALID, "the program is in a file, or in the command line");
	for (int i = first; i < cli->n_operands; i++)
		buf_addf(out, "%s%s", i > first ? " " : "", cli->operands[i]);
	if (out->failed)
		return err_set(e, ERR_LIMIT, "a program of more than %zu bytes", CODE_MAX);
	return cli->n_operands > first ? 0 : local_read(o->file ? o->file : "-", CODE_MAX, out, e);
}

/* After a failure or Ctrl-C: what that was is still to be told, so the call is another one. */
static void drop_context(struct cli *cli, struct osb_sandbox *s, const char *id)
{
	struct osb_call *call = osb_call_new(cli->client);

	if (call)
		osb_call_set_deadline(call, ENDING_MS);
	(void)osb_context_delete(s, id, call); /* it may be gone, with its sandbox too */
	osb_call_free(call);
}

static int run_in_context(struct code_run *r, struct osb_sandbox *s, const struct code_options *o, struct osb_code *code,
			  struct osb_execution **ret)
{
	AUTO(osb_free) struct osb_context *own = NULL;
	struct cli *cli = r->cli;
	int rc;

	if (o->new_context) {
		if (cli_wait(cli, NULL, osb_context_create(s, o->language ? o->language : "python", NULL, &own, cli_call(cli))) < 0)
			return -1;
		code->context_id = own->id;
	}
	rc = cli_wait(cli, NULL, osb_code_run(s, code, on_event, r, ret, cli_call(cli)));
	if (own && rc < 0)
		drop_context(cli, s, own->id);
	else if (own)
		rc = cli_wait(cli, NULL, osb_context_delete(s, own->id, cli_call(cli)));
	return rc;
}

static int code_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(CODE_MAX);
	AUTO(osb_free) struct osb_execution *x = NULL;
	AUTO_FD dir = -1;
	struct code_options o = { 0 };
	struct osb_code code = { .size = sizeof(code) };
	struct code_run r = { .cli = arg, .dir = -1 };
	struct osb_sandbox *s;
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (o.context && o.new_context)
		return cli_usage(cli, "--context and --new-context do not go together");
	if (read_code(cli, &o, &text, &e) < 0)
		return e.code == ERR_INVALID ? cli_fail_usage(cli, &e) : cli_fail_err(cli, &e);
	if (o.save_dir && (dir = copy_local_top(o.save_dir, &e)) < 0)
		return cli_fail_err(cli, &e);
	r.dir = dir;
	r.is_live = cli->out.format == OUTPUT_RAW || cli->out.format == OUTPUT_TABLE;
	code.code = buf_z(&text);
	code.language = o.language;
	code.context_id = o.context;
	code.skip_accumulation = r.is_live;
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return CLI_FAILED;
	if (run_in_context(&r, s, &o, &code, &x) < 0)
		return cli->out.is_failed ? CLI_FAILED : cli_fail_call(cli);
	if (r.why.code)
		return cli_fail_err(cli, &r.why);
	if (!r.is_live && cli_show(cli, cli_tree(cli, x), NULL) != CLI_OK)
		return CLI_FAILED;
	return r.has_error ? CLI_FAILED : CLI_OK;
}

const struct opt_command cli_code_commands[] = {
	{ .name = "run", .summary = "run a program in a language", .operands = "SANDBOX [--] [CODE...|-]", .opts = run_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX, .run = code_run,
	  .about = "Runs CODE, the program in a file, or what comes on standard input, which '-' stands for too. Output is shown as it comes, then the value of the "
		   "last expression. The interpreter stays: the next run finds its variables. The status is 1 if the program failed." },
	{ 0 },
};
