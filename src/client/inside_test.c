// SPDX-License-Identifier: Apache-2.0
/* The way inside sandboxes against servers that do as they are told: half answers, other dialects, refusals. */
#include "client/test_peer.h"

#include "base/err.h"
#include "client/opensandbox.h"

#include "base/banned.h"

#define ENDPOINT SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", "{\"endpoint\":\"127.0.0.1:@PORT@/in\",\"headers\":{\"X-Token\":\"secret\"}}")
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CUT "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"

struct rig {
	struct peer peer;
	struct osb_client *client;
	struct osb_sandbox *s;
};

/* A sandbox whose inside answers by RULE. */
static void rig_start(struct rig *r, struct rule rule)
{
	const struct rule rules[] = { ENDPOINT, rule, { 0 } };
	struct osb_options o = OSB_OPTIONS;
	char domain[64];

	peer_start(&r->peer, rules);
	(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", r->peer.port);
	o.domain = domain;
	o.api_key = "the-key";
	o.request_timeout_ms = 5000;
	r->client = osb_client_new(&o, NULL);
	assert_non_null(r->client);
	r->s = NULL;
	assert_int_equal(osb_sandbox_connect(r->client, "s1", &(struct osb_connect){ .skip_health_check = true }, &r->s, NULL), 0);
}

static void rig_stop(struct rig *r)
{
	osb_client_free(r->client);
	peer_stop(&r->peer);
}

static void assert_failed(const struct rig *r, enum osb_kind kind, const char *code, const char *text)
{
	const struct osb_error *e = osb_client_error(r->client);

	assert_int_equal(e->kind, kind);
	if (code)
		assert_string_equal(e->code, code);
	if (!strstr(e->message, text))
		fail_msg("'%s' is not in '%s'", text, e->message);
}

/* A body in one chunk. */
static const char *chunked(const char *body, bool has_end)
{
	static char text[4096];

	(void)snprintf(text, sizeof(text), STREAM "%zx\r\n%s\r\n%s", strlen(body), body, has_end ? "0\r\n\r\n" : "");
	return text;
}

static int run(struct rig *r, struct osb_execution **x)
{
	return osb_command_run(r->s, &(struct osb_command){ .command = "x" }, NULL, NULL, x, NULL);
}

/* ---- streams ---- */

#define INIT "{\"type\":\"init\",\"text\":\"c1\",\"timestamp\":1}\n\n"
#define DONE "{\"type\":\"execution_complete\",\"timestamp\":3}\n\n"

static void a_stream_that_is_cut_is_no_execution(void **state)
{
	struct osb_execution *x = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("POST /in/command ", chunked(INIT DONE, false), PEER_CLOSES));
	assert_int_equal(run(&r, &x), -1);
	assert_null(x);
	assert_failed(&r, OSB_NETWORK, NULL, "run command: ");
	assert_int_equal(peer_saw(&r.peer, "X-Token: secret"), 1);
	assert_int_equal(peer_saw(&r.peer, "POST /in/command HTTP/1.1"), 1);
	assert_int_equal(peer_saw(&r.peer, "Accept: text/event-stream"), 1);
	rig_stop(&r);
}

static void a_stream_without_an_end_is_no_execution(void **state)
{
	struct osb_execution *x = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("POST /in/command ", chunked(INIT, true), PEER_ANSWERS));
	assert_int_equal(run(&r, &x), -1);
	assert_failed(&r, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the stream has ended");
	rig_stop(&r);
}

static void other_dialects_are_understood(void **state)
{
	static const char standard[] = ": hi\r\nevent: x\r\ndata: {\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":2}\r\n\r\ndata: " DONE;
	static const char bare[] = INIT "{\"code\":\"RUNTIME_ERROR\",\"message\":\"session is busy\"}";
	struct osb_execution *x = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("POST /in/command ", chunked(standard, true), PEER_ANSWERS));
	assert_int_equal(run(&r, &x), 0);
	assert_true(x->has_exit_code && x->exit_code == 0 && x->n_stdout == 1);
	osb_free(x);
	rig_stop(&r);
	rig_start(&r, (struct rule)SAYS_RAW("POST /in/command ", chunked(bare, true), PEER_ANSWERS));
	assert_int_equal(run(&r, &x), 0);
	assert_string_equal(x->error_name, "RUNTIME_ERROR");
	assert_true(!x->has_exit_code && x->exit_code == -1);
	osb_free(x);
	rig_stop(&r);
}

static void an_error_before_the_stream_is_told_as_it_is(void **state)
{
	struct osb_execution *x = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS("POST /in/command ", "400 Bad Request", "{\"code\":\"INVALID_REQUEST_BODY\",\"message\":\"no cwd\"}"));
	assert_int_equal(run(&r, &x), -1);
	assert_failed(&r, OSB_ANSWER, "INVALID_REQUEST_BODY", "run command: no cwd");
	assert_int_equal(osb_client_error(r.client)->http_status, 400);
	assert_string_equal(osb_client_error(r.client)->request_id, "theirs");
	rig_stop(&r);
}

/* ---- files ---- */

static int count(const char *data, size_t n, void *arg)
{
	(void)data;
	*(size_t *)arg += n;
	return 0;
}

static void a_download_that_is_cut_has_failed(void **state)
{
	size_t got = 0;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("GET /in/files/download?path=%2Fa%20b ", CUT "half", PEER_CLOSES));
	assert_int_equal(osb_file_download(r.s, "/a b", NULL, count, &got, NULL), -1);
	assert_failed(&r, OSB_NETWORK, NULL, "download file: ");
	assert_true(got <= 4);
	rig_stop(&r);
}

static long endless(char *out, size_t max, void *arg)
{
	(void)arg;
	memset(out, 'x', max);
	return (long)max;
}

static void an_upload_that_is_refused_says_why(void **state)
{
	static const char refusal[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 36\r\nConnection: close\r\n\r\n"
				      "{\"code\":\"TOO_LARGE\",\"message\":\"big\"}";
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("POST /in/files/upload ", refusal, PEER_ANSWERS));
	assert_int_equal(osb_file_write(r.s, &(struct osb_entry){ .path = "/x", .mode = 600 }, "data", 4, NULL), -1);
	assert_failed(&r, OSB_ANSWER, "TOO_LARGE", "write file: big");
	assert_int_equal(peer_saw(&r.peer, "{\"path\":\"/x\",\"mode\":600}"), 1);
	rig_stop(&r);
	rig_start(&r, (struct rule)HANGS("POST /in/files/upload "));
	{
		struct osb_call *call = osb_call_new(r.client);

		osb_call_set_deadline(call, 200);
		assert_int_equal(osb_file_upload(r.s, &(struct osb_entry){ .path = "/x" }, -1, endless, NULL, call), -1);
		assert_int_equal(osb_call_error(call)->kind, OSB_TIMEOUT);
		osb_call_free(call);
	}
	rig_stop(&r);
}

static void older_servers_do_not_count_replacements(void **state)
{
	const struct osb_replace replaces[] = { { "/a", "x", "y" }, { "/b", "x", "y" } };
	struct osb_replacements *all = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS("POST /in/files/replace?verbose=true ", "200 OK", ""));
	assert_int_equal(osb_file_replace(r.s, replaces, 2, &all, NULL), 0);
	assert_true(all->n == 2 && all->items[0].replaced_count == -1 && all->items[1].replaced_count == -1);
	assert_string_equal(all->items[1].path, "/b");
	osb_free(all);
	rig_stop(&r);
}

static void an_answer_that_lacks_something_is_none(void **state)
{
	const char *const path = "/a";
	struct osb_files *files = NULL;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS("GET /in/files/info?path=%2Fa ", "200 OK", "{\"/a\":{\"path\":\"/a\",\"size\":1}}"));
	assert_int_equal(osb_file_info(r.s, &(struct osb_strings){ &path, 1 }, &files, NULL), -1);
	assert_failed(&r, OSB_NETWORK, "UNEXPECTED_RESPONSE", "is missing");
	rig_stop(&r);
}

/* ---- the rest ---- */

static void metrics_have_two_sets_of_names(void **state)
{
	static const char *const bodies[] = {
		"{\"cpu_count\":2,\"cpu_used_pct\":1.5,\"mem_total_mib\":100,\"mem_used_mib\":50.5,\"timestamp\":7}",
		"{\"cpu_count\":2,\"cpu_used_percentage\":1.5,\"memory_total_in_mib\":100,\"memory_used_in_mib\":50.5,\"timestamp\":7}",
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct osb_metrics *m = NULL;
		struct rig r;

		rig_start(&r, (struct rule)SAYS("GET /in/metrics ", "200 OK", bodies[i]));
		assert_int_equal(osb_metrics_get(r.s, &m, NULL), 0);
		assert_true(m->cpu_count == 2 && m->cpu_used_percentage == 1.5 && m->memory_total_mib == 100 && m->memory_used_mib == 50.5);
		assert_int_equal(m->timestamp_ms, 7);
		osb_free(m);
		rig_stop(&r);
	}
}

static void on_metrics(const struct osb_metrics *m, const char *error, void *arg)
{
	struct buf *seen = arg;

	buf_addf(seen, "%s|", m ? "sample" : error);
}

static void a_watch_goes_on_after_an_error(void **state)
{
	static const char body[] = "{\"error\":\"no cgroup\"}\nnoise\n{\"cpu_count\":2,\"cpu_used_pct\":1.5,\"mem_total_mib\":100,\"mem_used_mib\":50.5,"
				   "\"timestamp\":7}\n";
	AUTO(buf_done) struct buf seen = BUF_INIT(1024);
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("GET /in/metrics/watch ", chunked(body, true), PEER_ANSWERS));
	assert_int_equal(osb_metrics_watch(r.s, on_metrics, &seen, NULL), -1);
	assert_failed(&r, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the stream has ended");
	assert_string_equal(buf_z(&seen), "no cgroup|sample|");
	rig_stop(&r);
}

static void logs_without_a_cursor_have_none(void **state)
{
	static const char *const heads[] = { "", "EXECD-COMMANDS-TAIL-CURSOR: many\r\n", "EXECD-COMMANDS-TAIL-CURSOR: 3\r\n" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct osb_command_logs *logs = NULL;
		char raw[256];
		struct rig r;

		(void)snprintf(raw, sizeof(raw), "HTTP/1.1 200 OK\r\n%sContent-Length: 3\r\n\r\na\nb", heads[i]);
		rig_start(&r, (struct rule)SAYS_RAW("GET /in/command/c1/logs?cursor=9 ", raw, PEER_ANSWERS));
		assert_int_equal(osb_command_logs(r.s, "c1", 9, &logs, NULL), 0);
		assert_string_equal(logs->content, "a\nb");
		assert_int_equal(logs->cursor, i == 2 ? 3 : -1);
		osb_free(logs);
		rig_stop(&r);
	}
}

static int refuse(const char *data, size_t n, void *arg)
{
	(void)data, (void)n, (void)arg;
	return -1;
}

static void logs_as_a_stream_are_kept_by_nobody(void **state)
{
	static const char raw[] = "HTTP/1.1 200 OK\r\nEXECD-COMMANDS-TAIL-CURSOR: 12\r\nContent-Length: 3\r\n\r\na\nb";
	struct osb_command_logs *logs = NULL;
	size_t got = 0;
	struct rig r;

	(void)state;
	rig_start(&r, (struct rule)SAYS_RAW("GET /in/command/c1/logs?cursor=9 ", raw, PEER_ANSWERS));
	assert_int_equal(osb_command_logs_stream(r.s, "c1", 9, count, &got, &logs, NULL), 0);
	assert_int_equal(got, 3);
	assert_int_equal(logs->n_content, 0);
	assert_string_equal(logs->content, "");
	assert_int_equal(logs->cursor, 12);
	osb_free(logs);
	assert_int_equal(osb_command_logs_stream(r.s, "c1", 9, count, &got, NULL, NULL), 0);
	assert_int_equal(got, 6);
	assert_int_equal(osb_command_logs_stream(r.s, "c1", 9, refuse, NULL, NULL, NULL), -1);
	assert_failed(&r, OSB_LOCAL, NULL, "get command logs: ");
	assert_int_equal(osb_command_logs_stream(r.s, "c1", 9, NULL, NULL, NULL, NULL), -1);
	assert_failed(&r, OSB_INVALID, NULL, "missing");
	rig_stop(&r);
}

static void a_terminal_that_is_refused_is_an_error_and_leaves_no_session(void **state)
{
	const struct rule rules[] = { ENDPOINT,
				      SAYS("POST /in/pty ", "201 Created", "{\"session_id\":\"p1\"}"),
				      SAYS("GET /in/pty/p1/ws?pty=0 ", "503 Busy", "{\"code\":\"BUSY\",\"message\":\"busy\"}"),
				      SAYS("DELETE /in/pty/p1 ", "200 OK", ""),
				      { 0 } };
	struct osb_options o = OSB_OPTIONS;
	struct osb_pty *p = NULL;
	char domain[64];
	struct rig r = { 0 };

	(void)state;
	peer_start(&r.peer, rules);
	(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", r.peer.port);
	o.domain = domain;
	r.client = osb_client_new(&o, NULL);
	assert_int_equal(osb_sandbox_connect(r.client, "s1", &(struct osb_connect){ .skip_health_check = true }, &r.s, NULL), 0);
	assert_int_equal(osb_pty_open(r.s, &(struct osb_pty_options){ .command = "x", .pipes = true }, NULL, NULL, &p, NULL), -1);
	assert_null(p);
	assert_failed(&r, OSB_NETWORK, NULL, "status 503");
	assert_int_equal(peer_saw(&r.peer, "DELETE /in/pty/p1 "), 1);
	assert_int_equal(peer_saw(&r.peer, "X-Token: secret"), 3);
	rig_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_that_is_cut_is_no_execution),
		cmocka_unit_test(a_stream_without_an_end_is_no_execution),
		cmocka_unit_test(other_dialects_are_understood),
		cmocka_unit_test(an_error_before_the_stream_is_told_as_it_is),
		cmocka_unit_test(a_download_that_is_cut_has_failed),
		cmocka_unit_test(an_upload_that_is_refused_says_why),
		cmocka_unit_test(older_servers_do_not_count_replacements),
		cmocka_unit_test(an_answer_that_lacks_something_is_none),
		cmocka_unit_test(metrics_have_two_sets_of_names),
		cmocka_unit_test(a_watch_goes_on_after_an_error),
		cmocka_unit_test(logs_without_a_cursor_have_none),
		cmocka_unit_test(logs_as_a_stream_are_kept_by_nobody),
		cmocka_unit_test(a_terminal_that_is_refused_is_an_error_and_leaves_no_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
