// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include "net/addr.h"
#include "net/dial.h"

#include "base/banned.h"

struct seen {
	struct transport *t;
	struct err e;
	int calls;
};

static void on_dialed(struct transport *t, const struct err *e, void *arg)
{
	struct seen *s = arg;

	s->calls++;
	s->t = t;
	if (e)
		s->e = *e;
}

static int listen_on(const char *text, struct addr *ret_addr)
{
	struct err e = { 0 };
	int fd;

	assert_int_equal(sockaddr_parse(str_of(text), ret_addr, &e), 0);
	fd = socket(ret_addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &ret_addr->sa, ret_addr->len), 0);
	assert_int_equal(listen(fd, 0), 0);
	ret_addr->len = sizeof(struct sockaddr_un);
	assert_int_equal(getsockname(fd, &ret_addr->sa, &ret_addr->len), 0);
	return fd;
}

/* A name of the kernel's choosing, in the abstract namespace. */
static int listen_anywhere(struct addr *ret_addr)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	ret_addr->sa.sa_family = AF_UNIX;
	ret_addr->len = sizeof(struct sockaddr_un);
	assert_int_equal(bind(fd, &ret_addr->sa, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(fd, &ret_addr->sa, &ret_addr->len), 0);
	assert_int_equal(listen(fd, 0), 0);
	return fd;
}

static struct dial *dial_tcp(struct loop *l, const struct sockaddr *to, socklen_t to_len, unsigned timeout_ms, dial_fn *fn, void *arg,
			     struct err *e)
{
	struct dial_spec spec = { .fd = -1, .to = to, .to_len = to_len, .timeout_ms = timeout_ms };

	return dial_start(l, &spec, fn, arg, e);
}

static void a_tcp_connection_comes_as_a_transport(void **state)
{
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_on("127.0.0.1:0", &to);
	struct iovec iov = { (void *)(uintptr_t)"x", 1 };

	(void)state;
	wire_open(&w);
	assert_non_null(dial_tcp(w.loop, &to.sa, to.len, 1000, on_dialed, &s, &e));
	assert_int_equal(s.calls, 0);
	wire_turn(&w);
	assert_int_equal(s.calls, 1);
	assert_non_null(s.t);
	assert_int_equal(s.t->ops->send(s.t, &iov, 1, false), 1);
	transport_close(s.t);
	(void)close(lfd);
	wire_close(&w);
}

static void a_refused_connection_is_an_error_with_the_address(void **state)
{
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_on("127.0.0.1:0", &to);

	(void)state;
	(void)close(lfd);
	wire_open(&w);
	assert_non_null(dial_tcp(w.loop, &to.sa, to.len, 1000, on_dialed, &s, &e));
	assert_int_equal(s.calls, 0);
	wire_turn(&w);
	assert_int_equal(s.calls, 1);
	assert_null(s.t);
	assert_int_equal(s.e.sys, ECONNREFUSED);
	assert_non_null(strstr(s.e.msg, "connect to '127.0.0.1:"));
	wire_close(&w);
}

static void a_unix_socket_is_dialled_by_path_and_its_absence_is_not_found(void **state)
{
	char dir[] = "/tmp/dial_test_XXXXXX", path[64], text[80];
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/s", dir);
	(void)snprintf(text, sizeof(text), "unix:%s", path);
	wire_open(&w);
	assert_non_null(dial_unix(w.loop, path, 1000, on_dialed, &s, &e));
	wire_turn(&w);
	assert_int_equal(s.e.code, ERR_NOT_FOUND);
	lfd = listen_on(text, &to);
	assert_non_null(dial_unix(w.loop, path, 1000, on_dialed, &s, &e));
	wire_turn(&w);
	assert_int_equal(s.calls, 2);
	assert_non_null(s.t);
	transport_close(s.t);
	assert_null(dial_unix(w.loop, "", 1000, on_dialed, &s, &e));
	(void)close(lfd);
	(void)unlink(path);
	(void)rmdir(dir);
	wire_close(&w);
}

static void a_busy_unix_listener_is_tried_again_until_the_timeout(void **state)
{
	struct wire w;
	struct seen s[3] = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_anywhere(&to), fd;

	(void)state;
	wire_open(&w);
	for (int i = 0; i < 3; i++) /* the queue takes one, perhaps two */
		assert_non_null(dial_tcp(w.loop, &to.sa, to.len, 1000, on_dialed, &s[i], &e));
	wire_turn(&w);
	assert_int_equal(s[0].calls, 1);
	assert_int_equal(s[2].calls, 0);
	while ((fd = accept(lfd, NULL, NULL)) >= 0)
		(void)close(fd);
	wire_wait(&w, 6);
	while ((fd = accept(lfd, NULL, NULL)) >= 0)
		(void)close(fd);
	wire_wait(&w, 6);
	assert_int_equal(s[2].calls, 1);
	assert_non_null(s[2].t);
	for (int i = 0; i < 3; i++)
		transport_close(s[i].t);
	(void)close(lfd);
	wire_close(&w);
}

static void a_dial_that_gets_no_answer_times_out(void **state)
{
	struct wire w;
	struct seen s[3] = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_anywhere(&to);

	(void)state;
	wire_open(&w);
	for (int i = 0; i < 3; i++)
		assert_non_null(dial_tcp(w.loop, &to.sa, to.len, i == 2 ? 50 : 0, on_dialed, &s[i], &e));
	wire_turn(&w);
	wire_wait(&w, 49);
	assert_int_equal(s[2].calls, 0);
	wire_wait(&w, 1);
	assert_int_equal(s[2].calls, 1);
	assert_int_equal(s[2].e.code, ERR_TIMEOUT);
	wire_wait(&w, DIAL_TIMEOUT_MS);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(s[i].calls, 1);
		transport_close(s[i].t);
	}
	(void)close(lfd);
	wire_close(&w);
}

static void a_given_socket_is_connected_and_taken(void **state)
{
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_on("127.0.0.1:0", &to);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), was = fd; /* blocking: dial_fd sees to that */

	(void)state;
	wire_open(&w);
	assert_non_null(dial_fd(w.loop, &fd, &to.sa, to.len, 1000, on_dialed, &s, &e));
	assert_int_equal(fd, -1);
	wire_turn(&w);
	assert_non_null(s.t);
	assert_int_equal(s.t->fd, was);
	assert_true(fcntl(was, F_GETFL) & O_NONBLOCK);
	transport_close(s.t);
	fd = -1;
	assert_null(dial_start(w.loop, &(struct dial_spec){ .fd = 9999, .to = &to.sa, .to_len = to.len }, on_dialed, &s, &e));
	assert_null(dial_start(w.loop, &(struct dial_spec){ .fd = -1, .to = &to.sa, .to_len = 1 }, on_dialed, &s, &e));
	to.sa.sa_family = 12345;
	assert_null(dial_tcp(w.loop, &to.sa, to.len, 0, on_dialed, &s, &e));
	(void)close(lfd);
	wire_close(&w);
}

static void a_socket_that_met_itself_is_refused(void **state)
{
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	wire_open(&w);
	assert_int_equal(sockaddr_parse(STR("127.0.0.1:0"), &to, &e), 0);
	assert_int_equal(bind(fd, &to.sa, to.len), 0);
	assert_int_equal(getsockname(fd, &to.sa, &to.len), 0);
	assert_non_null(dial_fd(w.loop, &fd, &to.sa, to.len, 1000, on_dialed, &s, &e));
	wire_turn(&w);
	assert_int_equal(s.calls, 1);
	assert_null(s.t);
	assert_int_equal(s.e.sys, ECONNREFUSED);
	wire_close(&w);
}

static void a_cancelled_dial_calls_nobody(void **state)
{
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_on("127.0.0.1:0", &to);

	(void)state;
	wire_open(&w);
	dial_cancel(dial_tcp(w.loop, &to.sa, to.len, 1000, on_dialed, &s, &e));
	(void)close(lfd);
	dial_cancel(dial_unix(w.loop, "/nonexistent", 1000, on_dialed, &s, &e));
	dial_cancel(NULL);
	wire_wait(&w, 2000);
	assert_int_equal(s.calls, 0);
	wire_close(&w);
}

static struct transport *make_nothing(void *ctx, int fd, struct err *e)
{
	(void)fd;
	(void)err_set(e, ERR_LIMIT, "%s", (const char *)ctx);
	return NULL;
}

static void a_maker_that_fails_fails_the_dial(void **state)
{
	struct transport_maker maker = { .make = make_nothing, .ctx = (void *)(uintptr_t)"nothing today" };
	struct wire w;
	struct seen s = { 0 };
	struct err e = { 0 };
	struct addr to;
	int lfd = listen_on("127.0.0.1:0", &to);
	struct dial_spec spec = { .fd = -1, .to = &to.sa, .to_len = to.len, .maker = &maker };

	(void)state;
	wire_open(&w);
	assert_non_null(dial_start(w.loop, &spec, on_dialed, &s, &e));
	wire_turn(&w);
	assert_int_equal(s.calls, 1);
	assert_string_equal(s.e.msg, "nothing today");
	(void)close(lfd);
	wire_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tcp_connection_comes_as_a_transport),
		cmocka_unit_test(a_refused_connection_is_an_error_with_the_address),
		cmocka_unit_test(a_unix_socket_is_dialled_by_path_and_its_absence_is_not_found),
		cmocka_unit_test(a_busy_unix_listener_is_tried_again_until_the_timeout),
		cmocka_unit_test(a_dial_that_gets_no_answer_times_out),
		cmocka_unit_test(a_given_socket_is_connected_and_taken),
		cmocka_unit_test(a_socket_that_met_itself_is_refused),
		cmocka_unit_test(a_cancelled_dial_calls_nobody),
		cmocka_unit_test(a_maker_that_fails_fails_the_dial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
