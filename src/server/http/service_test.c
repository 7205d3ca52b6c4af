// SPDX-License-Identifier: Apache-2.0
/* The service on a real loop, over an abstract unix socket. */
#include "server/http/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/log.h"
#include "net/loop.h"
#include "server/api/api.h"
#include "server/http/assets.h"

#include "base/banned.h"

#define KEY "0123456789abcdef0123456789abcdef"
#define AUTH "OPEN-SANDBOX-API-KEY: " KEY "\r\n"

struct fixture {
	struct loop *loop;
	struct service service;
	struct http_server *http;
	struct sockaddr_un addr;
	socklen_t addr_len;
	struct err e;
	struct reply *held;
};

struct pet {
	const char *name;
	int64_t age;
};

static const struct field pet_fields[] = {
	FIELD(struct pet, name, FIELD_STRING, "name", .required = true, .max = 8),
	FIELD(struct pet, age, FIELD_INT, "age", .min = 1, .max = 30),
	{ 0 },
};

static struct fixture *fixture;

static int pet_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct pet pet = { .age = 1 };
	struct decode d;
	int rc = service_decode(rq, rp, pet_fields, &pet, &d, e);

	if (rc != 0)
		return rc < 0 ? -1 : 0;
	return reply_bytes(rp, 200, "text/plain", str_of(pet.name));
}

static int fail_get(struct request *rq, struct reply *rp, struct err *e)
{
	if (str_is(rq->params[0], "unknown"))
		return reply_error(rp, 404, "PET::NOT_FOUND", "pet not found");
	if (str_is(rq->params[0], "gone"))
		return err_set(e, ERR_NOT_FOUND, "pet not found");
	if (str_is(rq->params[0], "full"))
		return err_sys(e, EDQUOT, "write /etc/x");
	return err_set(e, str_is(rq->params[0], "hidden") ? ERR_INTERNAL : ERR_CONFLICT, "the secret path is /etc/x");
}

static int hold_get(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)e;
	fixture->held = rp;
	return reply_hold(rp, NULL, NULL);
}

static const struct route routes[] = {
	{ "POST", "/pets", pet_post, 0, 65536 },
	{ "GET", "/fail/:how", fail_get, 0, 0 },
	{ "GET", "/hold", hold_get, 0, 0 },
	{ "GET", "/health", health_get, ROUTE_ROOT | ROUTE_PUBLIC, 0 },
	{ "GET", "/docs", docs_get, ROUTE_ROOT | ROUTE_PUBLIC, 0 },
	{ "GET", "/openapi.json", openapi_get, ROUTE_ROOT | ROUTE_PUBLIC, 0 },
	{ 0 },
};

static const struct asset *find_asset(const char *name)
{
	static const struct asset page = { "docs.html", "text/html", { "<p>", 3 } };
	static const struct asset policy = { "docs.html.csp", "text/plain", { "default-src 'none'", 18 } };

	return strcmp(name, "docs.html") == 0 ? &page : strcmp(name, "docs.html.csp") == 0 ? &policy : NULL;
}

static void start(struct fixture *f, const char *key, unsigned per_key, unsigned total)
{
	struct auth_policy policy = { .api_key = key, .allow_none = true, .is_loopback = true };
	struct service_spec spec = {
		.requests_per_key = per_key, .requests = total, .routes = routes, .find_asset = find_asset,
	};
	struct http_limits limits = HTTP_LIMITS;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un any = { .sun_family = AF_UNIX };

	fixture = f;
	log_set_level(LOG_LEVEL_ERROR);
	f->loop = loop_new(&f->e);
	assert_non_null(f->loop);
	assert_int_equal(auth_init(&spec.auth, &policy, &f->e), 0);
	service_init(&f->service, &spec);
	f->http = http_server_new(f->loop, &f->service.http, &limits, &f->e);
	assert_non_null(f->http);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0); /* the kernel finds a name */
	assert_int_equal(listen(fd, 16), 0);
	f->addr_len = sizeof(f->addr);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&f->addr, &f->addr_len), 0);
	assert_int_equal(http_server_listen(f->http, &fd, NULL, &f->e), 0);
}

static void stop(struct fixture *f)
{
	http_server_free(f->http);
	assert_int_equal(f->service.in_progress, 0);
	assert_int_equal(f->service.in_progress_by_key, 0);
	service_done(&f->service);
	loop_free(f->loop);
	log_set_level(LOG_LEVEL_INFO);
}

static int send_request(struct fixture *f, const char *line, const char *headers, const char *body)
{
	AUTO(buf_done) struct buf text = BUF_INIT(65536);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&f->addr, f->addr_len), 0);
	buf_addf(&text, "%s HTTP/1.1\r\nConnection: close\r\n%s", line, headers);
	if (body)
		buf_addf(&text, "Content-Length: %zu\r\n", strlen(body));
	buf_addf(&text, "\r\n%s", body ? body : "");
	assert_int_equal(send(fd, text.p, text.n, MSG_NOSIGNAL), text.n);
	return fd;
}

/* The whole answer, up to the end of the connection. */
static const char *receive(struct fixture *f, int fd)
{
	static char answer[65536];
	size_t n = 0;

	for (int turns = 0; turns < 1000; turns++) {
		ssize_t got = recv(fd, answer + n, sizeof(answer) - 1 - n, MSG_DONTWAIT);

		if (got == 0)
			break;
		if (got > 0)
			n += (size_t)got;
		else
			assert_int_equal(loop_turn(f->loop, 1, &f->e), 0);
	}
	(void)close(fd);
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_turn(f->loop, 1, &f->e), 0);
	answer[n] = '\0';
	return answer;
}

static const char *ask(struct fixture *f, const char *line, const char *headers, const char *body)
{
	return receive(f, send_request(f, line, headers, body));
}

static void assert_has(const char *answer, const char *part)
{
	if (!strstr(answer, part))
		fail_msg("'%s' is not in: %s", part, answer);
}

static void assert_lacks(const char *answer, const char *part)
{
	if (strstr(answer, part))
		fail_msg("'%s' is in: %s", part, answer);
}

static void request_ids_are_echoed_or_made(void **state)
{
	struct fixture f = { 0 };
	const char *answer, *id;

	(void)state;
	start(&f, KEY, 10, 0);
	assert_has(ask(&f, "GET /health", "Host: h\r\nX-Request-ID:  a b-c \r\n", NULL), "X-Request-ID: a b-c\r\n");
	answer = ask(&f, "GET /health", "Host: h\r\nX-Request-ID: \xc3\xa4\r\n", NULL);
	assert_lacks(answer, "\xc3\xa4");
	id = strstr(answer, "X-Request-ID: ") + 14;
	assert_int_equal(strspn(id, "0123456789abcdef"), 32);
	/* A head that was refused has an id too. */
	assert_has(ask(&f, "GET /health", "", NULL), "X-Request-ID: ");
	stop(&f);
}

static void the_key_is_asked_for_before_anything_else(void **state)
{
	struct fixture f = { 0 };

	(void)state;
	start(&f, KEY, 10, 0);
	assert_has(ask(&f, "GET /nowhere", "Host: h\r\n", NULL), "401 ");
	assert_has(ask(&f, "GET /nowhere", "Host: h\r\n", NULL), "\"code\":\"MISSING_API_KEY\"");
	assert_has(ask(&f, "POST /pets", "Host: h\r\nOPEN-SANDBOX-API-KEY: x\r\n", "{"), "\"code\":\"INVALID_API_KEY\"");
	assert_has(ask(&f, "GET /nowhere", "Host: h\r\n" AUTH, NULL), "\"message\":\"Not Found\",\"detail\":\"Not Found\"}");
	assert_has(ask(&f, "GET /pets", "Host: h\r\n" AUTH, NULL), "\"detail\":\"Method Not Allowed\"}");
	stop(&f);
}

/* The published clients' framework says "detail" of unknown paths and wrong methods, and of no other 404. */
static void only_unrouted_requests_have_a_detail(void **state)
{
	static const struct {
		const char *what, *body;
	} cases[] = {
		{ "GET /nowhere", "{\"code\":\"NOT_FOUND\",\"message\":\"Not Found\",\"detail\":\"Not Found\"}" },
		{ "GET /pets", "{\"code\":\"METHOD_NOT_ALLOWED\",\"message\":\"Method Not Allowed\",\"detail\":\"Method Not Allowed\"}" },
		{ "GET /fail/unknown", "{\"code\":\"PET::NOT_FOUND\",\"message\":\"pet not found\"}" },
		{ "GET /fail/full", "{\"code\":\"INSUFFICIENT_STORAGE\",\"message\":\"Insufficient Storage\"}" },
		{ "GET /fail/gone", "{\"code\":\"GENERAL::UNKNOWN_ERROR\",\"message\":\"pet not found\"}" },
	};
	struct fixture f = { 0 };

	(void)state;
	start(&f, KEY, 10, 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *body = strstr(ask(&f, cases[i].what, "Host: h\r\n" AUTH, NULL), "\r\n\r\n");

		assert_non_null(body);
		assert_string_equal(body + 4, cases[i].body);
	}
	stop(&f);
}

static size_t occurrences(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

static uint64_t n_audited, n_left_out;

static void count_audited(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	(void)rq, (void)status, (void)body_bytes;
	n_audited++;
}

static void count_left_out(const struct plane *p, const char *what, uint64_t n)
{
	assert_null(p);
	assert_string_equal(what, "requests with a wrong API key");
	n_left_out += n;
}

static void refused_requests_cannot_fill_the_log(void **state)
{
	static char text[256 * 1024];
	struct fixture f = { 0 };
	int out[2];
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(fcntl(out[0], F_SETPIPE_SZ, sizeof(text)) >= (int)sizeof(text));
	start(&f, KEY, 10, 0);
	log_set_level(LOG_LEVEL_INFO);
	log_set_fd(out[1]);
	f.service.spec.audit = count_audited;
	f.service.spec.audit_left_out = count_left_out;
	for (int i = 0; i < LOG_LIMIT_LINES + 40; i++)
		assert_has(ask(&f, "POST /pets", "Host: h\r\nOPEN-SANDBOX-API-KEY: x\r\n", "{"), "401 ");
	for (int i = 0; i < LOG_LIMIT_LINES; i++)
		assert_has(ask(&f, "GET /docs", "Host: h\r\n", NULL), "200 ");
	assert_has(ask(&f, "GET /fail/x", "Host: h\r\n", NULL), "MISSING_API_KEY"); /* of another kind */
	for (int i = 0; i < LOG_LIMIT_LINES + 1; i++)
		assert_has(ask(&f, "GET /fail/x", "Host: h\r\n" AUTH, NULL), "409 ");
	stop(&f);
	log_set_fd(2);
	n = read(out[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_int_equal(occurrences(text, "path=/pets status=401"), LOG_LIMIT_LINES);
	assert_int_equal(occurrences(text, "path=/docs status=200"), LOG_LIMIT_LINES);
	assert_int_equal(occurrences(text, "path=/fail/x status=401"), 1);
	assert_int_equal(occurrences(text, "path=/fail/x status=409"), LOG_LIMIT_LINES + 1);
	assert_has(text, "about=\"requests with a wrong API key\" lines=40\n");
	assert_int_equal(occurrences(text, "left out"), 1);
	assert_int_equal(n_audited, 3 * LOG_LIMIT_LINES + 2);
	assert_int_equal(n_left_out, 40);
	(void)close(out[0]);
	(void)close(out[1]);
}

static void cors_is_granted_to_any_origin(void **state)
{
	struct fixture f = { 0 };
	const char *answer;

	(void)state;
	start(&f, KEY, 10, 0);
	answer = ask(&f, "OPTIONS /v1/pets",
		     "Host: h\r\nOrigin: https://a.b:1\r\nAccess-Control-Request-Method: POST\r\n"
		     "Access-Control-Request-Headers: x-a, content-type\r\n", NULL);
	assert_has(answer, "HTTP/1.1 200 ");
	assert_has(answer, "Access-Control-Allow-Origin: https://a.b:1\r\n");
	assert_has(answer, "Access-Control-Allow-Headers: x-a, content-type\r\n");
	assert_has(answer, "Access-Control-Max-Age: 600\r\n");
	assert_has(answer, "Access-Control-Allow-Credentials: true\r\n");
	assert_has(answer, "\r\n\r\nOK");
	answer = ask(&f, "OPTIONS /v1/pets",
		     "Host: h\r\nOrigin: <x>\r\nAccess-Control-Request-Method: POST\r\n"
		     "Access-Control-Request-Headers: a(b)\r\n", NULL);
	assert_lacks(answer, "<x>");
	assert_lacks(answer, "Access-Control-Allow-Headers");
	assert_has(ask(&f, "GET /health", "Host: h\r\nOrigin: https://a.b\r\n", NULL), "Access-Control-Allow-Origin: *\r\n");
	assert_has(ask(&f, "GET /health", "Host: h\r\nOrigin: https://a.b\r\nCookie: a=b\r\n", NULL),
		   "Access-Control-Allow-Origin: https://a.b\r\n");
	assert_has(ask(&f, "GET /x", "Host: h\r\nOrigin: https://a.b\r\n", NULL), "Access-Control-Allow-Origin: *\r\n");
	assert_lacks(ask(&f, "GET /health", "Host: h\r\n", NULL), "Access-Control");
	stop(&f);
}

static void without_a_key_there_is_no_cors(void **state)
{
	struct fixture f = { 0 };
	const char *answer;

	(void)state;
	start(&f, NULL, 10, 0);
	assert_has(ask(&f, "GET /health", "Host: localhost\r\n", NULL), "HTTP/1.1 200 ");
	assert_has(ask(&f, "GET /health", "Host: evil.com\r\n", NULL), "\"code\":\"FORBIDDEN_HOST\"");
	answer = ask(&f, "GET /health", "Host: localhost\r\nOrigin: http://evil.com\r\n", NULL);
	assert_has(answer, "HTTP/1.1 403 ");
	assert_has(answer, "\"code\":\"FORBIDDEN_ORIGIN\"");
	assert_lacks(answer, "Access-Control");
	answer = ask(&f, "POST /pets", "Host: localhost\r\nOrigin: http://localhost\r\n", "{\"name\":\"x\"}");
	assert_has(answer, "HTTP/1.1 200 ");
	assert_lacks(answer, "Access-Control");
	stop(&f);
}

static void a_bad_body_is_answered_with_details(void **state)
{
	static const struct {
		const char *body, *want;
	} rows[] = {
		{ "{\"name\":\"rex\",\"age\":\"3\",\"more\":1}", "\r\n\r\nrex" },
		{ "{\"name\":\"rex\",\"age\":99}",
		  "\"type\":\"less_than_equal\",\"loc\":[\"body\",\"age\"],\"msg\":\"Input should be less than or equal to 30\"" },
		{ "{}", "\"type\":\"missing\",\"loc\":[\"body\",\"name\"]" },
		{ "{\"name\":", "\"type\":\"json_invalid\",\"loc\":[\"body\",8]" },
		{ "", "\"type\":\"missing\",\"loc\":[\"body\"]" },
		{ " \n", "\"message\":\"the body is missing\"" },
		{ "[]", "\"code\":\"SANDBOX::INVALID_PARAMETER\"" },
	};
	struct fixture f = { 0 };

	(void)state;
	start(&f, KEY, 10, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *answer = ask(&f, "POST /pets", "Host: h\r\n" AUTH, rows[i].body);

		assert_has(answer, i == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 422 ");
		assert_has(answer, rows[i].want);
		if (i > 0)
			assert_has(answer, "\"code\":\"SANDBOX::INVALID_PARAMETER\"");
	}
	stop(&f);
}

static void what_fails_inside_stays_inside(void **state)
{
	struct fixture f = { 0 };
	const char *answer;

	(void)state;
	start(&f, KEY, 10, 0);
	log_set_fd(-1);
	answer = ask(&f, "GET /fail/hidden", "Host: h\r\n" AUTH, NULL);
	log_set_fd(2);
	assert_has(answer, "HTTP/1.1 500 ");
	assert_lacks(answer, "/etc/x");
	answer = ask(&f, "GET /fail/shown", "Host: h\r\n" AUTH, NULL);
	assert_has(answer, "HTTP/1.1 409 ");
	assert_has(answer, "\"code\":\"GENERAL::UNKNOWN_ERROR\",\"message\":\"the secret path is /etc/x\"");
	stop(&f);
}

static void requests_in_progress_are_counted(void **state)
{
	struct fixture f = { 0 };
	const char *answer;
	int first;

	(void)state;
	start(&f, KEY, 1, 2);
	first = send_request(&f, "GET /hold", "Host: h\r\n" AUTH, NULL);
	for (int i = 0; i < 10 && !f.held; i++)
		assert_int_equal(loop_turn(f.loop, 1, &f.e), 0);
	assert_non_null(f.held);
	assert_int_equal(f.service.in_progress_by_key, 1);
	answer = ask(&f, "GET /hold", "Host: h\r\n" AUTH, NULL);
	assert_has(answer, "HTTP/1.1 429 ");
	assert_has(answer, "Retry-After: 1\r\n");
	assert_has(ask(&f, "GET /health", "Host: h\r\n", NULL), "HTTP/1.1 200 ");
	f.service.spec.requests = 1;
	answer = ask(&f, "GET /health", "Host: h\r\n", NULL);
	assert_has(answer, "HTTP/1.1 503 ");
	assert_has(answer, "Retry-After: 1\r\n");
	assert_int_equal(reply_empty(f.held, 204), 0);
	assert_has(receive(&f, first), "HTTP/1.1 204 ");
	assert_int_equal(f.service.in_progress, 0);
	stop(&f);
}

static void a_client_that_leaves_is_counted_out(void **state)
{
	struct fixture f = { 0 };
	int fd;

	(void)state;
	start(&f, KEY, 5, 0);
	fd = send_request(&f, "GET /hold", "Host: h\r\n" AUTH, NULL);
	for (int i = 0; i < 10 && !f.held; i++)
		assert_int_equal(loop_turn(f.loop, 1, &f.e), 0);
	assert_int_equal(f.service.in_progress, 1);
	(void)close(fd);
	for (int i = 0; i < 10 && f.service.in_progress > 0; i++)
		assert_int_equal(loop_turn(f.loop, 1, &f.e), 0);
	assert_int_equal(f.service.in_progress, 0);
	stop(&f);
}

static void documents_come_with_their_policy(void **state)
{
	struct fixture f = { 0 };
	const char *answer;

	(void)state;
	start(&f, KEY, 5, 0);
	answer = ask(&f, "GET /docs", "Host: h\r\n", NULL);
	assert_has(answer, "Content-Security-Policy: default-src 'none'\r\n");
	assert_has(answer, "X-Content-Type-Options: nosniff\r\n");
	assert_has(answer, "\r\n\r\n<p>");
	assert_has(ask(&f, "GET /openapi.json", "Host: h\r\n", NULL), "HTTP/1.1 500 ");
	f.service.spec.find_asset = NULL;
	assert_has(ask(&f, "GET /docs", "Host: h\r\n", NULL), "HTTP/1.1 500 ");
	stop(&f);
}

static void ids_and_origins_are_limited_to_what_may_be_repeated(void **state)
{
	char longest[HTTP_REQUEST_ID_MAX + 2];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	assert_true(http_is_request_id((struct str){ longest, HTTP_REQUEST_ID_MAX }));
	assert_false(http_is_request_id((struct str){ longest, HTTP_REQUEST_ID_MAX + 1 }));
	assert_false(http_is_request_id(STR("")));
	assert_false(http_is_request_id(STR("a\tb")));
	assert_true(http_is_request_id(STR(" ~")));
	assert_true(origin_valid(STR("null")));
	assert_true(origin_valid(STR("chrome-extension://abc_d")));
	assert_true(origin_valid(STR("http://[::1]:80")));
	assert_false(origin_valid(STR("")));
	assert_false(origin_valid(STR("http://a b")));
	assert_false(origin_valid(STR("http://a\0b")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_ids_are_echoed_or_made),
		cmocka_unit_test(the_key_is_asked_for_before_anything_else),
		cmocka_unit_test(only_unrouted_requests_have_a_detail),
		cmocka_unit_test(refused_requests_cannot_fill_the_log),
		cmocka_unit_test(cors_is_granted_to_any_origin),
		cmocka_unit_test(without_a_key_there_is_no_cors),
		cmocka_unit_test(a_bad_body_is_answered_with_details),
		cmocka_unit_test(what_fails_inside_stays_inside),
		cmocka_unit_test(requests_in_progress_are_counted),
		cmocka_unit_test(a_client_that_leaves_is_counted_out),
		cmocka_unit_test(documents_come_with_their_policy),
		cmocka_unit_test(ids_and_origins_are_limited_to_what_may_be_repeated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
