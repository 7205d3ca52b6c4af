// SPDX-License-Identifier: Apache-2.0
/* osb run: a sandbox for one command. It is made, the command runs with our streams for its own, and it is deleted.
 *
 * While the command runs the sandbox is renewed for RUN_TTL_S again and again: if we are killed, it ends by itself soon after. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"
#include "cli/commands_more.h"
#include "cli/human.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/terminal.h"
#include "cli/values.h"
#include "sys/signals.h"

#include "base/banned.h"

#define RUN_TTL_S 300
#define RENEW_MS 60000
#define GRACE_S 60          /* that the server waits longer than we do */
#define TTL_MIN_S 60        /* the server takes no less */
#define READY_MS (600 * 1000) /* an image may have to be pulled */
#define WATCH_AFTER_MS 700  /* of a create: then it is pulling, and people want to see that */
#define KILL_MS 10000
#define COMMAND_MAX ((size_t)1024 * 1024)

struct run {
	struct cli *cli;
	const struct run_options *o;
	int signals;
	int signo;             /* that ended it before the command ran; 0: none */
	int64_t timeout_s;     /* 0: none */
	struct osb_sandbox *sandbox;
	struct osb_call *renewal;
	struct osb_call *watch; /* of the pull that a create waits for */
	struct progress bar;
	uint64_t begun_ms;
};

/* ---- making it ---- */

static void on_done(struct osb_call *call, void *arg)
{
	(void)call;
	(void)arg; /* who waits sees that it is not busy any more */
}

static void on_pulled(const struct osb_progress *p, void *arg)
{
	struct run *r = arg;

	if (p->total_bytes <= 0)
		return;
	r->bar.note = STR("");
	r->bar.total = (uint64_t)p->total_bytes;
	if (p->done_bytes < p->total_bytes)
		progress_set(&r->bar, p->done_bytes > 0 ? (uint64_t)p->done_bytes : 0);
	else
		progress_say(&r->bar, STR("unpacking"));
}

/* Joins the pull that the create waits for, if it does: what comes of it is the create's business. */
static void watch_pull(struct run *r, const struct osb_create *create)
{
	const struct osb_pull pull = { .size = sizeof(pull), .image = create->image, .username = create->image_username,
				       .password = create->image_password };

	if (!create->image || r->bar.fd < 0)
		return;
	progress_say(&r->bar, STR("getting it ready"));
	r->watch = osb_call_new(r->cli->client);
	if (!r->watch)
		return;
	osb_call_on_done(r->watch, on_done, r);
	(void)osb_image_pull(r->cli->client, &pull, on_pulled, r, r->watch);
}

static void take_signal(struct run *r, struct osb_call *call)
{
	struct err e = { 0 };
	int signo;

	while (signals_read(r->signals, &signo, NULL, &e) == 1) {
		if (signo == SIGWINCH || signo == SIGTSTP)
			continue;
		r->signo = signo;
		osb_call_cancel(call); /* what was made is deleted by whoever made it */
	}
}

static int wait_create(struct run *r, const struct osb_create *create, struct osb_call *call)
{
	uint64_t watch_at = clock_mono_ms() + WATCH_AFTER_MS;

	while (osb_call_is_busy(call)) {
		struct pollfd p[] = { { .fd = osb_client_fd(r->cli->client), .events = POLLIN }, { .fd = r->signals, .events = POLLIN } };
		uint64_t now = clock_mono_ms();
		int ms = osb_client_timeout_ms(r->cli->client), left = watch_at > now ? (int)(watch_at - now) : 0;

		if (watch_at > 0 && left == 0) {
			watch_pull(r, create);
			watch_at = 0;
		}
		if (poll(p, ARRAY_LEN(p), watch_at == 0 ? ms : ms < 0 || left < ms ? left : ms) < 0 && errno != EINTR)
			return -1;
		if (p[1].revents)
			take_signal(r, call);
		if (osb_client_dispatch(r->cli->client, 0) < 0)
			return -1;
	}
	return osb_call_error(call)->kind == OSB_OK ? 0 : -1;
}

static int create_sandbox(struct run *r, const struct osb_create *create)
{
	struct osb_call *call = osb_call_new(r->cli->client);
	int rc;

	if (!call)
		return cli_fail(r->cli, "out of memory");
	progress_init(&r->bar, STDERR_FILENO, r->o->quiet, str_of(create->image ? create->image : "snapshot"), PROGRESS_UNKNOWN);
	osb_call_on_done(call, on_done, r);
	(void)osb_sandbox_create(r->cli->client, create, &r->sandbox, call);
	rc = wait_create(r, create, call);
	if (r->watch)
		osb_call_free(r->watch);
	progress_clear(&r->bar);
	if (rc < 0 && r->signo == 0)
		run_fail(r->cli, osb_call_error(call));
	osb_call_free(call);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}

/* ---- keeping it alive, and its end ---- */

static int64_t ttl_of(const struct run *r)
{
	if (r->timeout_s > 0)
		return MAX(r->timeout_s, (int64_t)TTL_MIN_S) + (r->o->keep ? 0 : GRACE_S);
	return r->o->keep ? OSB_TTL_DEFAULT : RUN_TTL_S;
}

static void renew(void *arg)
{
	struct run *r = arg;

	if (!r->renewal) {
		r->renewal = osb_call_new(r->cli->client);
		if (r->renewal)
			osb_call_on_done(r->renewal, on_done, r);
	}
	if (r->renewal && !osb_call_is_busy(r->renewal)) /* one that fails is followed by the next */
		(void)osb_sandbox_renew(r->cli->client, osb_sandbox_id(r->sandbox), RUN_TTL_S, NULL, r->renewal);
}

static void remove_sandbox(struct run *r)
{
	const char *id = osb_sandbox_id(r->sandbox);
	struct osb_call *call;

	if (r->o->keep) {
		if (!r->o->quiet)
			run_note("kept %s; 'osb shell %s' enters it, 'osb rm %s' ends it", id, id, id);
		return;
	}
	call = osb_call_new(r->cli->client);
	if (call)
		osb_call_set_deadline(call, KILL_MS);
	if (osb_sandbox_kill(r->cli->client, id, call) < 0) {
		const struct osb_error *e = call ? osb_call_error(call) : osb_client_error(r->cli->client);

		if (e->http_status != 404) /* it may have come to its end first */
			run_note("sandbox %s is not deleted and ends by itself: %s", id, e->message);
	}
	osb_call_free(call);
}

/* ---- the command ---- */

static void tell(const struct run *r, const struct attach_result *result)
{
	switch (result->end) {
	case ATTACH_TIMEOUT:
		run_note("the command took longer than %s, and was ended", SPAN((uint64_t)r->timeout_s));
		break;
	case ATTACH_LOST:
		run_note("the sandbox is lost: %s", result->error.message[0] ? result->error.message : "it does not say why");
		break;
	case ATTACH_EXIT:
	case ATTACH_SIGNAL:
	case ATTACH_CLOSED:
	case ATTACH_LEFT:
	case ATTACH_DETACHED:
		break;
	}
}

static int run_command(struct run *r, const char *command, bool is_terminal)
{
	struct attach_spec spec = {
		.sandbox = r->sandbox,
		.options = { .size = sizeof(spec.options), .command = command, .working_directory = r->o->workdir },
		.is_terminal = is_terminal,
		.no_input = r->o->no_stdin,
		.signals = r->signals,
		.deadline_ms = r->timeout_s > 0 ? r->begun_ms + (uint64_t)r->timeout_s * 1000 : 0,
		.renew_ms = r->timeout_s > 0 || r->o->keep ? 0 : RENEW_MS,
		.renew = renew,
		.arg = r,
	};
	struct attach_result result;
	struct osb_error e;

	if (attach(&spec, &result, &e) < 0) {
		run_fail(r->cli, &e);
		return RUN_STATUS_FAILED;
	}
	tell(r, &result);
	return attach_status(&result);
}

/* ---- all of it ---- */

static int run_all(struct run *r, const struct osb_create *create, const char *command, bool is_terminal)
{
	int status;

	if (create_sandbox(r, create) != CLI_OK)
		return r->signo > 0 ? 128 + r->signo : RUN_STATUS_FAILED;
	if (r->o->detach) {
		(void)output_line(&r->cli->out, str_of(osb_sandbox_id(r->sandbox)));
		return CLI_OK;
	}
	r->begun_ms = clock_mono_ms();
	status = run_command(r, command, is_terminal);
	remove_sandbox(r);
	osb_call_free(r->renewal);
	return status;
}

/* Signals are read from a descriptor from here on: none of them ends us before the sandbox is deleted. */
static int take_signals(struct err *e)
{
	const sigset_t set = SIGNALS(TERMINAL_SIGNALS);

	return signals_block(&set, e) < 0 ? -1 : signals_open(&set, e);
}

int cmd_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf command = BUF_INIT(COMMAND_MAX);
	struct osb_create create = { .size = sizeof(create), .ready_timeout_ms = READY_MS };
	struct run_options o = { 0 };
	struct cli *cli = arg;
	struct run r = { .cli = cli, .o = &o };
	struct err e = { 0 };
	bool is_terminal;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	cli->out.format = OUTPUT_RAW;
	if (run_options_read(cli, &o, &create, &r.timeout_s, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (run_options_load(cli, &o, &create, &e) < 0)
		return cli_fail_err(cli, &e);
	is_terminal = o.terminal || (o.n_words == 0 && terminal_is(STDIN_FILENO) && terminal_is(STDOUT_FILENO));
	if (!o.detach && o.n_words == 0 && !is_terminal)
		return cli_usage(cli, "there is no command to run; '-t' runs a shell on a terminal");
	if (is_terminal && !o.detach && !terminal_is(STDIN_FILENO))
		return cli_fail(cli, "--tty: standard input is no terminal");
	value_quote(o.words, o.n_words, &command);
	if (!o.detach || r.timeout_s > 0)
		create.timeout_s = ttl_of(&r);
	r.signals = take_signals(&e);
	if (command.failed || r.signals < 0)
		return cli_fail(cli, "%s", command.failed ? "the command is too long" : e.msg);
	if (!cli_client(cli))
		return cli->status;
	return run_all(&r, &create, o.n_words > 0 ? buf_z(&command) : NULL, is_terminal);
}
