// SPDX-License-Identifier: Apache-2.0
/* osb: the command line of OpenSandbox. Runs with the rights of whoever starts it and holds no descriptors but the standard ones
 * and its connections. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/commands.h"

#include "base/banned.h"

#define ENDING_S 5 /* for what is cleaned up when we are told to end */

static struct cli cli = { .arena = ARENA_INIT(CLI_ARENA_MAX) };

/* Who typed it is told; anybody else sees what the signal does to every program. */
static void end_by(int signo)
{
	static const char text[] = "Aborted!\n";

	if (signo == SIGINT) {
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		_exit(CLI_FAILED);
	}
	(void)signal(signo, SIG_DFL);
	(void)raise(signo); /* it is blocked here, and comes as soon as the handler returns */
}

/* Ends what is under way; when nothing is, or it does not end, the program. */
static void on_interrupt(int signo)
{
	cli.interrupts++;
	if (cli.interrupts > 2 || !cli.call) {
		end_by(signo);
		return;
	}
	if (signo != SIGINT)
		(void)alarm(ENDING_S); /* a read of a pipe cannot be cancelled, and who sent this is not made to send it again */
	osb_call_cancel(cli.call);
}

/* What a parent chose to ignore (nohup, a job in the background) stays ignored. */
static void take_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction was;

	(void)signal(SIGPIPE, SIG_IGN); /* of sendfile(2), which has no flag for it; a reader that is gone is seen by the write */
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &(struct sigaction){ .sa_handler = on_interrupt }, NULL);
}

/* A standard stream that was closed would become the first connection, and messages would be sent to the server. Its number is taken
 * by something that cannot be used in its direction: whoever reads or writes it fails, as with a closed one. */
static void hold_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC); /* the lowest free number */
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	int status;

	hold_streams();
	cli.env = (const char *const *)environ;
	log_set_level(LOG_LEVEL_ERROR);
	take_signals();
	status = cli_run(&cli, argc, argv);
	if (output_end(&cli.out, &e) < 0) {
		(void)cli_fail_err(&cli, &e);
		status = status == CLI_OK ? CLI_FAILED : status;
	}
	cli_done(&cli);
	return status;
}
