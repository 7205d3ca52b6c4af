// SPDX-License-Identifier: Apache-2.0
/* Each case runs with bodies passed and with bodies copied: nobody is to notice a difference. */
#include "net/http/test_forward.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "net/conduit.h"

#include "base/banned.h"

#define LONG (3 * MIB + 17)

static unsigned count_pipes(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *at; (at = readdir(d));) {
		char target[32] = "";

		n += readlinkat(dirfd(d), at->d_name, target, sizeof(target) - 1) > 0 && str_starts(str_of(target), STR("pipe:"));
	}
	(void)closedir(d);
	return n;
}

static void expect(const struct buf *got, const struct buf *want)
{
	assert_int_equal(got->n, want->n);
	assert_memory_equal(got->p, want->p, want->n);
}

/* What stands in front of its body. */
static struct str body_of(const struct buf *b)
{
	const char *end = b->n > 0 ? memmem(b->p, b->n, "\r\n\r\n", 4) : NULL;

	assert_non_null(end);
	return str_skip(buf_str(b), (size_t)(end - b->p) + 4);
}

/* ---- answers ---- */

static const size_t sizes[] = { 0,           1,           4095,           65535,    65536,        131072,
				CONDUIT_WIDE - 1, CONDUIT_WIDE, CONDUIT_WIDE + 1, 2 * MIB, 2 * MIB + 1, LONG };

/* Two requests at once on one connection, with answers of SIZE. */
static void try_answers(struct stage *s, size_t size)
{
	AUTO(buf_done) struct buf answer = BUF_INIT(8 * MIB);
	AUTO(buf_done) struct buf body = BUF_INIT(8 * MIB);
	AUTO_FD peer = rig_connect(&s->rig);

	rig_send(&s->rig, peer, STR("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"));
	buf_addf(&answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
	add_pattern(&answer, size);
	add_pattern(&body, size);
	for (int i = 0; i < 2; i++) {
		AUTO(buf_done) struct buf asked = BUF_INIT(MIB);
		AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);

		hear(s, s->far, &asked);
		rig_begins(&asked, i == 0 ? "GET /a " : "GET /b ");
		carry_all(s, s->far, buf_str(&answer), peer, &got);
		assert_int_equal(body_of(&got).n, size);
		assert_memory_equal(body_of(&got).p, body.p, size);
	}
	assert_int_equal(s->dials, 1); /* the connection was fit to be kept */
}

static void answers_of_every_size_arrive_whole(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			struct stage s;

			stage_open(&s, m);
			try_answers(&s, sizes[i]);
			assert_int_equal(s.overs, 2);
			assert_int_equal(count_pipes(), before);
			stage_close(&s);
		}
	}
}

/* A long answer of which COME bytes have come, and the reader took all it could get. */
static int begin_answer(struct stage *s, size_t come)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
	AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
	int peer = rig_connect(&s->rig);

	rig_send(&s->rig, peer, STR("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
	hear(s, s->far, &got);
	buf_clear(&got);
	buf_addf(&text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", LONG);
	add_pattern(&text, come);
	carry_all(s, s->far, buf_str(&text), peer, &got);
	assert_int_equal(body_of(&got).n, come);
	return peer;
}

static void long_answers_go_through_a_pipe_while_they_last(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, LONG - 1);
		assert_int_equal(count_pipes(), m == PASSED ? before + 2 : before);
		assert_int_equal(send(s.far, "", 1, 0), 1);
		rig_turn(&s.rig);
		assert_int_equal(s.overs, 1);
		rig_turn(&s.rig);
		assert_int_equal(count_pipes(), before);
		closep(&peer);
		stage_close(&s);
	}
}

static void an_answer_that_is_cut_is_cut_for_its_reader(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf got = BUF_INIT(MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, MIB);
		closep(&s.far);
		s.far = -1;
		rig_turn(&s.rig);
		assert_true(rig_recv(&s.rig, peer, &got)); /* the end, without a byte more */
		assert_int_equal(got.n, 0);
		assert_int_equal(s.overs, 1);
		assert_int_equal(count_pipes(), before);
		closep(&peer);
		stage_close(&s);
	}
}

static void a_reader_that_goes_ends_the_answer(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		struct stage s;
		char byte;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, MIB);
		closep(&peer);
		rig_turn(&s.rig);
		assert_int_equal(s.overs, 1);
		assert_int_equal(recv(s.far, &byte, 1, 0), 0);
		assert_int_equal(count_pipes(), before);
		stage_close(&s);
	}
}

/* Sends until nothing moves any more. */
static size_t send_until_stuck(struct stage *s, int from, struct str rest)
{
	size_t all = rest.n;
	struct buf none = { 0 };

	for (int idle = 0; idle < 3;)
		idle = carry(s, from, &rest, -1, &none) ? 0 : idle + 1;
	return all - rest.n;
}

static void a_slow_reader_stops_the_sender_and_loses_nothing(void **state)
{
	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf want = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
		struct stage s;
		size_t went;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, MIB);
		add_pattern(&want, LONG);
		buf_add_str(&rest, str_skip(buf_str(&want), MIB));
		went = send_until_stuck(&s, s.far, buf_str(&rest));
		assert_true(went > 0 && went < MIB); /* two socket buffers and what is held between */
		carry_all(&s, s.far, str_skip(buf_str(&rest), went), peer, &got);
		expect(&got, &rest);
		assert_int_equal(s.overs, 1);
		closep(&peer);
		stage_close(&s);
	}
}

static void a_reader_that_goes_while_bytes_wait_leaves_nothing_behind(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, MIB);
		add_pattern(&rest, 2 * MIB);
		(void)send_until_stuck(&s, s.far, buf_str(&rest));
		closep(&peer);
		rig_turn(&s.rig);
		assert_int_equal(s.overs, 1);
		assert_int_equal(count_pipes(), before);
		stage_close(&s);
	}
}

static void a_reader_that_takes_nothing_is_cut_in_time(void **state)
{
	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_answer(&s, MIB);
		rig_wait(&s.rig, HTTP_LIMITS.reader_ms / 4); /* what was said before does not count */
		add_pattern(&rest, 2 * MIB);
		(void)send_until_stuck(&s, s.far, buf_str(&rest));
		rig_wait(&s.rig, HTTP_LIMITS.reader_ms - 1);
		assert_int_equal(s.overs, 0);
		rig_wait(&s.rig, 1);
		assert_int_equal(s.overs, 1);
		closep(&peer);
		stage_close(&s);
	}
}

static void without_descriptors_for_a_pipe_bytes_are_copied(void **state)
{
	struct rlimit before, few;
	struct stage s;
	int taken[64];
	size_t n = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ .rlim_cur = ARRAY_LEN(taken), .rlim_max = before.rlim_max };
	stage_open(&s, PASSED);
	for (int i = 0; i < 2; i++) {
		AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
		AUTO_FD peer = rig_connect(&s.rig);

		rig_send(&s.rig, peer, STR("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
		hear(&s, s.far, &got);
		buf_clear(&got);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		while (i == 0 && n < ARRAY_LEN(taken) && (taken[n] = dup(s.far)) >= 0)
			n++;
		buf_addf(&text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", LONG);
		add_pattern(&text, LONG);
		carry_all(&s, s.far, buf_str(&text), peer, &got);
		assert_int_equal(body_of(&got).n, LONG);
		while (n > 0)
			closep(&taken[--n]);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	}
	stage_close(&s);
}

/* ---- uploads ---- */

static void add_upload(struct buf *b, size_t size)
{
	buf_addf(b, "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", size);
	add_pattern(b, size);
}

static void expect_upload(const struct buf *got, size_t size)
{
	AUTO(buf_done) struct buf want = BUF_INIT(8 * MIB);

	rig_begins(got, "POST /up HTTP/1.1\r\n");
	add_pattern(&want, size);
	assert_int_equal(body_of(got).n, size);
	assert_memory_equal(body_of(got).p, want.p, size);
}

static void uploads_of_every_size_arrive_whole(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
			AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
			AUTO_FD peer = -1;
			struct stage s;

			stage_open(&s, m);
			peer = rig_connect(&s.rig);
			rig_send(&s.rig, peer, STR("GET /first HTTP/1.1\r\nHost: h\r\n\r\n")); /* so that there is somebody to read */
			hear(&s, s.far, &got);
			rig_send(&s.rig, s.far, STR("HTTP/1.1 204 No Content\r\n\r\n"));
			buf_clear(&got);
			hear(&s, peer, &got);
			buf_clear(&got);
			add_upload(&text, sizes[i]);
			buf_add_str(&text, STR("GET /next HTTP/1.1\r\nHost: h\r\n\r\n"));
			carry_all(&s, peer, buf_str(&text), s.far, &got);
			expect_upload(&got, sizes[i]);
			rig_send(&s.rig, s.far, STR("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
			buf_clear(&got);
			hear(&s, s.far, &got);
			rig_begins(&got, "GET /next ");
			assert_int_equal(s.overs, 2);
			assert_int_equal(count_pipes(), before);
			stage_close(&s);
		}
	}
}

static void an_upload_waits_for_its_connection(void **state)
{
	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
		AUTO_FD peer = -1;
		struct stage s;
		size_t went;

		stage_open(&s, m);
		s.holds_dials = true;
		peer = rig_connect(&s.rig);
		add_upload(&text, LONG);
		went = send_until_stuck(&s, peer, buf_str(&text));
		assert_true(went < MIB);
		give_line(&s, take_ptr(&s.held));
		carry_all(&s, peer, str_skip(buf_str(&text), went), s.far, &got);
		expect_upload(&got, LONG);
		stage_close(&s);
	}
}

/* COME bytes of a long upload have arrived. */
static int begin_upload(struct stage *s, size_t come)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8 * MIB);
	AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
	int peer;

	s->holds_dials = true;
	peer = rig_connect(&s->rig);
	add_upload(&text, LONG);
	rig_send(&s->rig, peer, str_first(buf_str(&text), 200));
	give_line(s, take_ptr(&s->held));
	carry_all(s, peer, str_skip(str_first(buf_str(&text), text.n - LONG + come), 200), s->far, &got);
	assert_int_equal(body_of(&got).n, come);
	return peer;
}

static void long_uploads_go_through_a_pipe_while_they_last(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf got = BUF_INIT(MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_upload(&s, LONG - 1);
		assert_int_equal(count_pipes(), m == PASSED ? before + 2 : before);
		assert_int_equal(send(peer, "x", 1, 0), 1);
		hear(&s, s.far, &got);
		assert_string_equal(buf_z(&got), "x");
		rig_send(&s.rig, s.far, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
		assert_int_equal(s.overs, 1);
		assert_int_equal(count_pipes(), before);
		closep(&peer);
		stage_close(&s);
	}
}

static void a_slow_taker_stops_the_upload_and_loses_nothing(void **state)
{
	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf want = BUF_INIT(8 * MIB);
		AUTO(buf_done) struct buf got = BUF_INIT(8 * MIB);
		struct stage s;
		size_t went;
		int peer;

		stage_open(&s, m);
		peer = begin_upload(&s, MIB);
		add_pattern(&want, LONG);
		buf_add_str(&rest, str_skip(buf_str(&want), MIB));
		went = send_until_stuck(&s, peer, buf_str(&rest));
		assert_true(went > 0 && went < MIB);
		carry_all(&s, peer, str_skip(buf_str(&rest), went), s.far, &got);
		expect(&got, &rest);
		closep(&peer);
		stage_close(&s);
	}
}

static void a_sender_that_goes_ends_the_upload(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		struct stage s;
		char byte;
		int peer;

		stage_open(&s, m);
		peer = begin_upload(&s, MIB);
		closep(&peer);
		rig_turn(&s.rig);
		assert_int_equal(s.overs, 1);
		assert_int_equal(recv(s.far, &byte, 1, 0), 0);
		assert_int_equal(count_pipes(), before);
		stage_close(&s);
	}
}

static void a_sandbox_that_goes_during_an_upload_is_told(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf got = BUF_INIT(MIB);
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_upload(&s, MIB);
		add_pattern(&rest, LONG - MIB);
		(void)send_until_stuck(&s, peer, buf_str(&rest));
		closep(&s.far);
		s.far = -1;
		rig_turn(&s.rig);
		(void)rig_recv(&s.rig, peer, &got);
		rig_begins(&got, "HTTP/1.1 502 ");
		assert_int_equal(s.refusals, 1);
		closep(&peer);
		rig_turn(&s.rig);
		assert_int_equal(s.overs, 1);
		assert_int_equal(count_pipes(), before);
		stage_close(&s);
	}
}

static void an_early_answer_is_read_and_the_rest_dropped(void **state)
{
	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		AUTO(buf_done) struct buf got = BUF_INIT(MIB);
		AUTO(buf_done) struct buf rest = BUF_INIT(8 * MIB);
		struct stage s;
		int peer;

		stage_open(&s, m);
		peer = begin_upload(&s, MIB);
		rig_send(&s.rig, s.far, STR("HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno"));
		add_pattern(&rest, LONG - MIB);
		(void)send_until_stuck(&s, peer, buf_str(&rest));
		(void)rig_recv(&s.rig, peer, &got);
		rig_begins(&got, "HTTP/1.1 413 ");
		assert_true(str_ends(buf_str(&got), STR("no")));
		assert_int_equal(s.overs, 1);
		assert_int_equal(s.refusals, 0);
		closep(&peer);
		stage_close(&s);
	}
}

static void cancelling_in_the_middle_leaves_nothing_behind(void **state)
{
	unsigned before = count_pipes();

	(void)state;
	for (enum manner m = PASSED; m < MANNERS; m++) {
		struct stage s;
		int down, up;

		stage_open(&s, m);
		down = begin_answer(&s, MIB);
		up = begin_upload(&s, MIB);
		stage_close(&s);
		assert_int_equal(count_pipes(), before);
		closep(&down);
		closep(&up);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_of_every_size_arrive_whole),
		cmocka_unit_test(long_answers_go_through_a_pipe_while_they_last),
		cmocka_unit_test(an_answer_that_is_cut_is_cut_for_its_reader),
		cmocka_unit_test(a_reader_that_goes_ends_the_answer),
		cmocka_unit_test(a_slow_reader_stops_the_sender_and_loses_nothing),
		cmocka_unit_test(a_reader_that_goes_while_bytes_wait_leaves_nothing_behind),
		cmocka_unit_test(a_reader_that_takes_nothing_is_cut_in_time),
		cmocka_unit_test(without_descriptors_for_a_pipe_bytes_are_copied),
		cmocka_unit_test(uploads_of_every_size_arrive_whole),
		cmocka_unit_test(an_upload_waits_for_its_connection),
		cmocka_unit_test(long_uploads_go_through_a_pipe_while_they_last),
		cmocka_unit_test(a_slow_taker_stops_the_upload_and_loses_nothing),
		cmocka_unit_test(a_sender_that_goes_ends_the_upload),
		cmocka_unit_test(a_sandbox_that_goes_during_an_upload_is_told),
		cmocka_unit_test(an_early_answer_is_read_and_the_rest_dropped),
		cmocka_unit_test(cancelling_in_the_middle_leaves_nothing_behind),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
