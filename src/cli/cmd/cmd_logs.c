// SPDX-License-Identifier: Apache-2.0
/* osb logs: output of the first program of a sandbox. */
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/log_follow.h"

#include "base/banned.h"

#define TAIL_MAX 10000 /* lines that the server has for one answer */
#define FOLLOW_SINCE "20s" /* lines that came meanwhile, with room for a slow answer; what was seen is not shown again */
#define POLL_NS 400000000L
#define STATE_POLLS 5 /* looks at the log between two looks at the sandbox */
#define PAGE_MAX ((size_t)16 * 1024 * 1024)

struct logs_options {
	const char *output, *since;
	int64_t tail;
	bool follow, timestamps;
};

const struct opt cli_logs_opts[] = {
	OPT(struct logs_options, follow, OPT_FLAG, "follow", 'f', NULL,
	    "Follow new lines, until the sandbox ends or Ctrl-C."),
	OPT(struct logs_options, tail, OPT_INT, "tail", 'n', "N", "The newest N lines.", .min = 1, .max = TAIL_MAX),
	OPT(struct logs_options, since, OPT_STRING, "since", 's', "AGE", "Lines that are not older than AGE: '30s', '10m', '1h', '2d'."),
	OPT(struct logs_options, timestamps, OPT_FLAG, "timestamps", 't', NULL, "Show when each line was written."),
	{ 0 },
};

/* One look: what is new goes to stdout. 0, or -1 for an error of the call. */
static int look(struct cli *cli, struct log_follow *f, int64_t tail, const char *since, bool is_final)
{
	AUTO(osb_free) struct osb_bytes *page = NULL;
	AUTO(buf_done) struct buf lines = BUF_INIT(PAGE_MAX);
	char number[24];
	struct osb_pair pairs[] = { { "tail", number }, { "since", since } };
	const struct osb_map query = { pairs, since ? 2 : 1 };

	(void)snprintf(number, sizeof(number), "%lld", (long long)tail);
	if (cli_wait(cli, NULL, osb_diagnostics_text(cli->client, cli->operands[0], "logs", &query, &page, cli_call(cli))) < 0)
		return -1;
	log_follow(f, str_is((struct str){ page->data, page->n }, "(no logs)\n") ? STR("") : (struct str){ page->data, page->n }, is_final,
		   &lines);
	(void)output_bytes(&cli->out, buf_str(&lines));
	(void)output_flush(&cli->out); /* who follows wants it now; a failure is told at the end */
	return 0;
}

static bool has_ended(struct cli *cli)
{
	AUTO(osb_free) struct osb_sandbox_info *info = NULL;
	struct str state;

	if (cli_wait(cli, NULL, osb_sandbox_get(cli->client, cli->operands[0], &info, cli_call(cli))) < 0)
		return cli_error(cli)->http_status == 404;
	state = str_of(info->status.state);
	return str_is(state, "Terminated") || str_is(state, "Failed");
}

static int follow(struct cli *cli, struct log_follow *f)
{
	for (unsigned i = 1; cli->interrupts == 0 && !cli->out.is_failed; i++) {
		bool is_over = i % STATE_POLLS == 0 && has_ended(cli);

		if (look(cli, f, TAIL_MAX, FOLLOW_SINCE, is_over) < 0) {
			if (cli->interrupts > 0 || cli_error(cli)->http_status == 404)
				break; /* it was asked to end, or the sandbox is gone */
			return cli_fail_call(cli);
		}
		if (is_over)
			break;
		(void)nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return CLI_OK;
}

int cmd_logs(int argc, char **argv, void *arg)
{
	struct logs_options o = { .tail = TAIL_MAX };
	struct log_follow f = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	cli->out.format = OUTPUT_RAW;
	f.shows_times = o.timestamps;
	if (!cli_client(cli) || look(cli, &f, o.tail, o.since, !o.follow) < 0)
		return cli_fail_call(cli);
	return o.follow ? follow(cli, &f) : CLI_OK;
}
