// SPDX-License-Identifier: Apache-2.0
/* The core against servers that do as they are told: what arrives, what is never sent, and how everything ends. */
#include "client/test_peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/opensandbox.h"

#include "base/banned.h"

#define INFO "{\"id\":\"s1\",\"status\":{\"state\":\"Running\"},\"entrypoint\":[\"a\"],\"createdAt\":\"2026-01-01T00:00:00Z\"}"
#define ENDPOINT "{\"endpoint\":\"127.0.0.1:@PORT@/in\",\"headers\":{\"X-Token\":\"secret\"}}"

static const struct rule good_rules[] = {
	SAYS("POST /v1/sandboxes ", "202 Accepted", INFO),
	SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", ENDPOINT),
	SAYS("GET /in/ping ", "200 OK", ""),
	SAYS("DELETE /v1/sandboxes/s1 ", "204 No Content", ""),
	SAYS("GET /v1/sandboxes/s1 ", "200 OK", INFO),
	{ 0 },
};
#define GOOD_RULES 5

static struct osb_client *client_of_port(unsigned port, unsigned timeout_ms)
{
	struct osb_options o = OSB_OPTIONS;
	char domain[64];
	struct osb_client *c;

	(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", port);
	o.domain = domain;
	o.api_key = "the-key";
	o.request_timeout_ms = timeout_ms;
	c = osb_client_new(&o, NULL);
	assert_non_null(c);
	return c;
}

static int get(struct osb_client *c, struct osb_call *call)
{
	struct osb_sandbox_info *info = NULL;
	int r = osb_sandbox_get(c, "s1", &info, call);

	osb_free(info);
	return r;
}

static void assert_error(const struct osb_error *e, enum osb_kind kind, const char *code, const char *text)
{
	assert_int_equal(e->kind, kind);
	assert_string_equal(e->code, code);
	if (!strstr(e->message, text))
		fail_msg("'%s' is not in '%s'", text, e->message);
}

/* ---- what is sent ---- */

static void a_create_asks_for_endpoints_and_pings(void **state)
{
	const struct osb_pair extra = { "X-Extra", "for-the-server" };
	struct osb_options o = OSB_OPTIONS;
	struct peer server, inside;
	struct rule rules[GOOD_RULES + 1];
	struct osb_client *c;
	struct osb_sandbox *s = NULL;
	char domain[64], endpoint[128];

	(void)state;
	peer_start(&inside, good_rules);
	memcpy(rules, good_rules, sizeof(rules));
	(void)snprintf(endpoint, sizeof(endpoint), "{\"endpoint\":\"127.0.0.1:%u/in\",\"headers\":{\"X-Token\":\"secret\"}}", inside.port);
	rules[1].body = endpoint;
	peer_start(&server, rules);
	(void)snprintf(domain, sizeof(domain), "http://127.0.0.1:%u/v1/", server.port);
	o.domain = domain;
	o.protocol = "https"; /* the scheme of the domain outranks it */
	o.api_key = "the-key";
	o.headers = (struct osb_map){ &extra, 1 };
	c = osb_client_new(&o, NULL);
	assert_non_null(c);
	assert_int_equal(osb_sandbox_create(c, &(struct osb_create){ .image = "x", .idempotency_key = "once" }, &s, NULL), 0);
	assert_string_equal(osb_sandbox_id(s), "s1");
	assert_int_equal(atomic_load(&server.requests), 3);
	assert_int_equal(peer_saw(&server, "OPEN-SANDBOX-API-KEY: the-key"), 3);
	assert_int_equal(peer_saw(&server, "X-Extra: for-the-server"), 3);
	assert_int_equal(peer_saw(&server, "Idempotency-Key: once"), 1);
	assert_int_equal(peer_saw(&server, "use_server_proxy=false"), 2);
	assert_int_equal(peer_saw(&server, "\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"]"), 1);
	assert_int_equal(atomic_load(&inside.requests), 1);
	assert_int_equal(peer_saw(&inside, "X-Token: secret"), 1);
	assert_int_equal(peer_saw(&inside, "the-key"), 0);
	assert_int_equal(peer_saw(&inside, "for-the-server"), 0);
	osb_client_free(c); /* the sandbox goes with it */
	peer_stop(&server);
	peer_stop(&inside);
}

/* Paths, queries and bodies, of which the answers do not matter here. */
static void requests_are_written_as_the_api_wants_them(void **state)
{
	static const struct rule rules[] = { SAYS("", "404 Not Found", ""), { 0 } };
	const char *const states[] = { "Running", "Paused" };
	const struct osb_pair pairs[] = { { "a b", "x&y" }, { "k", "v" } }, gone = { "k", NULL };
	const struct osb_rule allow[] = { { "allow", "*.example.com" } };
	const struct osb_policy policy = { .egress = allow, .n_egress = 1 };
	const struct osb_volume volumes[] = {
		{ .name = "h", .mount_path = "/h", .host_path = "/srv", .read_only = true, .sub_path = "s" },
		{ .name = "c", .mount_path = "/c", .claim_name = "claim", .storage = "1Gi" },
		{ .json = "{\"name\": \"j\"}" },
	};
	const struct osb_create create = { .image = "i", .image_username = "u", .image_password = "p", .timeout_s = OSB_TTL_NONE,
					   .network_policy = &policy, .volumes = volumes, .n_volumes = 3, .platform = { "linux", "arm64" },
					   .secure_access = true, .credential_proxy = true };
	struct peer p;
	struct osb_client *c;

	(void)state;
	peer_start(&p, rules);
	c = client_of_port(p.port, 0);
	(void)osb_sandbox_list(c, &(struct osb_list){ .states = { states, 2 }, .metadata = { pairs, 2 }, .page = 2, .page_size = 7 }, NULL, NULL);
	(void)osb_sandbox_endpoint(c, "s 1", 80, 1234567890, NULL, NULL);
	(void)osb_sandbox_patch_metadata(c, "s1", &(struct osb_map){ &gone, 1 }, NULL, NULL);
	(void)osb_sandbox_create(c, &create, NULL, NULL);
	(void)osb_image_remove(c, "h:1/a@sha256:0", NULL);
	(void)osb_diagnostics_text(c, "s1", "logs", &(struct osb_map){ pairs, 1 }, NULL, NULL);
	assert_int_equal(atomic_load(&p.requests), 6);
	assert_int_equal(peer_saw(&p, "GET /v1/sandboxes?state=Running&state=Paused&metadata=a%2520b%3Dx%2526y%26k%3Dv&page=2&pageSize=7 HTTP"), 1);
	assert_int_equal(peer_saw(&p, "GET /v1/sandboxes/s%201/endpoints/80?expires=1234567890 HTTP"), 1);
	assert_int_equal(peer_saw(&p, "{\"k\":null}"), 1);
	assert_int_equal(peer_saw(&p, "{\"image\":{\"uri\":\"i\",\"auth\":{\"username\":\"u\",\"password\":\"p\"}},\"entrypoint\":[\"tail\",\"-f\","
				      "\"/dev/null\"],\"resourceLimits\":{\"cpu\":\"1\",\"memory\":\"2Gi\"},\"networkPolicy\":{\"defaultAction\":"
				      "\"deny\",\"egress\":[{\"action\":\"allow\",\"target\":\"*.example.com\"}]},\"volumes\":[{\"name\":\"h\","
				      "\"mountPath\":\"/h\",\"readOnly\":true,\"subPath\":\"s\",\"host\":{\"path\":\"/srv\"}},{\"name\":\"c\","
				      "\"mountPath\":\"/c\",\"readOnly\":false,\"pvc\":{\"claimName\":\"claim\",\"createIfNotExists\":false,"
				      "\"deleteOnSandboxTermination\":false,\"storage\":\"1Gi\"}},{\"name\":\"j\"}],\"platform\":{\"os\":\"linux\","
				      "\"arch\":\"arm64\"},\"secureAccess\":true,\"credentialProxy\":{\"enabled\":true}}"), 1);
	assert_int_equal(peer_saw(&p, "DELETE /v1/images?uri=h%3A1%2Fa%40sha256%3A0 HTTP"), 1);
	assert_int_equal(peer_saw(&p, "GET /v1/sandboxes/s1/diagnostics/logs?a%20b=x%26y HTTP"), 1);
	osb_client_free(c);
	peer_stop(&p);
}

static void connections_are_kept(void **state)
{
	struct peer p;
	struct osb_client *c;

	(void)state;
	peer_start(&p, good_rules);
	c = client_of_port(p.port, 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(get(c, NULL), 0);
	assert_int_equal(atomic_load(&p.accepts), 1);
	osb_client_free(c);
	peer_stop(&p);
}

/* The inside the next sandbox is often behind the same host and port as that of the last. */
static void connections_outlive_sandboxes(void **state)
{
	struct rule rules[GOOD_RULES + 1];
	struct peer server, inside;
	struct osb_client *c;
	char endpoint[128];

	(void)state;
	peer_start(&inside, good_rules);
	memcpy(rules, good_rules, sizeof(rules));
	(void)snprintf(endpoint, sizeof(endpoint), "{\"endpoint\":\"127.0.0.1:%u/in\"}", inside.port);
	rules[1].body = endpoint;
	peer_start(&server, rules);
	c = client_of_port(server.port, 0);
	for (int i = 0; i < 5; i++) {
		struct osb_sandbox *s = NULL;

		assert_int_equal(osb_sandbox_connect(c, "s1", NULL, &s, NULL), 0);
		osb_sandbox_free(s);
	}
	assert_int_equal(atomic_load(&inside.accepts), 1);
	assert_int_equal(atomic_load(&server.accepts), 2); /* two endpoints are asked for at the same time */
	osb_client_free(c);
	peer_stop(&server);
	peer_stop(&inside);
}

static void a_name_with_several_addresses_tries_them_in_turn(void **state)
{
	struct osb_options o = OSB_OPTIONS;
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	char domain[64];
	struct osb_client *c;
	struct peer p;

	(void)state;
	if (probe < 0 || bind(probe, (struct sockaddr *)&v6, sizeof(v6)) < 0) {
		(void)close(probe);
		skip();
	}
	(void)close(probe);
	peer_start_at(&p, good_rules, true); /* localhost is 127.0.0.1 first, where nobody listens */
	(void)snprintf(domain, sizeof(domain), "localhost:%u", p.port);
	o.domain = domain;
	c = osb_client_new(&o, NULL);
	assert_int_equal(get(c, NULL), 0);
	assert_int_equal(get(c, NULL), 0);
	osb_client_free(c);
	(void)snprintf(domain, sizeof(domain), "[::1]:%u", p.port);
	c = osb_client_new(&o, NULL);
	assert_int_equal(get(c, NULL), 0);
	osb_client_free(c);
	peer_stop(&p);
}

/* ---- what comes back ---- */

static void answers_of_all_kinds_become_errors(void **state)
{
	static const struct {
		struct rule rule;
		enum osb_kind kind;
		const char *code, *text;
		int status;
	} table[] = {
		{ SAYS("", "404 Not Found", "{\"code\":\"X::GONE\",\"message\":\"no such thing\"}"), OSB_ANSWER, "X::GONE", "get sandbox: no such thing", 404 },
		{ SAYS("", "500 Oops", "<html>"), OSB_ANSWER, "UNEXPECTED_RESPONSE", "HTTP 500", 500 },
		{ SAYS("", "503 Later", ""), OSB_ANSWER, "UNEXPECTED_RESPONSE", "HTTP 503", 503 },
		{ SAYS("", "302 Found", ""), OSB_ANSWER, "UNEXPECTED_RESPONSE", "HTTP 302", 302 },
		{ SAYS_RAW("", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:@PORT@/v1/sandboxes/other\r\nContent-Length: 0\r\n\r\n", PEER_ANSWERS),
		  OSB_ANSWER, "UNEXPECTED_RESPONSE", "HTTP 302", 302 },
		{ SAYS("", "200 OK", "hello"), OSB_NETWORK, "UNEXPECTED_RESPONSE", "no JSON", 0 },
		{ SAYS("", "200 OK", "{}"), OSB_NETWORK, "UNEXPECTED_RESPONSE", "$.id: it is missing", 0 },
		{ SAYS("", "200 OK", "{\"id\":7}"), OSB_NETWORK, "UNEXPECTED_RESPONSE", "$.id: it is no string", 0 },
		{ SAYS("", "200 OK", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["), OSB_NETWORK, "UNEXPECTED_RESPONSE", "no JSON", 0 },
		{ SAYS_RAW("", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":", PEER_CLOSES), OSB_NETWORK,
		  "INTERNAL_UNKNOWN_ERROR", "in the middle of a response", 200 },
		{ SAYS_RAW("", "HTTP/1.1 2", PEER_CLOSES), OSB_NETWORK, "INTERNAL_UNKNOWN_ERROR", "before a response", 0 },
		{ SAYS_RAW("", "SSH-2.0-x\r\n\r\n", PEER_ANSWERS), OSB_NETWORK, "UNEXPECTED_RESPONSE", "bad response", 0 },
		{ SAYS_RAW("", "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n", PEER_BIG), OSB_NETWORK, "UNEXPECTED_RESPONSE",
		  "larger than", 200 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		const struct rule rules[] = { table[i].rule, { 0 } };
		struct osb_client *c;
		struct peer p;

		peer_start(&p, rules);
		c = client_of_port(p.port, 0);
		assert_int_equal(get(c, NULL), -1);
		assert_error(osb_client_error(c), table[i].kind, table[i].code, table[i].text);
		assert_int_equal(osb_client_error(c)->http_status, table[i].status);
		assert_int_equal(peer_saw(&p, "/other"), 0);
		osb_client_free(c);
		peer_stop(&p);
	}
}

static void a_server_that_is_not_there_is_said_so(void **state)
{
	struct osb_client *c = client_of_port(1, 0);

	(void)state;
	assert_int_equal(get(c, NULL), -1);
	assert_error(osb_client_error(c), OSB_NETWORK, "INTERNAL_UNKNOWN_ERROR", "connect to '127.0.0.1:1': Connection refused");
	osb_client_free(c);
}

static void a_name_that_is_not_known_is_said_so(void **state)
{
	struct osb_options o = OSB_OPTIONS;
	struct osb_client *c;

	(void)state;
	o.domain = "no-such-name.invalid:80";
	c = osb_client_new(&o, NULL);
	assert_int_equal(get(c, NULL), -1);
	assert_error(osb_client_error(c), OSB_NETWORK, "INTERNAL_UNKNOWN_ERROR", "look up 'no-such-name.invalid'");
	osb_client_free(c);
}

static void options_that_cannot_be_are_refused(void **state)
{
	static const struct osb_options table[] = {
		{ .domain = "a b" }, { .domain = "host:99999" }, { .domain = "[::1" }, { .domain = "::1" }, { .domain = "http://" },
		{ .domain = "h", .protocol = "gopher" }, { .api_key = "two\r\nlines" }, { .user_agent = "x\n" },
		{ .domain = "https://h", .ca_file = "/nonexistent/ca.pem" },
	};
	struct osb_error e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		assert_null(osb_client_new(&table[i], &e));
		assert_true(e.kind == OSB_INVALID || e.kind == OSB_LOCAL);
		assert_non_null(strstr(e.message, "make client: "));
	}
}

/* ---- deadlines and cancellation ---- */

static void a_request_has_a_timeout_and_a_call_a_deadline(void **state)
{
	static const struct rule rules[] = { HANGS(""), { 0 } };
	struct osb_client *c;
	struct osb_call *call;
	struct peer p;

	(void)state;
	peer_start(&p, rules);
	c = client_of_port(p.port, 80);
	assert_int_equal(get(c, NULL), -1);
	assert_error(osb_client_error(c), OSB_TIMEOUT, "TIMEOUT", "get sandbox: ");
	osb_client_free(c);
	c = client_of_port(p.port, 0);
	call = osb_call_new(c);
	osb_call_set_deadline(call, 80);
	assert_int_equal(get(c, call), -1);
	assert_error(osb_call_error(call), OSB_TIMEOUT, "TIMEOUT", "longer than 80 ms");
	osb_call_free(call);
	osb_client_free(c);
	peer_stop(&p);
}

struct canceller {
	struct peer *peer;
	struct osb_call *call;
	unsigned after; /* this many requests */
};

static void *cancel_later(void *arg)
{
	struct canceller *k = arg;

	peer_await(k->peer, k->after);
	osb_call_cancel(k->call);
	return NULL;
}

/* The create hangs at one of its requests; another thread cancels it there. */
static void a_create_that_is_cancelled_at_any_step_leaves_nothing(void **state)
{
	static const struct {
		size_t hangs;
		unsigned after, deletes;
	} table[] = {
		{ 1, 3, 1 }, /* POST is answered, the endpoints are not */
		{ 2, 4, 1 }, /* the sandbox does not answer */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct rule rules[GOOD_RULES + 1];
		struct osb_sandbox *s = NULL;
		struct canceller k;
		pthread_t thread;
		struct peer p;

		memcpy(rules, good_rules, sizeof(rules));
		rules[table[i].hangs].does = PEER_HANGS;
		peer_start(&p, rules);
		k = (struct canceller){ .peer = &p, .after = table[i].after };
		struct osb_client *c = client_of_port(p.port, 0);
		k.call = osb_call_new(c);
		assert_int_equal(pthread_create(&thread, NULL, cancel_later, &k), 0);
		assert_int_equal(osb_sandbox_create(c, &(struct osb_create){ .image = "x" }, &s, k.call), -1);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_error(osb_call_error(k.call), OSB_CANCELLED, "CANCELLED", "create sandbox: it was cancelled");
		assert_null(s);
		assert_int_equal(peer_saw(&p, "DELETE /v1/sandboxes/s1 "), table[i].deletes);
		osb_call_free(k.call);
		osb_client_free(c);
		peer_stop(&p);
	}
}

/* Cancelled while the server is making it: the answer is waited for, because nobody else will know the id. */
static void *answer_late(void *arg)
{
	int listener = *(int *)arg, fd = accept(listener, NULL, NULL);
	static const char reply[] = "HTTP/1.1 202 Accepted\r\nContent-Length: 11\r\n\r\n{\"id\":\"s9\"}";
	static const char gone[] = "HTTP/1.1 204 No Content\r\n\r\n";
	static char seen[8192];

	(void)!recv(fd, seen, sizeof(seen) - 1, 0);
	usleep(150 * 1000);
	peer_send(fd, reply, sizeof(reply) - 1);
	memset(seen, 0, sizeof(seen));
	(void)!recv(fd, seen, sizeof(seen) - 1, 0);
	peer_send(fd, gone, sizeof(gone) - 1);
	(void)close(fd);
	return seen;
}

static void a_create_that_is_cancelled_while_it_is_made_is_deleted(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(v4);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct osb_sandbox *s = NULL;
	struct osb_client *c;
	struct osb_call *call;
	pthread_t thread;
	void *seen = NULL;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&v4, n), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&v4, &n), 0);
	assert_int_equal(pthread_create(&thread, NULL, answer_late, &listener), 0);
	c = client_of_port(ntohs(v4.sin_port), 0);
	call = osb_call_new(c);
	osb_call_set_deadline(call, 50);
	assert_int_equal(osb_sandbox_create(c, &(struct osb_create){ .image = "x" }, &s, call), -1);
	assert_error(osb_call_error(call), OSB_TIMEOUT, "TIMEOUT", "longer than 50 ms");
	assert_int_equal(pthread_join(thread, &seen), 0);
	assert_memory_equal(seen, "DELETE /v1/sandboxes/s9 ", 24);
	osb_call_free(call);
	osb_client_free(c);
	(void)close(listener);
}

static void a_sandbox_that_never_answers_is_deleted(void **state)
{
	struct rule rules[GOOD_RULES + 1];
	const struct osb_create create = { .image = "x", .ready_timeout_ms = 120, .poll_ms = 20 };
	struct osb_sandbox *s = NULL;
	struct osb_client *c;
	struct peer p;

	(void)state;
	memcpy(rules, good_rules, sizeof(rules));
	rules[2].status = "502 Bad Gateway";
	peer_start(&p, rules);
	c = client_of_port(p.port, 0);
	assert_int_equal(osb_sandbox_create(c, &create, &s, NULL), -1);
	assert_error(osb_client_error(c), OSB_NOT_READY, "READY_TIMEOUT", "did not answer within 120 ms");
	assert_true(peer_saw(&p, "GET /in/ping") >= 3);
	assert_int_equal(peer_saw(&p, "DELETE /v1/sandboxes/s1 "), 1);
	assert_int_equal(osb_sandbox_connect(c, "s1", &(struct osb_connect){ .ready_timeout_ms = 50, .poll_ms = 10 }, &s, NULL), -1);
	assert_int_equal(peer_saw(&p, "DELETE /v1/sandboxes/s1 "), 1); /* it is not ours */
	osb_client_free(c);
	peer_stop(&p);
}

static void a_sandbox_that_has_failed_is_not_waited_for(void **state)
{
	struct rule rules[GOOD_RULES + 1];
	struct osb_sandbox *s = NULL;
	struct osb_client *c;
	struct peer p;

	(void)state;
	memcpy(rules, good_rules, sizeof(rules));
	rules[2].status = "409 Conflict";
	rules[4].body = "{\"id\":\"s1\",\"status\":{\"state\":\"Failed\",\"message\":\"no such image\"},\"createdAt\":\"2026-01-01T00:00:00Z\"}";
	peer_start(&p, rules);
	c = client_of_port(p.port, 0);
	assert_int_equal(osb_sandbox_create(c, &(struct osb_create){ .image = "x" }, &s, NULL), -1);
	assert_error(osb_client_error(c), OSB_NOT_READY, "UNHEALTHY", "sandbox 's1' is Failed: no such image");
	assert_int_equal(peer_saw(&p, "DELETE /v1/sandboxes/s1 "), 1);
	osb_client_free(c);
	peer_stop(&p);
}

static struct osb_call *alarm_call;

static void on_alarm(int sig)
{
	(void)sig;
	osb_call_cancel(alarm_call);
}

static void a_signal_handler_may_cancel(void **state)
{
	static const struct rule rules[] = { HANGS(""), { 0 } };
	const struct itimerval soon = { .it_value.tv_usec = 50000 };
	struct osb_client *c;
	struct peer p;

	(void)state;
	peer_start(&p, rules);
	c = client_of_port(p.port, 0);
	alarm_call = osb_call_new(c);
	assert_true(signal(SIGALRM, on_alarm) != SIG_ERR);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(get(c, alarm_call), -1);
	assert_error(osb_call_error(alarm_call), OSB_CANCELLED, "CANCELLED", "it was cancelled");
	osb_call_cancel(alarm_call); /* of nothing: the next is not touched */
	peer_stop(&p);
	peer_start(&p, good_rules);
	osb_call_free(alarm_call);
	osb_client_free(c);
	peer_stop(&p);
}

/* ---- call backs ---- */

struct journal {
	struct osb_client *client;
	unsigned times, more;
	int waited;
	bool frees;
	enum osb_kind kind;
	struct osb_sandbox_info *info;
};

static void on_done(struct osb_call *call, void *arg)
{
	struct journal *j = arg;

	j->times++;
	j->kind = osb_call_error(call)->kind;
	j->waited = get(j->client, NULL); /* refused: this is a call back */
	assert_false(osb_call_is_busy(call));
	if (j->more > 0) {
		j->more--;
		osb_free(j->info);
		j->info = NULL;
		assert_int_equal(osb_sandbox_get(j->client, "s1", &j->info, call), 0);
	} else if (j->frees) {
		osb_call_free(call);
	}
}

static void turn_until(struct osb_client *c, const unsigned *counter, unsigned n)
{
	for (int i = 0; i < 500 && *counter < n; i++)
		assert_int_equal(osb_client_dispatch(c, 20), 0);
	assert_int_equal(*counter, n);
}

static void a_call_back_may_begin_the_next_and_free_the_call(void **state)
{
	struct journal j = { .more = 3, .frees = true };
	struct osb_call *call;
	struct peer p;

	(void)state;
	peer_start(&p, good_rules);
	j.client = client_of_port(p.port, 0);
	call = osb_call_new(j.client);
	osb_call_on_done(call, on_done, &j);
	assert_int_equal(osb_sandbox_get(j.client, "s1", &j.info, call), 0);
	assert_true(osb_call_is_busy(call));
	assert_int_equal(osb_sandbox_get(j.client, "s1", &j.info, call), -1); /* one at a time */
	turn_until(j.client, &j.times, 4);
	assert_int_equal(j.kind, OSB_OK);
	assert_int_equal(j.waited, -1);
	assert_error(osb_client_error(j.client), OSB_INVALID, "INVALID_ARGUMENT", "inside a callback");
	assert_string_equal(j.info->id, "s1");
	osb_free(j.info);
	osb_client_free(j.client);
	peer_stop(&p);
}

static void what_fails_at_once_calls_back_too(void **state)
{
	struct journal j = { 0 };
	struct osb_call *call;

	(void)state;
	j.client = client_of_port(1, 0);
	call = osb_call_new(j.client);
	osb_call_on_done(call, on_done, &j);
	assert_int_equal(osb_sandbox_get(j.client, "", &j.info, call), 0);
	assert_int_equal(j.times, 0);
	assert_int_equal(osb_client_timeout_ms(j.client), 0);
	turn_until(j.client, &j.times, 1);
	assert_int_equal(j.kind, OSB_INVALID);
	osb_call_free(call);
	osb_client_free(j.client);
}

static void a_client_that_is_freed_calls_back(void **state)
{
	static const struct rule rules[] = { HANGS(""), { 0 } };
	struct journal j = { 0 };
	struct osb_call *call, *idle;
	struct peer p;
	int fd;

	(void)state;
	peer_start(&p, rules);
	j.client = client_of_port(p.port, 0);
	call = osb_call_new(j.client);
	idle = osb_call_new(j.client);
	osb_call_on_done(call, on_done, &j);
	assert_int_equal(osb_sandbox_get(j.client, "s1", &j.info, call), 0);
	assert_int_equal(osb_client_dispatch(j.client, 10), 0);
	fd = call->wake->fd; /* what a thread has in hands that cancels right now */
	osb_client_free(j.client);
	assert_int_equal(j.times, 1);
	assert_int_equal(j.kind, OSB_CANCELLED);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	osb_call_cancel(call); /* of nobody's */
	osb_call_free(call);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	osb_call_free(idle);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	peer_stop(&p);
}

static void a_call_that_is_freed_does_not_call_back(void **state)
{
	struct journal j = { 0 };
	struct osb_sandbox *s = NULL;
	struct osb_call *call;
	struct rule rules[GOOD_RULES + 1];
	struct peer p;

	(void)state;
	memcpy(rules, good_rules, sizeof(rules));
	rules[2].does = PEER_HANGS;
	peer_start(&p, rules);
	j.client = client_of_port(p.port, 0);
	call = osb_call_new(j.client);
	osb_call_on_done(call, on_done, &j);
	assert_int_equal(osb_sandbox_create(j.client, &(struct osb_create){ .image = "x" }, &s, call), 0);
	for (int i = 0; i < 200 && atomic_load(&p.requests) < 4; i++)
		assert_int_equal(osb_client_dispatch(j.client, 10), 0);
	osb_call_free(call);
	osb_client_free(j.client); /* sees to it that the sandbox goes */
	assert_int_equal(peer_saw(&p, "DELETE /v1/sandboxes/s1 "), 1);
	assert_int_equal(j.times, 0);
	peer_stop(&p);
}

/* ---- streams ---- */

struct stream {
	struct osb_client *client;
	struct osb_call *call;
	size_t n, stops;
	bool frees;
};

static long give_bytes(char *out, size_t max, void *arg)
{
	struct stream *s = arg;
	size_t n = s->n < max ? s->n : max;

	if (s->stops > 0 && s->n <= s->stops)
		return -1;
	memset(out, 'z', n);
	s->n -= n;
	return (long)n;
}

static int take_bytes(const char *data, size_t n, void *arg)
{
	struct stream *s = arg;

	(void)data;
	s->n += n;
	if (s->frees) {
		osb_call_free(s->call);
		s->frees = false;
	}
	return s->stops > 0 && s->n >= s->stops ? -1 : 0;
}

static void streams_go_both_ways_and_can_be_stopped(void **state)
{
	static const char snapshot[] = "{\"id\":\"n1\",\"sandboxId\":\"n1\",\"status\":{\"state\":\"Ready\"},\"createdAt\":\"2026-01-01T00:00:00Z\"}";
	const struct rule rules[] = {
		SAYS("POST /v1/snapshots/import?name=a%20b ", "201 Created", snapshot),
		SAYS_RAW("GET /v1/snapshots/big/archive ", "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n", PEER_BIG),
		SAYS_RAW("GET /v1/snapshots/half/archive ", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", PEER_CLOSES),
		{ 0 },
	};
	struct osb_snapshot *snap = NULL;
	struct stream s = { .n = 5000000 };
	struct peer p;

	(void)state;
	peer_start(&p, rules);
	s.client = client_of_port(p.port, 0);
	assert_int_equal(osb_snapshot_import(s.client, "a b", give_bytes, &s, &snap, NULL), 0);
	assert_string_equal(snap->id, "n1");
	osb_free(snap);
	assert_true(p.seen.n > 5000000);
	s = (struct stream){ .client = s.client, .n = 5000000, .stops = 2000000 };
	assert_int_equal(osb_snapshot_import(s.client, "a b", give_bytes, &s, &snap, NULL), -1);
	assert_error(osb_client_error(s.client), OSB_LOCAL, "INTERNAL_UNKNOWN_ERROR", "reading");
	s = (struct stream){ .client = s.client };
	assert_int_equal(osb_snapshot_export(s.client, "big", take_bytes, &s, NULL), 0);
	assert_int_equal(s.n, 67108864);
	s = (struct stream){ .client = s.client, .stops = 1000000 };
	assert_int_equal(osb_snapshot_export(s.client, "big", take_bytes, &s, NULL), -1);
	assert_error(osb_client_error(s.client), OSB_LOCAL, "INTERNAL_UNKNOWN_ERROR", "writing");
	s = (struct stream){ .client = s.client };
	assert_int_equal(osb_snapshot_export(s.client, "half", take_bytes, &s, NULL), -1);
	assert_error(osb_client_error(s.client), OSB_NETWORK, "INTERNAL_UNKNOWN_ERROR", "in the middle");
	assert_int_equal(s.n, 3);
	/* Freed inside a call back of its own, while it is waited for. */
	s = (struct stream){ .client = s.client, .frees = true, .call = osb_call_new(s.client) };
	assert_int_equal(osb_snapshot_export(s.client, "big", take_bytes, &s, s.call), -1);
	assert_int_equal(osb_client_error(s.client)->kind, OSB_CANCELLED);
	osb_client_free(s.client);
	peer_stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_create_asks_for_endpoints_and_pings),
		cmocka_unit_test(requests_are_written_as_the_api_wants_them),
		cmocka_unit_test(connections_are_kept),
		cmocka_unit_test(connections_outlive_sandboxes),
		cmocka_unit_test(a_name_with_several_addresses_tries_them_in_turn),
		cmocka_unit_test(answers_of_all_kinds_become_errors),
		cmocka_unit_test(a_server_that_is_not_there_is_said_so),
		cmocka_unit_test(a_name_that_is_not_known_is_said_so),
		cmocka_unit_test(options_that_cannot_be_are_refused),
		cmocka_unit_test(a_request_has_a_timeout_and_a_call_a_deadline),
		cmocka_unit_test(a_create_that_is_cancelled_at_any_step_leaves_nothing),
		cmocka_unit_test(a_create_that_is_cancelled_while_it_is_made_is_deleted),
		cmocka_unit_test(a_sandbox_that_never_answers_is_deleted),
		cmocka_unit_test(a_sandbox_that_has_failed_is_not_waited_for),
		cmocka_unit_test(a_signal_handler_may_cancel),
		cmocka_unit_test(a_call_back_may_begin_the_next_and_free_the_call),
		cmocka_unit_test(what_fails_at_once_calls_back_too),
		cmocka_unit_test(a_client_that_is_freed_calls_back),
		cmocka_unit_test(a_call_that_is_freed_does_not_call_back),
		cmocka_unit_test(streams_go_both_ways_and_can_be_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
