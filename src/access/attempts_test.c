// SPDX-License-Identifier: Apache-2.0
#include "access/attempts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"
#include "net/addr.h"

#include "base/banned.h"

static struct addr at(const char *text)
{
	struct addr a;

	assert_int_equal(sockaddr_parse(str_of(text), &a, &(struct err){ 0 }), 0);
	return a;
}

static void one_peer_gets_so_many_guesses(void **state)
{
	AUTO(attempts_free) struct attempts *a = attempts_new(&(struct err){ 0 });
	struct addr me = at("192.0.2.1:1"), same = at("192.0.2.1:2"), other = at("192.0.2.2:1");

	(void)state;
	for (unsigned i = 0; i < ATTEMPTS_PEER_MAX; i++) {
		assert_false(attempts_exceeded(a, STR("box"), &me.sa, 1000));
		attempts_failed(a, STR("box"), &me.sa, 1000 + i);
	}
	assert_true(attempts_exceeded(a, STR("box"), &same.sa, 1000)); /* another port is nobody else */
	assert_false(attempts_exceeded(a, STR("box"), &other.sa, 1000));
	assert_false(attempts_exceeded(a, STR("box2"), &me.sa, 1000));
	assert_true(attempts_exceeded(a, STR("box"), &me.sa, 1000 + ATTEMPTS_WINDOW_MS - 1));
	assert_false(attempts_exceeded(a, STR("box"), &me.sa, 1000 + ATTEMPTS_WINDOW_MS));
}

static void all_peers_together_get_so_many(void **state)
{
	AUTO(attempts_free) struct attempts *a = attempts_new(&(struct err){ 0 });
	struct addr last = at("198.51.100.7:1");

	(void)state;
	for (unsigned i = 0; i < ATTEMPTS_ALL_MAX; i++) {
		struct addr peer = at("192.0.2.1:1");

		peer.in.sin_addr.s_addr = i;
		assert_false(attempts_exceeded(a, STR("box"), &last.sa, 5));
		attempts_failed(a, STR("box"), &peer.sa, 5);
	}
	assert_true(attempts_exceeded(a, STR("box"), &last.sa, 5));
	assert_false(attempts_exceeded(a, STR("other"), &last.sa, 5));
}

static void who_has_a_network_is_one_peer(void **state)
{
	AUTO(attempts_free) struct attempts *a = attempts_new(&(struct err){ 0 });
	struct addr one = at("[2001:db8::1]:1"), same = at("[2001:db8::ffff:2]:1"), other = at("[2001:db8:0:1::1]:1");

	(void)state;
	for (unsigned i = 0; i < ATTEMPTS_PEER_MAX; i++)
		attempts_failed(a, STR("box"), i % 2 ? &one.sa : &same.sa, 9);
	assert_true(attempts_exceeded(a, STR("box"), &same.sa, 9));
	assert_false(attempts_exceeded(a, STR("box"), &other.sa, 9));
	assert_false(attempts_exceeded(a, STR("box"), NULL, 9));
}

static void a_flood_does_not_make_it_forget_the_worst(void **state)
{
	AUTO(attempts_free) struct attempts *a = attempts_new(&(struct err){ 0 });
	struct addr worst = at("192.0.2.1:1"), flood = at("198.51.100.1:1");

	(void)state;
	for (unsigned i = 0; i < ATTEMPTS_PEER_MAX; i++)
		attempts_failed(a, STR("box"), &worst.sa, 1);
	for (unsigned i = 0; i < 100000; i++) {
		flood.in.sin_addr.s_addr = i;
		attempts_failed(a, STR("elsewhere"), &flood.sa, 2);
	}
	assert_true(attempts_exceeded(a, STR("box"), &worst.sa, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_peer_gets_so_many_guesses),
		cmocka_unit_test(all_peers_together_get_so_many),
		cmocka_unit_test(who_has_a_network_is_one_peer),
		cmocka_unit_test(a_flood_does_not_make_it_forget_the_worst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
