// SPDX-License-Identifier: Apache-2.0
/* Makes a sandbox, runs a command in it, shows what it wrote, and removes the sandbox.
 *
 *     cc -o hello hello.c $(pkg-config --cflags --libs opensandbox)
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./hello */
#include <err.h>
#include <opensandbox.h>
#include <stdio.h>

int main(void)
{
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e); /* address and key come from the environment */
	struct osb_sandbox *s = NULL;
	struct osb_execution *x = NULL;
	int status = 1;

	if (!c)
		errx(1, "%s", e.message);
	if (osb_sandbox_create(c, &(struct osb_create){ .image = "host" }, &s, NULL) < 0)
		errx(1, "%s", osb_client_error(c)->message);
	if (osb_command_run(s, &(struct osb_command){ .command = "echo hello from $(uname -s)" }, NULL, NULL, &x, NULL) < 0) {
		warnx("%s", osb_client_error(c)->message);
	} else {
		puts(x->stdout_text);
		status = x->has_exit_code ? (int)x->exit_code : 1;
	}
	osb_free(x);
	if (osb_sandbox_kill(c, osb_sandbox_id(s), NULL) < 0)
		warnx("%s", osb_client_error(c)->message);
	osb_client_free(c); /* handles of sandboxes go with it */
	return status;
}
