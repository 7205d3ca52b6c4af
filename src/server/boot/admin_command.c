// SPDX-License-Identifier: Apache-2.0
#include "server/boot/admin_command.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "net/http/url.h"
#include "server/config/config.h"
#include "server/images/image_archive.h"

#include "base/banned.h"

#define PROGRAM "opensandbox-server"

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

/* ---- archives ---- */

/* Both directions of one call. */
struct transfer_ends {
	struct archive_source source;
	struct buf *answer;
};

static long read_source(char *out, size_t max, void *arg, struct err *e)
{
	return archive_source_read(out, max, &((struct transfer_ends *)arg)->source, e);
}

int admin_take_all(struct str piece, void *buf, struct err *e)
{
	return buf_add_str(buf, piece) ? 0 : err_set(e, ERR_LIMIT, "the server's answer is too long");
}

static int take_answer(struct str piece, void *arg, struct err *e)
{
	return admin_take_all(piece, ((struct transfer_ends *)arg)->answer, e);
}

int admin_target(struct buf *out, const char *target, const char *name, const char *value, struct err *e)
{
	buf_addf(out, "%s", target);
	if (value) {
		buf_addf(out, "?%s=", name);
		(void)url_encode_query(out, str_of(value));
	}
	return out->failed ? err_set(e, ERR_LIMIT, "a name that is too long") : 0;
}

int admin_upload(struct admin_job *j, const char *target, const char *path, struct buf *answer, struct err *e)
{
	struct transfer_ends ends = { .answer = answer };
	struct admin_call call = { .method = "POST", .target = target, .type = "application/x-tar", .read = read_source,
				   .take = take_answer, .arg = &ends };
	int rc = archive_source_open(&ends.source, path, e);

	call.length = ends.source.length;
	if (rc == 0)
		rc = admin_run(&j->admin, &call, e);
	archive_source_close(&ends.source);
	return rc;
}

int admin_download(struct admin_job *j, const struct admin_call *call, const char *path, struct err *e)
{
	AUTO(archive_sink_close) struct archive_sink sink = { .dir = -1, .fd = -1 };
	struct admin_call own = *call;

	own.take = archive_sink_take;
	own.arg = &sink;
	if (archive_sink_open(&sink, path, e) < 0 || admin_run(&j->admin, &own, e) < 0)
		return -1;
	return archive_sink_keep(&sink, e);
}

/* ---- commands ---- */

static int fail(const struct err *e)
{
	(void)fprintf(stderr, PROGRAM ": %s\n", e->msg);
	return EXIT_FAILED;
}

static int usage(const struct admin_group *g, const struct err *e)
{
	(void)fprintf(stderr, PROGRAM ": %s\nTry '" PROGRAM " %s --help'.\n", e->msg, g->name);
	return EXIT_USAGE;
}

static int help(const struct opt_command *c, const char *path)
{
	AUTO(buf_done) struct buf text = BUF_INIT((size_t)64 * 1024);

	opt_help(c, path, &text);
	return fputs(buf_z(&text), stdout) < 0 || fflush(stdout) < 0 ? EXIT_FAILED : EXIT_OK;
}

static int run(const struct admin_group *g, size_t which, struct admin_job *j, void *options, const struct config_sources *sources)
{
	AUTO(arena_done) struct arena arena = ARENA_INIT(CONFIG_ARENA_MAX);
	AUTO(buf_done) struct buf problems = BUF_INIT((size_t)1024 * 1024);
	struct config c;
	struct err e = { 0 };
	int rc;

	if (config_load(sources, &arena, &c, &problems, &e) < 0)
		return fail(&e);
	rc = admin_open(&j->admin, &c, &e) < 0 ? -1 : g->runs[which](j, options, &e);
	if (rc == 0 && fflush(stdout) < 0)
		rc = err_set(&e, ERR_IO, "cannot write to standard output");
	admin_close(&j->admin);
	return rc < 0 ? fail(&e) : EXIT_OK;
}

int admin_command(const struct admin_group *g, int argc, char **argv, void *options, const char *const *config,
		  const char *const *env)
{
	const struct opt_command group = { .name = g->name, .commands = g->commands, .summary = g->summary };
	struct admin_job j = { 0 };
	struct opt_result r;
	struct err e = { 0 };
	char path[64];
	size_t which;

	if (opt_parse(&group, argc, argv, NULL, &r, &e) < 0)
		return usage(g, &e);
	(void)snprintf(path, sizeof(path), PROGRAM " %s", g->name);
	if (r.action == OPT_HELP || !r.command)
		return help(&group, path);
	which = (size_t)(r.command - g->commands);
	(void)snprintf(path, sizeof(path), PROGRAM " %s %s", g->name, r.command->name);
	if (opt_parse(&g->commands[which], r.argc, r.argv, options, &r, &e) < 0)
		return usage(g, &e);
	if (r.action == OPT_HELP)
		return help(&g->commands[which], path);
	j.operands = r.argv;
	j.n = (size_t)r.argc;
	return run(g, which, &j, options, &(struct config_sources){ .path = *config, .env = env });
}
