// SPDX-License-Identifier: Apache-2.0
/* Snapshots of the native runtime: references, and which layers go. */
#include "server/native/test_native.h"

#include "base/banned.h"

static void on_snapshot(const struct runtime_snapshot *made, const struct runtime_failure *failure, void *arg)
{
	note_failure(arg, failure);
	assert_true(failure || (made->flush_us == 5 && made->frozen_us == 6));
}

static void on_snapshots(const struct runtime_snapshots *found, const struct runtime_failure *failure, void *arg)
{
	struct fixture *f = arg;

	note_failure(f, failure);
	if (failure)
		return;
	f->unknown = found->n_unknown;
	f->has_ab = found->has(found, LAYER_A ":" LAYER_B);
	f->has_b = found->has(found, LAYER_B);
}

/* What the control plane refers to. */
static void each_reference(runtime_reference_fn *fn, void *fn_arg, void *arg)
{
	const struct fixture *f = arg;

	if (f->reference)
		fn(f->reference, fn_arg);
}

static const struct runtime_users users = { .each_reference = each_reference };

static void a_create_names_its_layers_the_uppermost_first(void **state)
{
	struct fixture *f = *state;
	static const char *entrypoint[] = { "x" };
	struct runtime_spec spec = { .id = "ab-12", .image = "host", .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
				     .execd_token = "t", .base = LAYER_A ":" LAYER_B };
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;

	f->rt->ops->create(f->rt, &spec, on_done, f);
	rq = hear(f, &got);
	assert_int_equal(rq.n_layers, 2);
	assert_int_equal(rq.layers[0].kind, WIRE_LAYER_SNAPSHOT);
	assert_int_equal(rq.layers[0].name[1], 0x11);
	assert_int_equal(rq.layers[1].name[0], 0xff);
	assert_int_equal(rq.layers[1].name[WIRE_SNAPSHOT_SIZE], 0);
	spec.base = LAYER_A ":no name";
	f->rt->ops->create(f->rt, &spec, on_done, f);
	turn(f);
	assert_int_equal(f->failed, 1);
}

/* The warden has LAYER_B and one that nobody refers to. */
static void tell_layers(struct fixture *f)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq = hear(f, &got);
	struct wire_reply rp = reply_to(&rq);

	assert_int_equal(rq.call, WIRE_SNAPSHOTS);
	assert_true(hex_decode(STR(LAYER_B), rp.snapshot.name, WIRE_SNAPSHOT_SIZE));
	say(f, &rp, NULL, 0);
	memset(rp.snapshot.name, 0xab, WIRE_SNAPSHOT_SIZE);
	say(f, &rp, NULL, 0);
	memset(rp.snapshot.name, 0, sizeof(rp.snapshot.name));
	say(f, &rp, NULL, 0);
}

/* The next layer that is to go, by its first byte; -1: none is. */
static int swept(struct fixture *f, const struct err *failure)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	char bytes[sizeof(struct wire_request) + 1];
	struct wire_request rq;
	struct wire_reply rp;

	turn(f);
	if (passing_recv(f->warden, bytes, sizeof(bytes), 4, &got, &(struct err){ 0 }) != PASSING_MESSAGE)
		return -1;
	assert_int_equal(wire_check_request(bytes, got.n, got.n_fds, &rq, &(struct err){ 0 }), 0);
	assert_int_equal(rq.call, WIRE_SNAPSHOT_REMOVE);
	rp = reply_to(&rq);
	rp.failed = failure != NULL;
	if (failure)
		rp.err = *failure;
	say(f, &rp, NULL, 0);
	return rq.layers[0].name[0];
}

static void pass(struct fixture *f, unsigned ms)
{
	f->now_ms += ms;
	turn(f);
}

static void what_nobody_refers_to_goes(void **state)
{
	struct fixture *f = *state;
	const struct err conflict = { .code = ERR_CONFLICT, .msg = "a sandbox stands on the snapshot" };

	f->rt->users = &users;
	f->rt->users_arg = f;
	f->reference = LAYER_A ":" LAYER_B;
	f->rt->ops->snapshots(f->rt, false, on_snapshots, f);
	tell_layers(f);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->unknown, 1);
	assert_true(f->has_b && !f->has_ab);
	pass(f, 200);
	assert_int_equal(swept(f, &conflict), 0xab); /* tried again in a while */
	assert_int_equal(swept(f, NULL), -1);
	pass(f, 1100);
	assert_int_equal(swept(f, NULL), 0xab);
	assert_int_equal(swept(f, NULL), -1);
	f->reference = LAYER_B;
	f->rt->ops->snapshot_remove(f->rt, LAYER_A ":" LAYER_B, on_done, f);
	assert_int_equal(f->done, 1); /* not during the call */
	pass(f, 200);
	assert_int_equal(f->done, 2);
	assert_int_equal(swept(f, NULL), 0x00);
	assert_int_equal(swept(f, NULL), -1); /* B is referred to still */
	f->reference = NULL;
	f->rt->ops->snapshots_released(f->rt);
	pass(f, 200);
	assert_int_equal(swept(f, NULL), 0xff);
	assert_int_equal(f->failed, 0);
}

static void what_is_somebody_elses_stays(void **state)
{
	struct fixture *f = *state;

	f->rt->users = &users;
	f->rt->users_arg = f;
	f->rt->ops->snapshots(f->rt, true, on_snapshots, f);
	tell_layers(f);
	assert_int_equal(f->unknown, 2);
	f->rt->ops->snapshots_released(f->rt);
	pass(f, 1200);
	assert_int_equal(swept(f, NULL), -1);
}

static void references_are_stacks_of_layers(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_REFERENCE_MAX + 1);
	AUTO(buf_done) struct buf deep = BUF_INIT(RUNTIME_REFERENCE_MAX + 1);
	struct fixture *f = *state;
	const struct runtime_ops *ops = f->rt->ops;
	struct err e = { 0 };

	assert_int_equal(ops->snapshot_reference(f->rt, "00112233-4455-6677-8899-aabbccddeeff", NULL, &text, &e), 0);
	assert_string_equal(buf_z(&text), LAYER_A);
	buf_clear(&text);
	assert_int_equal(ops->snapshot_reference(f->rt, "00112233-4455-6677-8899-aabbccddeeff", LAYER_B, &text, &e), 0);
	assert_string_equal(buf_z(&text), LAYER_A ":" LAYER_B);
	assert_true(ops->snapshot_is_below(f->rt, LAYER_B, buf_z(&text)));
	assert_true(ops->snapshot_is_below(f->rt, buf_z(&text), buf_z(&text)));
	assert_false(ops->snapshot_is_below(f->rt, buf_z(&text), LAYER_B));
	for (int i = 0; i < 127; i++)
		buf_addf(&deep, "%s%s", i > 0 ? ":" : "", LAYER_B);
	assert_int_equal(ops->snapshot_reference(f->rt, "00112233-4455-6677-8899-aabbccddeeff", buf_z(&deep), &text, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void a_snapshot_is_taken_by_the_name_of_its_layer(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->snapshot(f->rt, "ab-12", LAYER_A ":" LAYER_B, on_snapshot, f);
	rq = hear(f, &got);
	assert_int_equal(rq.call, WIRE_SNAPSHOT);
	assert_int_equal(rq.n_layers, 1);
	assert_int_equal(rq.layers[0].name[1], 0x11);
	rp = reply_to(&rq);
	rp.snapshot = (struct wire_snapshot){ .flush_us = 5, .frozen_us = 6 };
	say(f, &rp, NULL, 0);
	assert_int_equal(f->done, 1);
	f->rt->ops->snapshot(f->rt, "ab-12", "no name", on_snapshot, f);
	turn(f);
	assert_int_equal(f->failed, 1);
}

static void a_snapshot_that_has_no_room_says_so(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->snapshot(f->rt, "ab-12", LAYER_A, on_snapshot, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_LIMIT, "the disk of all sandboxes is almost full");
	say(f, &rp, NULL, 0);
	assert_int_equal(f->failure.status, 507);
	assert_string_equal(f->failure.says, "the disk of all sandboxes is almost full");
	f->rt->ops->snapshot(f->rt, "ab-12", LAYER_A, on_snapshot, f);
	f->rt->ops->snapshots(f->rt, false, on_snapshots, f);
	turn(f);
	closep(&f->warden);
	f->warden = -1;
	turn(f);
	assert_int_equal(f->failed, 3);
	assert_int_equal(f->failure.err.code, ERR_UNAVAILABLE);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_create_names_its_layers_the_uppermost_first), TEST(a_snapshot_is_taken_by_the_name_of_its_layer),
		TEST(references_are_stacks_of_layers), TEST(what_nobody_refers_to_goes), TEST(what_is_somebody_elses_stays),
		TEST(a_snapshot_that_has_no_room_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
