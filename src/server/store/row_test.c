// SPDX-License-Identifier: Apache-2.0
#include "server/store/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define VOLUME_OF(kind, source, id, place) \
	"{\"name\":\"v\",\"kind\":\"" kind "\",\"source\":\"" source "\",\"id\":\"" id "\",\"subPath\":\"a/b\",\"mountPath\":\"" place \
	"\",\"readOnly\":true,\"made\":true,\"delete\":false}"
#define VOLUME VOLUME_OF("pvc", "claim", "ab-34", "/data")
#define WITH_VOLUMES(list) \
	"{\"image\":\"h\",\"entrypoint\":[\"a\"],\"env\":[],\"limits\":{\"cpu\":1,\"memory\":2,\"pids\":3,\"disk\":4,\"inodes\":5}," \
	"\"volumes\":[" list "]}"
#define SPEC \
	"{\"image\":\"host\",\"entrypoint\":[\"a\",\"\"],\"env\":[\"X\"],\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}," \
	"\"limits\":{\"cpu\":1,\"memory\":2,\"pids\":3,\"disk\":4},\"volumes\":[" VOLUME "],\"renew\":300," \
	"\"secure\":true,\"ports\":[{\"inside\":8080,\"host\":40001},{\"inside\":1,\"host\":65535}]}"

static struct row_columns good(void)
{
	return (struct row_columns){
		.id = STR("ab-12"), .spec = STR(SPEC), .metadata = STR("{\"a\":\"b\",\"x.y/z\":\"\"}"), .state = STR("Paused"),
		.reason = STR("R"), .message = STR("M \xc3\xa4"), .intent = STR("resume"), .created_us = 1, .expires_us = 2,
		.deadline_ms = 3, .changed_us = 4,
	};
}

static void a_row_reads_back_as_it_was_written(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf spec = BUF_INIT(4096);
	AUTO(buf_done) struct buf metadata = BUF_INIT(4096);
	struct row_columns c = good();
	struct sandbox_row r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(row_load(&c, &a, &r, &e), 0);
	assert_string_equal(r.id, "ab-12");
	assert_int_equal(r.state, SANDBOX_PAUSED);
	assert_int_equal(r.intent, INTENT_RESUME);
	assert_int_equal(r.entrypoint.n, 2);
	assert_int_equal(r.limits.disk_bytes, 4);
	assert_int_equal(r.renew_s, 300);
	assert_true(r.is_secure && r.n_ports == 2 && r.ports[1].inside == 1 && r.ports[1].host == 65535);
	assert_int_equal(r.n_volumes, 1);
	assert_true(r.volumes[0].kind == ROW_VOLUME_NAMED && r.volumes[0].is_made && !r.volumes[0].is_deleted_with);
	assert_true(row_write_spec(&r, &spec));
	assert_true(row_write_metadata(&r.metadata, &metadata));
	assert_string_equal(spec.p, SPEC);
	assert_string_equal(metadata.p, "{\"a\":\"b\",\"x.y/z\":\"\"}");
}

#define DIGEST "sha256:abababababababababababababababababababababababababababababababab"
#define WITH_DIGEST(digest) \
	"{\"image\":\"h\",\"digest\":\"" digest "\",\"entrypoint\":[\"a\"],\"env\":[]," \
	"\"limits\":{\"cpu\":1,\"memory\":2,\"pids\":3,\"disk\":4},\"renew\":0}"

static void the_image_is_known_by_its_digest_where_it_has_one(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct row_columns c = good();
	struct sandbox_row r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(row_load(&c, &a, &r, &e), 0);
	assert_null(r.image_digest);
	c.spec = STR(WITH_DIGEST(DIGEST));
	assert_int_equal(row_load(&c, &a, &r, &e), 0);
	assert_string_equal(r.image_digest, DIGEST);
	assert_true(row_write_spec(&r, &out));
	assert_string_equal(buf_z(&out), WITH_DIGEST(DIGEST));
}

static void a_row_that_cannot_be_is_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 22);
	static const struct {
		size_t offset; /* of a column of text */
		const char *text, *why;
	} rows[] = {
		{ offsetof(struct row_columns, id), "", "not an id" },
		{ offsetof(struct row_columns, id), "../x", "not an id" },
		{ offsetof(struct row_columns, spec), "", "spec" },
		{ offsetof(struct row_columns, spec), "[]", "spec" },
		{ offsetof(struct row_columns, spec), "{}", "image" },
		{ offsetof(struct row_columns, spec), WITH_DIGEST("sha256:12"), "digest" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES(VOLUME_OF("nfs", "c", "ab", "/d")), "kind" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES(VOLUME_OF("pvc", "C", "ab", "/d")), "named as its kind" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES(VOLUME_OF("pvc", "c", "../x", "/d")), "named as its kind" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES(VOLUME_OF("host", "/x", "ab", "/d")), "named as its kind" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES(VOLUME_OF("host", "/x", "", "dd")), "has no place" },
		{ offsetof(struct row_columns, spec), WITH_VOLUMES("7"), "volumes" },
		{ offsetof(struct row_columns, metadata), "[]", "metadata" },
		{ offsetof(struct row_columns, metadata), "{\"a\":1}", "not a string" },
		{ offsetof(struct row_columns, metadata), "{\"a b\":\"\"}", "the name must" },
		{ offsetof(struct row_columns, metadata), "{\"a\":\"-\"}", "the value must" },
		{ offsetof(struct row_columns, metadata), "{\"a\":\"1\",\"a\":\"2\"}", "twice" },
		{ offsetof(struct row_columns, state), "running", "state" },
		{ offsetof(struct row_columns, intent), "x", "intent" },
		{ offsetof(struct row_columns, reason), "\xff", "reason" },
		{ offsetof(struct row_columns, message), "\xc3", "message" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct row_columns c = good();
		struct sandbox_row r;
		struct err e = { 0 };

		*(struct str *)(void *)((char *)&c + rows[i].offset) = str_of(rows[i].text);
		assert_int_equal(row_load(&c, &a, &r, &e), -1);
		if (!strstr(e.msg, rows[i].why))
			fail_msg("row %zu: %s", i, e.msg);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void volumes_have_names_of_their_own(void **state)
{
	static const struct {
		const char *name;
		size_t max;
		bool good;
	} rows[] = {
		{ "a", 1, true }, { "a-b", 3, true }, { "0", 63, true }, { "", 63, false }, { "-a", 63, false },
		{ "a-", 63, false }, { "A", 63, false }, { "a.b", 63, false }, { "a/b", 63, false }, { "ab", 1, false },
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
	struct volume_columns good = { STR("v"), STR("ab-12"), STR("doomed"), 7, 1 }, bad;
	struct volume_row r;
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(volume_name_valid(str_of(rows[i].name), rows[i].max), rows[i].good);
	assert_false(volume_name_valid((struct str){ "a\0b", 3 }, 63));
	assert_int_equal(volume_row_load(&good, &a, &r, &e), 0);
	assert_true(r.state == VOLUME_DOOMED && r.size_bytes == 7);
	bad = good, bad.id = STR("x/y");
	assert_int_equal(volume_row_load(&bad, &a, &r, &e), -1);
	bad = good, bad.state = STR("Ready");
	assert_int_equal(volume_row_load(&bad, &a, &r, &e), -1);
	bad = good, bad.size_bytes = -1;
	assert_int_equal(volume_row_load(&bad, &a, &r, &e), -1);
	bad = good, bad.created_us = 0;
	assert_int_equal(volume_row_load(&bad, &a, &r, &e), -1);
}

static void times_that_cannot_be_are_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 22);
	struct row_columns c;
	struct sandbox_row r;
	struct err e = { 0 };

	(void)state;
	c = good(), c.created_us = 0;
	assert_int_equal(row_load(&c, &a, &r, &e), -1);
	c = good(), c.created_us = INT64_MAX;
	assert_int_equal(row_load(&c, &a, &r, &e), -1);
	c = good(), c.changed_us = -1;
	assert_int_equal(row_load(&c, &a, &r, &e), -1);
	c = good(), c.expires_us = -1;
	assert_int_equal(row_load(&c, &a, &r, &e), -1);
	c = good(), c.deadline_ms = -1;
	assert_int_equal(row_load(&c, &a, &r, &e), -1);
	c = good(), c.expires_us = 0;
	assert_int_equal(row_load(&c, &a, &r, &e), 0);
}

static void a_row_needs_memory(void **state)
{
	struct row_columns c = good();
	struct sandbox_row r;
	bool has_fitted = false;

	(void)state;
	for (size_t max = 0; max < 32768 && !has_fitted; max += 128) {
		AUTO(arena_done) struct arena a = ARENA_INIT(max);
		struct err e = { 0 };

		has_fitted = row_load(&c, &a, &r, &e) == 0;
		assert_true(has_fitted || e.code == ERR_UNAVAILABLE || e.code == ERR_LIMIT);
	}
	assert_true(has_fitted);
}

static void states_have_the_names_that_clients_know(void **state)
{
	enum sandbox_state s;

	(void)state;
	assert_string_equal(sandbox_state_name(SANDBOX_TERMINATED), "Terminated");
	assert_true(sandbox_state_parse(STR("Stopping"), &s));
	assert_int_equal(s, SANDBOX_STOPPING);
	assert_false(sandbox_state_parse(STR(""), &s));
	assert_string_equal(sandbox_intent_name(INTENT_REMOVE), "remove");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_reads_back_as_it_was_written),
		cmocka_unit_test(the_image_is_known_by_its_digest_where_it_has_one),
		cmocka_unit_test(a_row_that_cannot_be_is_refused),
		cmocka_unit_test(volumes_have_names_of_their_own),
		cmocka_unit_test(times_that_cannot_be_are_refused),
		cmocka_unit_test(a_row_needs_memory),
		cmocka_unit_test(states_have_the_names_that_clients_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
