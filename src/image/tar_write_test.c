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
	assert_int_equal(tar_head("blobs/sha256/x", 5, tar), TAR_RECORD);
	memcpy(tar + TAR_RECORD, "hello", 5);
	assert_int_equal(tar_padding(5), TAR_RECORD - 5);
	assert_int_equal(tar_padding(TAR_RECORD), 0);
	assert_int_equal(tar_read(&source, &limits, &sink, &seen, &e), 0);
	assert_string_equal(seen.path, "blobs/sha256/x");
	assert_int_equal(seen.size, 5);
}

/* All records of a head; the last step. */
static enum tar_step read_all(const unsigned char *head, size_t n, char name[TAR_NAME_MAX + 1], uint64_t *size)
{
	struct tar_reader r = { 0 };
	enum tar_step step = TAR_MORE;

	for (size_t at = 0; at < n && step == TAR_MORE; at += TAR_RECORD)
		step = tar_head_read(&r, head + at, name, size);
	return step;
}

static void heads_read_back_and_others_are_refused(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 511, (UINT64_C(1) << 33) - 1, UINT64_C(1) << 33, UINT64_C(20) << 30 };
	static const size_t lengths[] = { 1, 99, 100, 101, 141, TAR_NAME_MAX };
	unsigned char head[TAR_HEAD_MAX];
	char name[TAR_NAME_MAX + 1], longest[TAR_NAME_MAX + 2];
	uint64_t size;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[TAR_NAME_MAX + 1] = '\0';
	assert_int_equal(tar_head(longest, 1, head), 0);
	assert_int_equal(tar_head("", 1, head), 0);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const char *one = longest + TAR_NAME_MAX + 1 - lengths[i];
		size_t n = tar_head(one, sizes[i], head);

		assert_int_equal(n, tar_head_size(one));
		assert_int_equal(n, lengths[i] > 100 ? TAR_HEAD_MAX : TAR_RECORD);
		assert_int_equal(read_all(head, n, name, &size), TAR_FILE);
		assert_string_equal(name, one);
		assert_int_equal(size, sizes[i]);
		for (size_t at = 0; at < n; at += TAR_RECORD) {
			head[at + 3] ^= 1;
			assert_int_equal(read_all(head, n, name, &size), TAR_BROKEN);
			head[at + 3] ^= 1;
		}
	}
	memset(head, 0, sizeof(head));
	assert_int_equal(read_all(head, TAR_RECORD, name, &size), TAR_ZEROS);
}

static void a_name_leads_to_a_file_and_to_nothing_else(void **state)
{
	unsigned char head[TAR_HEAD_MAX], plain[TAR_HEAD_MAX], zeros[TAR_RECORD] = { 0 };
	char name[TAR_NAME_MAX + 1], longest[142];
	struct tar_reader r = { 0 };
	uint64_t size;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[141] = '\0';
	assert_int_equal(tar_head(longest, 7, head), TAR_HEAD_MAX);
	assert_int_equal(tar_head("plain", 7, plain), TAR_RECORD);
	assert_int_equal(tar_head_read(&r, head, name, &size), TAR_MORE);
	assert_int_equal(tar_head_read(&r, plain, name, &size), TAR_BROKEN); /* where the name should be */
	r = (struct tar_reader){ 0 };
	(void)tar_head_read(&r, head, name, &size);
	assert_int_equal(tar_head_read(&r, head + TAR_RECORD, name, &size), TAR_MORE);
	assert_int_equal(tar_head_read(&r, head, name, &size), TAR_BROKEN); /* a second name */
	assert_int_equal(tar_head_read(&r, zeros, name, &size), TAR_BROKEN);
	assert_int_equal(tar_head_read(&r, head + 2 * TAR_RECORD, name, &size), TAR_FILE);
	assert_string_equal(name, longest);
	assert_int_equal(tar_head_read(&r, plain, name, &size), TAR_FILE); /* it was that one's alone */
	assert_string_equal(name, "plain");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_a_tar_to_others),
		cmocka_unit_test(heads_read_back_and_others_are_refused),
		cmocka_unit_test(a_name_leads_to_a_file_and_to_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
