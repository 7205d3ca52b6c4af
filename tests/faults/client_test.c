// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of what the C library does: each failure is an error, never a
 * crash, a leak or a wrong result, and the next operation of the same client works. */
#include "client/test_peer.h"

#include "client/opensandbox.h"

#include "failing_alloc.h"

#include "base/banned.h"

#define INFO "{\"id\":\"s1\",\"status\":{\"state\":\"Running\"},\"entrypoint\":[\"a\"],\"createdAt\":\"2026-01-01T00:00:00Z\",\"metadata\":{\"k\":\"v\"}}"

static const struct rule rules[] = {
	SAYS("POST /v1/sandboxes ", "202 Accepted", INFO),
	SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", "{\"endpoint\":\"127.0.0.1:@PORT@/in\",\"headers\":{\"X-Token\":\"t\"}}"),
	SAYS("GET /in/ping ", "200 OK", ""),
	SAYS("DELETE /v1/sandboxes/s1 ", "204 No Content", ""),
	SAYS("POST /in/command ", "200 OK", "{\"type\":\"init\",\"text\":\"c1\"}\n\n{\"type\":\"stdout\",\"text\":\"a\\u00e9\"}\n\n"
	     "{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"7\",\"traceback\":[\"x\"]}}\n\n"),
	SAYS("GET /in/files/download?path=%2Fa ", "200 OK", "some content"),
	SAYS("POST /in/files/upload ", "200 OK", ""),
	SAYS("GET /in/files/search?path=%2Fa ", "200 OK", "[{\"path\":\"/a/b\",\"mode\":644,\"owner\":\"root\",\"group\":\"root\",\"size\":1,"
	     "\"modified_at\":\"2026-01-01T00:00:00Z\",\"created_at\":\"2026-01-01T00:00:00Z\"}]"),
	SAYS("GET /v1/sandboxes", "200 OK",
	     "{\"items\":[" INFO "," INFO "],\"pagination\":{\"page\":1,\"pageSize\":20,\"totalItems\":2,\"totalPages\":1,\"hasNextPage\":false}}"),
	{ 0 },
};

static struct peer peer;
static struct osb_client *client;

static bool create(void)
{
	const struct osb_pair env = { "A", "1" };
	struct osb_sandbox *s = NULL;
	int r = osb_sandbox_create(client, &(struct osb_create){ .image = "x", .env = { &env, 1 } }, &s, NULL);

	assert_true((r == 0) == (s != NULL));
	osb_sandbox_free(s);
	return r == 0;
}

static bool list(void)
{
	const struct osb_pair metadata = { "k", "v" };
	struct osb_sandboxes *l = NULL;
	int r = osb_sandbox_list(client, &(struct osb_list){ .metadata = { &metadata, 1 } }, &l, NULL);

	assert_true(r < 0 || l->n == 2);
	osb_free(l);
	return r == 0;
}

static bool show(void)
{
	struct osb_sandboxes *l = NULL;
	long kept = countdown;
	char *json;

	countdown = -1;
	assert_int_equal(osb_sandbox_list(client, NULL, &l, NULL), 0);
	countdown = kept;
	json = osb_to_json(l);
	osb_free(l);
	free(json);
	return json;
}

/* ---- inside of one ---- */

static int inside(int (*operation)(struct osb_sandbox *s))
{
	struct osb_sandbox *s = NULL;
	long kept = countdown;
	int r;

	countdown = -1;
	assert_int_equal(osb_sandbox_connect(client, "s1", NULL, &s, NULL), 0);
	countdown = kept;
	r = operation(s);
	osb_sandbox_free(s);
	return r;
}

static int run_it(struct osb_sandbox *s)
{
	struct osb_execution *x = NULL;
	int r = osb_command_run(s, &(struct osb_command){ .command = "x" }, NULL, NULL, &x, NULL);

	assert_true((r == 0) == (x != NULL) && (!x || (x->exit_code == 7 && strcmp(x->stdout_text, "a\xc3\xa9") == 0)));
	osb_free(x);
	return r;
}

static int move_files(struct osb_sandbox *s)
{
	struct osb_files *files = NULL;
	struct osb_bytes *bytes = NULL;
	int r = 0;

	if (osb_file_write(s, &(struct osb_entry){ .path = "/a" }, "data", 4, NULL) < 0 || osb_file_read(s, "/a", NULL, &bytes, NULL) < 0 ||
	    osb_file_search(s, "/a", NULL, &files, NULL) < 0)
		r = -1;
	assert_true(r < 0 || (bytes->n == 12 && files->n == 1));
	osb_free(bytes);
	osb_free(files);
	return r;
}

static bool run_command(void)
{
	return inside(run_it) == 0;
}

static bool move_some_files(void)
{
	return inside(move_files) == 0;
}

/* Before each, the client has kept connections or none, which are two ways through the code. */
static void fail_each(const char *name, bool (*scenario)(void), bool is_fresh)
{
	for (long n = 0;; n++) {
		struct osb_options o = OSB_OPTIONS;
		char domain[64];
		bool ok;

		(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", peer.port);
		o.domain = domain;
		client = osb_client_new(&o, NULL);
		assert_non_null(client);
		assert_true(is_fresh || list());
		has_failed = false;
		countdown = n;
		ok = scenario();
		countdown = -1;
		if (has_failed && !ok && scenario != show && osb_client_error(client)->kind != OSB_MEMORY)
			fail_msg("%s, allocation %ld: %s", name, n, osb_client_error(client)->message);
		if (has_failed)
			assert_true(scenario());
		osb_client_free(client);
		if (has_failed)
			continue;
		if (!ok || n == 0)
			fail_msg("%s: without a failure, too, or it allocates nothing", name);
		return;
	}
}

static void creates_survive_every_failure(void **state)
{
	(void)state;
	fail_each("create", create, true);
	fail_each("create on a kept connection", create, false);
	assert_true(peer_saw(&peer, "DELETE /v1/sandboxes/s1 ") > 5); /* what was made does not stay */
}

static void lists_survive_every_failure(void **state)
{
	(void)state;
	fail_each("list", list, true);
	fail_each("list on a kept connection", list, false);
	fail_each("show", show, false);
}

static void the_way_inside_survives_every_failure(void **state)
{
	(void)state;
	fail_each("run", run_command, false);
	fail_each("files", move_some_files, false);
}

static void clients_are_made_or_not(void **state)
{
	(void)state;
	for (long n = 0;; n++) {
		struct osb_error e = { 0 };

		has_failed = false;
		countdown = n;
		client = osb_client_new(&OSB_OPTIONS, &e);
		countdown = -1;
		osb_client_free(client);
		if (!has_failed) {
			assert_non_null(client);
			return;
		}
		assert_null(client);
		assert_int_equal(e.kind, OSB_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_are_made_or_not),
		cmocka_unit_test(creates_survive_every_failure),
		cmocka_unit_test(lists_survive_every_failure),
		cmocka_unit_test(the_way_inside_survives_every_failure),
	};
	int r;

	failing_alloc_here();
	peer_start(&peer, rules);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	peer_stop(&peer);
	return r;
}
