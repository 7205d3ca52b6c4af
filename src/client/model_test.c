// SPDX-License-Identifier: Apache-2.0
#include "client/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/models.h"
#include "client/opensandbox.h"

#include "base/banned.h"

static void *read_text(const struct model *m, const char *text, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	const struct json *v = json_parse(&a, str_of(text), NULL, NULL, e);

	return v ? model_read(m, v, e) : NULL;
}

static void assert_shows(const void *result, const char *want)
{
	char *json = osb_to_json(result);

	assert_non_null(json);
	assert_string_equal(json, want);
	free(json);
}

static void a_sandbox_is_shown_as_the_other_sdks_show_it(void **state)
{
	struct err e = { 0 };
	struct osb_sandbox_info *info = read_text(
		&sandbox_info_model,
		"{\"id\":\"s1\",\"status\":{\"state\":\"Running\",\"reason\":null,\"lastTransitionAt\":\"2026-06-15T09:46:58.120431Z\"},"
		"\"createdAt\":\"2026-06-15T09:46:58+00:00\",\"expiresAt\":\"2026-06-15T10:00:00.123456789Z\",\"image\":{\"uri\":\"python:3.12\"},"
		"\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"},\"metadata\":{\"b\":\"\\u00e9\",\"a\":\"1\"},\"entrypoint\":[\"a\",\"b\"],\"new\":{}}",
		&e);

	(void)state;
	assert_non_null(info);
	assert_string_equal(info->image, "python:3.12");
	assert_int_equal(info->metadata.n, 2);
	assert_null(info->snapshot_id);
	assert_string_equal(info->created_at, "2026-06-15T09:46:58+00:00");
	assert_shows(info,
		     "{\"id\":\"s1\",\"status\":{\"state\":\"Running\",\"reason\":null,\"message\":null,\"last_transition_at\":"
		     "\"2026-06-15T09:46:58.120431Z\"},\"entrypoint\":[\"a\",\"b\"],\"expires_at\":\"2026-06-15T10:00:00.123456Z\",\"created_at\":"
		     "\"2026-06-15T09:46:58Z\",\"image\":{\"image\":\"python:3.12\",\"auth\":null},\"snapshot_id\":null,\"platform\":{\"os\":"
		     "\"linux\",\"arch\":\"amd64\"},\"metadata\":{\"b\":\"\xc3\xa9\",\"a\":\"1\"}}");
	osb_free(info);
}

static void what_is_not_there_is_null(void **state)
{
	struct err e = { 0 };
	struct osb_sandbox_info *info = read_text(&sandbox_info_model,
						  "{\"id\":\"s1\",\"status\":{\"state\":\"Paused\"},\"createdAt\":\"2026-06-15T09:46:58+08:00\"}", &e);
	struct osb_snapshot *snap = read_text(&snapshot_model,
					      "{\"id\":\"n\",\"sandboxId\":\"s\",\"status\":{\"state\":\"Ready\"},\"createdAt\":\"2026-01-01T00:00:00Z\"}", &e);
	struct osb_diagnostics *d = read_text(&diagnostics_model,
					      "{\"sandboxId\":\"s\",\"kind\":\"logs\",\"scope\":\"all\",\"delivery\":\"inline\",\"contentType\":\"text/plain\","
					      "\"truncated\":false,\"content\":\"x\"}", &e);

	(void)state;
	assert_shows(info, "{\"id\":\"s1\",\"status\":{\"state\":\"Paused\",\"reason\":null,\"message\":null,\"last_transition_at\":null},"
			   "\"entrypoint\":[],\"expires_at\":null,\"created_at\":\"2026-06-15T09:46:58+08:00\",\"image\":null,\"snapshot_id\":null,"
			   "\"platform\":null,\"metadata\":{}}");
	assert_int_equal(snap->size_bytes, -1);
	assert_null(snap->name);
	assert_shows(d, "{\"sandbox_id\":\"s\",\"kind\":\"logs\",\"scope\":\"all\",\"delivery\":\"inline\",\"content_type\":\"text/plain\","
			"\"truncated\":false,\"content\":\"x\",\"content_url\":null,\"content_length\":null,\"expires_at\":null,\"warnings\":null}");
	osb_free(info);
	osb_free(snap);
	osb_free(d);
	osb_free(NULL);
	assert_shows(NULL, "null");
}

static void a_place_that_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *want;
	} table[] = {
		{ "[]", "$: it is no object" },
		{ "{\"items\":[],\"pagination\":null}", "$.pagination: it is missing" },
		{ "{\"items\":{}}", "$.items: it is no array" },
		{ "{\"items\":[{\"id\":\"a\",\"status\":{\"state\":1}}]}", "$.items[0].status.state: it is no string" },
		{ "{\"items\":[],\"pagination\":{\"page\":1.5}}", "$.pagination.page: it is no integer" },
		{ "{\"items\":[],\"pagination\":{\"page\":1,\"pageSize\":1,\"totalItems\":2,\"totalPages\":3,\"hasNextPage\":\"no\"}}",
		  "$.pagination.hasNextPage: it is no boolean" },
		{ "{\"items\":[{\"id\":\"a\",\"status\":{\"state\":\"x\"},\"createdAt\":\"t\",\"image\":{}}]}", "$.items[0].image: it has no uri" },
		{ "{\"items\":[{\"id\":\"a\",\"status\":{\"state\":\"x\"},\"createdAt\":\"t\",\"entrypoint\":[1]}]}",
		  "$.items[0].entrypoint: it is no string" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct err e = { 0 };

		assert_null(read_text(&sandboxes_model, table[i].text, &e));
		assert_string_equal(e.msg, table[i].want);
	}
}

static void values_of_maps_that_are_no_strings_are_json(void **state)
{
	struct err e = { 0 };
	struct osb_endpoint *ep = read_text(&endpoint_model, "{\"endpoint\":\"h:1\",\"headers\":{\"a\":{\"b\":[1,null]},\"c\":true}}", &e);

	(void)state;
	assert_non_null(ep);
	assert_string_equal(ep->headers.items[0].value, "{\"b\":[1,null]}");
	assert_string_equal(ep->headers.items[1].value, "true");
	osb_free(ep);
}

static void bytes_are_results_too(void **state)
{
	struct err e = { 0 };
	struct osb_bytes *text = result_bytes(&bytes_model, STR("a\0\"b"), &e), *json = result_bytes(&json_model, STR("{\"a\":1}"), &e);

	(void)state;
	assert_int_equal(text->n, 4);
	assert_int_equal(text->data[4], '\0');
	assert_shows(text, "\"a\\u0000\\\"b\"");
	assert_shows(json, "{\"a\":1}");
	osb_free(text);
	osb_free(json);
}

static void times_are_milliseconds(void **state)
{
	(void)state;
	assert_int_equal(osb_time_ms("1970-01-01T00:00:01.5Z"), 1500);
	assert_int_equal(osb_time_ms("1970-01-01T01:00:00+01:00"), 0);
	assert_int_equal(osb_time_ms("yesterday"), -1);
	assert_int_equal(osb_time_ms(NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sandbox_is_shown_as_the_other_sdks_show_it),
		cmocka_unit_test(what_is_not_there_is_null),
		cmocka_unit_test(a_place_that_is_wrong_is_named),
		cmocka_unit_test(values_of_maps_that_are_no_strings_are_json),
		cmocka_unit_test(bytes_are_results_too),
		cmocka_unit_test(times_are_milliseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
