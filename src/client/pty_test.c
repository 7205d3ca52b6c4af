// SPDX-License-Identifier: Apache-2.0
/* Terminals of sandboxes that break off at the worst of times. */
#include "client/test_peer.h"

#include "base/err.h"
#include "client/opensandbox.h"

#include "base/banned.h"

#define ENDPOINT SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", "{\"endpoint\":\"127.0.0.1:@PORT@/in\"}")
#define MADE SAYS("POST /in/pty ", "201 Created", "{\"session_id\":\"p1\"}")
#define CONNECTED "{\"type\":\"connected\"}\0"
#define REPLAY "100000000\0" /* a piece of output that comes before */

struct rig {
	struct peer peer;
	struct osb_client *client;
	struct osb_sandbox *s;
	struct osb_call *call;
	struct osb_pty *pty;
	unsigned done, lost, outputs;
	bool lost_before_done;
};

static void on_lost(struct osb_pty *p, const struct osb_error *e, void *arg)
{
	struct rig *r = arg;

	assert_int_equal(e->kind, OSB_NETWORK);
	r->lost++;
	r->lost_before_done = r->done == 0;
	osb_pty_free(p);
	r->pty = NULL;
}

static void on_output(struct osb_pty *p, bool is_stderr, const char *data, size_t n, void *arg)
{
	struct rig *r = arg;

	(void)is_stderr, (void)data, (void)n;
	r->outputs++;
	osb_pty_free(p);
}

static void on_done(struct osb_call *call, void *arg)
{
	struct rig *r = arg;

	(void)call;
	r->done++;
}

static void rig_start_with(struct rig *r, const struct rule *rules)
{
	struct osb_options o = OSB_OPTIONS;
	char domain[64];

	*r = (struct rig){ 0 };
	peer_start(&r->peer, rules);
	(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", r->peer.port);
	o.domain = domain;
	r->client = osb_client_new(&o, NULL);
	assert_int_equal(osb_sandbox_connect(r->client, "s1", &(struct osb_connect){ .skip_health_check = true }, &r->s, NULL), 0);
	r->call = osb_call_new(r->client);
	osb_call_on_done(r->call, on_done, r);
}

static void rig_start(struct rig *r, const char *frames, enum peer_does does)
{
	const struct rule rules[] = { ENDPOINT, MADE, SAYS_RAW("GET /in/pty/p1/ws", frames, does), SAYS("DELETE /in/pty/p1 ", "200 OK", ""), { 0 } };

	rig_start_with(r, rules);
}

static void rig_stop(struct rig *r)
{
	osb_call_free(r->call);
	osb_client_free(r->client);
	peer_stop(&r->peer);
}

static void begin(struct rig *r, struct osb_call *call)
{
	static const struct osb_pty_ops losing = { .on_lost = on_lost, .on_output = on_output };
	const struct osb_pty_options o = { .columns = 80, .rows = 24 };
	int want = call ? 0 : -1;

	assert_int_equal(osb_pty_open(r->s, &o, &losing, r, &r->pty, call), want);
}

/* It is connected, and gone before its size can be told to it. */
static void one_that_is_lost_at_once_is_lost_after_it_was_opened(void **state)
{
	struct rig r;

	(void)state;
	for (int i = 0; i < 10; i++) {
		rig_start(&r, CONNECTED, PEER_RESETS);
		begin(&r, r.call);
		while (atomic_load(&r.peer.requests) < 4)
			assert_int_equal(osb_client_dispatch(r.client, 1), 0);
		usleep(20000); /* now the end of it has come, too */
		for (int turns = 0; turns < 200 && r.lost == 0; turns++)
			assert_int_equal(osb_client_dispatch(r.client, 10), 0);
		assert_int_equal(r.done, 1);
		assert_int_equal(osb_call_error(r.call)->kind, OSB_OK);
		assert_int_equal(r.lost, 1);
		assert_false(r.lost_before_done);
		rig_stop(&r);
	}
}

static void freeing_one_that_is_being_opened_gives_it_up(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, REPLAY CONNECTED, PEER_UPGRADES);
	begin(&r, r.call);
	for (int turns = 0; turns < 200 && r.done == 0; turns++)
		assert_int_equal(osb_client_dispatch(r.client, 10), 0);
	assert_int_equal(r.outputs, 1);
	assert_int_equal(r.done, 1);
	assert_int_equal(osb_call_error(r.call)->kind, OSB_CANCELLED);
	assert_null(r.pty);
	assert_int_equal(peer_saw(&r.peer, "DELETE /in/pty/p1 "), 1); /* nobody knows of its session */
	rig_stop(&r);
}

static void the_same_while_somebody_waits_for_it(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, REPLAY CONNECTED, PEER_UPGRADES);
	begin(&r, NULL);
	assert_int_equal(osb_client_error(r.client)->kind, OSB_CANCELLED);
	assert_int_equal(r.outputs, 1);
	assert_null(r.pty);
	rig_stop(&r);
}

#define OTHERS 10
#define ELSEWHERE(n) SAYS("GET /v1/sandboxes/t" #n "/", "200 OK", "{\"endpoint\":\"127.0.0.1" #n ":9/in\"}")

/* Its session is being deleted, to nobody's use: with the sandbox that ends, too, and nothing of it is left to where it was sent. */
static void a_sandbox_that_is_freed_ends_what_is_being_undone(void **state)
{
	static const struct rule rules[] = { SAYS("GET /v1/sandboxes/s1/", "200 OK", "{\"endpoint\":\"localhost:@PORT@/in\"}"), /* not the server's */
					     MADE, SAYS("GET /in/pty/p1/ws", "503 Busy", ""), HANGS("DELETE /in/pty/p1 "),
					     ELSEWHERE(0), ELSEWHERE(1), ELSEWHERE(2), ELSEWHERE(3), ELSEWHERE(4), ELSEWHERE(5),
					     ELSEWHERE(6), ELSEWHERE(7), ELSEWHERE(8), ELSEWHERE(9), { 0 } };
	struct osb_sandbox *others[OTHERS];
	struct rig r;

	(void)state;
	rig_start_with(&r, rules);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(osb_sandbox_connect(r.client, (char[]){ 't', (char)('0' + i), '\0' },
						     &(struct osb_connect){ .skip_health_check = true }, &others[i], NULL), 0);
	begin(&r, r.call);
	for (int turns = 0; turns < 200 && peer_saw(&r.peer, "DELETE /in/pty/p1 ") == 0; turns++)
		assert_int_equal(osb_client_dispatch(r.client, 10), 0);
	assert_int_equal(r.done, 0);
	osb_sandbox_free(r.s);
	for (int i = 0; i < OTHERS; i++)
		osb_sandbox_free(others[i]);
	for (int turns = 0; turns < 10 && r.done == 0; turns++)
		assert_int_equal(osb_client_dispatch(r.client, 10), 0);
	assert_int_equal(r.done, 1);
	assert_int_equal(osb_call_error(r.call)->kind, OSB_NETWORK);
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_lost_at_once_is_lost_after_it_was_opened),
		cmocka_unit_test(freeing_one_that_is_being_opened_gives_it_up),
		cmocka_unit_test(the_same_while_somebody_waits_for_it),
		cmocka_unit_test(a_sandbox_that_is_freed_ends_what_is_being_undone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
