// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <time.h>

#include "net/conduit.h"
#include "net/relay.h"

#include "base/banned.h"

#define MIB (1024 * 1024)

struct rig {
	struct wire w;
	struct relay *relay;
	int far[2]; /* the ends that belong to the test */
	struct relay_result result;
	int done;
};

static void on_done(const struct relay_result *result, void *arg)
{
	struct rig *r = arg;

	r->done++;
	r->result = *result;
	r->relay = NULL;
}

static struct transport *tcp_transport(int *ret_far)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(in);
	struct err e = { 0 };
	struct transport *t;

	assert_int_equal(bind(lfd, (struct sockaddr *)&in, n), 0);
	assert_int_equal(listen(lfd, 1), 0);
	assert_int_equal(getsockname(lfd, (struct sockaddr *)&in, &n), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, n), 0);
	*ret_far = accept4(lfd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(*ret_far >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	(void)close(lfd);
	t = transport_plain(fd, &e);
	assert_non_null(t);
	return t;
}

static void rig_start(struct rig *r, bool is_tcp, bool is_plain, struct relay_spec spec)
{
	struct err e = { 0 };

	*r = (struct rig){ 0 };
	wire_open(&r->w);
	spec.a = is_tcp ? tcp_transport(&r->far[0]) : wire_transport(&r->far[0]);
	spec.b = is_tcp ? tcp_transport(&r->far[1]) : wire_transport(&r->far[1]);
	spec.a->is_plain = spec.b->is_plain = is_plain;
	r->relay = relay_start(r->w.loop, &spec, &e);
	assert_non_null(r->relay);
	wire_turn(&r->w);
}

static void rig_open(struct rig *r, bool is_tcp, bool is_plain, struct str early_a, struct str early_b)
{
	rig_start(r, is_tcp, is_plain, (struct relay_spec){ .early_a = early_a, .early_b = early_b, .idle_ms = 60000, .linger_ms = 10000,
							    .done = on_done, .arg = r });
}

static void rig_close(struct rig *r)
{
	relay_cancel(r->relay);
	closep(&r->far[0]);
	closep(&r->far[1]);
	wire_close(&r->w);
}

static void hang_up(struct rig *r, int side)
{
	(void)close(take_fd(&r->far[side]));
	wire_turn(&r->w);
}

static char pattern(size_t i)
{
	return (char)(i * 31 + i / 251);
}

/* Moves N bytes from one side to the other while both are served. */
struct mover {
	int from, to;
	size_t sent, got, n;
};

static void mover_step(struct mover *m)
{
	char piece[10007];
	size_t n = MIN(sizeof(piece), m->n - m->sent);
	ssize_t r;

	for (size_t i = 0; i < n; i++)
		piece[i] = pattern(m->sent + i);
	r = n > 0 ? send(m->from, piece, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	if (r > 0)
		m->sent += (size_t)r;
	r = m->got < m->n ? recv(m->to, piece, sizeof(piece), MSG_DONTWAIT) : 0;
	for (ssize_t i = 0; i < r; i++)
		assert_int_equal(piece[i], pattern(m->got + (size_t)i));
	if (r > 0)
		m->got += (size_t)r;
}

static void move_both(struct rig *r, size_t n_ab, size_t n_ba)
{
	struct mover ab = { r->far[0], r->far[1], 0, 0, n_ab }, ba = { r->far[1], r->far[0], 0, 0, n_ba };

	while (ab.got < n_ab || ba.got < n_ba) {
		mover_step(&ab);
		mover_step(&ba);
		assert_int_equal(loop_turn(r->w.loop, 0, &(struct err){ 0 }), 0);
	}
}

static void mebibytes_go_both_ways_and_both_sides_end(bool is_tcp, bool is_plain, int first)
{
	struct rig r;
	AUTO(buf_done) struct buf b = BUF_INIT(64);

	rig_open(&r, is_tcp, is_plain, STR(""), STR(""));
	move_both(&r, 3 * MIB, 2 * MIB);
	assert_int_equal(shutdown(r.far[first], SHUT_WR), 0);
	assert_true(wire_hear(&r.w, r.far[!first], &b));
	assert_int_equal(r.done, 0);
	wire_say(&r.w, r.far[!first], STR("still here"));
	assert_false(wire_hear(&r.w, r.far[first], &b));
	assert_string_equal(buf_z(&b), "still here");
	assert_int_equal(shutdown(r.far[!first], SHUT_WR), 0);
	wire_turn(&r.w);
	assert_int_equal(r.done, 1);
	assert_int_equal(r.result.end, RELAY_ENDED);
	assert_int_equal(r.result.by, first);
	assert_int_equal(r.result.from_a, 3 * MIB + (first == RELAY_B ? 10 : 0));
	assert_int_equal(r.result.from_b, 2 * MIB + (first == RELAY_A ? 10 : 0));
	rig_close(&r);
}

static void bytes_are_copied_and_each_side_may_end_first(void **state)
{
	(void)state;
	mebibytes_go_both_ways_and_both_sides_end(false, false, RELAY_A);
	mebibytes_go_both_ways_and_both_sides_end(true, false, RELAY_B);
	/* With SIGPIPE at its default, plain transports are copied too. */
	mebibytes_go_both_ways_and_both_sides_end(true, true, RELAY_A);
}

static int count_pipes(void)
{
	int n = 0;

	for (int fd = 0; fd < 64; fd++) {
		char link[64], target[64];
		ssize_t len;

		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, target, sizeof(target));
		n += len > 5 && memcmp(target, "pipe:", 5) == 0;
	}
	return n;
}

static void bytes_are_spliced_where_sigpipe_is_harmless(void **state)
{
	struct rig r;
	int before = count_pipes();
	sigset_t pipe_only, old;

	(void)state;
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	mebibytes_go_both_ways_and_both_sides_end(true, true, RELAY_A);
	mebibytes_go_both_ways_and_both_sides_end(false, true, RELAY_B);
	rig_open(&r, true, true, STR(""), STR(""));
	move_both(&r, 1000, 1000);
	assert_int_equal(count_pipes(), before);
	move_both(&r, MIB, 1000);
	assert_int_equal(count_pipes(), before + 2); /* both ends of one pipe, for one direction */
	rig_close(&r);
	assert_int_equal(count_pipes(), before);
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);

	(void)sigemptyset(&pipe_only);
	(void)sigaddset(&pipe_only, SIGPIPE);
	assert_int_equal(sigprocmask(SIG_BLOCK, &pipe_only, &old), 0);
	rig_open(&r, true, true, STR(""), STR(""));
	move_both(&r, MIB, 0);
	assert_int_equal(count_pipes(), before + 2);
	rig_close(&r);
	assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

/* Of the first that is found. */
static int pipe_size(void)
{
	int size = -1;

	for (int fd = 3; fd < 64 && size < 0; fd++)
		size = fcntl(fd, F_GETPIPE_SZ);
	return size;
}

static void pipes_grow_where_much_goes_and_the_owner_says_so(void **state)
{
	struct rig r;

	(void)state;
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	for (int i = 0; i < 2; i++) {
		rig_start(&r, true, true, (struct relay_spec){ .pipe = i ? CONDUIT_HUGE : 0, .done = on_done, .arg = &r });
		move_both(&r, 512 * 1024, 0);
		assert_int_equal(pipe_size(), CONDUIT_NARROW);
		move_both(&r, 3 * MIB, 0);
		assert_int_equal(pipe_size(), i ? CONDUIT_HUGE : CONDUIT_NARROW);
		rig_close(&r);
	}
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
}

static void early_bytes_come_first(void **state)
{
	struct rig r;
	AUTO(buf_done) struct buf b = BUF_INIT(64);

	(void)state;
	rig_open(&r, false, true, STR("from a "), STR("from b "));
	wire_say(&r.w, r.far[0], STR("and more"));
	assert_false(wire_hear(&r.w, r.far[1], &b));
	assert_string_equal(buf_z(&b), "from a and more");
	buf_clear(&b);
	assert_false(wire_hear(&r.w, r.far[0], &b));
	assert_string_equal(buf_z(&b), "from b ");
	rig_close(&r);
}

static void too_many_early_bytes_leave_the_transports_to_the_caller(void **state)
{
	AUTO(free) char *big = calloc(1, RELAY_EARLY_MAX + 1);
	struct relay_spec spec = { .early_a = { big, RELAY_EARLY_MAX + 1 } };
	struct err e = { 0 };
	struct wire w;
	int far[2];

	(void)state;
	wire_open(&w);
	spec.a = wire_transport(&far[0]);
	spec.b = wire_transport(&far[1]);
	assert_null(relay_start(w.loop, &spec, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	transport_close(spec.a);
	transport_close(spec.b);
	(void)close(far[0]);
	(void)close(far[1]);
	wire_close(&w);
}

static void a_side_that_does_not_read_stalls_only_the_direction_towards_it(void **state)
{
	struct rig r;
	size_t pushed = 0;
	char piece[4096] = { 0 };
	ssize_t n;

	(void)state;
	rig_open(&r, false, false, STR(""), STR(""));
	do { /* until A is held back, because B takes nothing */
		n = send(r.far[0], piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		pushed += n > 0 ? (size_t)n : 0;
		wire_turn(&r.w);
		assert_true(pushed < 16 * MIB);
	} while (n > 0);
	move_both(&r, 0, MIB);
	for (size_t got = 0; got < pushed; got += (size_t)n) {
		wire_turn(&r.w);
		n = recv(r.far[1], piece, sizeof(piece), MSG_DONTWAIT);
		assert_true(n > 0);
	}
	rig_close(&r);
}

static void nothing_spins_when_one_side_is_dead_and_the_other_does_not_read(void **state)
{
	struct rig r;
	char piece[4096] = { 0 };
	ssize_t n;
	int turns = 0;

	(void)state;
	rig_open(&r, false, false, STR(""), STR(""));
	do {
		n = send(r.far[0], piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		wire_turn(&r.w);
	} while (n > 0);
	hang_up(&r, 0); /* a hang-up that cannot be answered: its bytes have nowhere to go */
	wire_turn(&r.w);
	for (int i = 0; i < 3; i++) { /* a turn that finds nothing to do waits out its time */
		struct timespec before, after;

		(void)clock_gettime(CLOCK_MONOTONIC, &before);
		assert_int_equal(loop_turn(r.w.loop, 20, &(struct err){ 0 }), 0);
		(void)clock_gettime(CLOCK_MONOTONIC, &after);
		turns += (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 15;
	}
	assert_int_equal(turns, 3);
	do { /* the bytes were not lost */
		wire_turn(&r.w);
		n = recv(r.far[1], piece, sizeof(piece), MSG_DONTWAIT);
	} while (n > 0);
	assert_int_equal(n, 0);
	hang_up(&r, 1);
	assert_int_equal(r.done, 1);
	assert_int_equal(r.result.by, RELAY_A);
	rig_close(&r);
}

static void last_words_of_a_side_that_closed_reach_the_other(void **state)
{
	struct rig r;
	AUTO(buf_done) struct buf b = BUF_INIT(64);

	(void)state;
	for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
		rig_open(&r, is_tcp, false, STR(""), STR(""));
		assert_int_equal(send(r.far[1], "goodbye", 7, 0), 7);
		hang_up(&r, 1);
		assert_true(wire_hear(&r.w, r.far[0], &b) || is_tcp);
		assert_string_equal(buf_z(&b), "goodbye");
		/* What A says now has nobody to go to: that side is broken, and the relay ends with A. */
		assert_int_equal(send(r.far[0], "hello?", 6, MSG_NOSIGNAL), 6);
		wire_turn(&r.w);
		assert_int_equal(send(r.far[0], "hello??", 7, MSG_NOSIGNAL) > 0 || is_tcp == 0, 1);
		wire_turn(&r.w);
		hang_up(&r, 0);
		assert_int_equal(r.done, 1);
		assert_int_equal(r.result.end, RELAY_FAILED);
		assert_int_equal(r.result.by, RELAY_B);
		assert_true(r.result.sys == EPIPE || r.result.sys == ECONNRESET);
		assert_int_equal(r.result.from_b, 7);
		rig_close(&r);
		buf_clear(&b);
	}
}

static void a_reset_is_a_failure_of_its_side(void **state)
{
	struct linger now = { .l_onoff = 1 };
	struct rig r;
	AUTO(buf_done) struct buf b = BUF_INIT(64);

	(void)state;
	for (int spliced = 0; spliced < 2; spliced++) {
		assert_true(signal(SIGPIPE, spliced ? SIG_IGN : SIG_DFL) != SIG_ERR);
		rig_open(&r, true, true, STR(""), STR(""));
		move_both(&r, 2 * RELAY_SPLICE_AFTER, 2 * RELAY_SPLICE_AFTER);
		assert_int_equal(setsockopt(r.far[0], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
		hang_up(&r, 0);
		assert_int_equal(r.done, 1);
		assert_int_equal(r.result.end, RELAY_FAILED);
		assert_int_equal(r.result.by, RELAY_A);
		assert_int_equal(r.result.sys, ECONNRESET);
		assert_true(wire_hear(&r.w, r.far[1], &b));
		rig_close(&r);
	}
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
}

static void a_splice_into_a_closed_side_ends_that_direction(void **state)
{
	struct rig r;

	(void)state;
	assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	rig_open(&r, false, true, STR(""), STR(""));
	move_both(&r, 2 * RELAY_SPLICE_AFTER, 0);
	assert_int_equal(shutdown(r.far[1], SHUT_RD), 0);
	assert_int_equal(send(r.far[0], "x", 1, MSG_NOSIGNAL), 1);
	wire_turn(&r.w);
	assert_int_equal(r.done, 0);
	assert_int_equal(shutdown(r.far[1], SHUT_WR), 0);
	wire_turn(&r.w);
	assert_int_equal(r.done, 1);
	assert_int_equal(r.result.end, RELAY_FAILED);
	assert_int_equal(r.result.by, RELAY_B);
	assert_int_equal(r.result.sys, EPIPE);
	rig_close(&r);
	assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
}

static void silence_ends_it_and_sooner_when_one_side_has_ended(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, false, true, STR(""), STR(""));
	wire_wait(&r.w, 59999);
	wire_say(&r.w, r.far[0], STR("x"));
	wire_wait(&r.w, 59999);
	assert_int_equal(r.done, 0);
	wire_wait(&r.w, 1);
	assert_int_equal(r.done, 1);
	assert_int_equal(r.result.end, RELAY_TIMEOUT);
	rig_close(&r);

	rig_open(&r, false, true, STR(""), STR(""));
	assert_int_equal(shutdown(r.far[1], SHUT_WR), 0);
	wire_turn(&r.w);
	wire_wait(&r.w, 9999);
	wire_say(&r.w, r.far[0], STR("x"));
	wire_wait(&r.w, 9999);
	assert_int_equal(r.done, 0);
	wire_wait(&r.w, 1);
	assert_int_equal(r.done, 1);
	assert_int_equal(r.result.end, RELAY_TIMEOUT);
	assert_int_equal(r.result.by, RELAY_B);
	assert_int_equal(r.result.from_a, 1);
	rig_close(&r);
}

static void cancelling_closes_both_sides_and_calls_nobody(void **state)
{
	struct rig r;
	AUTO(buf_done) struct buf b = BUF_INIT(64);

	(void)state;
	rig_open(&r, false, true, STR(""), STR(""));
	relay_cancel(take_ptr(&r.relay));
	relay_cancel(NULL);
	assert_true(wire_hear(&r.w, r.far[0], &b));
	assert_true(wire_hear(&r.w, r.far[1], &b));
	assert_int_equal(r.done, 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_copied_and_each_side_may_end_first),
		cmocka_unit_test(bytes_are_spliced_where_sigpipe_is_harmless),
		cmocka_unit_test(pipes_grow_where_much_goes_and_the_owner_says_so),
		cmocka_unit_test(early_bytes_come_first),
		cmocka_unit_test(too_many_early_bytes_leave_the_transports_to_the_caller),
		cmocka_unit_test(a_side_that_does_not_read_stalls_only_the_direction_towards_it),
		cmocka_unit_test(nothing_spins_when_one_side_is_dead_and_the_other_does_not_read),
		cmocka_unit_test(last_words_of_a_side_that_closed_reach_the_other),
		cmocka_unit_test(a_reset_is_a_failure_of_its_side),
		cmocka_unit_test(a_splice_into_a_closed_side_ends_that_direction),
		cmocka_unit_test(silence_ends_it_and_sooner_when_one_side_has_ended),
		cmocka_unit_test(cancelling_closes_both_sides_and_calls_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
