// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include <sys/un.h>

#include "net/addr.h"
#include "net/zmtp/zmtp_conn.h"

#include "base/banned.h"

struct rig {
	struct wire w;
	struct zmtp_conn *z;
	int listener, peer;
	struct buf said; /* to us */
	int readies, closes;
	char why[128];
	bool pauses, cancels;
};

static void on_ready(struct zmtp_conn *z, void *arg)
{
	(void)z;
	((struct rig *)arg)->readies++;
}

static void on_bytes(struct zmtp_conn *z, const struct zmtp_event *ev, void *arg)
{
	struct rig *r = arg;

	buf_add_str(&r->said, ev->data);
	if (ev->left == 0)
		buf_add_char(&r->said, ev->is_last ? '.' : '|');
	if (r->pauses)
		zmtp_pause(z);
	if (r->cancels)
		zmtp_cancel(take_ptr(&r->z));
}

static void on_close(const struct err *why, void *arg)
{
	struct rig *r = arg;

	r->closes++;
	r->z = NULL;
	(void)snprintf(r->why, sizeof(r->why), "%s", why->msg);
}

static const struct zmtp_ops ops = { .on_ready = on_ready, .on_bytes = on_bytes, .on_close = on_close };

/* Over a unix socket: what ZeroMQ calls ipc. */
static void rig_open(struct rig *r, enum zmtp_type type)
{
	struct addr a;
	struct err e = { 0 };

	*r = (struct rig){ .peer = -1, .said = BUF_INIT(1 << 20) };
	wire_open(&r->w);
	r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	a.len = sizeof(struct sockaddr_un);
	assert_int_equal(bind(r->listener, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(r->listener, &a.sa, &a.len), 0);
	assert_int_equal(listen(r->listener, 4), 0);
	r->z = zmtp_connect(r->w.loop,
			    &(struct zmtp_spec){ .type = type, .to = &a.sa, .to_len = a.len, .message_max = 1000, .send_max = 4096 },
			    &ops, r, &e);
	assert_non_null(r->z);
	wire_turn(&r->w);
	r->peer = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(r->peer >= 0);
}

static void rig_close(struct rig *r)
{
	zmtp_cancel(r->z);
	closep(&r->peer);
	closep(&r->listener);
	buf_done(&r->said);
	wire_close(&r->w);
}

static void greet(struct rig *r, const char *type)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);

	zmtp_put_greeting(&b);
	zmtp_put_ready(&b, str_of(type));
	wire_say(&r->w, r->peer, buf_str(&b));
}

static void a_dealer_greets_and_moves_messages_both_ways(void **state)
{
	AUTO(buf_done) struct buf heard = BUF_INIT(1 << 16);
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	assert_false(zmtp_send(r.z, (struct str[]){ STR("x") }, 1));
	wire_hear(&r.w, r.peer, &heard);
	assert_int_equal(heard.n, ZMTP_GREETING); /* no more before the peer has greeted */
	greet(&r, "ROUTER");
	assert_int_equal(r.readies, 1);
	buf_clear(&heard);
	assert_true(zmtp_send(r.z, (struct str[]){ STR("one"), STR("two") }, 2));
	wire_hear(&r.w, r.peer, &heard);
	assert_memory_equal(heard.p + heard.n - 10, "\1\3one\0\3two", 10);
	wire_say(&r.w, r.peer, STR("\1\2ab\0\1c"));
	assert_string_equal(r.said.p, "ab|c.");
	rig_close(&r);
	assert_int_equal(r.closes, 0);
}

static void a_subscriber_asks_for_everything(void **state)
{
	AUTO(buf_done) struct buf heard = BUF_INIT(1 << 16);
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_SUB);
	greet(&r, "XPUB");
	wire_hear(&r.w, r.peer, &heard);
	assert_memory_equal(heard.p + heard.n - 3, "\0\1\1", 3);
	rig_close(&r);
}

static void a_ping_is_answered_and_unknown_commands_are_not(void **state)
{
	AUTO(buf_done) struct buf heard = BUF_INIT(1 << 16);
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	greet(&r, "ROUTER");
	wire_hear(&r.w, r.peer, &heard);
	buf_clear(&heard);
	wire_say(&r.w, r.peer, STR("\4\4\3WHO\4\x09\4PING\0\1xy"));
	wire_hear(&r.w, r.peer, &heard);
	assert_int_equal(heard.n, 9);
	assert_memory_equal(heard.p, "\4\7\4PONGxy", 9);
	rig_close(&r);
}

static void who_pauses_gets_the_rest_when_it_resumes(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	greet(&r, "ROUTER");
	r.pauses = true;
	wire_say(&r.w, r.peer, STR("\0\1a\0\1b\0\1c"));
	assert_string_equal(r.said.p, "a.");
	zmtp_resume(r.z);
	wire_turn(&r.w);
	assert_string_equal(r.said.p, "a.b.");
	r.pauses = false;
	zmtp_resume(r.z);
	wire_turn(&r.w);
	assert_string_equal(r.said.p, "a.b.c.");
	rig_close(&r);
}

static void it_may_be_cancelled_from_its_own_callback(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	greet(&r, "ROUTER");
	r.cancels = true;
	wire_say(&r.w, r.peer, STR("\0\1a\0\1b"));
	assert_string_equal(r.said.p, "a.");
	assert_int_equal(r.closes, 0);
	rig_close(&r);
}

static void peers_that_are_wrong_are_left(void **state)
{
	static const struct {
		struct str says;
		const char *type; /* in a READY before; NULL: none */
		const char *why;
	} rows[] = {
		{ STR("HTTP/1.1 400 Bad Request"), NULL, "the peer does not speak ZMTP 3" },
		{ STR(""), "PUB", "the peer is no socket of the kind that is expected" },
		{ STR("\4\7\5ERROR\0"), "ROUTER", "the peer refuses the connection" },
		{ STR("\2\0\0\0\0\0\0\x04\0"), "ROUTER", "a message that is too large" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r;

		rig_open(&r, ZMTP_DEALER);
		if (rows[i].type)
			greet(&r, rows[i].type);
		wire_say(&r.w, r.peer, rows[i].says);
		assert_int_equal(r.closes, 1);
		assert_string_equal(r.why, rows[i].why);
		rig_close(&r);
	}
}

static void a_peer_that_says_nothing_is_left_after_a_while(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_SUB);
	wire_wait(&r.w, ZMTP_HANDSHAKE_MS - 1);
	assert_int_equal(r.closes, 0);
	wire_wait(&r.w, 1);
	assert_int_equal(r.closes, 1);
	assert_string_equal(r.why, "the peer does not answer");
	rig_close(&r);
}

static void the_end_of_the_peer_comes_after_what_it_said(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	greet(&r, "ROUTER");
	assert_int_equal(send(r.peer, "\0\2ab", 4, 0), 4);
	closep(&r.peer);
	r.peer = -1;
	wire_turn(&r.w);
	assert_string_equal(r.said.p, "ab.");
	assert_int_equal(r.closes, 1);
	rig_close(&r);
}

static void what_waits_to_be_sent_has_a_ceiling(void **state)
{
	static char text[2000];
	struct rig r;

	(void)state;
	rig_open(&r, ZMTP_DEALER);
	greet(&r, "ROUTER");
	assert_false(zmtp_send(r.z, (struct str[]){ { text, 2000 }, { text, 2000 }, { text, 2000 } }, 3));
	assert_true(zmtp_send(r.z, (struct str[]){ { text, 2000 }, { text, 2000 } }, 2));
	assert_false(zmtp_send(r.z, (struct str[]){ { text, 2000 } }, 1)); /* before the loop has come by */
	wire_turn(&r.w);
	assert_true(zmtp_send(r.z, (struct str[]){ { text, 2000 } }, 1));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dealer_greets_and_moves_messages_both_ways),
		cmocka_unit_test(a_subscriber_asks_for_everything),
		cmocka_unit_test(a_ping_is_answered_and_unknown_commands_are_not),
		cmocka_unit_test(who_pauses_gets_the_rest_when_it_resumes),
		cmocka_unit_test(it_may_be_cancelled_from_its_own_callback),
		cmocka_unit_test(peers_that_are_wrong_are_left),
		cmocka_unit_test(a_peer_that_says_nothing_is_left_after_a_while),
		cmocka_unit_test(the_end_of_the_peer_comes_after_what_it_said),
		cmocka_unit_test(what_waits_to_be_sent_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
