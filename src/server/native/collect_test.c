// SPDX-License-Identifier: Apache-2.0
/* Snapshots of the native runtime: references, and which layers go. */
#include "server/native/test_native.h"
#include "sys/memfd.h"

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

/* ---- records ---- */

struct adopted {
	unsigned n;
	char reference[256], record[64];
	bool is_refused;
};
static struct adopted adopted;

static void each_snapshot(runtime_reference_fn *fn, void *fn_arg, void *arg)
{
	(void)arg;
	fn(LAYER_B, fn_arg);
}

static int adopt(const char *reference, struct str record, struct err *e, void *arg)
{
	struct fixture *f = arg;

	adopted.n++;
	(void)snprintf(adopted.reference, sizeof(adopted.reference), "%s", reference);
	(void)snprintf(adopted.record, sizeof(adopted.record), "%.*s", STR_ARG(record));
	if (adopted.is_refused)
		return err_set(e, ERR_INVALID, "a record with another sum");
	f->reference = adopted.reference;
	return 0;
}

static const struct runtime_users keepers = { .each_reference = each_reference, .each_snapshot = each_snapshot, .adopt = adopt };

/* LAYER_B, which is recorded, and LAYER_A, both with a record; TEXT is that of the latter. */
static void tell_records(struct fixture *f, const char *text)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq = hear(f, &got);
	struct wire_reply rp = reply_to(&rq);
	int fd;

	rp.snapshot.has_record = 1;
	assert_true(hex_decode(STR(LAYER_B), rp.snapshot.name, WIRE_SNAPSHOT_SIZE));
	say(f, &rp, NULL, 0);
	assert_true(hex_decode(STR(LAYER_A), rp.snapshot.name, WIRE_SNAPSHOT_SIZE));
	say(f, &rp, NULL, 0);
	rp.snapshot = (struct wire_snapshot){ 0 };
	say(f, &rp, NULL, 0);
	rq = hear(f, &got);
	assert_int_equal(rq.call, WIRE_RECORD_GET);
	assert_int_equal(rq.n_layers, 1);
	assert_int_equal(rq.layers[0].name[1], 0x11);
	rp = reply_to(&rq);
	fd = memfd_sealed_bytes("record", str_of(text), &(struct err){ 0 });
	assert_true(fd >= 0);
	say(f, &rp, &fd, 1);
	closep(&fd);
}

static void ask_with_records(struct fixture *f, const char *text)
{
	adopted = (struct adopted){ .is_refused = adopted.is_refused };
	f->rt->users = &keepers;
	f->rt->users_arg = f;
	f->rt->ops->snapshots(f->rt, false, on_snapshots, f);
	tell_records(f, text);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->failed, 0);
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

static void what_is_recorded_nowhere_is_told_with_its_record(void **state)
{
	struct fixture *f = *state;

	adopted.is_refused = false;
	ask_with_records(f, LAYER_A ":" LAYER_B "\nrecord\nof it");
	assert_int_equal(adopted.n, 1);
	assert_string_equal(adopted.reference, LAYER_A ":" LAYER_B);
	assert_string_equal(adopted.record, "record\nof it");
	assert_true(f->has_ab);
	assert_int_equal(f->unknown, 0);
	pass(f, 200);
	assert_int_equal(swept(f, NULL), -1);
}

static void a_layer_whose_record_is_no_good_is_left_alone(void **state)
{
	static const char *const texts[] = { "", LAYER_A, LAYER_B "\nx", LAYER_A ":x\nx", LAYER_A "\nx" };
	struct fixture *f = *state;

	adopted.is_refused = true;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		void *another;

		ask_with_records(f, texts[i]);
		assert_int_equal(adopted.n, i == ARRAY_LEN(texts) - 1); /* the others are no business of the control plane's */
		f->reference = LAYER_B;
		f->rt->ops->snapshots_released(f->rt);
		pass(f, 1200);
		assert_int_equal(swept(f, NULL), -1);
		(void)teardown((void **)&f);
		(void)setup(&another);
		*state = f = another;
	}
}

static void a_record_is_kept_with_its_reference(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	AUTO(buf_done) struct buf text = BUF_INIT(4096);
	struct wire_request rq;

	f->rt->ops->snapshot_record_set(f->rt, LAYER_A ":" LAYER_B, STR("record"), on_done, f);
	rq = hear(f, &got);
	assert_int_equal(rq.call, WIRE_RECORD_SET);
	assert_int_equal(rq.n_layers, 1);
	assert_int_equal(rq.layers[0].name[1], 0x11);
	assert_int_equal(fd_read_all(got.fds[0], 4096, &text, &(struct err){ 0 }), 0);
	assert_string_equal(buf_z(&text), LAYER_A ":" LAYER_B "\nrecord");
	f->rt->ops->snapshot_record_set(f->rt, "no name", STR("record"), on_done, f);
	assert_int_equal(f->failed, 0); /* not during the call */
	turn(f);
	assert_int_equal(f->failed, 1);
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
		TEST(a_snapshot_that_has_no_room_says_so), TEST(what_is_recorded_nowhere_is_told_with_its_record),
		TEST(a_layer_whose_record_is_no_good_is_left_alone), TEST(a_record_is_kept_with_its_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
