// SPDX-License-Identifier: Apache-2.0
/* Stores: the texts of Redis, and the rules that both kinds share, against memory and (where one is named) a real Redis. */
#include "client/pool_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/loop.h"

#include "base/banned.h"

struct got {
	bool is_done, failed;
	struct pool_answer a;
	struct pool_entry entries[POOL_LIST_MAX];
	struct err e;
};

static void note(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct got *g = arg;

	assert_false(g->is_done);
	assert_true((a == NULL) != (e == NULL));
	g->is_done = true;
	g->failed = !a;
	if (e)
		g->e = *e;
	if (!a)
		return;
	g->a = *a;
	if (a->n > 0)
		memcpy(g->entries, a->entries, a->n * sizeof(*g->entries));
}

struct rig {
	struct loop *loop;
	struct pool_store *store;
	struct got got;
};

static const struct got *order(struct rig *r, const struct pool_order *o)
{
	memset(&r->got, 0, sizeof(r->got));
	pool_store_order(r->store, o, note, &r->got);
	while (!r->got.is_done)
		assert_int_equal(loop_turn(r->loop, 100, &(struct err){ 0 }), 0);
	if (r->got.failed)
		fail_msg("%s", r->got.e.msg);
	return &r->got;
}

static void put(struct rig *r, const char *id, int64_t ttl_ms)
{
	(void)order(r, &(struct pool_order){ .kind = POOL_SETUP, .number = 3, .ttl_ms = ttl_ms });
	(void)order(r, &(struct pool_order){ .kind = POOL_PUT, .id = id });
}

static void wait_ms(unsigned ms)
{
	usleep(ms * 1000);
}

static void first_in_first_out(struct rig *r)
{
	const struct got *g = order(r, &(struct pool_order){ .kind = POOL_TAKE });

	assert_string_equal(g->a.id, "");
	put(r, "a", 60000);
	put(r, "b", 60000);
	put(r, "a", 60000); /* is there already */
	g = order(r, &(struct pool_order){ .kind = POOL_LOOK });
	assert_true(g->a.number == 3 && g->a.count == 2 && g->a.n == 2);
	assert_string_equal(g->entries[0].id, "a");
	assert_true(g->entries[0].expires_ms > clock_wall_us() / 1000 + 50000);
	assert_string_equal(order(r, &(struct pool_order){ .kind = POOL_TAKE, .ttl_ms = 30000 })->a.id, "a");
	assert_string_equal(order(r, &(struct pool_order){ .kind = POOL_TAKE, .ttl_ms = 30000 })->a.id, "b");
	assert_string_equal(order(r, &(struct pool_order){ .kind = POOL_TAKE })->a.id, "");
}

static void who_has_not_enough_left_is_dropped(struct rig *r)
{
	const struct got *g;

	put(r, "dead", 1);
	put(r, "short", 5000);
	put(r, "long", 60000);
	wait_ms(10);
	g = order(r, &(struct pool_order){ .kind = POOL_TAKE, .ttl_ms = 10000 });
	assert_string_equal(g->a.id, "long");
	assert_true(g->a.n == 1);
	assert_string_equal(g->entries[0].id, "short");
	put(r, "dead", 1);
	put(r, "short", 5000);
	put(r, "long", 60000);
	wait_ms(10);
	g = order(r, &(struct pool_order){ .kind = POOL_REAP, .ttl_ms = 10000 });
	assert_true(g->a.n == 1 && !*g->a.id);
	assert_string_equal(g->entries[0].id, "short");
	g = order(r, &(struct pool_order){ .kind = POOL_LOOK });
	assert_true(g->a.count == 1 && g->a.n == 1);
	(void)order(r, &(struct pool_order){ .kind = POOL_REMOVE, .id = "long" });
	(void)order(r, &(struct pool_order){ .kind = POOL_REMOVE, .id = "long" });
	assert_int_equal(order(r, &(struct pool_order){ .kind = POOL_LOOK })->a.count, 0);
}

static void the_size_is_shared(struct rig *r)
{
	(void)order(r, &(struct pool_order){ .kind = POOL_RESIZE, .number = 17 });
	assert_int_equal(order(r, &(struct pool_order){ .kind = POOL_LOOK })->a.number, 17);
}

static void rules(struct rig *r)
{
	first_in_first_out(r);
	who_has_not_enough_left_is_dropped(r);
	the_size_is_shared(r);
}

static void memory_keeps_the_rules(void **state)
{
	struct rig r = { .loop = loop_new(&(struct err){ 0 }) };

	(void)state;
	r.store = pool_store_new(r.loop, &(struct pool_store_spec){ .name = "n" }, &(struct err){ 0 });
	assert_non_null(r.store);
	rules(&r);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "x", .ttl_ms = 1000 })->a.number, 1);
	(void)order(&r, &(struct pool_order){ .kind = POOL_UNLOCK, .owner = "x" });
	pool_store_free(r.store);
	loop_free(r.loop);
}

/* ---- Redis ---- */

static void redis_keeps_the_rules(void **state)
{
	const char *url = getenv("OPENSANDBOX_TEST_REDIS_URL");
	char name[64];
	struct rig r = { 0 };

	(void)state;
	if (!url)
		skip();
	(void)snprintf(name, sizeof(name), "unit %d", (int)getpid());
	r.loop = loop_new(&(struct err){ 0 });
	r.store = pool_store_new(r.loop, &(struct pool_store_spec){ .name = name, .redis_url = url }, &(struct err){ 0 });
	assert_non_null(r.store);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOOK })->a.number, -1);
	rules(&r);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "x", .ttl_ms = 60000 })->a.number, 1);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "y", .ttl_ms = 60000 })->a.number, 0);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "x", .ttl_ms = 20 })->a.number, 1);
	wait_ms(40);
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "y", .ttl_ms = 60000 })->a.number, 1);
	(void)order(&r, &(struct pool_order){ .kind = POOL_UNLOCK, .owner = "x" });
	assert_int_equal(order(&r, &(struct pool_order){ .kind = POOL_LOCK, .owner = "x", .ttl_ms = 60000 })->a.number, 0);
	(void)order(&r, &(struct pool_order){ .kind = POOL_UNLOCK, .owner = "y" });
	pool_store_order(r.store, &(struct pool_order){ .kind = POOL_LOOK }, note, &r.got); /* freed with it */
	pool_store_free(r.store);
	loop_free(r.loop);
}

static void a_redis_that_is_not_there_is_an_error(void **state)
{
	struct rig r = { .loop = loop_new(&(struct err){ 0 }) };

	(void)state;
	r.store = pool_store_new(r.loop, &(struct pool_store_spec){ .name = "n", .redis_url = "unix:///nonexistent/socket" }, &(struct err){ 0 });
	assert_non_null(r.store);
	for (int i = 0; i < 2; i++) {
		memset(&r.got, 0, sizeof(r.got));
		pool_store_order(r.store, &(struct pool_order){ .kind = POOL_LOOK }, note, &r.got);
		while (!r.got.is_done)
			assert_int_equal(loop_turn(r.loop, 100, &(struct err){ 0 }), 0);
		assert_true(r.got.failed);
	}
	pool_store_free(r.store);
	assert_null(pool_store_new(r.loop, &(struct pool_store_spec){ .name = "n", .redis_url = "http://x" }, &(struct err){ 0 }));
	loop_free(r.loop);
}

static void keys_are_those_of_other_languages(void **state)
{
	AUTO(buf_done) struct buf key = BUF_INIT(1024), other = BUF_INIT(1024);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(pool_key(&key, NULL, "my pool?", "idle:list", &e), 0);
	assert_string_equal(key.p, "opensandbox:pool:{bXkgcG9vbD8}:idle:list");
	assert_int_equal(pool_key(&other, "p", "\xff\xfe\xfd", "lock", &e), 0);
	assert_string_equal(other.p, "p:{__79}:lock");
	assert_int_equal(pool_key(&key, NULL, "  ", "lock", &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void answers_are_read_or_refused(void **state)
{
	static const struct {
		const char *text;
		int want;
		int64_t number, count;
		const char *id;
		size_t n;
	} cases[] = {
		{ "0 0 -", 0, 0, 0, "", 0 },
		{ "1 7 ab-1", 0, 1, 7, "ab-1", 0 },
		{ "-1 2 -\na 5\nb 1781500000000", 0, -1, 2, "", 2 },
		{ "0 0 -\na 5\n", 0, 0, 0, "", 1 },
		{ "", -1, 0, 0, "", 0 },
		{ "0 0", -1, 0, 0, "", 0 },
		{ "x 0 -", -1, 0, 0, "", 0 },
		{ "0 0 -\na", -1, 0, 0, "", 0 },
		{ "0 0 -\na x", -1, 0, 0, "", 0 },
		{ "0 0 -\n\n", -1, 0, 0, "", 0 },
		{ "99999999999 0 -", -1, 0, 0, "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static struct pool_entry entries[POOL_LIST_MAX];
		struct pool_answer a = { 0 };

		if (pool_text_parse(str_of(cases[i].text), &a, entries) != cases[i].want)
			fail_msg("'%s'", cases[i].text);
		if (cases[i].want < 0)
			continue;
		assert_true(a.number == cases[i].number && a.count == cases[i].count && a.n == cases[i].n);
		assert_string_equal(a.id, cases[i].id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_keeps_the_rules),
		cmocka_unit_test(redis_keeps_the_rules),
		cmocka_unit_test(a_redis_that_is_not_there_is_an_error),
		cmocka_unit_test(keys_are_those_of_other_languages),
		cmocka_unit_test(answers_are_read_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
