// SPDX-License-Identifier: Apache-2.0
#include "base/decode.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"

#include "base/banned.h"

/* A table with every kind of field, after the shape of a request to create a sandbox. */
struct auth {
	const char *username, *password;
};

struct volume {
	const char *name, *mount_path;
	bool read_only, has_host, create;
	struct {
		const char *path;
	} host;
};

struct request {
	const char *snapshot_id;
	struct str code;
	int64_t timeout, count;
	bool has_timeout, secure, has_auth;
	double cpu;
	int version;
	struct string_list entrypoint;
	struct string_map env, limits;
	struct auth auth;
	struct object_list volumes;
	const struct json *extra;
};

static const char *const versions[] = { "1.0", "2.0", "3.0", NULL };

static const char *check_path(const void *value)
{
	return **(const char *const *)value == '/' ? NULL : "must start with '/'";
}

static const char *check_word(const void *item)
{
	return **(const char *const *)item ? NULL : "must not be empty";
}

static const char *check_volume(const void *item)
{
	return ((const struct volume *)item)->has_host ? NULL : "exactly one backend is required";
}

static const struct field auth_fields[] = {
	FIELD(struct auth, username, FIELD_STRING, "username", .required = true),
	FIELD(struct auth, password, FIELD_STRING, "password", .required = true, .secret = true, .max = 16),
	{ 0 },
};

static const struct field host_fields[] = {
	FIELD(struct volume, host.path, FIELD_STRING, "path", .required = true, .check = check_path),
	{ 0 },
};

static const struct field volume_fields[] = {
	FIELD(struct volume, name, FIELD_STRING, "name", .required = true, .min = 1, .max = 5),
	FIELD(struct volume, mount_path, FIELD_STRING, "mountPath", .alias = "mount_path", .required = true,
	      .check = check_path, .pattern = "^/.*"),
	FIELD(struct volume, read_only, FIELD_BOOL, "readOnly", .alias = "read_only"),
	FIELD(struct volume, create, FIELD_BOOL, "create"),
	{ .name = "host", .kind = FIELD_OBJECT, .fields = host_fields, .has = HAS(struct volume, has_host) },
	{ 0 },
};

static const struct volume volume_defaults = { .create = true };

static const struct field fields[] = {
	FIELD(struct request, snapshot_id, FIELD_STRING, "snapshotId", .alias = "snapshot_id", .min = 2, .max = 4),
	FIELD(struct request, code, FIELD_TEXT, "code", .max = 4),
	FIELD(struct request, timeout, FIELD_INT, "timeout", .min = 60, .has = HAS(struct request, has_timeout)),
	FIELD(struct request, count, FIELD_INT, "count", .min = -5, .max = 5),
	FIELD(struct request, secure, FIELD_BOOL, "secure"),
	FIELD(struct request, cpu, FIELD_REAL, "cpu", .real_min = 0.5, .real_max = 64),
	FIELD(struct request, version, FIELD_ENUM, "version", .names = versions),
	FIELD(struct request, entrypoint, FIELD_STRINGS, "entrypoint", .min = 1, .max = 3, .check_item = check_word),
	FIELD(struct request, env, FIELD_MAP, "env", .secret = true),
	FIELD(struct request, limits, FIELD_MAP, "resourceLimits", .required = true, .no_nulls = true, .min = 0,
	      .max = 2),
	FIELD(struct request, auth, FIELD_OBJECT, "auth", .fields = auth_fields, .has = HAS(struct request, has_auth)),
	FIELD(struct request, volumes, FIELD_OBJECTS, "volumes", .fields = volume_fields, .size = sizeof(struct volume),
	      .defaults = &volume_defaults, .check_item = check_volume),
	FIELD(struct request, extra, FIELD_ANY, "extra"),
	{ 0 },
};

struct fixture {
	struct arena arena;
	struct decode d;
	struct request rq;
	struct err e;
	struct buf detail;
};

static void fixture_done(struct fixture *f)
{
	arena_done(&f->arena);
	buf_done(&f->detail);
	free(f);
}
DEFINE_AUTO(struct fixture *, fixture_done)

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->arena = ARENA_INIT((size_t)64 * 1024 * 1024);
	f->detail = BUF_INIT(65536);
	f->d.arena = &f->arena;
	return f;
}

static int decode_text(struct fixture *f, struct str text)
{
	const struct json *v = json_parse(&f->arena, text, NULL, NULL, &f->e);
	struct json_out o = json_out(&f->detail);
	int r;

	assert_non_null(v);
	r = decode(&f->d, v, fields, &f->rq, &f->e);
	buf_clear(&f->detail);
	decode_write_detail(&f->d, "body", &o);
	assert_false(f->detail.failed);
	return r;
}

static void a_full_request_is_bound(void **state)
{
	static const char text[] =
		"{\"snapshotId\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\",\"code\":\"a\\u0000b\",\"timeout\":\"600\",\"count\":-5.0,"
		"\"secure\":true,\"cpu\":2,\"version\":\"2.0\",\"entrypoint\":[\"sh\",\"-c\"],"
		"\"env\":{\"A\":\"1\",\"B\":null,\"C\":\"\"},\"resourceLimits\":{},"
		"\"auth\":{\"username\":\"u\",\"password\":\"p\"},"
		"\"volumes\":[{\"name\":\"v1\",\"mount_path\":\"/m\",\"read_only\":true,\"host\":{\"path\":\"/h\"}},"
		"{\"name\":\"v2\",\"mountPath\":\"/n\",\"create\":false,\"host\":{\"path\":\"/i\"}}],\"extra\":[1]}";
	AUTO(fixture_done) struct fixture *f = fixture_new();
	const struct volume *volumes;

	(void)state;
	assert_int_equal(decode_text(f, STR(text)), 0);
	assert_string_equal(f->rq.snapshot_id, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
	assert_true(str_eq(f->rq.code, STR("a\0b")));
	assert_int_equal(f->rq.timeout, 600);
	assert_true(f->rq.has_timeout && f->rq.secure && f->rq.has_auth);
	assert_int_equal(f->rq.count, -5);
	assert_true(f->rq.cpu == 2.0);
	assert_int_equal(f->rq.version, 1);
	assert_int_equal(f->rq.entrypoint.n, 2);
	assert_string_equal(f->rq.entrypoint.items[1], "-c");
	assert_int_equal(f->rq.env.n, 2); /* B is null: left out */
	assert_string_equal(f->rq.env.items[1].key, "C");
	assert_string_equal(f->rq.env.items[1].value, "");
	assert_int_equal(f->rq.limits.n, 0);
	assert_string_equal(f->rq.auth.password, "p");
	assert_int_equal(f->rq.volumes.n, 2);
	volumes = f->rq.volumes.items;
	assert_true(volumes[0].read_only && volumes[0].create && volumes[0].has_host);
	assert_string_equal(volumes[0].mount_path, "/m");
	assert_false(volumes[1].create);
	assert_string_equal(volumes[1].host.path, "/i");
	assert_int_equal(f->rq.extra->kids.first->i, 1);
	assert_string_equal(buf_z(&f->detail), "[]");
}

static void null_and_absent_leave_the_defaults(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();

	(void)state;
	f->rq.timeout = 77;
	f->rq.snapshot_id = "default";
	assert_int_equal(decode_text(f, STR("{\"resourceLimits\":{},\"timeout\":null,\"volumes\":null}")), 0);
	assert_int_equal(f->rq.timeout, 77);
	assert_false(f->rq.has_timeout);
	assert_string_equal(f->rq.snapshot_id, "default");
}

/* Each row is a document with one problem; `text` holds further members beside the required one. */
static void each_problem_has_its_type_place_and_message(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "\"timeout\":10",
		  "{\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Input should be greater than or equal to 60\",\"input\":10,\"ctx\":{\"ge\":60}}" },
		{ "\"timeout\":\"59\"",
		  "{\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Input should be greater than or equal to 60\",\"input\":\"59\",\"ctx\":{\"ge\":60}}" },
		{ "\"timeout\":\"6x\"",
		  "{\"type\":\"int_parsing\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Input should be a valid integer, unable to parse string as an integer\",\"input\":\"6x\"}" },
		{ "\"timeout\":\"\"",
		  "{\"type\":\"int_parsing\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Input should be a valid integer, unable to parse string as an integer\",\"input\":\"\"}" },
		{ "\"timeout\":60.5",
		  "{\"type\":\"int_from_float\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Input should be a valid integer, got a number with a fractional part\",\"input\":60.5}" },
		{ "\"timeout\":true",
		  "{\"type\":\"int_type\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Input should be a valid integer\",\"input\":true}" },
		{ "\"timeout\":1e19",
		  "{\"type\":\"int_parsing_size\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Unable to parse input string as an integer, exceeded maximum size\",\"input\":1e+19}" },
		{ "\"timeout\":\"99999999999999999999\"",
		  "{\"type\":\"int_parsing_size\",\"loc\":[\"body\",\"timeout\"],"
		  "\"msg\":\"Unable to parse input string as an integer, exceeded maximum size\","
		  "\"input\":\"99999999999999999999\"}" },
		{ "\"count\":6",
		  "{\"type\":\"less_than_equal\",\"loc\":[\"body\",\"count\"],"
		  "\"msg\":\"Input should be less than or equal to 5\",\"input\":6,\"ctx\":{\"le\":5}}" },
		{ "\"count\":18446744073709551615",
		  "{\"type\":\"less_than_equal\",\"loc\":[\"body\",\"count\"],"
		  "\"msg\":\"Input should be less than or equal to 5\",\"input\":18446744073709551615,\"ctx\":{\"le\":5}}" },
		{ "\"count\":\"-99999999999999999999\"",
		  "{\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"count\"],"
		  "\"msg\":\"Input should be greater than or equal to -5\",\"input\":\"-99999999999999999999\","
		  "\"ctx\":{\"ge\":-5}}" },
		{ "\"secure\":\"true\"",
		  "{\"type\":\"bool_parsing\",\"loc\":[\"body\",\"secure\"],"
		  "\"msg\":\"Input should be a valid boolean, unable to interpret input\",\"input\":\"true\"}" },
		{ "\"secure\":[]",
		  "{\"type\":\"bool_type\",\"loc\":[\"body\",\"secure\"],\"msg\":\"Input should be a valid boolean\",\"input\":[]}" },
		{ "\"cpu\":0.25",
		  "{\"type\":\"greater_than_equal\",\"loc\":[\"body\",\"cpu\"],"
		  "\"msg\":\"Input should be greater than or equal to 0.5\",\"input\":0.25,\"ctx\":{\"ge\":0.5}}" },
		{ "\"cpu\":18446744073709551615",
		  "{\"type\":\"less_than_equal\",\"loc\":[\"body\",\"cpu\"],"
		  "\"msg\":\"Input should be less than or equal to 64\",\"input\":18446744073709551615,\"ctx\":{\"le\":64.0}}" },
		{ "\"cpu\":\"1\"",
		  "{\"type\":\"float_type\",\"loc\":[\"body\",\"cpu\"],\"msg\":\"Input should be a valid number\",\"input\":\"1\"}" },
		{ "\"version\":\"4\"",
		  "{\"type\":\"literal_error\",\"loc\":[\"body\",\"version\"],\"msg\":\"Input should be '1.0', '2.0' or '3.0'\","
		  "\"input\":\"4\",\"ctx\":{\"expected\":\"'1.0', '2.0' or '3.0'\"}}" },
		{ "\"version\":2",
		  "{\"type\":\"literal_error\",\"loc\":[\"body\",\"version\"],\"msg\":\"Input should be '1.0', '2.0' or '3.0'\","
		  "\"input\":2,\"ctx\":{\"expected\":\"'1.0', '2.0' or '3.0'\"}}" },
		{ "\"snapshotId\":5",
		  "{\"type\":\"string_type\",\"loc\":[\"body\",\"snapshotId\"],\"msg\":\"Input should be a valid string\",\"input\":5}" },
		{ "\"snapshot_id\":\"\xc3\xa9\"",
		  "{\"type\":\"string_too_short\",\"loc\":[\"body\",\"snapshotId\"],"
		  "\"msg\":\"String should have at least 2 characters\",\"input\":\"\xc3\xa9\",\"ctx\":{\"min_length\":2}}" },
		{ "\"snapshotId\":\"abcde\"",
		  "{\"type\":\"string_too_long\",\"loc\":[\"body\",\"snapshotId\"],"
		  "\"msg\":\"String should have at most 4 characters\",\"input\":\"abcde\",\"ctx\":{\"max_length\":4}}" },
		{ "\"snapshotId\":\"a\\u0000b\"",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"snapshotId\"],"
		  "\"msg\":\"Value error, must not contain a NUL character\",\"input\":\"a\\u0000b\"}" },
		{ "\"code\":\"\xc3\xa9\xc3\xa9\xc3\xa9\"",
		  "{\"type\":\"string_too_long\",\"loc\":[\"body\",\"code\"],\"msg\":\"String should have at most 4 bytes\","
		  "\"input\":\"\xc3\xa9\xc3\xa9\xc3\xa9\",\"ctx\":{\"max_length\":4}}" },
		{ "\"code\":1",
		  "{\"type\":\"string_type\",\"loc\":[\"body\",\"code\"],\"msg\":\"Input should be a valid string\",\"input\":1}" },
		{ "\"entrypoint\":[]",
		  "{\"type\":\"too_short\",\"loc\":[\"body\",\"entrypoint\"],"
		  "\"msg\":\"List should have at least 1 item after validation, not 0\",\"input\":[],\"ctx\":{\"min_length\":1}}" },
		{ "\"entrypoint\":[\"a\",\"b\",\"c\",\"d\"]",
		  "{\"type\":\"too_long\",\"loc\":[\"body\",\"entrypoint\"],"
		  "\"msg\":\"List should have at most 3 items after validation, not 4\",\"input\":[\"a\",\"b\",\"c\",\"d\"],"
		  "\"ctx\":{\"max_length\":3}}" },
		{ "\"entrypoint\":\"sh\"",
		  "{\"type\":\"list_type\",\"loc\":[\"body\",\"entrypoint\"],\"msg\":\"Input should be a valid list\",\"input\":\"sh\"}" },
		{ "\"entrypoint\":[\"a\",null]",
		  "{\"type\":\"string_type\",\"loc\":[\"body\",\"entrypoint\",1],\"msg\":\"Input should be a valid string\",\"input\":null}" },
		{ "\"entrypoint\":[\"a\",\"\"]",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"entrypoint\",1],\"msg\":\"Value error, must not be empty\",\"input\":\"\"}" },
		{ "\"auth\":7",
		  "{\"type\":\"model_attributes_type\",\"loc\":[\"body\",\"auth\"],"
		  "\"msg\":\"Input should be a valid dictionary or object to extract fields from\"}" },
		{ "\"volumes\":{}",
		  "{\"type\":\"list_type\",\"loc\":[\"body\",\"volumes\"],\"msg\":\"Input should be a valid list\",\"input\":{}}" },
		{ "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/\"}]",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"volumes\",0],\"msg\":\"Value error, exactly one backend is required\","
		  "\"input\":{\"name\":\"v\",\"mountPath\":\"/\"}}" },
		{ "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"m\",\"host\":{\"path\":\"/\"}}]",
		  "{\"type\":\"string_pattern_mismatch\",\"loc\":[\"body\",\"volumes\",0,\"mountPath\"],"
		  "\"msg\":\"String should match pattern '^/.*'\",\"input\":\"m\",\"ctx\":{\"pattern\":\"^/.*\"}}" },
		{ "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/\",\"host\":{\"path\":\"x\"}}]",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"volumes\",0,\"host\",\"path\"],"
		  "\"msg\":\"Value error, must start with '/'\",\"input\":\"x\"}" },
		{ "\"volumes\":[{\"name\":\"v\",\"mountPath\":null,\"host\":{\"path\":\"/\"}}]",
		  "{\"type\":\"missing\",\"loc\":[\"body\",\"volumes\",0,\"mountPath\"],\"msg\":\"Field required\","
		  "\"input\":{\"name\":\"v\",\"mountPath\":null,\"host\":{\"path\":\"/\"}}}" },
		{ "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/\",\"mount_path\":\"/\",\"host\":{\"path\":\"/\"}}]",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"volumes\",0,\"mount_path\"],"
		  "\"msg\":\"Value error, the key appears more than once\",\"input\":\"/\"}" },
		{ "\"timeout\":60,\"timeout\":60",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"timeout\"],\"msg\":\"Value error, the key appears more than once\"}" },
		{ "\"zz\":1,\"other\":2,\"zz\":3,\"zz\":4",
		  "{\"type\":\"value_error\",\"loc\":[\"body\",\"zz\"],\"msg\":\"Value error, the key appears more than once\"}" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();
		AUTO(buf_done) struct buf text = BUF_INIT(4096), want = BUF_INIT(4096);

		(void)buf_addf(&text, "{\"resourceLimits\":{},%s}", rows[i].text);
		(void)buf_addf(&want, "[%s]", rows[i].want);
		assert_int_equal(decode_text(f, buf_str(&text)), -1);
		assert_int_equal(f->e.code, ERR_INVALID);
		assert_int_equal(f->d.n_problems, 1);
		assert_string_equal(buf_z(&f->detail), buf_z(&want));
	}
}

static void maps_hold_strings_only(void **state)
{
	static const struct {
		const char *text, *type, *path;
	} rows[] = {
		{ "{\"resourceLimits\":[]}", "dict_type", "$.resourceLimits" },
		{ "{\"resourceLimits\":{\"cpu\":1}}", "string_type", "$.resourceLimits.cpu" },
		{ "{\"resourceLimits\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}", "too_long", "$.resourceLimits" },
		{ "{\"resourceLimits\":{\"a\":\"1\",\"a\":\"1\"}}", "value_error", "$.resourceLimits.a" },
		{ "{\"resourceLimits\":{\"cpu\":null}}", "string_type", "$.resourceLimits.cpu" },
		{ "{\"resourceLimits\":{},\"env\":{\"a\":null,\"a\":null}}", "value_error", "$.env.a" },
		{ "{\"resourceLimits\":{\"\":\"1\",\"\":\"1\"}}", "value_error", "$.resourceLimits." },
		{ "{\"resourceLimits\":{\"a\\u0000b\":\"1\"}}", "value_error", "$.resourceLimits.a?b" },
		{ "{\"resourceLimits\":{\"a\":\"\\u0000\"}}", "value_error", "$.resourceLimits.a" },
		{ "{\"resourceLimits\":null}", "missing", "$.resourceLimits" },
		{ "{}", "missing", "$.resourceLimits" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();

		assert_int_equal(decode_text(f, str_of(rows[i].text)), -1);
		assert_int_equal(f->d.n_problems, 1);
		assert_string_equal(f->d.problems[0].type, rows[i].type);
		assert_string_equal(f->d.problems[0].path, rows[i].path);
	}
}

static void the_root_must_be_an_object(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();

	(void)state;
	assert_int_equal(decode_text(f, STR("[]")), -1);
	assert_string_equal(f->e.msg, "$: Input should be a valid dictionary or object to extract fields from");
	assert_int_equal(decode_text(f, STR("null")), -1);
	assert_string_equal(f->e.msg, "$: Field required");
	assert_int_equal(decode(&f->d, NULL, fields, &f->rq, &f->e), -1);
	assert_string_equal(f->d.problems[0].type, "missing");
	assert_null(f->d.problems[0].where);
}

static void one_answer_names_every_problem_up_to_the_maximum(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();
	AUTO(buf_done) struct buf text = BUF_INIT(4096);

	(void)state;
	assert_int_equal(decode_text(f, STR("{\"timeout\":1,\"secure\":2,\"volumes\":[{},3]}")), -1);
	assert_int_equal(f->d.n_problems, 6);
	assert_string_equal(f->e.msg, "$.timeout: Input should be greater than or equal to 60");
	assert_string_equal(f->d.problems[4].path, "$.volumes[0].mountPath");

	(void)buf_add_str(&text, STR("{\"resourceLimits\":{},\"env\":{\"k\":1"));
	for (int i = 0; i < 30; i++)
		(void)buf_addf(&text, ",\"k%d\":1", i);
	(void)buf_add_str(&text, STR("}}"));
	assert_int_equal(decode_text(f, buf_str(&text)), -1);
	assert_int_equal(f->d.n_problems, DECODE_PROBLEMS_MAX);
}

static void unknown_keys_are_listed_or_refused(void **state)
{
	static const char text[] = "{\"resourceLimits\":{},\"x\":1,\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/\",\"hots\":{},"
				   "\"host\":{\"path\":\"/\"}}]}";
	AUTO(fixture_done) struct fixture *f = fixture_new();
	AUTO(buf_done) struct buf many = BUF_INIT(4096);

	(void)state;
	assert_int_equal(decode_text(f, STR(text)), 0);
	assert_int_equal(f->d.n_unknown, 2);
	assert_string_equal(f->d.unknown[0], "$.x");
	assert_string_equal(f->d.unknown[1], "$.volumes[0].hots");

	f->d.closed = true;
	assert_int_equal(decode_text(f, STR(text)), -1);
	assert_int_equal(f->d.n_unknown, 0);
	assert_int_equal(f->d.n_problems, 2);
	assert_string_equal(f->d.problems[1].type, "extra_forbidden");
	assert_string_equal(f->d.problems[1].msg, "Extra inputs are not permitted");

	f->d.closed = false;
	(void)buf_add_str(&many, STR("{\"resourceLimits\":{}"));
	for (int i = 0; i < DECODE_UNKNOWN_MAX + 8; i++)
		(void)buf_addf(&many, ",\"x%d\":0", i);
	(void)buf_add_str(&many, STR("}"));
	assert_int_equal(decode_text(f, buf_str(&many)), 0);
	assert_int_equal(f->d.n_unknown, DECODE_UNKNOWN_MAX);
}

static void a_strict_decoder_takes_no_text_or_real_for_an_integer(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();

	(void)state;
	f->d.strict = true;
	assert_int_equal(decode_text(f, STR("{\"resourceLimits\":{},\"timeout\":\"600\",\"count\":1.0}")), -1);
	assert_int_equal(f->d.n_problems, 2);
	assert_string_equal(f->d.problems[0].type, "int_type");
	assert_string_equal(f->d.problems[1].type, "int_type");
	assert_int_equal(decode_text(f, STR("{\"resourceLimits\":{},\"timeout\":600}")), 0);
}

static void reals_must_be_finite(void **state)
{
	struct json limits = { .type = JSON_OBJECT, .key = STR("resourceLimits") };
	struct json cpu = { .type = JSON_REAL, .key = STR("cpu"), .d = NAN, .next = &limits };
	struct json root = { .type = JSON_OBJECT, .kids = { &cpu, &limits, 2 } };
	AUTO(fixture_done) struct fixture *f = fixture_new();

	(void)state;
	assert_int_equal(decode(&f->d, &root, fields, &f->rq, &f->e), -1);
	assert_string_equal(f->d.problems[0].type, "finite_number");
}

/* Wherever the problem is, a value that is secret, or lies beside one, is not repeated. */
static void secrets_are_never_repeated(void **state)
{
	static const char *const rows[] = {
		"{\"resourceLimits\":{},\"auth\":{\"username\":\"u\",\"password\":[\"hunter2\"]}}",
		"{\"resourceLimits\":{},\"auth\":{\"username\":\"u\",\"password\":\"hunter2hunter2hunter2\"}}",
		"{\"resourceLimits\":{},\"auth\":{\"password\":\"hunter2\"}}",
		"{\"resourceLimits\":{},\"auth\":[\"hunter2\"]}",
		"{\"resourceLimits\":{},\"auth\":\"hunter2\"}",
		"{\"resourceLimits\":{},\"auth\":{\"username\":\"u\",\"password\":\"p\",\"pasword\":\"hunter2\"}}",
		"{\"resourceLimits\":{},\"auth\":{\"username\":\"u\",\"password\":\"p\",\"password\":\"hunter2\"}}",
		"{\"auth\":{\"username\":\"u\",\"password\":\"hunter2\"}}",
		"{\"resourceLimits\":{},\"env\":{\"TOKEN\":{\"v\":\"hunter2\"}}}",
		"{\"resourceLimits\":{},\"env\":[\"hunter2\"]}",
		"{\"resourceLimits\":{},\"env\":{\"A\":\"hunter2\",\"A\":\"hunter2\"}}",
		"[\"hunter2\"]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();

		f->d.closed = true;
		assert_int_equal(decode_text(f, str_of(rows[i])), -1);
		assert_true(f->d.n_problems > 0);
		assert_null(strstr(f->e.msg, "hunter2"));
		assert_null(strstr(buf_z(&f->detail), "hunter2"));
	}
}

static void large_values_and_keys_are_not_repeated_in_full(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();
	AUTO(buf_done) struct buf text = BUF_INIT(65536);

	(void)state;
	(void)buf_add_str(&text, STR("{\"resourceLimits\":{\"x"));
	for (int i = 0; i < 1000; i++)
		(void)buf_add_str(&text, STR("\xc3\xa9"));
	(void)buf_add_str(&text, STR("\":1},\"snapshotId\":\""));
	for (int i = 0; i < 1000; i++)
		(void)buf_add_str(&text, STR("y"));
	(void)buf_add_str(&text, STR("\"}"));
	assert_int_equal(decode_text(f, buf_str(&text)), -1);
	assert_int_equal(f->d.n_problems, 2);
	assert_true(f->detail.n < 600);
	assert_null(strstr(buf_z(&f->detail), "yyy"));
	assert_true(utf8_valid(buf_str(&f->detail)));
	assert_null(strstr(buf_z(&f->detail), "\xef\xbf\xbd"));
}

static void rules_of_the_caller_join_the_answer(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();
	struct json_out o = json_out(&f->detail);

	(void)state;
	assert_int_equal(decode_text(f, STR("{\"resourceLimits\":{}}")), 0);
	assert_int_equal(decode_refuse(&f->d, NULL, "one of image and snapshotId is required", &f->e), -1);
	assert_string_equal(f->e.msg, "$: Value error, one of image and snapshotId is required");
	assert_int_equal(f->e.code, ERR_INVALID);
	assert_int_equal(decode_refuse(&f->d, "entrypoint", "is required with image", &f->e), -1);
	buf_clear(&f->detail);
	decode_write_detail(&f->d, "body", &o);
	assert_string_equal(buf_z(&f->detail),
			    "[{\"type\":\"value_error\",\"loc\":[\"body\"],"
			    "\"msg\":\"Value error, one of image and snapshotId is required\"},"
			    "{\"type\":\"value_error\",\"loc\":[\"body\",\"entrypoint\"],"
			    "\"msg\":\"Value error, is required with image\"}]");
}

/* From 2^53 on a double may be the neighbour of what was written. */
static void reals_that_may_be_inexact_are_no_integers(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "9007199254740991.0", true },  { "9007199254740992.0", false }, { "9007199254740993.0", false },
		{ "9007199254740992.9", false }, { "9007199254740993", true },    { "\"9007199254740993\"", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();
		AUTO(buf_done) struct buf text = BUF_INIT(4096);

		(void)buf_addf(&text, "{\"resourceLimits\":{},\"timeout\":%s}", rows[i].text);
		assert_int_equal(decode_text(f, buf_str(&text)) == 0, rows[i].ok);
		if (!rows[i].ok)
			assert_string_equal(f->d.problems[0].type, "int_parsing_size");
	}
}

static void only_the_whole_name_is_the_key(void **state)
{
	static const char *const keys[] = { "", "t", "timeou", "timeoutx", "timeout\\u0000", "Timeout", "snapshot_i" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();
		AUTO(buf_done) struct buf text = BUF_INIT(4096);

		(void)buf_addf(&text, "{\"resourceLimits\":{},\"%s\":1}", keys[i]);
		assert_int_equal(decode_text(f, buf_str(&text)), 0);
		assert_int_equal(f->d.n_unknown, 1);
	}
}

/* Quadratic work would take minutes here. */
static void many_unknown_keys_take_little_time(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();
	AUTO(buf_done) struct buf text = BUF_INIT((size_t)4 * 1024 * 1024);
	clock_t start;

	(void)state;
	(void)buf_add_str(&text, STR("{\"resourceLimits\":{}"));
	for (int i = 0; i < 60000; i++)
		(void)buf_addf(&text, ",\"%x\":0", i);
	(void)buf_add_str(&text, STR(",\"1234\":0}"));
	start = clock();
	assert_int_equal(decode_text(f, buf_str(&text)), -1);
	assert_true(clock() - start < 2 * CLOCKS_PER_SEC);
	assert_string_equal(f->e.msg, "$.1234: Value error, the key appears more than once");
}

/* Whatever the ceiling, the answer is right, or ERR_LIMIT and no problems. */
static void the_ceiling_of_the_arena_is_respected_everywhere(void **state)
{
	static const struct str texts[] = {
		STR("{\"snapshotId\":\"abc\",\"entrypoint\":[\"a\",\"b\"],\"env\":{\"A\":\"1\"},\"volumes\":[{\"name\":\"v\","
		    "\"mountPath\":\"/\",\"host\":{\"path\":\"/\"}}],\"resourceLimits\":{\"a\":\"1\"},\"what\":1}"),
		STR("{\"version\":0,\"cpu\":0,\"timeout\":0,\"env\":{\"A\":1,\"A\":2},\"volumes\":[{\"name\":\"v\","
		    "\"mountPath\":\"x\"}],\"entrypoint\":[\"\"]}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO(fixture_done) struct fixture *f = fixture_new();
		const struct json *v = json_parse(&f->arena, texts[i], NULL, NULL, &f->e);

		for (size_t max = 0; max < 8192; max += 16) {
			AUTO(arena_done) struct arena a = ARENA_INIT(max);

			f->d.arena = &a;
			if (decode(&f->d, v, fields, &f->rq, &f->e) == 0)
				assert_int_equal(i, 0);
			else if (f->e.code == ERR_LIMIT)
				assert_int_equal(f->d.n_problems, 0);
			else
				assert_true(i == 1 && f->d.n_problems == 9);
		}
		assert_int_equal(f->e.code, i == 0 ? ERR_LIMIT : ERR_INVALID);
		f->d.arena = &(struct arena){ .max = 64 };
		f->d.n_problems = 0;
		assert_int_equal(decode_refuse(&f->d, "key", "why", &f->e), -1);
		assert_int_equal(f->e.code, ERR_LIMIT);
		arena_done(f->d.arena);
	}
}

/* A table that contains itself is bound as deep as the document goes. */
struct node {
	struct object_list children;
};

static const struct field node_fields[] = {
	FIELD(struct node, children, FIELD_OBJECTS, "children", .fields = node_fields, .size = sizeof(struct node)),
	{ 0 },
};

static void a_table_may_contain_itself(void **state)
{
	AUTO(fixture_done) struct fixture *f = fixture_new();
	struct node root = { 0 };
	const struct json *v = json_parse(&f->arena, STR("{\"children\":[{\"children\":[{},7]}]}"), NULL, NULL, &f->e);

	(void)state;
	assert_int_equal(decode(&f->d, v, node_fields, &root, &f->e), -1);
	assert_string_equal(f->d.problems[0].path, "$.children[0].children[1]");
	assert_int_equal(root.children.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_request_is_bound),
		cmocka_unit_test(null_and_absent_leave_the_defaults),
		cmocka_unit_test(each_problem_has_its_type_place_and_message),
		cmocka_unit_test(maps_hold_strings_only),
		cmocka_unit_test(the_root_must_be_an_object),
		cmocka_unit_test(one_answer_names_every_problem_up_to_the_maximum),
		cmocka_unit_test(unknown_keys_are_listed_or_refused),
		cmocka_unit_test(a_strict_decoder_takes_no_text_or_real_for_an_integer),
		cmocka_unit_test(reals_must_be_finite),
		cmocka_unit_test(secrets_are_never_repeated),
		cmocka_unit_test(large_values_and_keys_are_not_repeated_in_full),
		cmocka_unit_test(rules_of_the_caller_join_the_answer),
		cmocka_unit_test(reals_that_may_be_inexact_are_no_integers),
		cmocka_unit_test(only_the_whole_name_is_the_key),
		cmocka_unit_test(many_unknown_keys_take_little_time),
		cmocka_unit_test(the_ceiling_of_the_arena_is_respected_everywhere),
		cmocka_unit_test(a_table_may_contain_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
