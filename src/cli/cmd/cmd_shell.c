// SPDX-License-Identifier: Apache-2.0
/* osb shell: a person in a sandbox. */
#include "base/buf.h"
#include "base/err.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/run_options.h"
#include "cli/terminal.h"
#include "cli/values.h"
#include "sys/signals.h"

#include "base/banned.h"

#define COMMAND_MAX ((size_t)1024 * 1024)
#define ENDING_MS 5000

struct shell_options {
	const char *workdir, *session;
	bool no_escape, takeover;
};

const struct opt cli_shell_opts[] = {
	OPT(struct shell_options, workdir, OPT_STRING, "workdir", 'w', "FOLDER", "Start it in FOLDER."),
	OPT(struct shell_options, session, OPT_STRING, "session", 's', "SESSION",
	    "Reconnect to a shell that was left running with '~d'."),
	OPT(struct shell_options, takeover, OPT_FLAG, "takeover", 0, NULL,
	    "With a SESSION: disconnect its current client."),
	OPT(struct shell_options, no_escape, OPT_FLAG, "no-escape", 0, NULL, "Disable the escape key '~'."),
	{ 0 },
};

/* A shell that nobody comes back to is not left running. */
static void end_shell(struct cli *cli, struct osb_sandbox *s, const char *session)
{
	struct osb_call *call = osb_call_new(cli->client);

	if (call)
		osb_call_set_deadline(call, ENDING_MS);
	(void)osb_pty_delete(s, session, call); /* it may be gone, with its sandbox too */
	osb_call_free(call);
}

static int leave(struct cli *cli, struct osb_sandbox *s, const struct attach_result *r)
{
	switch (r->end) {
	case ATTACH_DETACHED:
		run_note("it goes on; 'osb shell --session %s %s' comes back to it", r->session, osb_sandbox_id(s));
		break;
	case ATTACH_LOST:
		run_note("the connection is lost: %s", r->error.message[0] ? r->error.message : "it does not say why");
		break;
	case ATTACH_EXIT:
		break;
	case ATTACH_SIGNAL:
	case ATTACH_CLOSED:
	case ATTACH_TIMEOUT:
	case ATTACH_LEFT:
		end_shell(cli, s, r->session);
		break;
	}
	return attach_status(r);
}

int cmd_shell(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf command = BUF_INIT(COMMAND_MAX);
	const sigset_t set = SIGNALS(TERMINAL_SIGNALS);
	struct shell_options o = { 0 };
	struct attach_spec spec = { .options = { .size = sizeof(spec.options) } };
	struct attach_result result;
	struct osb_error why;
	struct cli *cli = arg;
	struct err e = { 0 };
	int first = 1;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (cli->n_operands > 1 && str_is(str_of(cli->operands[1]), "--"))
		first++;
	value_quote(cli->operands + first, cli->n_operands - first, &command);
	spec.sandbox = cli_connect(cli, cli->operands[0]);
	if (!spec.sandbox)
		return RUN_STATUS_FAILED;
	spec.signals = signals_block(&set, &e) < 0 ? -1 : signals_open(&set, &e);
	if (spec.signals < 0)
		return cli_fail_err(cli, &e);
	spec.is_terminal = terminal_is(STDIN_FILENO);
	spec.has_keys = spec.is_terminal && !o.no_escape;
	spec.options.command = cli->n_operands > first ? buf_z(&command) : NULL;
	spec.options.working_directory = o.workdir;
	spec.options.session_id = o.session;
	spec.options.takeover = o.takeover;
	if (attach(&spec, &result, &why) < 0) {
		run_fail(cli, &why);
		return RUN_STATUS_FAILED;
	}
	return leave(cli, spec.sandbox, &result);
}
