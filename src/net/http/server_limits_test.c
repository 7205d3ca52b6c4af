// SPDX-License-Identifier: Apache-2.0
/* The limits of docs/threat-model.md that the server itself keeps, with a clock that is turned by hand. */
#include "net/http/test_server.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/own.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

#define CRLF "\r\n"
#define GET(path) "GET " path " HTTP/1.1" CRLF "Host: a" CRLF CRLF
#define POST "POST /echo HTTP/1.1" CRLF "Host: a" CRLF

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	return reply_bytes(rp, 200, "text/plain", rq->body);
}

static int big(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16 << 20);

	(void)rq;
	(void)e;
	buf_addf(&b, "%010000000d", 0);
	return reply_buf(rp, 200, NULL, &b);
}

#define LONG_FILE (4 * HTTP_WIDE)

static int long_file(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO_FD fd = memfd_create("long", MFD_CLOEXEC);

	(void)rq;
	(void)e;
	assert_int_equal(ftruncate(fd, LONG_FILE), 0);
	return reply_file(rp, 200, NULL, &fd, 0, LONG_FILE);
}

static void nothing(void *arg)
{
	(void)arg;
}

static int stream(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { nothing, nothing };

	return reply_event_stream(rp, &source, rq->ctx, e);
}

static const struct route routes[] = {
	{ "GET", "/", echo, 0, 0 },
	{ "POST", "/echo", echo, 0, 10 << 20 },
	{ "GET", "/big", big, 0, 0 },
	{ "GET", "/stream", stream, 0, 0 },
	{ "GET", "/long", long_file, 0, 0 },
	{ 0 },
};

static int setup(void **state)
{
	struct http_limits limits = HTTP_LIMITS;
	struct rig *r = calloc(1, sizeof(*r));

	limits.connections = 8;
	limits.per_address = 4;
	limits.send_buffer = 64 * 1024;
	limits.wide_files = 1;
	limits.streams = 2;
	rig_start(r, routes, &limits);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	rig_stop(*state);
	free(*state);
	return 0;
}

/* ---- sizes ---- */

static void expect_status(struct rig *r, const struct buf *rq, const char *want, bool want_closed)
{
	AUTO(buf_done) struct buf a = BUF_INIT(1 << 20);

	assert_int_equal(rig_talk(r, buf_str(rq), &a), want_closed);
	rig_begins(&a, want);
	assert_int_equal(rig_count(&a, "HTTP/1.1 "), 1);
}

static void the_request_line_is_bounded(void **state)
{
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 20);

	/* "GET /?" and " HTTP/1.1\r\n" around it */
	buf_addf(&rq, "GET /?%0*d HTTP/1.1" CRLF "Host: a" CRLF CRLF, HTTP_LINE_MAX - 6 - 10, 0);
	expect_status(*state, &rq, "HTTP/1.1 200 ", false);
	buf_clear(&rq);
	buf_addf(&rq, "GET /?%0*d HTTP/1.1" CRLF "Host: a" CRLF CRLF, HTTP_LINE_MAX, 0);
	expect_status(*state, &rq, "HTTP/1.1 414 ", true);
	buf_clear(&rq);
	buf_addf(&rq, "GET /?%0*d", 200000, 0); /* and it never ends */
	expect_status(*state, &rq, "HTTP/1.1 414 ", true);
}

static void the_header_block_is_bounded(void **state)
{
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 20);

	buf_addf(&rq, "GET / HTTP/1.1" CRLF "Host: a" CRLF "X: %0*d" CRLF CRLF, HTTP_BLOCK_MAX - 20, 0);
	expect_status(*state, &rq, "HTTP/1.1 200 ", false);
	buf_clear(&rq);
	buf_addf(&rq, "GET / HTTP/1.1" CRLF "Host: a" CRLF "X: %0*d" CRLF CRLF, HTTP_BLOCK_MAX, 0);
	expect_status(*state, &rq, "HTTP/1.1 431 ", true);
}

static void the_number_of_headers_is_bounded(void **state)
{
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 20);

	for (int extra = 99; extra <= 100; extra++) {
		buf_clear(&rq);
		buf_addf(&rq, "GET / HTTP/1.1" CRLF "Host: a" CRLF);
		for (int i = 0; i < extra; i++)
			buf_addf(&rq, "X: y" CRLF);
		buf_addf(&rq, CRLF);
		expect_status(*state, &rq, extra == 99 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ", extra == 100);
	}
}

/* ---- time ---- */

static void a_slow_head_gets_408(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	for (int i = 0; i < 9; i++) { /* a byte a second keeps nothing alive */
		rig_send(r, fd, STR("G"));
		rig_wait(r, 1000);
	}
	assert_false(rig_recv(r, fd, &a));
	rig_wait(r, 999);
	assert_false(rig_recv(r, fd, &a));
	rig_wait(r, 1);
	assert_true(rig_recv(r, fd, &a));
	rig_begins(&a, "HTTP/1.1 408 ");
}

static void a_connection_that_says_nothing_is_closed(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	rig_wait(r, 10000);
	assert_true(rig_recv(r, fd, &a));
	assert_int_equal(a.n, 0);
}

static void an_idle_connection_is_kept_for_two_minutes(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	for (int i = 0; i < 3; i++) {
		rig_send(r, fd, STR(GET("/")));
		rig_wait(r, 119999);
		assert_false(rig_recv(r, fd, &a));
	}
	rig_wait(r, 1);
	assert_true(rig_recv(r, fd, &a));
	assert_int_equal(rig_count(&a, "HTTP/1.1 200 "), 3);
	assert_int_equal(rig_count(&a, "HTTP/1.1 408 "), 0);
}

static void a_body_that_stops_gets_408(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	rig_send(r, fd, STR(POST "Content-Length: 100000" CRLF CRLF "x"));
	rig_wait(r, 29999);
	assert_false(rig_recv(r, fd, &a));
	rig_wait(r, 1);
	assert_true(rig_recv(r, fd, &a));
	rig_begins(&a, "HTTP/1.1 408 ");
}

static void a_body_below_a_kilobyte_a_second_is_cut(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);
	char piece[1024] = { 0 };

	rig_send(r, fd, STR(POST "Content-Length: 10000000" CRLF CRLF));
	for (int i = 0; i < 59; i++) { /* fast enough for a window, then not */
		rig_send(r, fd, (struct str){ piece, i < 30 ? sizeof(piece) : 900 });
		rig_wait(r, 1000);
		assert_false(rig_recv(r, fd, &a));
	}
	rig_send(r, fd, (struct str){ piece, 900 });
	rig_wait(r, 1000);
	assert_true(rig_recv(r, fd, &a));
	assert_int_equal(a.n, 0);
}

static void a_peer_that_never_reads_is_dropped(void **state)
{
	struct rig *r = *state;
	AUTO_FD fd = rig_connect(r);

	rig_send(r, fd, STR(GET("/big") GET("/big")));
	rig_wait(r, 59999);
	assert_int_equal(http_server_counts(r->server).connections, 1);
	rig_wait(r, 1);
	assert_int_equal(http_server_counts(r->server).connections, 0);
}

static void a_peer_that_reads_slowly_is_not(void **state)
{
	struct rig *r = *state;
	AUTO_FD fd = rig_connect(r);
	char piece[65536];
	ssize_t n;
	size_t got = 0;

	rig_send(r, fd, STR(GET("/big")));
	while (got < 10000000) {
		rig_wait(r, 59000);
		do {
			n = recv(fd, piece, sizeof(piece), 0);
			got += n > 0 ? (size_t)n : 0;
		} while (n > 0);
		assert_int_equal(errno, EAGAIN);
	}
	assert_int_equal(http_server_counts(r->server).connections, 1);
}

static void a_silent_stream_lives_for_an_hour(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	rig_send(r, fd, STR(GET("/stream")));
	rig_wait(r, 3599999);
	assert_false(rig_recv(r, fd, &a));
	rig_wait(r, 1);
	assert_true(rig_recv(r, fd, &a));
}

static void a_refused_peer_has_time_to_read_the_answer(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(r);

	rig_send(r, fd, STR(POST "Content-Length: 99999999" CRLF CRLF));
	for (int i = 0; i < 100; i++)
		rig_send(r, fd, STR("body that nobody reads"));
	assert_true(rig_recv(r, fd, &a));
	rig_begins(&a, "HTTP/1.1 413 ");
	assert_int_equal(http_server_counts(r->server).connections, 1);
	rig_wait(r, 2000);
	assert_int_equal(http_server_counts(r->server).connections, 0);
}

/* ---- counts ---- */

static void connections_beyond_the_total_get_503(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	int fds[8];

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = rig_connect(r);
	assert_true(rig_talk(r, STR(GET("/")), &a));
	rig_begins(&a, "HTTP/1.1 503 ");
	assert_non_null(strstr(a.p, "Content-Length: 66\r\n"));
	assert_int_equal(strlen(strstr(a.p, "\r\n\r\n") + 4), 66);
	(void)close(fds[0]);
	buf_clear(&a);
	assert_false(rig_talk(r, STR(GET("/")), &a));
	rig_begins(&a, "HTTP/1.1 200 ");
	for (size_t i = 1; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
}

static int tcp_listener(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
}

static void connections_beyond_those_of_one_address_are_closed(void **state)
{
	struct rig *r = *state;
	struct sockaddr_in to;
	AUTO_FD listener = tcp_listener(&to);
	int fds[5];
	char byte;

	assert_int_equal(http_server_listen(r->server, &listener, NULL, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fds[i], (struct sockaddr *)&to, sizeof(to)), 0);
		rig_turn(r);
	}
	assert_int_equal(http_server_counts(r->server).connections, 4);
	assert_int_equal(recv(fds[4], &byte, 1, 0), 0);
	(void)close(fds[0]);
	(void)close(fds[4]);
	rig_turn(r);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&to, sizeof(to)), 0);
	rig_turn(r);
	assert_int_equal(http_server_counts(r->server).connections, 4);
	for (size_t i = 0; i < 4; i++)
		(void)close(fds[i]);
}

/* A listener for IPv6 and IPv4 at once. */
static int both_listener(struct sockaddr_in *ret_v4)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;

	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
		closep(&fd);
		return -1;
	}
	*ret_v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = a.sin6_port };
	return fd;
}

static void ipv4_peers_of_an_ipv6_listener_are_told_apart(void **state)
{
	struct rig *r = *state;
	struct sockaddr_in to;
	AUTO_FD listener = both_listener(&to);
	int fds[6];

	if (listener < 0)
		skip(); /* no IPv6 here */
	assert_int_equal(http_server_listen(r->server, &listener, NULL, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) { /* four of one address are the limit */
		to.sin_addr.s_addr = htonl(i < 4 ? 0x7f000001 : 0x7f000002 + (uint32_t)i);
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = to.sin_addr },
				      sizeof(to)), 0);
		assert_int_equal(connect(fds[i], (struct sockaddr *)&to, sizeof(to)), 0);
		rig_turn(r);
	}
	assert_int_equal(http_server_counts(r->server).connections, ARRAY_LEN(fds));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
}

static uint64_t real_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* In a child: a filter is for good. */
static int accept_without_the_call(struct rig *r)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t began;

	if (refuse_syscall(SYS_accept4) < 0 || connect(fd, (struct sockaddr *)&r->address, r->address_len) < 0)
		return 2;
	rig_turn(r);
	began = real_ms();
	if (loop_turn(r->loop, 50, &(struct err){ 0 }) < 0)
		return 3;
	return real_ms() - began >= 40 ? 0 : 1; /* it waits instead of trying for ever */
}

static void a_failing_accept_does_not_burn_the_processor(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(accept_without_the_call(*state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void streams_beyond_the_total_get_503(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD one = rig_connect(r);
	AUTO_FD two = rig_connect(r);

	rig_send(r, one, STR(GET("/stream")));
	rig_send(r, two, STR(GET("/stream")));
	assert_false(rig_talk(r, STR(GET("/stream")), &a));
	rig_begins(&a, "HTTP/1.1 503 ");
	assert_int_equal(rig_count(&a, "Retry-After: 1\r\n"), 1); /* G12b */
	(void)close(take_fd(&one));
	buf_clear(&a);
	assert_false(rig_talk(r, STR(GET("/stream")), &a));
	rig_begins(&a, "HTTP/1.1 200 ");
}

/* What waits for a peer that reads nothing. */
static int queued(struct rig *r, int fd)
{
	int n = 0;

	for (int i = 0; i < 4; i++)
		rig_turn(r);
	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

static void so_many_long_files_have_a_larger_buffer(void **state)
{
	struct rig *r = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(2 * LONG_FILE);
	AUTO_FD one = rig_connect(r);
	AUTO_FD two = rig_connect(r);
	AUTO_FD three = rig_connect(r);
	int wide, usual;

	rig_send(r, one, STR(GET("/long")));
	wide = queued(r, one);
	rig_send(r, two, STR(GET("/long")));
	usual = queued(r, two);
	assert_true(usual > 0 && usual <= 96 * 1024); /* that of all others */
	assert_true(wide > usual + usual / 2 && wide <= HTTP_WIDE + HTTP_WIDE / 8);
	assert_false(rig_recv(r, one, &a)); /* and all of it comes */
	assert_true(a.n > LONG_FILE);
	rig_send(r, one, STR(GET("/big"))); /* for what is not a file it has the usual one again */
	assert_true(queued(r, one) <= usual + usual / 4);
	rig_send(r, three, STR(GET("/long")));
	assert_true(queued(r, three) > usual + usual / 2);
	(void)close(take_fd(&three));
	rig_turn(r);
	(void)close(take_fd(&one));
	one = rig_connect(r);
	rig_send(r, one, STR(GET("/long")));
	assert_true(queued(r, one) > usual + usual / 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_request_line_is_bounded),
		TEST(the_header_block_is_bounded),
		TEST(the_number_of_headers_is_bounded),
		TEST(a_slow_head_gets_408),
		TEST(a_connection_that_says_nothing_is_closed),
		TEST(an_idle_connection_is_kept_for_two_minutes),
		TEST(a_body_that_stops_gets_408),
		TEST(a_body_below_a_kilobyte_a_second_is_cut),
		TEST(a_peer_that_never_reads_is_dropped),
		TEST(a_peer_that_reads_slowly_is_not),
		TEST(a_silent_stream_lives_for_an_hour),
		TEST(a_refused_peer_has_time_to_read_the_answer),
		TEST(connections_beyond_the_total_get_503),
		TEST(connections_beyond_those_of_one_address_are_closed),
		TEST(ipv4_peers_of_an_ipv6_listener_are_told_apart),
		TEST(a_failing_accept_does_not_burn_the_processor),
		TEST(streams_beyond_the_total_get_503),
		TEST(so_many_long_files_have_a_larger_buffer),
	};

	(void)signal(SIGPIPE, SIG_IGN); /* of sendfile(2) */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
