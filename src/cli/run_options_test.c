// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/attach.h"
#include "cli/run_options.h"

#include "base/banned.h"

static void volumes_are_claims_or_folders_of_the_server(void **state)
{
	static const struct {
		const char *in, *claim, *host, *path;
		bool read_only;
	} cases[] = {
		{ "data:/data", "data", NULL, "/data", false },
		{ "data:/data:ro", "data", NULL, "/data", true },
		{ "data:/data:rw", "data", NULL, "/data", false },
		{ "/srv/x:/x:ro", NULL, "/srv/x", "/x", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct osb_volume v;
		struct err e = { 0 };

		assert_int_equal(run_volume_parse(&a, cases[i].in, i, &v, &e), 0);
		assert_int_equal(v.read_only, cases[i].read_only);
		assert_string_equal(v.mount_path, cases[i].path);
		if (cases[i].claim)
			assert_string_equal(v.claim_name, cases[i].claim);
		else
			assert_string_equal(v.host_path, cases[i].host);
		assert_true(!v.claim_name != !v.host_path);
	}
}

static void other_words_are_no_volumes(void **state)
{
	static const char *const cases[] = { "", "data", ":", ":/data", "data:", "data:rel", "data:/x:zz", "data:/x:ro:more", "/srv" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct osb_volume v;
		struct err e = { 0 };

		assert_int_equal(run_volume_parse(&a, cases[i], 0, &v, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void statuses_tell_ends_apart(void **state)
{
	static const struct {
		enum attach_end end;
		int code, want;
	} cases[] = {
		{ ATTACH_EXIT, 0, 0 },          { ATTACH_EXIT, 7, 7 },     { ATTACH_EXIT, 137, 137 },   { ATTACH_EXIT, -1, 125 },
		{ ATTACH_SIGNAL, SIGINT, 130 }, { ATTACH_SIGNAL, SIGTERM, 143 }, { ATTACH_CLOSED, 0, 141 }, { ATTACH_TIMEOUT, 0, 124 },
		{ ATTACH_LOST, 0, 125 },        { ATTACH_LEFT, 0, 0 },     { ATTACH_DETACHED, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct attach_result r = { .end = cases[i].end, .code = cases[i].code };

		assert_int_equal(attach_status(&r), cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(volumes_are_claims_or_folders_of_the_server),
		cmocka_unit_test(other_words_are_no_volumes),
		cmocka_unit_test(statuses_tell_ends_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
