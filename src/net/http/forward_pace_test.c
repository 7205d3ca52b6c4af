// SPDX-License-Identifier: Apache-2.0
/* Who rests, and for how long. The clock is turned by hand. */
#include "net/http/test_forward.h"

#include "base/banned.h"

/* A stream of TYPE that has begun. */
static int begin_stream(struct stage *s, const char *type)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
	AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
	int peer = rig_connect(&s->rig);

	rig_send(&s->rig, peer, STR("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
	hear(s, s->far, &got);
	buf_addf(&text, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n", type);
	carry_all(s, s->far, buf_str(&text), peer, &got);
	return peer;
}

/* How much of *REST reaches PEER from FAR while the clock stands still. */
static size_t flood(struct stage *s, int far, int peer, struct str *rest)
{
	AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);

	for (int idle = 0; idle < 3;)
		idle = carry(s, far, rest, peer, &got) ? 0 : idle + 1;
	return got.n;
}

/* A stream that has 2 MiB to say, and maybe somebody else. */
struct crowd {
	struct stage s;
	struct buf bytes;
	struct str rest;
	int peer, far, other;
};

static void crowd_open(struct crowd *c, const char *type, const char *other)
{
	*c = (struct crowd){ .bytes = BUF_INIT(2 * MIB), .other = -1 };
	add_pattern(&c->bytes, 2 * MIB);
	c->rest = buf_str(&c->bytes);
	stage_open(&c->s, PASSED);
	c->peer = begin_stream(&c->s, type);
	c->far = take_fd(&c->s.far);
	if (other)
		c->other = begin_stream(&c->s, other);
}

static void crowd_close(struct crowd *c)
{
	closep(&c->peer);
	closep(&c->far);
	closep(&c->other);
	stage_close(&c->s);
	buf_done(&c->bytes);
}

static void a_stream_of_events_rests_while_others_are_served(void **state)
{
	struct crowd c;
	size_t got;

	(void)state;
	crowd_open(&c, "text/event-stream; charset=utf-8", "text/plain");
	got = flood(&c.s, c.far, c.peer, &c.rest);
	assert_true(got > HTTP_PACE_BYTES && got < 2 * HTTP_PACE_BYTES);
	for (int i = 0; got < 2 * MIB && i < 100; i++) {
		rig_wait(&c.s.rig, HTTP_PACE_MS);
		got += flood(&c.s, c.far, c.peer, &c.rest);
	}
	assert_true(got > 2 * MIB); /* with what frames it */
	crowd_close(&c);
}

static void neither_one_alone_nor_a_file_rests(void **state)
{
	static const char *const rows[][2] = { { "text/event-stream", NULL }, { "application/octet-stream", "text/plain" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct crowd c;

		crowd_open(&c, rows[i][0], rows[i][1]);
		assert_true(flood(&c.s, c.far, c.peer, &c.rest) > 2 * MIB);
		crowd_close(&c);
	}
}

static void who_says_little_does_not_rest(void **state)
{
	struct crowd c;

	(void)state;
	crowd_open(&c, "text/event-stream", "text/event-stream");
	assert_true(flood(&c.s, c.far, c.peer, &c.rest) < MIB);
	for (int i = 0; i < 5; i++) {
		struct str event = STR("data: done\n\n");

		assert_true(flood(&c.s, c.s.far, c.other, &event) > 12);
	}
	crowd_close(&c);
}

static void a_reader_that_goes_while_its_stream_rests_leaves_nothing_behind(void **state)
{
	struct crowd c;

	(void)state;
	crowd_open(&c, "text/event-stream", "text/plain");
	assert_true(flood(&c.s, c.far, c.peer, &c.rest) < MIB);
	closep(&c.peer);
	rig_turn(&c.s.rig);
	assert_int_equal(c.s.overs, 1);
	rig_wait(&c.s.rig, HTTP_PACE_MS);
	crowd_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_of_events_rests_while_others_are_served),
		cmocka_unit_test(neither_one_alone_nor_a_file_rests),
		cmocka_unit_test(who_says_little_does_not_rest),
		cmocka_unit_test(a_reader_that_goes_while_its_stream_rests_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
