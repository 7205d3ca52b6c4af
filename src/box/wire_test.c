// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/own.h"
#include "box/wire.h"

#include "base/banned.h"

static struct wire_request good_request(enum wire_call call)
{
	return (struct wire_request){ .version = WIRE_VERSION, .call = call, .serial = 7, .id = "ab-12", .port = 80,
				      .limits = { 1000, 1 << 20, 10, 1 << 20, 100 } };
}

static int check(const struct wire_request *rq, size_t n_fds)
{
	struct wire_request got;
	struct err e = { 0 };
	int r = wire_check_request(rq, MIN(wire_request_size(rq), sizeof(*rq)), n_fds, &got, &e);

	assert_true(r == 0 || e.code == ERR_INVALID);
	if (r == 0)
		assert_memory_equal(&got, rq, sizeof(got));
	return r;
}

static void good_requests_pass(void **state)
{
	(void)state;
	for (unsigned call = WIRE_CREATE; call < WIRE_ENDED; call++) {
		struct wire_request rq = good_request(call);
		bool has_fd = call == WIRE_CREATE || call == WIRE_LAYER_ADD;

		rq.n_layers = 1;
		rq.layers[0] = (struct wire_layer){ WIRE_LAYER_SNAPSHOT, { 1, [WIRE_SNAPSHOT_SIZE - 1] = 2 } };
		if (call == WIRE_LAYER_ADD || call == WIRE_LAYER_DROP)
			rq.layers[0].kind = WIRE_LAYER_BLOB;
		assert_int_equal(check(&rq, has_fd), 0);
		assert_int_equal(check(&rq, !has_fd), -1);
	}
}

static void layers_are_added_one_by_one_and_only_those_of_images(void **state)
{
	struct wire_request rq = good_request(WIRE_LAYER_ADD);

	(void)state;
	assert_int_equal(check(&rq, 1), -1);
	rq.n_layers = 1;
	assert_int_equal(check(&rq, 1), -1);
	rq.layers[0].kind = WIRE_LAYER_SNAPSHOT;
	assert_int_equal(check(&rq, 1), -1);
	rq.layers[0].kind = WIRE_LAYER_BLOB;
	assert_int_equal(check(&rq, 1), 0);
	rq.n_layers = 2;
	assert_int_equal(check(&rq, 1), -1);
}

static void anything_else_is_refused(void **state)
{
	struct wire_request bad[13], got;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good_request(WIRE_CREATE);
	bad[0].version++;
	bad[1].call = 0;
	bad[2].call = WIRE_ENDED;
	bad[3].serial = 0;
	memset(bad[4].id, 'a', sizeof(bad[4].id));
	memcpy(bad[5].id, "../x", 5);
	bad[6].id[0] = '\0';
	bad[7].limits.memory_bytes = 0;
	bad[8].limits.inodes = 0;
	bad[9].call = UINT32_MAX;
	bad[10].image = WIRE_IMAGE_NONE;
	bad[11].n_layers = WIRE_LAYERS_MAX + 1;
	bad[12].n_layers = 1;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check(&bad[i], 1), -1);
	bad[0] = good_request(WIRE_DIAL);
	bad[0].port = 65536;
	assert_int_equal(check(&bad[0], 0), -1);
	bad[0].port = 65535;
	assert_int_equal(wire_check_request(&bad[0], wire_request_size(&bad[0]) - 1, 0, &got, &(struct err){ 0 }), -1);
	assert_int_equal(check(&bad[0], 0), 0);
}

static void a_snapshot_has_one_name_of_its_own_kind(void **state)
{
	(void)state;
	for (unsigned call = WIRE_SNAPSHOT; call <= WIRE_SNAPSHOT_REMOVE; call++) {
		struct wire_request rq = good_request(call);

		assert_int_equal(check(&rq, 0), -1);
		rq.n_layers = 1;
		rq.layers[0] = (struct wire_layer){ WIRE_LAYER_BLOB, { 1 } };
		assert_int_equal(check(&rq, 0), -1);
		rq.layers[0].kind = WIRE_LAYER_SNAPSHOT;
		assert_int_equal(check(&rq, 0), 0);
		rq.layers[0].name[WIRE_SNAPSHOT_SIZE] = 1;
		assert_int_equal(check(&rq, 0), -1);
	}
}

static struct wire_reply good_reply(void)
{
	return (struct wire_reply){ .version = WIRE_VERSION, .call = WIRE_PAUSE, .serial = 7, .id = "ab-12" };
}

static int check_reply(const struct wire_reply *rp)
{
	struct wire_reply got;

	return wire_check_reply(rp, sizeof(*rp), &got, &(struct err){ 0 });
}

static void replies_are_checked_too(void **state)
{
	struct wire_reply bad[9], rp = good_reply();

	(void)state;
	assert_int_equal(check_reply(&rp), 0);
	rp.failed = 1;
	rp.err.code = ERR_LIMIT;
	assert_int_equal(check_reply(&rp), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good_reply();
	bad[0].call = WIRE_ENDED; /* needs serial 0 */
	bad[1].serial = 0;
	bad[2].failed = 2;
	bad[3].state = WIRE_OVER + 1;
	bad[4].ending.reason = WIRE_END_LOST + 1;
	bad[5].ending.oom = 2;
	memset(bad[6].err.msg, 'a', sizeof(bad[6].err.msg));
	bad[7].failed = 1; /* with no error */
	memcpy(bad[8].id, "A", 2);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check_reply(&bad[i]), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests_pass), cmocka_unit_test(layers_are_added_one_by_one_and_only_those_of_images),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(a_snapshot_has_one_name_of_its_own_kind),
		cmocka_unit_test(replies_are_checked_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
