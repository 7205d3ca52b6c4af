// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of each call of the native runtime: its completion comes once, and never during the call.
 * The warden and the fetcher are there, and end every conversation. */
#include "server/images/test_puller.h"

#include "box/wire.h"
#include "net/transport.h"
#include "server/native/native.h"
#include "server/runtime/runtime.h"

#include "failing_alloc.h"

#include "base/banned.h"

#define ID "ab-12"
#define LAYER "00112233445566778899aabbccddeeff"

static struct fixture {
	struct rig r;
	struct runtime *rt;
	int listener;
	unsigned done, failed;
	bool is_calling;
} f;

/* ---- completions ---- */

static void note(const struct runtime_failure *failure)
{
	assert_false(f.is_calling);
	f.done++;
	f.failed += failure != NULL;
	assert_true(!failure || (failure->code && failure->status >= 400));
}

static void on_called(const struct runtime_failure *failure, void *arg)
{
	(void)arg;
	note(failure);
}

static void on_dial(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	(void)arg;
	transport_close(t);
	note(failure);
}

static void on_text(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	(void)text, (void)is_cut, (void)arg;
	note(failure);
}

static void on_info(const struct runtime_info *info, const struct runtime_failure *failure, void *arg)
{
	(void)info, (void)arg;
	note(failure);
}

static void on_stats(const struct runtime_stats *stats, const struct runtime_failure *failure, void *arg)
{
	(void)stats, (void)arg;
	note(failure);
}

static void on_list(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg)
{
	(void)boxes, (void)n, (void)arg;
	note(failure);
}

static void on_snapshot(const struct runtime_snapshot *made, const struct runtime_failure *failure, void *arg)
{
	(void)made, (void)arg;
	note(failure);
}

static void on_names(const char *const *names, size_t n, const struct runtime_failure *failure, void *arg)
{
	(void)names, (void)n, (void)arg;
	note(failure);
}

static void on_snapshots(const struct runtime_snapshots *found, const struct runtime_failure *failure, void *arg)
{
	(void)found, (void)arg;
	note(failure);
}

static bool on_parts(const struct runtime_image_parts *parts, const struct runtime_failure *failure, void *arg)
{
	(void)parts, (void)arg;
	note(failure);
	return false;
}

static void on_image(const struct runtime_image *image, const struct runtime_failure *failure, void *arg)
{
	(void)image, (void)arg;
	note(failure);
}

static void on_images(const struct runtime_image *images, size_t n, const struct runtime_failure *failure, void *arg)
{
	(void)images, (void)n, (void)arg;
	note(failure);
}

/* ---- calls ---- */

static void create_of(struct runtime *rt, const char *image)
{
	static const char *entrypoint[] = { "x", "y" }, *base = LAYER;
	static struct string_pair env[] = { { "K", "v" } };
	static const struct runtime_volume volumes[] = {
		{ .kind = RUNTIME_VOLUME_NAMED, .id = ID, .path = "a", .mount_path = "/data" },
	};
	const struct runtime_spec spec = {
		.id = ID, .image = image, .entrypoint = { entrypoint, 2 }, .env = { env, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.execd_token = "t", .base = base, .volumes = volumes, .n_volumes = 1, .network = RUNTIME_NET_POLICY,
		.policy = STR("{}"), .record = STR("{}"),
	};

	rt->ops->create(rt, &spec, on_called, NULL);
}

static void call_create(struct runtime *rt)
{
	create_of(rt, "host");
}

static void call_create_pulled(struct runtime *rt)
{
	create_of(rt, "a.test/b:latest");
}

static void call_pause(struct runtime *rt)
{
	rt->ops->pause(rt, ID, on_called, NULL);
}

static void call_resume(struct runtime *rt)
{
	rt->ops->resume(rt, ID, on_called, NULL);
}

static void call_remove(struct runtime *rt)
{
	rt->ops->remove(rt, ID, on_called, NULL);
}

static void call_dial(struct runtime *rt)
{
	rt->ops->dial(rt, ID, 80, on_dial, NULL);
}

static void call_dial_execd(struct runtime *rt)
{
	rt->ops->dial(rt, ID, PORT_EXECD, on_dial, NULL);
}

static void call_dial_egress(struct runtime *rt)
{
	rt->ops->dial(rt, ID, PORT_EGRESS, on_dial, NULL);
}

static void call_policy(struct runtime *rt)
{
	rt->ops->policy(rt, ID, on_text, NULL);
}

static void call_activity(struct runtime *rt)
{
	rt->ops->activity(rt, ID, on_text, NULL);
}

static void call_logs(struct runtime *rt)
{
	rt->ops->logs(rt, ID, &(struct runtime_log_query){ .tail = 1 }, on_text, NULL);
}

static void call_inspect(struct runtime *rt)
{
	rt->ops->inspect(rt, ID, on_info, NULL);
}

static void call_stats(struct runtime *rt)
{
	rt->ops->stats(rt, ID, on_stats, NULL);
}

static void call_record_set(struct runtime *rt)
{
	rt->ops->record_set(rt, ID, STR("{}"), on_called, NULL);
}

static void call_record_get(struct runtime *rt)
{
	rt->ops->record_get(rt, ID, on_text, NULL);
}

static void call_list(struct runtime *rt)
{
	rt->ops->list(rt, on_list, NULL);
}

static void call_snapshot(struct runtime *rt)
{
	rt->ops->snapshot(rt, ID, LAYER, on_snapshot, NULL);
}

static void call_snapshot_remove(struct runtime *rt)
{
	rt->ops->snapshot_remove(rt, LAYER, on_called, NULL);
}

static void call_snapshots(struct runtime *rt)
{
	rt->ops->snapshots(rt, false, on_snapshots, NULL);
}

static void call_snapshot_record_set(struct runtime *rt)
{
	rt->ops->snapshot_record_set(rt, LAYER, STR("record"), on_called, NULL);
}

static void call_snapshot_export(struct runtime *rt)
{
	rt->ops->snapshot_export(rt, &(struct runtime_export){ .id = "n", .reference = LAYER }, on_parts, NULL);
}

static void call_images(struct runtime *rt)
{
	rt->ops->images(rt, on_images, NULL);
}

static void call_image_remove(struct runtime *rt)
{
	rt->ops->image_remove(rt, "a.test/b", on_called, NULL);
}

static void call_image_pull(struct runtime *rt)
{
	rt->ops->image_pull(rt, &(struct runtime_image_order){ .uri = "a.test/b", .username = "u", .password = "p" }, NULL, on_image, NULL);
}

static void call_image_save(struct runtime *rt)
{
	rt->ops->image_save(rt, &(struct runtime_image_order){ .uri = "a.test/b" }, on_parts, NULL);
}

/* What fails at once has no completion. */
static void call_image_load(struct runtime *rt)
{
	struct err e = { 0 };
	int pipe = -1;

	if (rt->ops->image_load(rt, &(struct runtime_image_load){ .name = "a.test/b" }, &pipe, on_images, NULL, &e) < 0)
		f.done = f.failed = 1;
	closep(&pipe);
}

static void call_volume_make(struct runtime *rt)
{
	rt->ops->volume_make(rt, ID, 1, on_called, NULL);
}

static void call_volumes(struct runtime *rt)
{
	rt->ops->volumes(rt, on_names, NULL);
}

static void call_volume_remove(struct runtime *rt)
{
	rt->ops->volume_remove(rt, ID, on_called, NULL);
}

static const struct call {
	const char *name;
	void (*make)(struct runtime *rt);
} calls[] = {
	{ "create", call_create },       { "create, pulled", call_create_pulled }, { "pause", call_pause },
	{ "resume", call_resume },       { "remove", call_remove },           { "dial", call_dial },
	{ "dial execd", call_dial_execd }, { "dial egress", call_dial_egress }, { "policy", call_policy },
	{ "activity", call_activity },   { "logs", call_logs },               { "inspect", call_inspect },
	{ "stats", call_stats },         { "record_set", call_record_set },   { "record_get", call_record_get },
	{ "list", call_list },           { "snapshot", call_snapshot },       { "snapshot_remove", call_snapshot_remove },
	{ "snapshots", call_snapshots }, { "snapshot_export", call_snapshot_export },
	{ "snapshot_record_set", call_snapshot_record_set }, { "volume_make", call_volume_make },
	{ "volumes", call_volumes },     { "volume_remove", call_volume_remove },
	{ "images", call_images },       { "image_remove", call_image_remove }, { "image_pull", call_image_pull },
	{ "image_save", call_image_save }, { "image_load", call_image_load },
};

/* ---- the rig ---- */

static void hang_up(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		(void)close(fd);
}

static void setup(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	char path[96], egress[96];

	rig_start(&f.r);
	(void)snprintf(path, sizeof(path), "%s/warden.sock", f.r.dir);
	(void)snprintf(egress, sizeof(egress), "%s/egress.sock", f.r.dir); /* nobody listens there */
	f.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(f.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(f.listener, 64), 0);
	f.rt = runtime_native(f.r.loop, &(struct runtime_native_spec){ .path = path, .puller = f.r.p, .egress_path = egress }, &f.r.e);
	assert_non_null(f.rt);
}

static void teardown(void)
{
	runtime_free(f.rt);
	closep(&f.listener);
	rig_stop(&f.r);
}

/* Whether an allocation was to fail that there is. */
static bool make(const struct call *c, long n)
{
	f.done = f.failed = 0;
	has_failed = false;
	f.is_calling = true;
	countdown = n;
	c->make(f.rt);
	countdown = -1;
	f.is_calling = false;
	for (int i = 0; i < TURNS && f.done == 0; i++) {
		turn(&f.r);
		hang_up(f.listener);
		hang_up(f.r.listener);
	}
	if (f.done != 1 || f.failed != (c->make == call_snapshot_remove ? 0 : c->make != call_images || has_failed))
		fail_msg("%s, allocation %ld: %u completions, %u failures", c->name, n, f.done, f.failed);
	return has_failed;
}

static void a_completion_comes_once_and_never_during_the_call(void **state)
{
	(void)state;
	failing_alloc_here();
	setup();
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		for (long n = 0; make(&calls[i], n); n++)
			;
	teardown();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_completion_comes_once_and_never_during_the_call) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
