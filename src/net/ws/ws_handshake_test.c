// SPDX-License-Identifier: Apache-2.0
#include "net/ws/ws_handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

static void the_accept_value_is_that_of_the_rfc(void **state)
{
	static const struct {
		const char *key, *accept;
	} cases[] = {
		{ "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" },
		{ "x3JJHMbDL1EzLkh9GBhXDw==", "HSmrc0sMlYUkAGmm5OPpG2HaGWk=" },
	};
	char out[WS_ACCEPT_LEN + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ws_accept(str_of(cases[i].key), out);
		assert_string_equal(out, cases[i].accept);
		assert_true(ws_accept_matches(str_of(cases[i].key), str_of(cases[i].accept)));
	}
	assert_false(ws_accept_matches(STR("dGhlIHNhbXBsZSBub25jZQ=="), STR("HSmrc0sMlYUkAGmm5OPpG2HaGWk=")));
	assert_false(ws_accept_matches(STR(""), STR("")));
}

static void keys_are_sixteen_bytes_of_base64(void **state)
{
	static const char *const bad[] = {
		"", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZQAA",
		"dGhlIHNhbXBsZSBub25jZA=A",
		"dGhlIHNhbXBsZSBub25j Q==", "dGhlIHNhbXBsZSBub2-jZQ==", "dGhlIHNhbXBsZSBub25jZQQQ=",
	};
	const uint8_t bytes[16] = "the sample nonce"; /* as many bytes, without its NUL */
	char key[WS_KEY_LEN + 1];

	(void)state;
	ws_key_make(bytes, key);
	assert_string_equal(key, "dGhlIHNhbXBsZSBub25jZQ==");
	assert_true(ws_key_valid(str_of(key)));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(ws_key_valid(str_of(bad[i])));
}

static void requests_are_told_apart(void **state)
{
	static const char good[] = "dGhlIHNhbXBsZSBub25jZQ==";
	static const struct {
		const char *connection, *upgrade, *version, *key;
		enum ws_handshake want;
	} cases[] = {
		{ "Upgrade", "websocket", "13", good, WS_HANDSHAKE_OK },
		{ "keep-alive, Upgrade", "WebSocket", "13", good, WS_HANDSHAKE_OK },
		{ "", "", "", "", WS_HANDSHAKE_NONE },
		{ "Upgrade", "h2c", "13", good, WS_HANDSHAKE_NONE },
		{ "keep-alive", "websocket", "13", good, WS_HANDSHAKE_BAD },
		{ "Upgrade", "websocket", "8", good, WS_HANDSHAKE_VERSION },
		{ "Upgrade", "websocket", "", good, WS_HANDSHAKE_BAD },
		{ "Upgrade", "websocket", "13", "", WS_HANDSHAKE_BAD },
		{ "Upgrade", "websocket", "13", "short", WS_HANDSHAKE_BAD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ws_request rq = {
			.connection = str_of(cases[i].connection),
			.upgrade = str_of(cases[i].upgrade),
			.version = str_of(cases[i].version),
			.key = str_of(cases[i].key),
		};

		assert_int_equal(ws_handshake_check(&rq), cases[i].want);
	}
}

static void the_first_offered_protocol_that_we_speak_is_chosen(void **state)
{
	static const char *const supported[] = { "v4.channel.k8s.io", "v5.channel.k8s.io", NULL };
	struct str got;

	(void)state;
	assert_true(ws_protocol_choose(STR("chat, v5.channel.k8s.io, v4.channel.k8s.io"), supported, &got));
	assert_true(str_is(got, "v5.channel.k8s.io"));
	assert_false(ws_protocol_choose(STR("chat, V5.channel.k8s.io"), supported, &got));
	assert_false(ws_protocol_choose(STR(""), supported, &got));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_accept_value_is_that_of_the_rfc),
		cmocka_unit_test(keys_are_sixteen_bytes_of_base64),
		cmocka_unit_test(requests_are_told_apart),
		cmocka_unit_test(the_first_offered_protocol_that_we_speak_is_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
