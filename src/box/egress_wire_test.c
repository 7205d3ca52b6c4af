// SPDX-License-Identifier: Apache-2.0
#include "box/egress_wire.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

static struct egress_message base(enum egress_call call)
{
	return (struct egress_message){ .version = EGRESS_WIRE_VERSION, .call = call, .serial = 7, .id = "ab-12",
					.address = htonl(0x0a4d0002), .network = WIRE_NET_POLICY, .seconds = 60, .ports = { 22 },
					.net = { .address = htonl(0xcb007109), .prefix = 32 } };
}

static int check(const struct egress_message *m, size_t n_fds, bool is_warden)
{
	static struct egress_message got;
	struct err e = { 0 };
	int r = egress_message_check(m, egress_message_size(m), n_fds, is_warden, &got, &e);

	assert_true(r == 0 || e.code == ERR_INVALID);
	if (r == 0)
		assert_memory_equal(&got, m, egress_message_size(m));
	return r;
}

static void each_side_gets_the_messages_of_the_other(void **state)
{
	(void)state;
	for (unsigned call = EGRESS_HELLO; call <= EGRESS_CUT; call++) {
		struct egress_message m = base(call);
		bool is_for_warden = call >= EGRESS_BOUND;
		size_t fds = call == EGRESS_HELLO ? EGRESS_FDS : 0;

		assert_int_equal(check(&m, fds, is_for_warden), 0);
		assert_int_equal(check(&m, fds, !is_for_warden), -1);
		assert_int_equal(check(&m, fds + 2, is_for_warden), -1);
	}
}

static void only_a_policy_has_a_descriptor(void **state)
{
	struct egress_message m = base(EGRESS_BIND);

	(void)state;
	assert_int_equal(check(&m, 1, false), 0);
	m.network = WIRE_NET_OPEN;
	assert_int_equal(check(&m, 0, false), 0);
	assert_int_equal(check(&m, 1, false), -1);
	m.network = WIRE_NET_NONE;
	assert_int_equal(check(&m, 0, false), -1);
}

static void web_ports_are_never_learned(void **state) /* W8 */
{
	struct egress_message m = base(EGRESS_LEARN);

	(void)state;
	m.ports[1] = 8080;
	assert_int_equal(check(&m, 0, true), 0);
	m.ports[1] = 443;
	assert_int_equal(check(&m, 0, true), -1);
	m.ports[1] = 80;
	assert_int_equal(check(&m, 0, true), -1);
	m.ports[1] = 0;
	m.ports[2] = 443; /* behind the end */
	assert_int_equal(check(&m, 0, true), 0);
}

static void rules_are_as_many_as_they_say(void **state)
{
	struct egress_message m = base(EGRESS_RULES), got;
	struct err e = { 0 };

	(void)state;
	m.n_rules = EGRESS_RULES_MAX;
	assert_int_equal(check(&m, 0, true), 0);
	assert_int_equal(egress_message_check(&m, egress_message_size(&m) - 1, 0, true, &got, &e), -1);
	m.n_rules++;
	assert_int_equal(egress_message_check(&m, sizeof(m), 0, true, &got, &e), -1);
	m.n_rules = 2;
	m.rules[1] = (struct egress_net){ .address = htonl(0xc6336401), .prefix = 24 }; /* bits behind the prefix */
	assert_int_equal(check(&m, 0, true), -1);
	m.rules[1] = (struct egress_net){ .prefix = 33 };
	assert_int_equal(check(&m, 0, true), -1);
	m.rules[1] = (struct egress_net){ .is_allowed = 2 };
	assert_int_equal(check(&m, 0, true), -1);
	m.rules[1] = (struct egress_net){ .is_allowed = 1 };
	assert_int_equal(check(&m, 0, true), 0);
	m.allows = 3;
	assert_int_equal(check(&m, 0, true), -1);
}

static void anything_else_is_refused(void **state)
{
	struct egress_message bad[10];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = base(EGRESS_LEARN);
	bad[0].version++;
	bad[1].call = 0;
	bad[2].call = EGRESS_CUT + 1;
	bad[3].seconds = 0;
	bad[4].seconds = EGRESS_SECONDS_MAX + 1;
	bad[5].ports[0] = 0;
	bad[6].net.prefix = 31;
	bad[7].net.pad = 1;
	bad[8] = base(EGRESS_BOUND);
	memset(bad[8].id, 'a', sizeof(bad[8].id));
	bad[9] = base(EGRESS_BOUND);
	bad[9].failed = 1; /* without a reason */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(check(&bad[i], 0, true), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_side_gets_the_messages_of_the_other), cmocka_unit_test(only_a_policy_has_a_descriptor),
		cmocka_unit_test(web_ports_are_never_learned), cmocka_unit_test(rules_are_as_many_as_they_say),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
