// SPDX-License-Identifier: Apache-2.0
/* Ten sandboxes at once on one thread: nothing here waits but poll(2).
 *
 *     cc -o event_loop event_loop.c $(pkg-config --cflags --libs opensandbox)
 *
 * Each job has a call of its own, and its call backs lead it from one step to the next. */
#include <err.h>
#include <opensandbox.h>
#include <poll.h>
#include <stdio.h>

#define JOBS 10

struct job {
	int number;
	struct osb_client *client;
	struct osb_call *call;
	struct osb_sandbox *sandbox;
	struct osb_execution *execution;
	int *left, *failed;
	char command[64];
};

static void job_end(struct job *j, const char *problem)
{
	if (problem) {
		warnx("job %d: %s", j->number, problem);
		++*j->failed;
	}
	osb_sandbox_free(j->sandbox);
	osb_free(j->execution);
	osb_call_free(j->call); /* fine inside of its own call back */
	--*j->left;
}

static void on_killed(struct osb_call *call, void *arg)
{
	struct job *j = arg;
	const struct osb_error *e = osb_call_error(call);

	job_end(j, e->kind != OSB_OK ? e->message : j->execution ? NULL : "the command did not run");
}

static void on_run(struct osb_call *call, void *arg)
{
	struct job *j = arg;

	if (osb_call_error(call)->kind == OSB_OK)
		printf("job %d: %s\n", j->number, j->execution->stdout_text);
	else
		warnx("job %d: %s", j->number, osb_call_error(call)->message);
	osb_call_on_done(call, on_killed, j);
	(void)osb_sandbox_kill(j->client, osb_sandbox_id(j->sandbox), call); /* what fails at once calls back, too */
}

static void on_created(struct osb_call *call, void *arg)
{
	struct job *j = arg;

	if (osb_call_error(call)->kind != OSB_OK) {
		job_end(j, osb_call_error(call)->message);
		return;
	}
	osb_call_on_done(call, on_run, j);
	(void)osb_command_run(j->sandbox, &(struct osb_command){ .command = j->command }, NULL, NULL, &j->execution, call);
}

static void job_begin(struct job *j)
{
	j->call = osb_call_new(j->client);
	if (!j->call)
		errx(1, "out of memory");
	(void)snprintf(j->command, sizeof(j->command), "echo $((%d * %d))", j->number, j->number);
	osb_call_set_deadline(j->call, 60000);
	osb_call_on_done(j->call, on_created, j);
	(void)osb_sandbox_create(j->client, &(struct osb_create){ .image = "host" }, &j->sandbox, j->call);
}

int main(void)
{
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e);
	struct job jobs[JOBS] = { { 0 } };
	int left = JOBS, failed = 0;

	if (!c)
		errx(1, "%s", e.message);
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){ .number = i, .client = c, .left = &left, .failed = &failed };
		job_begin(&jobs[i]);
	}
	while (left > 0) {
		struct pollfd p = { .fd = osb_client_fd(c), .events = POLLIN }; /* next to whatever else the program watches */

		if (poll(&p, 1, osb_client_timeout_ms(c)) < 0 || osb_client_dispatch(c, 0) < 0)
			err(1, "poll");
	}
	osb_client_free(c);
	return failed > 0;
}
