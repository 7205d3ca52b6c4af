// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <arpa/inet.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "egress/activity.h"
#include "egress/denials.h"

#include "base/banned.h"

static struct denials d;

static int setup(void **state)
{
	(void)state;
	denials_init(&d);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	denials_done(&d);
	return 0;
}

static void add(const char *target)
{
	denials_add(&d, "box", &(struct activity_event){ .kind = ACTIVITY_DNS, .target = target, .why = "why not" });
}

static char text[1 << 21];

static const char *after(uint64_t number)
{
	AUTO(buf_done) struct buf b = BUF_INIT(sizeof(text) - 1);
	struct json_out o = json_out(&b);

	denials_write(&d, number, &o);
	assert_false(b.failed);
	(void)snprintf(text, sizeof(text), "%s", buf_z(&b));
	return text;
}

static unsigned count(const char *all, const char *part)
{
	unsigned n = 0;

	for (; (all = strstr(all, part)); all += strlen(part))
		n++;
	return n;
}

static void each_is_told_once(void **state)
{
	(void)state;
	assert_non_null(strstr(after(0), "\"next\":1,\"lost\":0,\"items\":[]}"));
	add("a.test");
	add("b.test");
	denials_add(&d, "other", &(struct activity_event){ .kind = ACTIVITY_TCP, .target = "", .address = htonl(0xc0000201), .port = 443 });
	assert_int_equal(count(after(0), "\"sandboxId\""), 3);
	assert_non_null(strstr(text, "\"kind\":\"tcp\",\"decision\":\"deny\",\"address\":\"192.0.2.1\",\"port\":443}"));
	assert_non_null(strstr(text, "\"kind\":\"dns\",\"decision\":\"deny\",\"target\":\"a.test\",\"reason\":\"why not\"}"));
	assert_int_equal(count(after(2), "\"sandboxId\":\"other\""), 1);
	assert_int_equal(count(after(2), "\"sandboxId\""), 1);
	assert_int_equal(count(after(3), "\"sandboxId\""), 0);
	assert_int_equal(count(after(UINT64_MAX), "\"sandboxId\""), 0);
}

static void what_nobody_asked_for_is_counted(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DENIALS_MAX + 10; i++)
		add("x.test");
	assert_non_null(strstr(after(0), "\"lost\":10,"));
	assert_int_equal(count(text, "\"sandboxId\""), DENIALS_MAX);
	assert_non_null(strstr(after(20), "\"lost\":0,"));
	assert_int_equal(count(after(DENIALS_MAX + 8), "\"sandboxId\""), 2);
}

static void who_comes_later_goes_on_behind_what_is_on_record(void **state)
{
	(void)state;
	add("a.test");
	add("b.test");
	assert_int_equal(d.kept, 0);
	denials_keep(&d, 1);
	assert_int_equal(count(after(d.kept), "b.test"), 1);
	assert_int_equal(count(after(d.kept), "\"sandboxId\""), 1);
	denials_keep(&d, 3); /* a number of another process */
	assert_int_equal(d.kept, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(each_is_told_once), TEST(what_nobody_asked_for_is_counted),
					    TEST(who_comes_later_goes_on_behind_what_is_on_record) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
