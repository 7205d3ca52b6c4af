// SPDX-License-Identifier: Apache-2.0
/* osb pool: pools of idle sandboxes. osb volume: volumes: disks that outlive sandboxes. */
#include <fcntl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/api_tree.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/values.h"
#include "sys/fd.h"

#include "base/banned.h"

#define BODY_MAX ((size_t)1024 * 1024)
#define POOL_MAX 65536

struct pool_options {
	const char *output, *image, *template;
	struct opt_list env, resource, entrypoint;
	int64_t min, max, pool_min, pool_max;
};

#define OUTPUT OPT_OUTPUT(struct pool_options, output_table)
#define CAPACITY \
	OPT(struct pool_options, min, OPT_INT, "min", 0, "N", "Minimum of idle sandboxes.", .min = 0, .max = POOL_MAX), \
	OPT(struct pool_options, max, OPT_INT, "max", 0, "N", "Maximum of idle sandboxes.", .min = 0, .max = POOL_MAX), \
	OPT(struct pool_options, pool_min, OPT_INT, "pool-min", 0, "N", "Minimum in total, with those that were taken.", .min = 0, .max = POOL_MAX), \
	OPT(struct pool_options, pool_max, OPT_INT, "pool-max", 0, "N", "Maximum in total, with those that were taken.", .min = 0, .max = POOL_MAX)

static const struct opt create_opts[] = {
	OPT(struct pool_options, image, OPT_STRING, "image", 'i', "IMAGE", "Image."),
	OPT(struct pool_options, env, OPT_LIST, "env", 'e', "KEY=VALUE", "Set a variable of the environment."),
	OPT(struct pool_options, resource, OPT_LIST, "resource", 0, "KEY=VALUE", "Limit each: 'cpu=2', 'memory=1Gi'."),
	OPT(struct pool_options, entrypoint, OPT_LIST, "entrypoint", 0, "WORD",
	    "One argument of their first program."),
	OPT(struct pool_options, template, OPT_STRING, "template", 0, "FILE",
	    "A whole create request, or a pod template, as JSON; instead of the options above.", .is_file = true),
	CAPACITY, OUTPUT, { 0 },
};
static const struct opt resize_opts[] = { CAPACITY, OUTPUT, { 0 } };

/* Nobody said; 0 is a number of sandboxes. */
#define UNSAID (-1)
#define POOL_OPTIONS ((struct pool_options){ .min = UNSAID, .max = UNSAID, .pool_min = UNSAID, .pool_max = UNSAID })
#define DEFAULT_MIN 1
#define DEFAULT_POOL_MAX 100

/* ---- bodies ---- */

static int64_t said(int64_t v, int64_t otherwise)
{
	return v == UNSAID ? otherwise : v;
}

/* What was not said is as in NOW, or follows from the rest: a minimum is never above its maximum. */
static void write_capacity(struct json_out *o, const struct pool_options *p, const struct json *now)
{
	int64_t min = said(p->min, now ? (int64_t)json_count(now, "buffer_min") : DEFAULT_MIN);
	int64_t max = said(p->max, now ? (int64_t)json_count(now, "buffer_max") : min);
	int64_t pool_min = said(p->pool_min, now ? (int64_t)json_count(now, "pool_min") : 0);
	int64_t pool_max = said(p->pool_max, now ? (int64_t)json_count(now, "pool_max") : DEFAULT_POOL_MAX);

	if (p->max == UNSAID && max < min)
		max = min;
	if (p->min == UNSAID && min > max)
		min = max;
	if (p->pool_max == UNSAID && pool_max < max)
		pool_max = max;
	json_key(o, "capacitySpec"), json_open(o, '{');
	json_key(o, "bufferMin"), json_int(o, min);
	json_key(o, "bufferMax"), json_int(o, max);
	json_key(o, "poolMin"), json_int(o, pool_min);
	json_key(o, "poolMax"), json_int(o, pool_max);
	json_close(o, '}');
}

static void write_map(struct json_out *o, const char *key, const struct osb_map *m)
{
	json_key(o, key), json_open(o, '{');
	for (size_t i = 0; i < m->n; i++)
		json_key(o, m->items[i].key), json_cstr(o, m->items[i].value);
	json_close(o, '}');
}

static void write_entrypoint(struct json_out *o, const struct opt_list *words)
{
	static const char *const stay[] = { "tail", "-f", "/dev/null" };
	const char *const *items = words->n > 0 ? words->items : stay;
	size_t n = words->n > 0 ? words->n : ARRAY_LEN(stay);

	json_key(o, "entrypoint"), json_open(o, '[');
	for (size_t i = 0; i < n; i++)
		json_cstr(o, items[i]);
	json_close(o, ']');
}

static int write_template(struct cli *cli, struct json_out *o, const struct pool_options *p, struct err *e)
{
	static const struct osb_pair usual[] = { { "cpu", "1" }, { "memory", "2Gi" } };
	struct osb_map env, resource;

	if (value_pairs(&p->env, &cli->arena, &env, e) < 0 || value_pairs(&p->resource, &cli->arena, &resource, e) < 0)
		return -1;
	if (resource.n == 0)
		resource = (struct osb_map){ usual, ARRAY_LEN(usual) };
	json_open(o, '{');
	json_key(o, "image"), json_open(o, '{');
	json_key(o, "uri"), json_cstr(o, p->image);
	json_close(o, '}');
	write_entrypoint(o, &p->entrypoint);
	write_map(o, "resourceLimits", &resource);
	if (env.n > 0)
		write_map(o, "env", &env);
	json_close(o, '}');
	return 0;
}

static int write_pool(struct cli *cli, const struct pool_options *p, struct buf *b, struct err *e)
{
	AUTO(buf_done) struct buf file = BUF_INIT(BODY_MAX);
	struct json_out o = json_out(b);
	const struct json *template = NULL;

	if (!p->image == !p->template)
		return err_set(e, ERR_INVALID, "--image or --template says what its sandboxes are");
	if (p->template && fd_read_file(AT_FDCWD, p->template, BODY_MAX, &file, e) < 0)
		return -1;
	if (p->template) {
		template = json_parse(&cli->arena, buf_str(&file), NULL, NULL, e);
		if (!template)
			return err_wrap(e, "'%s'", p->template);
	}
	json_open(&o, '{');
	json_key(&o, "name"), json_cstr(&o, cli->operands[0]);
	json_key(&o, "template");
	if (template)
		json_tree(&o, template);
	else if (write_template(cli, &o, p, e) < 0)
		return -1;
	write_capacity(&o, p, NULL);
	json_close(&o, '}');
	return b->failed ? err_no_memory(e) : 0;
}

/* ---- commands ---- */

static const char *const pool_paths[] = { "name", "status.available", "status.allocated", "status.total", "capacity_spec.buffer_min",
					  "capacity_spec.buffer_max", "capacity_spec.pool_max", "created_at", NULL };
static const char *const pool_columns[] = { "name", "available", "allocated", "total", "min", "max", "pool_max", "created_at", NULL };

static int show_pool(struct cli *cli, const struct osb_bytes *answer, const char *title)
{
	const struct json *v = api_tree(cli, answer);

	if (v && output_is_people(&cli->out))
		v = api_row(cli, v, pool_paths, pool_columns);
	return cli_show_panel(cli, v, title);
}

static int pool_create(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf body = BUF_INIT(2 * BODY_MAX);
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct pool_options o = POOL_OPTIONS;
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (write_pool(cli, &o, &body, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_server_pool_create(cli->client, buf_z(&body), &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_pool(cli, answer, "Pool created");
}

static int pool_list(int argc, char **argv, void *arg)
{
	return more_list(arg, argc, argv, osb_server_pool_list, pool_paths, pool_columns, "pools");
}

static int pool_get(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct only_output o = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_server_pool_get(cli->client, cli->operands[0], &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_pool(cli, answer, "Pool");
}

/* The API takes all four numbers: those that were not said stay as they are. */
static int pool_resize(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf body = BUF_INIT(BODY_MAX);
	AUTO(osb_free) struct osb_bytes *now = NULL;
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct json_out b = json_out(&body);
	struct pool_options o = POOL_OPTIONS;
	const struct json *pool;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (o.min == UNSAID && o.max == UNSAID && o.pool_min == UNSAID && o.pool_max == UNSAID)
		return cli_usage(cli, "--min, --max, --pool-min or --pool-max says what changes");
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_server_pool_get(cli->client, cli->operands[0], &now, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	pool = api_tree(cli, now);
	if (!pool)
		return cli->status;
	json_open(&b, '{');
	write_capacity(&b, &o, json_get(pool, "capacity_spec"));
	json_close(&b, '}');
	if (cli_wait(cli, NULL, osb_server_pool_update(cli->client, cli->operands[0], buf_z(&body), &answer, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_pool(cli, answer, "Pool resized");
}

static int remove_pool(struct cli *cli, const char *name, struct osb_call *call)
{
	return osb_server_pool_delete(cli->client, name, call);
}

static int pool_remove(int argc, char **argv, void *arg)
{
	return more_remove(arg, argc, argv, "pool", remove_pool);
}

static int volume_list(int argc, char **argv, void *arg)
{
	static const char *const paths[] = { "name", "state", "size_bytes", "sandboxes", "created_at", NULL };
	static const char *const columns[] = { "name", "status", "size", "sandboxes", "created_at", NULL };

	return more_list(arg, argc, argv, osb_volume_list, paths, columns, "volumes");
}

static int remove_volume(struct cli *cli, const char *name, struct osb_call *call)
{
	return osb_volume_delete(cli->client, name, call);
}

static int volume_remove(int argc, char **argv, void *arg)
{
	return more_remove(arg, argc, argv, "volume", remove_volume);
}

const struct opt_command cli_pool_commands[] = {
	{ .name = "create", .summary = "create a pool of idle sandboxes", .operands = "NAME",
	  .opts = create_opts, .min_operands = 1,
	  .max_operands = 1, .run = pool_create,
	  .about = "Sandboxes of it are taken with 'osb run --pool NAME' or the extension poolRef=NAME of a create, and replaced." },
	{ .name = "ls", .summary = "list pools", .opts = cli_table_opts, .run = pool_list },
	{ .name = "get", .summary = "show a pool", .operands = "NAME", .opts = cli_table_opts, .min_operands = 1, .max_operands = 1,
	  .run = pool_get },
	{ .name = "resize", .summary = "change how many a pool has", .operands = "NAME", .opts = resize_opts, .min_operands = 1,
	  .max_operands = 1, .run = pool_resize, .about = "Options that are not given change nothing." },
	{ .name = "rm", .summary = "delete pools", .operands = "NAME...", .opts = cli_table_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, .run = pool_remove,
	  .about = "Idle sandboxes are removed; those that were taken continue." },
	{ 0 },
};

const struct opt_command cli_volume_commands[] = {
	{ .name = "ls", .summary = "list volumes", .opts = cli_table_opts, .run = volume_list },
	{ .name = "rm", .summary = "delete volumes with all that is in them", .operands = "NAME...", .opts = cli_table_opts,
	  .min_operands = 1, .max_operands = OPT_OPERANDS_ANY, .run = volume_remove },
	{ 0 },
};
