// SPDX-License-Identifier: Apache-2.0
/* Calls the library's functions about images and archives against a real server and a real registry.
 *
 *     IMAGE=host/name:tag ARCHIVE=file images DOMAIN KEY
 *
 * The image is in the registry, the file is written and read. */
#include "trying.h"

#include "base/banned.h"

static const char *image, *path;

struct seen {
	unsigned times;
	int64_t done;
	char last[32];
};

static void on_progress(const struct osb_progress *p, void *arg)
{
	struct seen *s = arg;

	s->times++;
	CHECK(p->percent >= -1 && p->percent <= 100);
	if (p->done_bytes > s->done)
		s->done = p->done_bytes;
	(void)snprintf(s->last, sizeof(s->last), "%s", p->status);
}

static int to_file(const char *data, size_t n, void *arg)
{
	return fwrite(data, 1, n, arg) == n ? 0 : -1;
}

static long from_file(char *out, size_t max, void *arg)
{
	size_t n = fread(out, 1, max, arg);

	return n == 0 && ferror((FILE *)arg) ? -1 : (long)n;
}

static FILE *open_file(const char *mode)
{
	FILE *f = fopen(path, mode);

	if (!f)
		err(1, "%s", path);
	return f;
}

static void pull(void)
{
	const struct osb_pull known = { .size = sizeof(known), .image = image };
	struct osb_pull unknown = known;
	struct seen seen = { 0 };
	struct osb_bytes *list = NULL;

	MUST(osb_image_pull(client, &known, on_progress, &seen, call));
	CHECK(seen.times >= 1 && strcmp(seen.last, "done") == 0);
	MUST(osb_image_pull(client, &known, NULL, NULL, call));
	MUST(osb_image_list(client, &list, call));
	CHECK(strstr(list->data, image));
	osb_free(list);
	unknown.image = "127.0.0.1:1/nobody:none";
	FAILS(osb_image_pull(client, &unknown, on_progress, &seen, call), OSB_ANSWER, 200);
	CHECK(*error()->code && strstr(error()->message, "pull image: "));
	FAILS(osb_image_pull(client, &(struct osb_pull){ .size = 0 }, NULL, NULL, call), OSB_INVALID, 0);
}

static void archive(void)
{
	const struct osb_pull known = { .image = image };
	struct osb_bytes *list = NULL;
	FILE *f = open_file("we");

	MUST(osb_image_save(client, &known, to_file, f, call));
	CHECK(ftell(f) > 1024);
	(void)fclose(f);
	MUST(osb_image_remove(client, image, call));
	FAILS(osb_image_remove(client, image, call), OSB_ANSWER, 404);
	f = open_file("re");
	MUST(osb_image_load(client, "loaded.test/again:1", from_file, f, &list, call));
	(void)fclose(f);
	CHECK(strstr(list->data, "loaded.test/again:1"));
	osb_free(list);
	MUST(osb_image_remove(client, "loaded.test/again:1", call));
	MUST(osb_image_pull(client, &known, NULL, NULL, call));
}

static void snapshot_archive(void)
{
	struct osb_create create = { .image = image, .skip_health_check = true };
	struct osb_sandbox *s = NULL;
	struct osb_snapshot *snap = NULL, *again = NULL;
	FILE *f;

	MUST(osb_sandbox_create(client, &create, &s, call));
	MUST(osb_snapshot_create(client, osb_sandbox_id(s), NULL, &snap, call));
	for (int i = 0; i < 500 && strcmp(snap->status.state, "Creating") == 0; i++) {
		char id[64];

		(void)snprintf(id, sizeof(id), "%s", snap->id);
		osb_free(snap);
		usleep(20000);
		MUST(osb_snapshot_get(client, id, &snap, call));
	}
	CHECK(!snap->name);
	f = open_file("we");
	MUST(osb_snapshot_export(client, snap->id, to_file, f, call));
	(void)fclose(f);
	f = open_file("re");
	MUST(osb_snapshot_import(client, "from file", from_file, f, &again, call));
	(void)fclose(f);
	CHECK(strcmp(again->name, "from file") == 0 && strcmp(again->status.state, "Ready") == 0);
	MUST(osb_snapshot_delete(client, again->id, call));
	MUST(osb_sandbox_kill(client, osb_sandbox_id(s), call));
	MUST(osb_snapshot_delete(client, snap->id, call));
	osb_free(again);
	osb_free(snap);
	osb_sandbox_free(s);
}

static void everything(void)
{
	pull();
	archive();
	snapshot_archive();
}

int main(int argc, char **argv)
{
	image = getenv("IMAGE");
	path = getenv("ARCHIVE");
	CHECK(image && path);
	return try_both(argc, argv, everything);
}
