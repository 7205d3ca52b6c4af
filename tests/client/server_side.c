// SPDX-License-Identifier: Apache-2.0
/* Calls every function of the library's that is about the server, against a real one: first waiting, then driven by poll(2).
 *
 *     server_side DOMAIN KEY
 *
 * Says what it did, a line each; the first thing that is not as it should be ends it with 1. */
#include "trying.h"

#include "base/banned.h"

static const char *must_id(const struct osb_sandbox *s)
{
	CHECK(osb_sandbox_client(s) == client);
	return osb_sandbox_id(s);
}

/* ---- what there is to try ---- */

static void health(void)
{
	MUST(osb_server_health(client, call));
}

static void life(void)
{
	const struct osb_pair metadata[] = { { "project", "a.b_c" }, { "zone", "x" } }, env[] = { { "A", "1" } };
	const struct osb_create create = { .size = sizeof(create), .image = "host", .timeout_s = 900, .metadata = { metadata, 2 },
					   .env = { env, 1 } };
	const char *const running[] = { "running" };
	const struct osb_list all = { .size = sizeof(all), .states = { running, 1 }, .metadata = { metadata, 2 }, .page_size = 5, .page = 1 };
	const struct osb_pair patch[] = { { "zone", NULL }, { "more", "y" } };
	struct osb_sandbox *s = NULL, *again = NULL;
	struct osb_sandbox_info *info = NULL;
	struct osb_sandboxes *list = NULL;
	struct osb_expiry *expiry = NULL;
	struct osb_endpoint *ep = NULL;
	const char *id;

	MUST(osb_sandbox_create(client, &create, &s, call));
	id = must_id(s);
	MUST(osb_sandbox_get(client, id, &info, call));
	CHECK(strcmp(info->id, id) == 0 && strcmp(info->status.state, "Running") == 0 && strcmp(info->image, "host") == 0);
	CHECK(info->entrypoint.n == 3 && info->metadata.n == 2 && !info->snapshot_id && info->expires_at);
	CHECK(osb_time_ms(info->expires_at) - osb_time_ms(info->created_at) > 890 * 1000);
	show("info", info);
	osb_free(info);
	MUST(osb_sandbox_list(client, &all, &list, call));
	CHECK(list->n == 1 && strcmp(list->items[0].id, id) == 0 && list->pagination.total_items == 1 && !list->pagination.has_next_page);
	show("list", list);
	osb_free(list);
	MUST(osb_sandbox_list(client, NULL, &list, call));
	osb_free(list);
	MUST(osb_sandbox_patch_metadata(client, id, &(struct osb_map){ patch, 2 }, &info, call));
	CHECK(info->metadata.n == 2);
	osb_free(info);
	MUST(osb_sandbox_patch_metadata(client, id, &(struct osb_map){ patch, 1 }, NULL, call));
	MUST(osb_sandbox_renew(client, id, 3600, &expiry, call));
	CHECK(osb_time_ms(expiry->expires_at) > (int64_t)(time(NULL) + 3500) * 1000);
	show("expiry", expiry);
	osb_free(expiry);
	MUST(osb_sandbox_renew(client, id, 1800, NULL, call));
	MUST(osb_sandbox_endpoint(client, id, 8000, 0, &ep, call));
	CHECK(strstr(ep->url, ep->endpoint) == ep->url + 7 && strstr(ep->endpoint, "8000"));
	show("endpoint", ep);
	osb_free(ep);
	MUST(osb_sandbox_endpoint(client, id, 44772, 0, &ep, call));
	CHECK(ep->headers.n == 1);
	osb_free(ep);
	MUST(osb_sandbox_connect(client, id, NULL, &again, call));
	osb_sandbox_free(again);
	MUST(osb_sandbox_connect(client, id, &(struct osb_connect){ .skip_health_check = true }, &again, call));
	osb_sandbox_free(again);
	MUST(osb_sandbox_pause(client, id, call));
	FAILS(osb_sandbox_pause(client, id, call), OSB_ANSWER, 409);
	MUST(osb_sandbox_resume(client, id, NULL, &again, call));
	osb_sandbox_free(again);
	MUST(osb_sandbox_kill(client, id, call));
	FAILS(osb_sandbox_kill(client, id, call), OSB_ANSWER, 404);
	osb_sandbox_free(s);
}

static void diagnostics(void)
{
	const struct osb_create create = { .image = "host", .skip_health_check = true };
	const struct osb_pair tail = { "tail", "5" };
	struct osb_sandbox *s = NULL;
	struct osb_diagnostics *d = NULL;
	struct osb_bytes *text = NULL;

	MUST(osb_sandbox_create(client, &create, &s, call));
	MUST(osb_diagnostics(client, must_id(s), "events", "lifecycle", &d, call));
	CHECK(strcmp(d->kind, "events") == 0 && strcmp(d->delivery, "inline") == 0 && d->content && d->content_length > 0);
	show("diagnostics", d);
	osb_free(d);
	MUST(osb_diagnostics_text(client, must_id(s), "summary", &(struct osb_map){ &tail, 1 }, &text, call));
	CHECK(text->n > 0 && strstr(text->data, must_id(s)));
	osb_free(text);
	MUST(osb_diagnostics_network(client, must_id(s), &text, call));
	CHECK(text->data[0] == '{' && strstr(text->data, must_id(s)));
	show("network", text);
	osb_free(text);
	FAILS(osb_diagnostics(client, must_id(s), "events", NULL, &d, call), OSB_INVALID, 0);
	MUST(osb_sandbox_kill(client, must_id(s), call));
	osb_sandbox_free(s);
}

static struct osb_snapshot *wait_snapshot(const char *id)
{
	struct osb_snapshot *snap = NULL;

	for (int i = 0; i < 500; i++) {
		MUST(osb_snapshot_get(client, id, &snap, call));
		if (strcmp(snap->status.state, "Creating") != 0)
			return snap;
		osb_free(snap);
		usleep(20000);
	}
	errx(1, "the snapshot does not become ready");
}

static void snapshots(void)
{
	const struct osb_create create = { .image = "host", .timeout_s = OSB_TTL_NONE };
	const struct osb_fork fork = { .size = sizeof(fork), .count = 2 };
	struct osb_sandbox *s = NULL, *from = NULL;
	struct osb_snapshot *snap = NULL, *ready;
	struct osb_snapshots *list = NULL;
	struct osb_sandboxes *forks = NULL;
	struct osb_sandbox_info *info = NULL;
	struct osb_create restore = { .size = sizeof(restore) };

	MUST(osb_sandbox_create(client, &create, &s, call));
	MUST(osb_sandbox_get(client, must_id(s), &info, call));
	CHECK(!info->expires_at);
	osb_free(info);
	MUST(osb_snapshot_create(client, must_id(s), "first", &snap, call));
	CHECK(strcmp(snap->sandbox_id, must_id(s)) == 0 && strcmp(snap->name, "first") == 0);
	ready = wait_snapshot(snap->id);
	CHECK(strcmp(ready->status.state, "Ready") == 0);
	show("snapshot", ready);
	osb_free(ready);
	MUST(osb_snapshot_list(client, &(struct osb_snapshot_list){ .sandbox_id = must_id(s) }, &list, call));
	CHECK(list->n == 1 && strcmp(list->items[0].id, snap->id) == 0 && list->pagination.page == 1);
	osb_free(list);
	restore.snapshot_id = snap->id;
	MUST(osb_sandbox_create(client, &restore, &from, call));
	MUST(osb_sandbox_get(client, must_id(from), &info, call));
	CHECK(!info->image && strcmp(info->snapshot_id, snap->id) == 0);
	osb_free(info);
	MUST(osb_sandbox_kill(client, must_id(from), call));
	osb_sandbox_free(from);
	MUST(osb_sandbox_fork(client, must_id(s), &fork, &forks, call));
	CHECK(forks->n == 2);
	for (size_t i = 0; i < forks->n; i++)
		MUST(osb_sandbox_kill(client, forks->items[i].id, call));
	osb_free(forks);
	MUST(osb_sandbox_rollback(client, must_id(s), snap->id, NULL, NULL, call));
	MUST(osb_sandbox_kill(client, must_id(s), call));
	MUST(osb_snapshot_delete(client, snap->id, call));
	FAILS(osb_snapshot_get(client, snap->id, &snap, call), OSB_ANSWER, 404);
	osb_free(snap);
	osb_sandbox_free(s);
}

static void pools(void)
{
	struct osb_bytes *b = NULL;

	MUST(osb_server_pool_create(client,
				    "{\"name\":\"p\",\"template\":{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"],"
				    "\"resourceLimits\":{\"cpu\":\"1\"}},\"capacitySpec\":{\"bufferMax\":0,\"bufferMin\":0,\"poolMax\":2,\"poolMin\":0}}",
				    &b, call));
	CHECK(strstr(b->data, "\"p\""));
	osb_free(b);
	MUST(osb_server_pool_get(client, "p", &b, call));
	osb_free(b);
	MUST(osb_server_pool_list(client, &b, call));
	CHECK(strstr(b->data, "\"items\""));
	show("pools", b);
	osb_free(b);
	MUST(osb_server_pool_update(client, "p", "{\"capacitySpec\":{\"bufferMax\":0,\"bufferMin\":0,\"poolMax\":3,\"poolMin\":0}}", &b, call));
	CHECK(strstr(b->data, "3"));
	osb_free(b);
	MUST(osb_server_pool_delete(client, "p", call));
	FAILS(osb_server_pool_get(client, "p", &b, call), OSB_ANSWER, 404);
}

static void volumes(void)
{
	const struct osb_volume data[] = { { .name = "data", .mount_path = "/data", .claim_name = "c-side", .create_if_missing = true } };
	const struct osb_create create = { .image = "host", .volumes = data, .n_volumes = 1 };
	struct osb_sandbox *s = NULL;
	struct osb_bytes *b = NULL;

	MUST(osb_sandbox_create(client, &create, &s, call));
	MUST(osb_volume_list(client, &b, call));
	CHECK(strstr(b->data, "c-side"));
	osb_free(b);
	FAILS(osb_volume_delete(client, "c-side", call), OSB_ANSWER, 409);
	MUST(osb_sandbox_kill(client, must_id(s), call));
	MUST(osb_volume_delete(client, "c-side", call));
	osb_sandbox_free(s);
}

/* What is wrong is said before anybody is asked, or by the server with its code. */
static void mistakes(void)
{
	struct osb_sandbox *s = NULL;
	struct osb_sandbox_info *info = NULL;

	FAILS(osb_sandbox_create(client, &(struct osb_create){ .size = 0 }, &s, call), OSB_INVALID, 0);
	FAILS(osb_sandbox_create(client, &(struct osb_create){ .image = "host", .snapshot_id = "x" }, &s, call), OSB_INVALID, 0);
	FAILS(osb_sandbox_get(client, "a/b", &info, call), OSB_INVALID, 0);
	FAILS(osb_sandbox_get(client, NULL, &info, call), OSB_INVALID, 0);
	CHECK(strcmp(error()->code, "INVALID_ARGUMENT") == 0);
	FAILS(osb_sandbox_get(client, "nobody", &info, call), OSB_ANSWER, 404);
	CHECK(strcmp(error()->code, "NATIVE::SANDBOX_NOT_FOUND") == 0 && *error()->request_id && strstr(error()->message, "get sandbox: "));
	FAILS(osb_sandbox_create(client, &(struct osb_create){ .image = "host", .timeout_s = 1 }, &s, call), OSB_ANSWER, 422);
	CHECK(strstr(error()->message, "timeout"));
	CHECK(!s && !info);
}

static void request_ids(void)
{
	struct osb_sandbox_info *info = NULL;

	CHECK(strcmp(osb_version(), "0.1.0") == 0);
	if (!call)
		return;
	CHECK(!osb_call_is_busy(call));
	osb_call_set_request_id(call, "mine-1");
	FAILS(osb_sandbox_get(client, "nobody", &info, call), OSB_ANSWER, 404);
	CHECK(strcmp(osb_call_error(call)->request_id, "mine-1") == 0);
	osb_call_set_request_id(call, NULL);
}

static void everything(void)
{
	health();
	life();
	diagnostics();
	snapshots();
	pools();
	volumes();
	mistakes();
	request_ids();
}

int main(int argc, char **argv)
{
	return try_both(argc, argv, everything);
}
