// SPDX-License-Identifier: Apache-2.0
/* osb sandbox metrics */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"

#include "base/banned.h"

#define LINE_MAX_BYTES 512
#define TREE_MAX ((size_t)64 * 1024)

struct metrics_options {
	const char *output;
	bool watch;
};

const struct opt sandbox_metrics_opts[] = {
	OPT(struct metrics_options, watch, OPT_FLAG, "watch", 0, NULL,
	    "Repeat once a second, one line each, until Ctrl-C."),
	OPT_OUTPUT(struct metrics_options, output_table_raw),
	{ 0 },
};

static void show_line(struct cli *cli, const struct osb_metrics *m)
{
	AUTO(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
	char at[RFC3339_SIZE];
	size_t n = rfc3339_format(timespec_from_us(m->timestamp_ms * 1000), at);

	buf_addf(&b, "[%.*s+00:00] cpu=%.2f%% cores=%g mem=%.2f/%.2fMiB\n", (int)n - 1, at, m->cpu_used_percentage, m->cpu_count,
		 m->memory_used_mib, m->memory_total_mib);
	(void)output_bytes(&cli->out, buf_str(&b));
}

/* The names that the other SDKs give them. */
static void show_tree(struct cli *cli, const struct osb_metrics *m)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
	struct json_out o = json_out(&b);
	const struct json *v;

	json_open(&o, '{');
	json_key(&o, "cpu_count"), json_real(&o, m->cpu_count);
	json_key(&o, "cpu_used_percentage"), json_real(&o, m->cpu_used_percentage);
	json_key(&o, "memory_total_in_mib"), json_real(&o, m->memory_total_mib);
	json_key(&o, "memory_used_in_mib"), json_real(&o, m->memory_used_mib);
	json_key(&o, "timestamp"), json_int(&o, m->timestamp_ms);
	json_close(&o, '}');
	v = json_parse(&a, buf_str(&b), NULL, NULL, &(struct err){ 0 }); /* NULL: no memory, and the next one may fare better */
	if (v && cli->out.format == OUTPUT_JSON)
		(void)output_json_line(&cli->out, v);
	else if (v)
		(void)output_dict(&cli->out, v, NULL);
}

static void on_metrics(const struct osb_metrics *m, const char *error, void *arg)
{
	struct cli *cli = arg;

	if (error)
		(void)output_warning(&cli->out, "Metrics stream error: %s", error);
	else if (output_is_people(&cli->out))
		show_line(cli, m);
	else
		show_tree(cli, m);
	if (output_end(&cli->out, &(struct err){ 0 }) < 0) /* nobody reads any more: that is told at the end */
		osb_call_cancel(cli->call);
}

static int watch(struct cli *cli, struct osb_sandbox *s)
{
	int r = cli_wait(cli, NULL, osb_metrics_watch(s, on_metrics, cli, cli_call(cli)));

	if (cli->interrupts > 0)
		return CLI_OK; /* that is how one ends it */
	return r < 0 ? cli_fail_call(cli) : CLI_OK;
}

int sandbox_metrics(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_metrics *m = NULL;
	struct metrics_options o = { 0 };
	struct osb_sandbox *s;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (o.watch && !o.output)
		cli->out.format = OUTPUT_RAW;
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	if (o.watch)
		return watch(cli, s);
	if (cli_wait(cli, NULL, osb_metrics_get(s, &m, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show(cli, cli_tree(cli, m), "Sandbox Metrics");
}
