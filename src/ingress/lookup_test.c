// SPDX-License-Identifier: Apache-2.0
#include "ingress/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"
#include "net/loop.h"

#include "base/banned.h"

/* A provider that answers when it is told to. */
struct search {
	finding_fn *fn;
	void *arg;
	char id[64];
};

struct rig {
	struct provider provider;
	struct loop *loop;
	uint64_t now_ms;
	struct lookup *lookup;
	struct search *last;
	unsigned asked, cancelled, told;
	enum found seen;
	struct err e;
};

static struct search *fake_find(struct provider *p, const char *id, finding_fn *fn, void *arg, struct err *e)
{
	struct rig *r = container_of(p, struct rig, provider);
	struct search *s = calloc(1, sizeof(*s));

	(void)e;
	*s = (struct search){ .fn = fn, .arg = arg };
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	r->asked++;
	r->last = s;
	return s;
}

static unsigned cancels;

static void fake_cancel(struct search *s)
{
	cancels++;
	free(s);
}

static void answer(struct search *s, enum found found)
{
	struct finding f = { .found = found };
	finding_fn *fn = s->fn;
	void *arg = s->arg;

	free(s);
	fn(&f, arg);
}

static void on_told(const struct finding *f, void *arg)
{
	struct rig *r = arg;

	r->told++;
	r->seen = f->found;
}

static uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now_ms;
}

static void rig_open(struct rig *r)
{
	static const struct provider_ops ops = { .find = fake_find, .cancel = fake_cancel };

	*r = (struct rig){ .provider = { &ops }, .now_ms = 100000 };
	cancels = 0;
	r->loop = loop_new(&r->e);
	loop_set_clock(r->loop, rig_now, r);
	r->lookup = lookup_new(r->loop, &r->provider, &r->e);
	assert_non_null(r->lookup);
}

static void rig_close(struct rig *r)
{
	lookup_free(r->lookup);
	loop_free(r->loop);
}

static int find(struct rig *r, const char *id, struct lookup_waiter *w)
{
	const struct finding *f = NULL;
	int rc;

	assert_int_equal(loop_turn(r->loop, 0, &r->e), 0);
	*w = (struct lookup_waiter){ .fn = on_told, .arg = r };
	rc = lookup_find(r->lookup, str_of(id), w, &f, &r->e);
	if (rc == 1)
		r->seen = f->found;
	return rc;
}

static void one_question_serves_all_who_wait(void **state)
{
	struct lookup_waiter a, b, c;
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_int_equal(find(&r, "box", &a), 0);
	assert_int_equal(find(&r, "box", &b), 0);
	assert_int_equal(find(&r, "box", &c), 0);
	assert_int_equal(r.asked, 1);
	assert_string_equal(r.last->id, "box");
	lookup_cancel(&b);
	answer(r.last, FOUND_READY);
	assert_int_equal(r.told, 2);
	assert_int_equal(find(&r, "box", &a), 1);
	assert_int_equal(r.seen, FOUND_READY);
	assert_int_equal(r.asked, 1);
	rig_close(&r);
}

static void what_is_known_is_used_while_it_is_asked_anew(void **state)
{
	struct lookup_waiter w;
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_int_equal(find(&r, "box", &w), 0);
	answer(r.last, FOUND_READY);
	r.now_ms += LOOKUP_FRESH_MS;
	assert_int_equal(find(&r, "box", &w), 1);
	assert_int_equal(find(&r, "box", &w), 1);
	assert_int_equal(r.asked, 2);
	answer(r.last, FOUND_FAILED); /* which is no news */
	assert_int_equal(find(&r, "box", &w), 1);
	assert_int_equal(r.asked, 3);
	answer(r.last, FOUND_NOWHERE);
	assert_int_equal(find(&r, "box", &w), 1);
	assert_int_equal(r.seen, FOUND_NOWHERE);
	r.now_ms += LOOKUP_NO_MS;
	assert_int_equal(find(&r, "box", &w), 0); /* a no is not believed for long */
	answer(r.last, FOUND_READY);
	r.now_ms += LOOKUP_KEEP_MS;
	assert_int_equal(find(&r, "box", &w), 0);
	rig_close(&r);
	assert_int_equal(cancels, 1);
	assert_int_equal(r.told, 2);
}

static void there_is_a_ceiling_for_questions(void **state)
{
	static struct lookup_waiter w[LOOKUP_SEARCHES_MAX + 1];
	struct rig r;
	char id[32];

	(void)state;
	rig_open(&r);
	for (size_t i = 0; i < LOOKUP_SEARCHES_MAX; i++) {
		(void)snprintf(id, sizeof(id), "box-%zu", i);
		assert_int_equal(find(&r, id, &w[i]), 0);
	}
	assert_int_equal(find(&r, "one-more", &w[LOOKUP_SEARCHES_MAX]), -1);
	assert_int_equal(r.e.code, ERR_LIMIT);
	rig_close(&r);
	assert_int_equal(cancels, LOOKUP_SEARCHES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_question_serves_all_who_wait),
		cmocka_unit_test(what_is_known_is_used_while_it_is_asked_anew),
		cmocka_unit_test(there_is_a_ceiling_for_questions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
