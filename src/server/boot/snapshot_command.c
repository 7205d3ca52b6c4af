// SPDX-License-Identifier: Apache-2.0
#include "server/boot/snapshot_command.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/uuid.h"
#include "server/boot/admin_command.h"

#include "base/banned.h"

#define PAGE_SIZE 200
#define PAGES_MAX 1024

struct snapshot_options {
	const char *config, *name;
};

#define OPTION(member, kind, name, short_, arg, help, ...) OPT(struct snapshot_options, member, kind, name, short_, arg, help, __VA_ARGS__)
#define CONFIG OPTION(config, OPT_STRING, "config", 'c', "FILE", "Read the configuration from FILE.", .is_file = true)

static const struct opt list_opts[] = { CONFIG, { 0 } };
static const struct opt import_opts[] = { CONFIG, OPTION(name, OPT_STRING, "name", 0, "NAME", "Call the snapshot NAME.", 0), { 0 } };

enum { SNAPSHOT_LIST, SNAPSHOT_EXPORT, SNAPSHOT_IMPORT }; /* rows below */

const struct opt_command snapshot_commands[] = {
	[SNAPSHOT_LIST] = { .name = "list", .summary = "list the snapshots", .opts = list_opts },
	[SNAPSHOT_EXPORT] = { .name = "export", .summary = "write a snapshot to an archive", .operands = "ID|NAME PATH", .opts = list_opts,
			      .min_operands = 2, .max_operands = 2,
			      .about = "Writes an OCI layout that 'docker load' and 'image load' take as well, with all layers that the "
				       "snapshot stands on: a tar, or a folder if PATH is one or ends with '/'. '-' is standard output." },
	[SNAPSHOT_IMPORT] = { .name = "import", .summary = "take a snapshot from an archive", .operands = "PATH", .opts = import_opts,
			      .min_operands = 1, .max_operands = 1,
			      .about = "PATH is what 'snapshot export' or 'docker save' wrote, an OCI layout (a folder or a tar), or the "
				       "tar of a root file system. '-' is standard input." },
	{ 0 },
};

static struct str text_at(const struct json *object, const char *key)
{
	const struct json *v = json_get(object, key);

	return v && v->type == JSON_STRING ? v->s : STR("");
}

static void print_snapshot(const struct json *sn)
{
	const struct json *status = json_get(sn, "status");

	(void)printf("%.*s  %-8.*s  %.*s\n", STR_ARG(text_at(sn, "id")), STR_ARG(text_at(status, "state")), STR_ARG(text_at(sn, "name")));
}

/* ---- lists ---- */

/* What is done with each: 0; -1 ends it. */
typedef int each_fn(const struct json *sn, void *arg, struct err *e);

/* 1: there are more. */
static int each_of_page(struct admin_job *j, unsigned page, each_fn *fn, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ADMIN_ANSWER_MAX);
	AUTO(arena_done) struct arena a = ARENA_INIT(ADMIN_ANSWER_MAX);
	struct admin_call call = { .method = "GET", .take = admin_take_all, .arg = &b };
	const struct json *root, *more;
	char target[64];

	(void)snprintf(target, sizeof(target), "/v1/snapshots?page=%u&pageSize=%d", page, PAGE_SIZE);
	call.target = target;
	if (admin_run(&j->admin, &call, e) < 0)
		return -1;
	root = json_parse(&a, buf_str(&b), NULL, NULL, e);
	if (!root)
		return err_wrap(e, "the server's answer");
	for (const struct json *sn = json_first(json_get(root, "items")); sn; sn = sn->next)
		if (fn(sn, arg, e) < 0)
			return -1;
	more = json_get(json_get(root, "pagination"), "hasNextPage");
	return more && more->type == JSON_BOOL && more->b;
}

static int each(struct admin_job *j, each_fn *fn, void *arg, struct err *e)
{
	int more = 1;

	for (unsigned page = 1; more > 0 && page <= PAGES_MAX; page++)
		more = each_of_page(j, page, fn, arg, e);
	return more < 0 ? -1 : 0;
}

static int print_one(const struct json *sn, void *arg, struct err *e)
{
	(void)arg, (void)e;
	print_snapshot(sn);
	return 0;
}

static int run_list(struct admin_job *j, void *options, struct err *e)
{
	(void)options;
	return each(j, print_one, NULL, e);
}

/* ---- export, import ---- */

struct search {
	const char *what;
	char id[ID_MAX + 1];
};

static int compare(const struct json *sn, void *arg, struct err *e)
{
	struct search *q = arg;
	struct str id = text_at(sn, "id");

	if (!str_is(text_at(sn, "name"), q->what) || !id_valid(id))
		return 0;
	if (q->id[0])
		return err_set(e, ERR_CONFLICT, "there are several snapshots '%s': name one by its id", SHOWN(str_of(q->what)));
	(void)snprintf(q->id, sizeof(q->id), "%.*s", STR_ARG(id));
	return 0;
}

static bool is_uuid(const char *text)
{
	return strlen(text) == UUID_LEN && strspn(text, "0123456789abcdef-") == UUID_LEN;
}

static int run_export(struct admin_job *j, void *options, struct err *e)
{
	struct admin_call call = { .method = "GET" };
	struct search q = { .what = j->operands[0] };
	char target[sizeof("/v1/snapshots//archive") + ID_MAX];

	(void)options;
	if (is_uuid(q.what))
		(void)snprintf(q.id, sizeof(q.id), "%s", q.what);
	else if (each(j, compare, &q, e) < 0)
		return -1;
	if (!q.id[0])
		return err_set(e, ERR_NOT_FOUND, "there is no snapshot '%s'", SHOWN(str_of(q.what)));
	(void)snprintf(target, sizeof(target), "/v1/snapshots/%s/archive", q.id);
	call.target = target;
	return admin_download(j, &call, j->operands[1], e);
}

static int run_import(struct admin_job *j, void *options, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ADMIN_ANSWER_MAX);
	AUTO(buf_done) struct buf target = BUF_INIT(8192);
	AUTO(buf_done) struct buf answer = BUF_INIT(ADMIN_ANSWER_MAX);
	const struct snapshot_options *opts = options;
	const struct json *root;

	if (admin_target(&target, "/v1/snapshots/import", "name", opts->name, e) < 0 ||
	    admin_upload(j, target.p, j->operands[0], &answer, e) < 0)
		return -1;
	root = json_parse(&a, buf_str(&answer), NULL, NULL, e);
	if (!root)
		return err_wrap(e, "the server's answer");
	print_snapshot(root);
	return 0;
}

static int (*const runs[])(struct admin_job *j, void *options, struct err *e) = {
	[SNAPSHOT_LIST] = run_list, [SNAPSHOT_EXPORT] = run_export, [SNAPSHOT_IMPORT] = run_import,
};

int snapshot_command(int argc, char **argv, const char *config, const char *const *env)
{
	static const struct admin_group group = { "snapshot", "snapshots of sandboxes", snapshot_commands, runs };
	struct snapshot_options o = { .config = config };

	return admin_command(&group, argc, argv, &o, &o.config, env);
}
