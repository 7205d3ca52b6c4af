// SPDX-License-Identifier: Apache-2.0
/* Brings files in and out: a small one in memory, a large one piece by piece, and what is known of them.
 *
 *     cc -o files files.c $(pkg-config --cflags --libs opensandbox)
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./files */
#include <err.h>
#include <opensandbox.h>
#include <stdio.h>
#include <string.h>

#define LARGE ((int64_t)64 * 1024 * 1024)

/* A program would read(2) from a file here, and write(2) to one below. */
static long give(char *out, size_t max, void *arg)
{
	int64_t *left = arg;
	size_t n = (int64_t)max < *left ? max : (size_t)*left;

	memset(out, 'x', n);
	*left -= (int64_t)n;
	return (long)n;
}

static int take(const char *data, size_t n, void *arg)
{
	(void)data;
	*(int64_t *)arg += (int64_t)n;
	return 0;
}

static int try_files(struct osb_sandbox *s)
{
	static const char *const paths[] = { "/tmp/example/note.txt", "/tmp/example/large" };
	const struct osb_entry note = { .path = paths[0], .mode = 640 }, large = { .path = paths[1] };
	const struct osb_replace replace = { paths[0], "world", "sandbox" };
	const struct osb_strings both = { paths, 2 };
	struct osb_files *files = NULL;
	struct osb_bytes *bytes = NULL;
	int64_t left = LARGE, got = 0;

	if (osb_file_write(s, &note, "hello world\n", 12, NULL) < 0 || osb_file_replace(s, &replace, 1, NULL, NULL) < 0 ||
	    osb_file_read(s, note.path, NULL, &bytes, NULL) < 0)
		return -1;
	printf("%.*s", (int)bytes->n, bytes->data);
	osb_free(bytes);
	if (osb_file_upload(s, &large, LARGE, give, &left, NULL) < 0 || osb_file_download(s, large.path, NULL, take, &got, NULL) < 0)
		return -1;
	printf("%lld bytes came back\n", (long long)got);
	if (osb_file_info(s, &both, &files, NULL) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++)
		printf("%s %d %lld\n", files->items[i].path, files->items[i].mode, (long long)files->items[i].size);
	osb_free(files);
	return 0;
}

int main(void)
{
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e);
	struct osb_sandbox *s = NULL;
	int status = 0;

	if (!c)
		errx(1, "%s", e.message);
	if (osb_sandbox_create(c, &(struct osb_create){ .image = "host" }, &s, NULL) < 0)
		errx(1, "%s", osb_client_error(c)->message);
	if (try_files(s) < 0) {
		warnx("%s", osb_client_error(c)->message);
		status = 1;
	}
	if (osb_sandbox_kill(c, osb_sandbox_id(s), NULL) < 0)
		warnx("%s", osb_client_error(c)->message);
	osb_client_free(c);
	return status;
}
