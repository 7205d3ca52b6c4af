// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "image/entry.h"
#include "image/tar.h"
#include "image/tar_write.h"

#include "base/banned.h"

struct seen {
	char path[128];
	uint64_t size;
};

static int make(void *arg, const struct entry *en, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	assert_int_equal(en->kind, ENTRY_FILE);
	assert_int_equal(en->mode, 0644);
	(void)snprintf(s->path, sizeof(s->path), "%s", en->path);
	s->size = en->size;
	return 0;
}

static int attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	(void)arg, (void)name, (void)value, (void)n, (void)e;
	return 0;
}

static int data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	(void)arg, (void)e;
	assert_int_equal(at, 0);
	assert_memory_equal(p, "hello", n);
	return 0;
}

static int end(void *arg, struct err *e)
{
	(void)arg, (void)e;
	return 0;
}

static void what_is_written_is_a_tar_to_others(void **state)
{
	static const struct tar_sink sink = { make, attr, data, end };
	static unsigned char tar[TAR_RECORD * 2 + TAR_END_BYTES];
	const struct tar_limits limits = TAR_LIMITS_DEFAULT;
	struct tar_source source = { .fd = -1, .bytes = { (char *)tar, sizeof(tar) } };
	struct seen seen = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_true(tar_header("blobs/sha256/x", 5, tar));
	memcpy(tar + TAR_RECORD, "hello", 5);
	assert_int_equal(tar_padding(5), TAR_RECORD - 5);
	assert_int_equal(tar_padding(TAR_RECORD), 0);
	assert_int_equal(tar_read(&source, &limits, &sink, &seen, &e), 0);
	assert_string_equal(seen.path, "blobs/sha256/x");
	assert_int_equal(seen.size, 5);
}

static void headers_read_back_and_others_are_refused(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 511, (UINT64_C(1) << 33) - 1, UINT64_C(1) << 33, UINT64_C(20) << 30 };
	unsigned char record[TAR_RECORD];
	char name[101], longest[102];
	uint64_t size;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[101] = '\0';
	assert_false(tar_header(longest, 1, record));
	longest[100] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		assert_true(tar_header(longest, sizes[i], record));
		assert_int_equal(tar_header_read(record, name, &size), 1);
		assert_string_equal(name, longest);
		assert_int_equal(size, sizes[i]);
		record[200] ^= 1;
		assert_int_equal(tar_header_read(record, name, &size), -1);
	}
	memset(record, 0, sizeof(record));
	assert_int_equal(tar_header_read(record, name, &size), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_a_tar_to_others),
		cmocka_unit_test(headers_read_back_and_others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
