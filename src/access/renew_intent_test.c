// SPDX-License-Identifier: Apache-2.0
#include "access/renew_intent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static void intents_are_written_as_servers_read_them(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct renew_intent in = { STR("sb-1"), INT64_C(1781514000123456), 8080, STR("/v1/x\"") }, back;
	struct err e = { 0 };

	(void)state;
	assert_true(renew_intent_write(&in, &b));
	assert_string_equal(b.p, "{\"sandbox_id\":\"sb-1\",\"observed_at\":\"2026-06-15T09:00:00.123456Z\",\"port\":8080,\"request_uri\":\"/v1/x\\\"\"}");
	assert_int_equal(renew_intent_read(buf_str(&b), &a, &back, &e), 0);
	assert_true(str_eq(back.id, in.id) && back.observed_us == in.observed_us && back.port == 8080 && str_eq(back.request_uri, in.request_uri));
	buf_clear(&b);
	in.port = 0;
	in.request_uri.n = 0;
	assert_true(renew_intent_write(&in, &b));
	assert_string_equal(b.p, "{\"sandbox_id\":\"sb-1\",\"observed_at\":\"2026-06-15T09:00:00.123456Z\"}");
}

static void intents_of_others_are_checked(void **state)
{
	static const struct {
		const char *in;
		bool is_good;
	} rows[] = {
		{ "{\"sandbox_id\":\"a\",\"observed_at\":\"2026-06-15T09:00:00.123456789Z\"}", true },
		{ "{\"sandbox_id\":\"a\",\"observed_at\":\"2026-06-15T11:00:00+02:00\",\"more\":1,\"port\":null}", true },
		{ "{\"sandbox_id\":\"a\"}", false },
		{ "{\"sandbox_id\":\"\",\"observed_at\":\"2026-06-15T09:00:00Z\"}", false },
		{ "{\"sandbox_id\":1,\"observed_at\":\"2026-06-15T09:00:00Z\"}", false },
		{ "{\"sandbox_id\":\"a\",\"observed_at\":\"2026-06-15T09:00:00\"}", false },
		{ "{\"sandbox_id\":\"a\",\"observed_at\":\"soon\"}", false },
		{ "{\"sandbox_id\":\"a\",\"observed_at\":\"2026-06-15T09:00:00Z\",\"port\":70000}", false },
		{ "[]", false }, { "", false }, { "null", false }, { "{", false }, { "[[[[[[]]]]]]", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
		struct renew_intent in;
		struct err e = { 0 };

		if ((renew_intent_read(str_of(rows[i].in), &a, &in, &e) == 0) != rows[i].is_good)
			fail_msg("%s: %s", rows[i].in, e.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intents_are_written_as_servers_read_them),
		cmocka_unit_test(intents_of_others_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
