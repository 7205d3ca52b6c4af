// SPDX-License-Identifier: Apache-2.0
#include "egress/activity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/json_out.h"

#include "base/banned.h"

static void the_same_again_is_counted(void **state)
{
	struct activity a = { .rows = MAP_INIT };
	struct activity_event ev = { .kind = ACTIVITY_DNS, .is_allowed = true, .target = "a.test", .address = 1 };

	(void)state;
	assert_true(activity_add(&a, &ev));
	ev.address = 2; /* its addresses change with every answer */
	assert_false(activity_add(&a, &ev));
	assert_int_equal(a.n, 1);
	assert_int_equal(a.first->count, 2);
	assert_int_equal(a.first->address, 2);
	ev.is_allowed = false;
	assert_true(activity_add(&a, &ev));
	ev.why = "a reason";
	assert_true(activity_add(&a, &ev));
	ev.kind = ACTIVITY_TCP;
	assert_true(activity_add(&a, &ev));
	ev.address = 3;
	assert_true(activity_add(&a, &ev));
	assert_int_equal(a.n, 5);
	activity_done(&a);
}

static void the_oldest_rows_make_room(void **state)
{
	struct activity a = { .rows = MAP_INIT };
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct json_out o = json_out(&b);
	char name[32];

	(void)state;
	for (unsigned i = 0; i < ACTIVITY_ROWS_MAX + 10; i++) {
		(void)snprintf(name, sizeof(name), "n%u.test", i);
		assert_true(activity_add(&a, &(struct activity_event){ .target = name }));
		if (i > 0)
			assert_false(activity_add(&a, &(struct activity_event){ .target = "n0.test" })); /* used, so it stays */
	}
	assert_int_equal(a.n, ACTIVITY_ROWS_MAX);
	assert_int_equal(a.forgotten, 10);
	assert_string_equal(a.first->target, "n0.test");
	activity_write(&a, &o);
	assert_false(b.failed);
	assert_ptr_equal(strstr(buf_z(&b), "{\"kind\":\"dns\",\"decision\":\"deny\",\"target\":\"n0.test\",\"count\":266,"), b.p + 1);
	activity_done(&a);
}

static void rows_say_what_they_know(void **state)
{
	struct activity a = { .rows = MAP_INIT };
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct json_out o = json_out(&b);
	uint32_t address;

	(void)state;
	memcpy(&address, "\xc0\0\2\1", 4);
	assert_true(activity_add(&a, &(struct activity_event){ .kind = ACTIVITY_TCP, .target = "", .address = address, .port = 443,
							       .why = "no TLS" }));
	activity_write(&a, &o);
	assert_non_null(strstr(buf_z(&b), "{\"kind\":\"tcp\",\"decision\":\"deny\",\"address\":\"192.0.2.1\",\"port\":443,"
					  "\"reason\":\"no TLS\",\"count\":1,\"first\":\""));
	activity_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_again_is_counted),
		cmocka_unit_test(the_oldest_rows_make_room),
		cmocka_unit_test(rows_say_what_they_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
