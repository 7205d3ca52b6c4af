// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of what reads the documents of images: each failure is an error that is not the
 * document's, never a crash, a leak or another image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/manifest.h"
#include "image/reference.h"

#include "failing_alloc.h"

#include "base/banned.h"

#define D "\"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\""
#define LAYER "{\"mediaType\":\"" TYPE_OCI_LAYER "\",\"digest\":" D ",\"size\":5}"
static const char manifest_text[] = "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" TYPE_OCI_CONFIG "\",\"digest\":" D
				    ",\"size\":5},\"layers\":[" LAYER "," LAYER "," LAYER "]}";
static const char index_text[] = "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" TYPE_OCI_MANIFEST "\",\"digest\":" D
				 ",\"size\":5,\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}}]}";
static const char config_text[] = "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Env\":[\"A=b\",\"C=d\"],\"Cmd\":[\"x\"],"
				  "\"User\":\"u\",\"WorkingDir\":\"/w\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[" D "," D "," D "]}}";
static const struct platform amd64 = { "linux", "amd64" };

static int read_all(struct arena *a, struct err *e)
{
	enum manifest_kind kind;
	struct index_entry entry;
	struct manifest m;
	struct image_config c;

	if (manifest_kind(str_of(index_text), STR(TYPE_OCI_INDEX), &kind, e) < 0 || index_pick(str_of(index_text), &amd64, a, &entry, e) < 0)
		return -1;
	if (manifest_kind(str_of(manifest_text), STR(""), &kind, e) < 0 || manifest_parse(str_of(manifest_text), &m, e) < 0)
		return -1;
	if (image_config_parse(str_of(config_text), a, &c, e) < 0)
		return -1;
	assert_int_equal(m.n_layers, 3);
	assert_int_equal(c.env.n, 2);
	return image_check(&m, &c, &amd64, e);
}

static void documents_fail_softly(void **state)
{
	(void)state;
	for (long n = 0;; n++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(MANIFEST_ARENA_MAX);
		struct err e = { 0 };
		int rc;

		countdown = n;
		has_failed = false;
		rc = read_all(&a, &e);
		countdown = -1;
		if (!has_failed) {
			assert_int_equal(rc, 0);
			assert_true(n >= 5);
			return;
		}
		assert_int_equal(rc, -1);
		assert_int_equal(e.code, ERR_UNAVAILABLE); /* try again: nothing is wrong with the image */
	}
}

static void a_name_fails_softly(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(REFERENCE_TEXT_MAX);
	struct reference r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(reference_parse(STR("python:3.12"), &r, &e), 0);
	countdown = 0;
	assert_false(reference_write(&r, &b));
	countdown = -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_fail_softly),
		cmocka_unit_test(a_name_fails_softly),
	};

	failing_alloc_here();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
