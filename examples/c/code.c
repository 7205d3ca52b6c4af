// SPDX-License-Identifier: Apache-2.0
/* Runs code in a context that remembers, shows results and errors.
 *
 *     cc -o code code.c $(pkg-config --cflags --libs opensandbox)
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./code */
#include <err.h>
#include <opensandbox.h>
#include <stdio.h>

static int run(struct osb_sandbox *s, const char *context, const char *text)
{
	const struct osb_code code = { .size = sizeof(code), .code = text, .context_id = context, .language = "python" };
	struct osb_execution *x = NULL;

	if (osb_code_run(s, &code, NULL, NULL, &x, NULL) < 0)
		return -1;
	printf("%s", x->stdout_text);
	for (size_t i = 0; i < x->n_results; i++)
		printf("= %s\n", x->results[i].text ? x->results[i].text : "(not text)");
	if (x->error_name)
		printf("! %s: %s\n", x->error_name, x->error_value);
	osb_free(x);
	return 0;
}

int main(void)
{
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e);
	struct osb_sandbox *s = NULL;
	struct osb_context *context = NULL;
	int status = 0;

	if (!c)
		errx(1, "%s", e.message);
	if (osb_sandbox_create(c, &(struct osb_create){ .image = "host" }, &s, NULL) < 0)
		errx(1, "%s", osb_client_error(c)->message);
	if (osb_context_create(s, "python", "/tmp", &context, NULL) < 0 || run(s, context->id, "x = 6\nprint('set')") < 0 ||
	    run(s, context->id, "x * 7") < 0 || run(s, context->id, "y") < 0) {
		warnx("%s", osb_client_error(c)->message);
		status = 1;
	}
	osb_free(context);
	if (osb_sandbox_kill(c, osb_sandbox_id(s), NULL) < 0)
		warnx("%s", osb_client_error(c)->message);
	osb_client_free(c);
	return status;
}
