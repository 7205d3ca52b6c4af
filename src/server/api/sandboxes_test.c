// SPDX-License-Identifier: Apache-2.0
/* The routes of sandboxes: what is accepted, what is refused and with which words. */
#include "server/model/test_plane.h"

#include "server/api/create.h"
#include "server/api/diagnostics.h"

#include "base/banned.h"

static struct rig rig;

#define IMAGE "\"image\":{\"uri\":\"host\"}"
#define REST "\"entrypoint\":[\"x\"],\"resourceLimits\":{}"

static void bodies_are_bound_and_refused_as_clients_know_it(void **state)
{
	static const struct {
		const char *body;
		unsigned status;
		const char *part;
	} rows[] = {
		{ "", 422, "\"type\":\"missing\"" },
		{ "{", 422, "\"type\":\"json_invalid\"" },
		{ "{}", 422, "exactly one of image and snapshotId" },
		{ "{" IMAGE "," REST "}", 202, "\"entrypoint\":[\"x\"]" },
		{ "{" IMAGE "," REST ",\"timeout\":59}", 422, "\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"timeout\"]" },
		{ "{" IMAGE "," REST ",\"timeout\":\"600\"}", 202, "expiresAt" },
		{ "{" IMAGE "," REST ",\"timeout\":600.0}", 202, "expiresAt" },
		{ "{" IMAGE "," REST ",\"timeout\":null,\"env\":null,\"metadata\":null,\"volumes\":null,\"networkPolicy\":null,"
		  "\"platform\":null,\"extensions\":null,\"secureAccess\":null,\"credentialProxy\":null,\"snapshotId\":null}", 202, "" },
		{ "{" IMAGE "," REST ",\"timeout\":86401}", 400, "SANDBOX::INVALID_PARAMETER" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resource_limits\":{\"cpu\":\"500m\",\"memory\":\"1Gi\",\"pids\":\"9\"}}", 202, "" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"]}", 422, "resourceLimits is required" },
		{ "{" IMAGE ",\"resourceLimits\":{}}", 422, "entrypoint is required with image" },
		{ "{" IMAGE ",\"entrypoint\":[],\"resourceLimits\":{}}", 422, "\"type\":\"too_short\"" },
		{ "{\"image\":{\"uri\":\" \"}," REST "}", 422, "exactly one" },
		{ "{\"image\":{}," REST "}", 422, "\"loc\":[\"body\",\"image\",\"uri\"]" },
		{ "{\"image\":{\"uri\":\"host\",\"auth\":{\"username\":\"u\"}}," REST "}", 422, "\"auth\",\"password\"" },
		{ "{\"image\":{\"uri\":\"host\",\"auth\":{\"username\":\"u\",\"password\":\"p\"}}," REST "}", 202, "" },
		{ "{\"image\":{\"uri\":\"ubuntu:24.04\"}," REST "}", 400, "image.uri: must be 'host'" },
		{ "{" IMAGE ",\"snapshotId\":\"s\"," REST "}", 422, "exactly one" },
		{ "{\"snapshot_id\":\"s\",\"resourceLimits\":{}}", 404, "SNAPSHOT::NOT_FOUND" },
		{ "{" IMAGE "," REST ",\"image\":{\"uri\":\"host\"}}", 422, "more than once" },
		{ "{" IMAGE "," REST ",\"env\":{\"A\":1}}", 422, "\"type\":\"string_type\"" },
		{ "{" IMAGE "," REST ",\"env\":{\"A=B\":\"1\"}}", 400, "is not a name" },
		{ "{" IMAGE "," REST ",\"metadata\":{\"a b\":\"\"}}", 400, "SANDBOX::INVALID_METADATA_LABEL" },
		{ "{" IMAGE "," REST ",\"metadata\":{\"opensandbox.io/id\":\"x\"}}", 400, "reserved" },
		{ "{" IMAGE "," REST ",\"platform\":{\"os\":\" Linux\",\"arch\":\"AMD64 \"}}", 202, "\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}" },
		{ "{" IMAGE "," REST ",\"platform\":{\"os\":\"plan9\",\"arch\":\"amd64\"}}", 400, "platform.os" },
		{ "{" IMAGE "," REST ",\"platform\":{\"os\":\"linux\",\"arch\":\"mips\"}}", 400, "platform.arch" },
		{ "{" IMAGE "," REST ",\"platform\":{\"os\":\"linux\",\"arch\":\"arm64\"}}", 400, "sandboxes here are linux/amd64" },
		{ "{" IMAGE "," REST ",\"platform\":{\"os\":\"linux\"}}", 422, "arch" },
		{ "{" IMAGE "," REST ",\"secureAccess\":true}", 202, "" },
		{ "{" IMAGE "," REST ",\"secure_access\":false}", 202, "" },
		{ "{" IMAGE "," REST ",\"networkPolicy\":{}}", 400, "networkPolicy" },
		{ "{" IMAGE "," REST ",\"network_policy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"\"}]}}", 422, "target" },
		{ "{" IMAGE "," REST ",\"credentialProxy\":{\"enabled\":true}}", 422, "credentialProxy requires networkPolicy" },
		{ "{" IMAGE "," REST ",\"volumes\":[]}", 202, "" },
		{ "{" IMAGE "," REST ",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/m\",\"host\":{\"path\":\"/x\"}}]}", 400, "VOLUME::HOST_PATH_NOT_ALLOWED" },
		{ "{" IMAGE "," REST ",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/m\"}]}", 422, "exactly one of host, pvc and ossfs" },
		{ "{" IMAGE "," REST ",\"volumes\":[{\"name\":\"v\",\"mount_path\":\"m\",\"pvc\":{}}]}", 422, "string_pattern_mismatch" },
		{ "{\"extensions\":{\"poolRef\":\" p \"}}", 404, "NATIVE::POOL_NOT_FOUND" },
		{ "{\"extensions\":{\"poolRef\":\"p\"},\"snapshotId\":\"s\"}", 422, "snapshotId cannot" },
		{ "{\"extensions\":{\"poolRef\":\"p\"},\"credentialProxy\":{\"enabled\":true}}", 422, "credentialProxy cannot" },
		{ "{" IMAGE "," REST ",\"extensions\":{\"poolRef\":\" \",\"other\":\"x\"}}", 202, "" },
		{ "{" IMAGE "," REST ",\"extensions\":{\"access.renew.extend.seconds\":\" 300 \"}}", 202, "" },
		{ "{" IMAGE "," REST ",\"extensions\":{\"access.renew.extend.seconds\":\"299\"}}", 400, "300 to 86400" },
		{ "{" IMAGE "," REST ",\"extensions\":{\"access.renew.extend.seconds\":\"\"}}", 400, "300 to 86400" },
		{ "{" IMAGE ",\"entrypoint\":[\"\"],\"resourceLimits\":{}}", 400, "NATIVE::INVALID_ENTRYPOINT" },
		{ "{" IMAGE ",\"entrypoint\":[\"a 'b\"],\"resourceLimits\":{}}", 400, "NATIVE::INVALID_ENTRYPOINT" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"cpu\":\"0\"}}", 400, "resourceLimits.cpu" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"cpu\":1}}", 422, "string_type" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"memory\":\"1\"}}", 400, "resourceLimits.memory: must be 16Mi" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"memory\":\"1.5G\"}}", 400, "resourceLimits.memory" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"disk\":\"1Gi\",\"storage\":\"2Gi\"}}", 400, "is named twice" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"storage\":\"1\"}}", 400, "must be 1Mi" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"ephemeral-storage\":\"2Gi\"}}", 202, "" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"pids\":\"0\"}}", 400, "resourceLimits.pids" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"gpu\":\"1\"}}", 400, "resourceLimits.gpu: cannot be enforced" },
		{ "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"wings\":\"2\"}}", 400, "resourceLimits.wings" },
	};
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_ask(r, "POST /v1/sandboxes", rows[i].body);
		if (rig_status(r->answer) != rows[i].status)
			fail_msg("%s: %s", rows[i].body, r->answer);
		has(r->answer, rows[i].part);
		if (rows[i].status >= 400)
			has(r->answer, "\"message\":\"");
		r->fake.n_boxes = 0;
	}
	rig_stop(r);
}

static void requests_have_ceilings(void **state)
{
	AUTO(buf_done) struct buf body = BUF_INIT(4 << 20);
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	buf_addf(&body, "{" IMAGE "," REST ",\"env\":{");
	for (int i = 0; i < 257; i++)
		buf_addf(&body, "%s\"E%d\":\"\"", i ? "," : "", i);
	buf_addf(&body, "}}");
	has(rig_ask(r, "POST /sandboxes", body.p), "env: more than 256 entries");
	buf_clear(&body);
	buf_addf(&body, "{" IMAGE "," REST ",\"env\":{\"E\":\"%0131072d\"}}", 1);
	has(rig_ask(r, "POST /sandboxes", body.p), "env: more than 131072 bytes");
	buf_clear(&body);
	buf_addf(&body, "{" IMAGE ",\"resourceLimits\":{},\"entrypoint\":[\"x\"");
	for (int i = 0; i < 256; i++)
		buf_addf(&body, ",\"\"");
	buf_addf(&body, "]}");
	has(rig_ask(r, "POST /sandboxes", body.p), "entrypoint: more than 256 words");
	buf_clear(&body);
	buf_addf(&body, "{" IMAGE ",\"resourceLimits\":{},\"entrypoint\":[\"%0131072d\"]}", 1);
	has(rig_ask(r, "POST /sandboxes", body.p), "entrypoint: more than 131072 bytes");
	buf_clear(&body);
	buf_addf(&body, "{" IMAGE "," REST ",\"metadata\":{");
	for (int i = 0; i < 65; i++)
		buf_addf(&body, "%s\"m%d\":\"\"", i ? "," : "", i);
	buf_addf(&body, "}}");
	has(rig_ask(r, "POST /sandboxes", body.p), "metadata: more than 64 entries");
	buf_clear(&body);
	buf_addf(&body, "{\"image\":{\"uri\":\"%01025d\"}," REST "}", 1);
	has(rig_ask(r, "POST /sandboxes", body.p), "image.uri: more than 1024 bytes");
	rig_stop(r);
}

static void a_disk_limit_that_cannot_be_kept_is_refused_by_name(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.rt.can.limits &= ~(unsigned)LIMIT_DISK;
	has(rig_ask(r, "POST /sandboxes", "{" IMAGE ",\"entrypoint\":[\"x\"],\"resourceLimits\":{\"disk\":\"1Gi\"}}"),
	    "\"code\":\"NATIVE::DISK_LIMIT_UNSUPPORTED\"");
	rig_stop(r);
}

static void one_word_with_blanks_is_a_command_line(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	has(rig_ask(r, "POST /sandboxes", "{" IMAGE ",\"entrypoint\":[\"sh -c 'a b'\"],\"resourceLimits\":{},\"novel\":1,\"x\":{}}"),
	    "\"entrypoint\":[\"sh -c 'a b'\"]");
	rig_id(r->answer, id);
	has(rig_on(r, "GET", id, "", NULL), "\"entrypoint\":[\"sh\",\"-c\",\"a b\"]");
	assert_string_equal(r->fake.entrypoint, "sh|-c|a b|");
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "'$.novel' is not known here, ignored");
	rig_stop(r);
}

static void words_are_split_as_by_a_shell(void **state)
{
	static const struct {
		const char *line, *want; /* words behind '|'; NULL: refused */
	} rows[] = {
		{ "a  b\tc", "|a|b|c" },     { " 'a b' c", "|a b|c" },  { "\"a \\\" \\\\ \\x\"", "|a \" \\ \\x" },
		{ "a\\ b", "|a b" },         { "a'b'\"c\"", "|abc" },   { "''", "|" },
		{ "  ", "" },                { "a 'b", NULL },          { "a\\", NULL },
		{ "\"", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 16);
		AUTO(buf_done) struct buf b = BUF_INIT(256);
		struct string_list list = { 0 };
		struct err e = { 0 };
		int rc = words_split(str_of(rows[i].line), &a, &list, &e);

		assert_int_equal(rc, rows[i].want ? 0 : -1);
		for (size_t j = 0; j < list.n; j++)
			buf_addf(&b, "|%s", list.items[j]);
		if (rows[i].want)
			assert_string_equal(buf_z(&b), rows[i].want);
	}
}

static void lists_are_filtered_and_paged(void **state)
{
	static const struct {
		const char *query;
		unsigned status;
		const char *part;
	} rows[] = {
		{ "", 200, "\"totalItems\":3,\"totalPages\":1,\"hasNextPage\":false" },
		{ "?pageSize=2", 200, "\"page\":1,\"pageSize\":2,\"totalItems\":3,\"totalPages\":2,\"hasNextPage\":true" },
		{ "?page=2&pageSize=2", 200, "\"totalItems\":3,\"totalPages\":2,\"hasNextPage\":false" },
		{ "?page=9", 200, "{\"items\":[],\"pagination\":{\"page\":9,\"pageSize\":20,\"totalItems\":3" },
		{ "?page=9223372036854775807&pageSize=200", 200, "\"items\":[]" },
		{ "?page=0", 422, "\"loc\":[\"query\",\"page\"]" },
		{ "?page=x", 422, "\"type\":\"int_parsing\"" },
		{ "?pageSize=201", 422, "\"type\":\"less_than_equal\"" },
		{ "?state=RUNNING&state=Allocated", 200, "\"totalItems\":2" },
		{ "?state=paused", 200, "\"totalItems\":1" },
		{ "?state=", 200, "\"totalItems\":0" },
		{ "?metadata=a%3D1", 200, "\"totalItems\":2" },
		{ "?metadata=a%3D1%26b%3D2", 200, "\"totalItems\":1" },
		{ "?metadata=a%253D1", 400, "INVALID_METADATA_FORMAT" },
		{ "?metadata=a%3D%2531", 200, "\"totalItems\":2" },
		{ "?metadata=a%3D2", 200, "\"totalItems\":0" },
		{ "?metadata=", 200, "\"totalItems\":3" },
		{ "?metadata=a", 400, "bad query field" },
		{ "?metadata=%zz", 400, "message" },
	};
	struct rig *r = &rig;
	char a[UUID_LEN + 1], b[UUID_LEN + 1], c[UUID_LEN + 1], line[128];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"metadata\":{\"a\":\"1\"}", a);
	rig_pass(r, 10);
	rig_create(r, ",\"metadata\":{\"a\":\"1\",\"b\":\"2\"}", b);
	rig_pass(r, 10);
	rig_create(r, "", c);
	has(rig_on(r, "POST", c, "/pause", NULL), "202");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(line, sizeof(line), "GET /v1/sandboxes%s", rows[i].query);
		rig_ask(r, line, NULL);
		if (rig_status(r->answer) != rows[i].status)
			fail_msg("%s: %s", line, r->answer);
		has(r->answer, rows[i].part);
	}
	rig_ask(r, "GET /sandboxes?pageSize=2", NULL); /* the newest first */
	assert_true(strstr(r->answer, c) < strstr(r->answer, b));
	lacks(r->answer, a);
	rig_ask(r, "GET /sandboxes/", NULL);
	assert_int_equal(rig_status(r->answer), 307);
	rig_stop(r);
}

static void endpoints_lead_to_the_proxy(void **state)
{
	static const struct {
		const char *path;
		unsigned status;
		const char *part;
	} rows[] = {
		{ "/endpoints/8080", 200, "{\"endpoint\":\"127.0.0.1:8081/sandboxes/" },
		{ "/endpoints/8080", 200, "/proxy/8080\"}" },
		{ "/endpoints/44772?use_server_proxy=false", 200, "/proxy/44772\",\"headers\":{\"X-EXECD-ACCESS-TOKEN\":\"" },
		{ "/endpoints/18080", 200, "\"headers\":{\"OPENSANDBOX-EGRESS-AUTH\":\"" },
		{ "/endpoints/80?use_server_proxy=Yes", 200, "{\"endpoint\":\"server:8080/sandboxes/" },
		{ "/endpoints/x", 422, "\"loc\":[\"path\",\"port\"]" },
		{ "/endpoints/0", 400, "NATIVE::INVALID_PORT" },
		{ "/endpoints/65536", 400, "NATIVE::INVALID_PORT" },
		{ "/endpoints/80?expires=1", 400, "SANDBOX::INVALID_PARAMETER" },
		{ "/endpoints/80?expires=99999999999999999999999", 400, "SANDBOX::INVALID_PARAMETER" },
		{ "/endpoints/80?expires=-1", 400, "SANDBOX::INVALID_PARAMETER" },
		{ "/endpoints/80?expires=x", 422, "int_parsing" },
		{ "/endpoints/80?expires=1&use_server_proxy=true", 400, "SANDBOX::INVALID_PARAMETER" },
		{ "/endpoints/80?use_server_proxy=maybe", 422, "bool_parsing" },
	};
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_on(r, "GET", id, rows[i].path, NULL);
		if (rig_status(r->answer) != rows[i].status)
			fail_msg("%s: %s", rows[i].path, r->answer);
		has(r->answer, rows[i].part);
	}
	assert_int_equal(rig_status(rig_on(r, "GET", "none", "/endpoints/80", NULL)), 404);
	r->plane->spec.host = "::1";
	has(rig_on(r, "GET", id, "/endpoints/80", NULL), "\"endpoint\":\"[::1]:8081/");
	r->plane->spec.host = "0.0.0.0";
	has(rig_on(r, "GET", id, "/endpoints/80", NULL), "\"endpoint\":\"server:8081/");
	r->plane->spec.eip = "https://box.example:99/base/";
	has(rig_on(r, "GET", id, "/endpoints/80", NULL), "\"endpoint\":\"box.example:8081/sandboxes/");
	has(rig_on(r, "GET", id, "/endpoints/80?use_server_proxy=1", NULL), "\"endpoint\":\"box.example:99/base/sandboxes/");
	r->plane->spec.eip = "[::2]:99";
	has(rig_on(r, "GET", id, "/endpoints/80", NULL), "\"endpoint\":\"[::2]:8081/sandboxes/");
	rig_stop(r);
}

static void diagnostics_are_text_and_with_a_scope_json(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":600,\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"},\"metadata\":{\"a\":\"b\"}", id);
	has(rig_on(r, "GET", id, "/diagnostics/logs", NULL), "\r\n\r\n(no logs)\n");
	has(r->answer, "Deprecation: true\r\n");
	has(r->answer, "Content-Type: text/plain; charset=utf-8\r\n");
	r->fake.logs = "2026-06-15T10:00:00Z up\xff\n";
	has(rig_on(r, "GET", id, "/diagnostics/logs?tail=5&since=2h", NULL), "2026-06-15T10:00:00Z up\xef\xbf\xbd\n");
	assert_int_equal(r->fake.query.tail, 5);
	assert_int_equal(r->fake.query.since_ms, 7200000);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "/diagnostics/logs?tail=0", NULL)), 422);
	has(rig_on(r, "GET", id, "/diagnostics/logs?scope=container", NULL),
	    "\"kind\":\"logs\",\"scope\":\"container\",\"delivery\":\"inline\",\"contentType\":\"text/plain; charset=utf-8\","
	    "\"content\":\"2026-06-15T10:00:00Z up\xef\xbf\xbd\\n\",\"contentLength\":27,\"truncated\":false}");
	has(rig_on(r, "GET", id, "/diagnostics/logs?scope=lifecycle", NULL), "lifecycle Started");
	lacks(r->answer, " up");
	has(rig_on(r, "GET", id, "/diagnostics/logs?scope=runtime", NULL), "(no logs)");
	has(rig_on(r, "GET", id, "/diagnostics/logs?scope=all", NULL), " up");
	has(r->answer, "lifecycle Started");
	has(rig_on(r, "GET", id, "/diagnostics/events?scope=lifecycle", NULL), "\"kind\":\"events\"");
	has(rig_on(r, "GET", id, "/diagnostics/events?scope=container", NULL), "(no notable events)");
	has(rig_on(r, "GET", id, "/diagnostics/events?limit=1", NULL), "lifecycle Started");
	lacks(r->answer, "Created");
	has(rig_on(r, "GET", id, "/diagnostics/events?scope=", NULL), "HTTP/1.1 400 ");
	has(rig_on(r, "GET", id, "/diagnostics/events?scope=process", NULL), "DIAGNOSTICS_NOT_IMPLEMENTED");
	has(rig_on(r, "GET", id, "/diagnostics/inspect", NULL), "network: 10.0.0.2/30\n");
	has(r->answer, "state: Running\n");
	has(r->answer, "used: cpu 12 us, memory 34");
	has(r->answer, "io read 6, written 7\n");
	has(r->answer, "platform: linux/amd64\n");
	has(r->answer, "metadata: a=b\n");
	has(rig_on(r, "GET", id, "/diagnostics/summary?tail=7", NULL), "LOGS (last 7 lines)\n");
	has(r->answer, "========================================================================\nSANDBOX DIAGNOSTICS SUMMARY\n");
	r->fake.fails[FAKE_LOGS] = r->fake.fails[FAKE_INSPECT] = r->fake.fails[FAKE_STATS] = 1;
	has(rig_on(r, "GET", id, "/diagnostics/summary", NULL), "(no logs)\n");
	fake_end(&r->fake, id, &(struct runtime_end){ .exit_code = 137, .signal = 9, .oom = true });
	has(rig_on(r, "GET", id, "/diagnostics/inspect", NULL), "exit_code: 137\nsignal: 9\noom_killed: true\n");
	has(rig_on(r, "GET", id, "/diagnostics/events?scope=container", NULL), "OutOfMemory");
	assert_int_equal(rig_status(rig_on(r, "GET", "none", "/diagnostics/logs", NULL)), 404);
	rig_stop(r);
}

static void a_diagnosis_outlives_its_caller_and_its_sandbox(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];
	int gone, asked;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	r->fake.holds = true;
	(void)snprintf(line, sizeof(line), "GET /sandboxes/%s/diagnostics/summary", id);
	gone = rig_send(&r->api, line, AUTH, NULL);
	asked = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.count[FAKE_STATS] == 2);
	(void)close(gone);
	rig_turn(r, 5);
	(void)snprintf(line, sizeof(line), "DELETE /sandboxes/%s", id);
	(void)close(rig_send(&r->api, line, AUTH, NULL));
	RIG_WAIT(r, r->fake.count[FAKE_REMOVE] == 1);
	fake_complete(&r->fake, &r->fake.calls[r->fake.n_calls - 1]);
	RIG_WAIT(r, rig_count(r) == 0);
	r->fake.holds = false;
	fake_release(&r->fake);
	has(rig_receive(r, asked), "HTTP/1.1 404 ");
	rig_create(r, "", id);
	r->fake.holds = true;
	(void)snprintf(line, sizeof(line), "GET /sandboxes/%s/diagnostics/logs", id);
	asked = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.count[FAKE_LOGS] >= 1);
	rig_stop(r); /* what the runtime still owes is dropped */
	(void)close(asked);
}

static void calls_are_written_down_without_secrets(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], path[128], line[256];
	char text[8192] = "";
	int fd;

	(void)state;
	rig_start(r);
	rig_create(r, ",\"env\":{\"A\":\"hidden\"}", id);
	(void)snprintf(line, sizeof(line), "GET /sandboxes/%s?token=hidden", id);
	(void)rig_ask(r, line, NULL);
	(void)snprintf(line, sizeof(line), "GET /sandboxes/%s/proxy/80/hidden?x=hidden", id);
	r->fake.fails[FAKE_DIAL] = 1;
	(void)rig_ask(r, line, NULL);
	(void)snprintf(path, sizeof(path), "%s/audit.jsonl", r->state);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	(void)close(fd);
	(void)snprintf(line, sizeof(line),
		       "\"method\":\"POST\",\"path\":\"/v1/sandboxes\",\"route\":\"/sandboxes\",\"sandbox\":\"%s\",\"status\":202", id);
	has(text, line);
	(void)snprintf(line, sizeof(line),
		       "/proxy/80/\",\"route\":\"/sandboxes/:id/proxy/:port/*\",\"sandbox\":\"%s\",\"status\":502", id);
	has(text, line);
	has(text, "\"peer\":\"local\"");
	lacks(text, "hidden");
	lacks(text, KEY);
	rig_stop(r);
}

static void ages_are_read_leniently(void **state)
{
	(void)state;
	assert_int_equal(text_since_ms(STR("30s")), 30000);
	assert_int_equal(text_since_ms(STR(" 2d ")), 172800000);
	assert_int_equal(text_since_ms(STR("x")), 600000);
	assert_int_equal(text_since_ms(STR("10w")), 600000);
	assert_int_equal(text_since_ms(STR("")), 600000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_bound_and_refused_as_clients_know_it),
		cmocka_unit_test(requests_have_ceilings),
		cmocka_unit_test(a_disk_limit_that_cannot_be_kept_is_refused_by_name),
		cmocka_unit_test(one_word_with_blanks_is_a_command_line),
		cmocka_unit_test(words_are_split_as_by_a_shell),
		cmocka_unit_test(lists_are_filtered_and_paged),
		cmocka_unit_test(endpoints_lead_to_the_proxy),
		cmocka_unit_test(diagnostics_are_text_and_with_a_scope_json),
		cmocka_unit_test(a_diagnosis_outlives_its_caller_and_its_sandbox),
		cmocka_unit_test(calls_are_written_down_without_secrets),
		cmocka_unit_test(ages_are_read_leniently),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
