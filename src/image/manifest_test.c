// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/manifest.h"

#include "base/banned.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define D(n) "\"sha256:" HEX n "\""
#define D512 "\"sha512:" HEX "0" HEX "5\""
#define CONFIG "{\"mediaType\":\"" TYPE_OCI_CONFIG "\",\"digest\":" D("0") ",\"size\":7}"
#define LAYER(n) "{\"mediaType\":\"" TYPE_OCI_LAYER "+gzip\",\"digest\":" D(n) ",\"size\":100}"
#define IMAGE(layers) "{\"schemaVersion\":2,\"config\":" CONFIG ",\"layers\":[" layers "]}"
#define ENTRY(os, arch, more, n) \
	"{\"mediaType\":\"" TYPE_OCI_MANIFEST "\",\"digest\":" D(n) ",\"size\":9,\"platform\":{\"os\":\"" os \
	"\",\"architecture\":\"" arch "\"" more "}}"
#define INDEX(entries) "{\"schemaVersion\":2,\"manifests\":[" entries "]}"

static const struct platform amd64 = { "linux", "amd64" }, arm64 = { "linux", "arm64" };

static void a_manifest_names_its_configuration_and_layers(void **state)
{
	struct manifest m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(manifest_parse(STR(IMAGE(LAYER("1") "," LAYER("2"))), &m, &e), 0);
	assert_int_equal(m.n_layers, 2);
	assert_int_equal(m.layers_bytes, 200);
	assert_int_equal(m.config.size, 7);
	assert_int_equal(m.config.digest.bytes[31], 0xe0);
	assert_int_equal(m.layers[0].digest.bytes[31], 0xe1);
	assert_int_equal(m.layers[1].digest.bytes[31], 0xe2);
}

static void what_breaks_a_rule_is_no_manifest(void **state)
{
	static const struct {
		const char *in, *why;
	} cases[] = {
		{ "", "manifest" },
		{ "[]", "manifest" },
		{ "{}", "schemaVersion" },
		{ "{\"schemaVersion\":1,\"fsLayers\":[]}", "schema version 1" },
		{ "{\"schemaVersion\":3,\"config\":" CONFIG ",\"layers\":[]}", "version 3" },
		{ "{\"schemaVersion\":2}", "neither" },
		{ "{\"schemaVersion\":2,\"layers\":[" LAYER("1") "]}", "neither" },
		{ "{\"schemaVersion\":2,\"manifests\":[],\"layers\":[]}", "both" },
		{ "{\"schemaVersion\":2,\"manifests\":[],\"config\":" CONFIG "}", "both" },
		{ "{\"schemaVersion\":2,\"schemaVersion\":2,\"config\":" CONFIG ",\"layers\":[]}", "schemaVersion" },
		{ "{\"schemaVersion\":\"2\",\"config\":" CONFIG ",\"layers\":[]}", "schemaVersion" },
		{ IMAGE(""), "no layers" },
		{ INDEX(""), "that of an index" },
		{ "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"x/y\",\"digest\":" D("0") ",\"size\":1},\"layers\":[]}", "x/y" },
		{ "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" TYPE_OCI_CONFIG "\",\"digest\":" D("0")
		  ",\"size\":4194305},\"layers\":[" LAYER("1") "]}", "more than 4194304 bytes" },
		{ IMAGE("{\"mediaType\":\"text/plain\",\"digest\":" D("1") ",\"size\":1}"), "text/plain" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":\"sha512:00\",\"size\":1}"), "is neither sha256" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":-1}"), "size" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":0}"), "no bytes" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") "}"), "size" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":21474836481}"), "more than" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":9223372036854775807},{\"mediaType\":\""
			TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":9223372036854775807}"), "more than" },
		{ IMAGE("{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D("1") ",\"size\":1,\"urls\":[\"https://x.test\"]}"),
		  "from elsewhere" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct manifest m;
		struct err e = { 0 };

		assert_int_equal(manifest_parse(str_of(cases[i].in), &m, &e), -1);
		if (!strstr(e.msg, cases[i].why))
			fail_msg("'%s': %s", cases[i].in, e.msg);
	}
}

static void layers_have_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct manifest m;
	struct err e = { 0 };

	(void)state;
	for (size_t n = MANIFEST_LAYERS_MAX; n <= MANIFEST_LAYERS_MAX + 1; n++) {
		buf_clear(&b);
		buf_addf(&b, "{\"schemaVersion\":2,\"config\":" CONFIG ",\"layers\":[");
		for (size_t i = 0; i < n; i++)
			buf_addf(&b, "%s" LAYER("1"), i > 0 ? "," : "");
		buf_addf(&b, "]}");
		assert_int_equal(manifest_parse(buf_str(&b), &m, &e), n == MANIFEST_LAYERS_MAX ? 0 : -1);
	}
}

static void header_and_body_say_the_same_kind(void **state)
{
	static const char typed[] = "{\"schemaVersion\":2,\"mediaType\":\"" TYPE_DOCKER_MANIFEST "\",\"config\":" CONFIG ",\"layers\":[]}";
	static const struct {
		const char *text, *type;
		int want; /* enum manifest_kind, or -1 */
	} cases[] = {
		{ IMAGE(""), "", MANIFEST_IMAGE },
		{ IMAGE(""), TYPE_OCI_MANIFEST, MANIFEST_IMAGE },
		{ IMAGE(""), TYPE_DOCKER_MANIFEST, MANIFEST_IMAGE },
		{ IMAGE(""), TYPE_OCI_INDEX, -1 },
		{ IMAGE(""), "application/json", -1 },
		{ INDEX(""), TYPE_OCI_INDEX, MANIFEST_INDEX },
		{ INDEX(""), TYPE_DOCKER_INDEX, MANIFEST_INDEX },
		{ INDEX(""), TYPE_OCI_MANIFEST, -1 },
		{ typed, TYPE_DOCKER_MANIFEST, MANIFEST_IMAGE },
		{ typed, TYPE_OCI_MANIFEST, -1 },
		{ typed, "", MANIFEST_IMAGE },
		{ "{\"schemaVersion\":2,\"mediaType\":\"" TYPE_OCI_MANIFEST "\",\"manifests\":[]}", "", -1 },
		{ "{\"schemaVersion\":2,\"manifests\":[],\"layers\":[]}", "", -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum manifest_kind kind;
		struct err e = { 0 };
		int r = manifest_kind(str_of(cases[i].text), str_of(cases[i].type), &kind, &e);

		assert_int_equal(r == 0 ? (int)kind : -1, cases[i].want);
	}
}

static void an_index_has_an_entry_for_the_platform_or_says_which(void **state)
{
	static const struct {
		const char *in;
		const struct platform *want;
		int last; /* byte of the digest, or 0 */
		const char *why;
	} cases[] = {
		{ INDEX(ENTRY("linux", "amd64", "", "1") "," ENTRY("linux", "arm64", "", "2")), &arm64, 0xe2, NULL },
		{ INDEX(ENTRY("linux", "arm64", ",\"variant\":\"v9\"", "1") "," ENTRY("linux", "arm64", ",\"variant\":\"v8\"", "2")),
		  &arm64, 0xe2, NULL },
		{ INDEX(ENTRY("unknown", "unknown", "", "1") "," ENTRY("linux", "amd64", ",\"variant\":\"v3\"", "2")), &amd64, 0xe2, NULL },
		{ INDEX("{\"mediaType\":\"" TYPE_OCI_MANIFEST "\",\"digest\":" D("3") ",\"size\":9}"), &amd64, 0xe3, NULL },
		{ INDEX(ENTRY("linux", "s390x", "", "1") "," ENTRY("windows", "amd64", "", "2")), &amd64, 0,
		  "there is none for linux/amd64, only for: linux/s390x, windows/amd64" },
		{ INDEX(""), &amd64, 0, "there is none for linux/amd64, only for: nothing" },
		{ INDEX("{\"mediaType\":\"x/y\",\"digest\":" D("3") ",\"size\":9}"), &amd64, 0,
		  "the index names something of the media type 'x/y'" },
		{ INDEX("{\"mediaType\":\"" TYPE_OCI_MANIFEST "\",\"digest\":" D("3") ",\"size\":4194305}"), &amd64, 0,
		  "the manifest has more than 4194304 bytes" },
		{ IMAGE(""), &amd64, 0, "the manifest is none of an index" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
		struct index_entry entry;
		struct err e = { 0 };

		assert_int_equal(index_pick(str_of(cases[i].in), cases[i].want, &a, &entry, &e), cases[i].why ? -1 : 0);
		if (cases[i].why)
			assert_string_equal(e.msg, cases[i].why);
		else
			assert_int_equal(entry.blob.digest.bytes[31], cases[i].last);
	}
}

#define ROOTFS "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[" D("1") "]}"

static void a_configuration_is_read_as_far_as_it_is_known(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	static const char text[] =
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Env\":[\"PATH=/bin\",\"A=\"],\"Entrypoint\":[\"/x\"],"
		"\"Cmd\":null,\"WorkingDir\":\"/w\",\"User\":\"app:staff\",\"Labels\":{\"a\":\"b\"}}," ROOTFS ",\"history\":[]}";
	struct image_config c;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(image_config_parse(STR(text), &a, &c, &e), 0);
	assert_int_equal(c.env.n, 2);
	assert_string_equal(c.env.items[0], "PATH=/bin");
	assert_int_equal(c.entrypoint.n, 1);
	assert_int_equal(c.cmd.n, 0);
	assert_string_equal(c.workdir, "/w");
	assert_string_equal(c.user, "app:staff");
	assert_int_equal(c.n_diff_ids, 1);
	assert_int_equal(c.diff_ids[0].bytes[31], 0xe1);
	assert_int_equal(image_config_parse(STR("{\"config\":{\"WorkingDir\":\"\",\"User\":\"\"}," ROOTFS "}"), &a, &c, &e), 0);
	assert_null(c.workdir);
	assert_null(c.user);
	assert_int_equal(image_config_parse(STR("{\"config\":null," ROOTFS "}"), &a, &c, &e), 0);
}

static void a_configuration_is_believed_in_nothing(void **state)
{
	static const struct {
		const char *config, *why;
	} cases[] = {
		{ "\"Env\":[\"A\"]", "NAME=value" },
		{ "\"Env\":[\"=A\"]", "NAME=value" },
		{ "\"Env\":[\"A=x\\ny\"]", "line end" },
		{ "\"Env\":[\"A=x\\u0000y\"]", "Env" },
		{ "\"Env\":\"A=b\"", "Env" },
		{ "\"User\":5", "User" },
		{ "\"WorkingDir\":[]", "WorkingDir" },
		{ "\"Cmd\":\"x\"", "Cmd" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
		struct image_config c;
		struct err e = { 0 };
		char text[512];

		(void)snprintf(text, sizeof(text), "{\"config\":{%s}," ROOTFS "}", cases[i].config);
		assert_int_equal(image_config_parse(str_of(text), &a, &c, &e), -1);
		if (!strstr(e.msg, cases[i].why))
			fail_msg("'%s': %s", text, e.msg);
	}
}

static void what_programs_start_with_is_judged_by_its_words(void **state) /* I6 */
{
	static const struct {
		const char *user, *workdir, *why;
	} cases[] = {
		{ NULL, NULL, NULL },
		{ "app:staff", "/w", NULL },
		{ "1000", "/a/../b", NULL },
		{ "a b", "/", "USER 'a b' of the image is no name" },
		{ ":0", NULL, "USER ':0' of the image has no user" },
		{ "a:b:c", NULL, "USER 'a:b:c' of the image" },
		{ "../x", NULL, "USER '../x' of the image" },
		{ NULL, "tmp", "WORKDIR 'tmp' of the image is no absolute path" },
		{ NULL, "/tmp\n", "WORKDIR '/tmp\\n' of the image is no absolute path" },
		{ NULL, "/../\x7f", "WORKDIR '/../" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		assert_int_equal(image_check_start(cases[i].user, cases[i].workdir, &e), cases[i].why ? -1 : 0);
		if (cases[i].why && (e.code != ERR_INVALID || !str_starts(str_of(e.msg), str_of(cases[i].why))))
			fail_msg("'%s' is not '%s...'", e.msg, cases[i].why);
	}
}

static void digests_of_both_kinds_may_be_mixed(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
	static struct manifest m;
	static struct image_config c;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(manifest_parse(STR(IMAGE(LAYER("1") ",{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D512 ",\"size\":1}")), &m, &e), 0);
	assert_int_equal(m.layers[0].digest.size, SHA256_SIZE);
	assert_int_equal(m.layers[1].digest.size, SHA512_SIZE);
	assert_int_equal(m.layers[1].digest.bytes[SHA512_SIZE - 1], 0xe5);
	assert_int_equal(image_config_parse(STR("{\"rootfs\":{\"diff_ids\":[" D512 "," D("2") "]}}"), &a, &c, &e), 0);
	assert_int_equal(c.diff_ids[0].size, SHA512_SIZE);
	assert_int_equal(c.diff_ids[1].size, SHA256_SIZE);
	assert_int_equal(image_config_parse(STR("{\"rootfs\":{\"diff_ids\":[\"sha512:00\"]}}"), &a, &c, &e), -1);
	assert_non_null(strstr(e.msg, "diff id 1 is neither sha256"));
}

static void configuration_manifest_and_platform_belong_together(void **state)
{
	struct manifest m = { .n_layers = 1 };
	struct image_config c = { .os = "linux", .arch = "amd64", .n_diff_ids = 1 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(image_check(&m, &c, &amd64, &e), 0);
	assert_int_equal(image_check(&m, &c, &arm64, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_string_equal(e.msg, "there is none for linux/arm64, only for: linux/amd64");
	c.n_diff_ids = 2;
	assert_int_equal(image_check(&m, &c, &amd64, &e), -1);
	assert_string_equal(e.msg, "the manifest has 1 layers, the configuration 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_manifest_names_its_configuration_and_layers),
		cmocka_unit_test(what_breaks_a_rule_is_no_manifest),
		cmocka_unit_test(layers_have_a_ceiling),
		cmocka_unit_test(header_and_body_say_the_same_kind),
		cmocka_unit_test(an_index_has_an_entry_for_the_platform_or_says_which),
		cmocka_unit_test(a_configuration_is_read_as_far_as_it_is_known),
		cmocka_unit_test(a_configuration_is_believed_in_nothing),
		cmocka_unit_test(what_programs_start_with_is_judged_by_its_words),
		cmocka_unit_test(digests_of_both_kinds_may_be_mixed),
		cmocka_unit_test(configuration_manifest_and_platform_belong_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
