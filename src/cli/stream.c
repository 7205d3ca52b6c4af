// SPDX-License-Identifier: Apache-2.0
#include "cli/stream.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/hint.h"
#include "cli/terminal.h"
#include "sys/signals.h"

#include "base/banned.h"

#define STATUS_MAX 255
#define ENDING_MS 5000 /* for the end of a session that nobody waits for */

/* ---- in a session ---------------------------------------------------------------------------------------- */

/* A line comes without its end, an empty one as nothing but its end. */
static void write_line(FILE *to, const struct osb_event *event)
{
	bool is_empty = event->n_text == 1 && event->text[0] == '\n';

	(void)fwrite(event->text, 1, event->n_text, to); /* a failure stays with the stream, and is told at the end */
	if (!is_empty)
		(void)fputc('\n', to);
	(void)fflush(to);
}

static void on_event(const struct osb_event *event, void *arg)
{
	struct cli *cli = arg;

	if (event->kind == OSB_EVENT_STDOUT)
		write_line(stdout, event);
	else if (event->kind == OSB_EVENT_STDERR)
		write_line(stderr, event);
	if (ferror(stdout))
		osb_call_cancel(cli->call); /* nobody reads it any more */
}

static int status_of(struct cli *cli, const struct osb_execution *x)
{
	char message[1024];

	if (x->has_exit_code)
		return x->exit_code >= 0 && x->exit_code <= STATUS_MAX ? (int)x->exit_code : CLI_FAILED;
	if (!x->error_name)
		return CLI_OK;
	(void)snprintf(message, sizeof(message), "%s: %s", x->error_name, x->error_value ? x->error_value : ""); /* cut if it is long */
	output_error_panel(&cli->out, "Execution Error", message, NULL);
	return CLI_FAILED;
}

/* Whoever hangs up ends what the session runs, and the session stays. */
int stream_session(struct cli *cli, struct osb_sandbox *s, const char *session_id, const struct osb_command *command)
{
	AUTO(osb_free) struct osb_execution *x = NULL;

	if (cli_wait(cli, NULL, osb_session_run(s, session_id, command, on_event, cli, &x, cli_call(cli))) == 0)
		return status_of(cli, x);
	return cli->interrupts > 0 || !ferror(stdout) ? cli_fail_call(cli) : CLI_FAILED;
}

/* ---- not in a session ------------------------------------------------------------------------------------ */

static int fail_with(struct cli *cli, const struct osb_error *e)
{
	output_error_panel(&cli->out, "Sandbox Error", e->message[0] ? e->message : "the connection is lost", hint_for(e));
	return CLI_FAILED;
}

/* Its session is of no use to anybody; what still runs in it ends. */
static int leave(struct cli *cli, struct osb_sandbox *s, const struct attach_result *r)
{
	struct osb_call *call = osb_call_new(cli->client);

	if (call)
		osb_call_set_deadline(call, ENDING_MS);
	(void)osb_pty_delete(s, r->session, call); /* it may be gone, with its sandbox too */
	osb_call_free(call);
	if (r->end == ATTACH_LOST)
		return fail_with(cli, &r->error);
	if (r->end == ATTACH_TIMEOUT)
		(void)cli_fail(cli, "the command did not end in time");
	return attach_status(r);
}

int stream_command(struct cli *cli, struct osb_sandbox *s, const struct osb_command *command)
{
	struct attach_spec spec = {
		.sandbox = s,
		.no_input = true,
		.options = { .size = sizeof(spec.options), .command = command->command, .working_directory = command->working_directory },
		.deadline_ms = command->timeout_ms > 0 ? clock_mono_ms() + (uint64_t)command->timeout_ms : 0,
	};
	const sigset_t set = SIGNALS(TERMINAL_SIGNALS);
	struct attach_result result;
	struct osb_error why = { 0 };
	struct err e = { 0 };
	AUTO_FD signals = signals_block(&set, &e) < 0 ? -1 : signals_open(&set, &e);

	if (signals < 0)
		return cli_fail_err(cli, &e);
	spec.signals = signals;
	return attach(&spec, &result, &why) < 0 ? fail_with(cli, &why) : leave(cli, s, &result);
}
