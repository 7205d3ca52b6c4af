// SPDX-License-Identifier: Apache-2.0
/* Shows what a command writes while it runs, gives it input, and ends as it ends.
 *
 *     cc -o streaming streaming.c $(pkg-config --cflags --libs opensandbox)
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./streaming */
#include <err.h>
#include <opensandbox.h>
#include <stdio.h>

/* ---- lines, one event each ---- */

static void on_event(const struct osb_event *event, void *arg)
{
	(void)arg;
	if (event->kind == OSB_EVENT_STDOUT)
		printf("line: %s\n", event->text);
	else if (event->kind == OSB_EVENT_STDERR)
		printf("error: %s\n", event->text);
}

/* ---- bytes, as they were written ---- */

struct program {
	bool is_over;
	int exit_code;
};

static void on_output(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg)
{
	(void)p;
	(void)arg;
	(void)fwrite(data, 1, n, is_stderr ? stderr : stdout);
}

static void on_exit_code(struct osb_pty *p, int exit_code, void *arg)
{
	(void)p;
	*(struct program *)arg = (struct program){ true, exit_code };
}

static void on_lost(struct osb_pty *p, const struct osb_error *e, void *arg)
{
	(void)p;
	warnx("%s", e->message);
	*(struct program *)arg = (struct program){ true, 1 };
}

static int sort_words(struct osb_client *c, struct osb_sandbox *s)
{
	static const struct osb_pty_ops ops = { .on_output = on_output, .on_exit = on_exit_code, .on_lost = on_lost };
	const struct osb_pty_options how = { .size = sizeof(how), .command = "sort", .pipes = true };
	struct program program = { false, 1 };
	struct osb_pty *p = NULL;

	if (osb_pty_open(s, &how, &ops, &program, &p, NULL) < 0) {
		warnx("%s", osb_client_error(c)->message);
		return 1;
	}
	(void)osb_pty_write(p, "pear\napple\nfig\n", 15); /* so little always has room; on_drained tells of it otherwise */
	(void)osb_pty_end_input(p);
	while (!program.is_over && osb_client_dispatch(c, -1) == 0)
		;
	osb_pty_free(p);
	return program.exit_code;
}

int main(void)
{
	const struct osb_command command = { .size = sizeof(command), .command = "for i in 1 2 3; do echo $i; sleep 0.1; done; echo bad >&2",
					     .skip_accumulation = true };
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e);
	struct osb_sandbox *s = NULL;
	int status = 1;

	if (!c)
		errx(1, "%s", e.message);
	if (osb_sandbox_create(c, &(struct osb_create){ .image = "host" }, &s, NULL) < 0)
		errx(1, "%s", osb_client_error(c)->message);
	if (osb_command_run(s, &command, on_event, NULL, NULL, NULL) < 0)
		warnx("%s", osb_client_error(c)->message);
	else
		status = sort_words(c, s);
	if (osb_sandbox_kill(c, osb_sandbox_id(s), NULL) < 0)
		warnx("%s", osb_client_error(c)->message);
	osb_client_free(c);
	return status;
}
