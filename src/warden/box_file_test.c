// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "warden/box_file.h"

#include "base/banned.h"

static struct box_file example(void)
{
	return (struct box_file){
		.stage = BOX_OVER, .id = "3f2b6c1e-9a44-4c1e-8d0b-2f6f1a7c9e10", .boot = "0b1e6a4c-1111-4222-8333-944445555666",
		.pid = 4711, .pid_start = UINT64_C(0x123456789abcdef), .layer = "host-00112233",
		.ending = { .reason = WIRE_END_KILLED, .exit_code = 137, .signal = 9, .oom = 1 },
	};
}

static void assert_same(const struct box_file *a, const struct box_file *b)
{
	assert_int_equal(a->stage, b->stage);
	assert_string_equal(a->id, b->id);
	assert_string_equal(a->boot, b->boot);
	assert_string_equal(a->layer, b->layer);
	assert_int_equal(a->pid, b->pid);
	assert_true(a->pid_start == b->pid_start);
	assert_memory_equal(&a->ending, &b->ending, sizeof(a->ending));
}

static void what_is_written_is_read(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	struct err e;

	(void)state;
	for (unsigned stage = BOX_STARTING; stage <= BOX_REMOVING; stage++) {
		f.stage = stage;
		box_file_encode(&f, bytes);
		assert_int_equal(box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e), 0);
		assert_same(&f, &got);
	}
}

static void the_longest_names_fit(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	struct err e;

	(void)state;
	memset(f.id, 'a', sizeof(f.id) - 1);
	memset(f.layer, 'b', sizeof(f.layer) - 1);
	memset(f.boot, 'c', sizeof(f.boot) - 1);
	box_file_encode(&f, bytes);
	assert_int_equal(box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e), 0);
	assert_same(&f, &got);
}

/* Which process it is decides whether the box is taken for dead (G8). */
static void no_bit_can_change_unnoticed(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	struct err e;

	(void)state;
	box_file_encode(&f, bytes);
	for (size_t i = 0; i < 8 * sizeof(bytes); i++) {
		bytes[i / 8] ^= (unsigned char)(1 << i % 8);
		assert_int_equal(box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		bytes[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	assert_int_equal(box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e), 0);
}

/* A file as a program before the check wrote it. */
static void encode_unchecked(const struct box_file *f, unsigned char bytes[BOX_FILE_BYTES])
{
	box_file_encode(f, bytes);
	bytes[4] = 1;
	memset(bytes + 216, 0, 20);
}

static void a_file_of_a_program_before_the_check_is_read(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	struct err e;

	(void)state;
	encode_unchecked(&f, bytes);
	assert_int_equal(box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e), 0);
	assert_same(&f, &got);
}

/* Offsets as they are in the file, which an older program may have written. */
static void bytes_that_are_not_ours_are_refused(void **state)
{
	static const struct {
		const char *what;
		size_t at;
		unsigned char byte;
	} table[] = {
		{ "magic", 0, 'b' },           { "version", 4, 3 },         { "stage 0", 6, 0 },
		{ "stage too high", 6, 5 },    { "stage's high byte", 7, 1 }, { "id begins badly", 8, '-' },
		{ "id with a slash", 10, '/' }, { "no id", 8, 0 },           { "text behind the id's end", 71, 'x' },
		{ "no boot", 72, 0 },          { "text behind the boot", 111, 'x' }, { "negative pid", 123, 0x80 },
		{ "unknown reason", 124, 4 },  { "oom is 0 or 1", 136, 2 }, { "text behind the end", 140, 0 },
		{ "a layer above", 141, '/' }, { "a layer that is '.'", 140, '.' }, { "reserved", 220, 1 }, { "end", 239, 0 },
	};
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		encode_unchecked(&f, bytes);
		bytes[table[i].at] = table[i].byte;
		if (box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e) == 0)
			fail_msg("accepted: %s", table[i].what);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void any_other_size_is_refused(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES + 1] = { 0 };
	struct err e;

	(void)state;
	box_file_encode(&f, bytes);
	for (size_t n = 0; n <= sizeof(bytes); n++)
		if (n != BOX_FILE_BYTES)
			assert_int_equal(box_file_decode((struct str){ (const char *)bytes, n }, &got, &e), -1);
}

static void random_changes_never_do_more_than_fail(void **state)
{
	struct box_file f = example(), got;
	unsigned char bytes[BOX_FILE_BYTES];
	uint32_t seed = 1;
	struct err e;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		box_file_encode(&f, bytes);
		for (int k = 0; k < 1 + i % 4; k++) {
			seed = seed * 1664525 + 1013904223;
			bytes[(seed >> 16) % sizeof(bytes)] ^= (unsigned char)(seed >> 8);
		}
		if (box_file_decode((struct str){ (const char *)bytes, sizeof(bytes) }, &got, &e) == 0) {
			unsigned char again[BOX_FILE_BYTES];

			box_file_encode(&got, again);
			assert_memory_equal(bytes, again, sizeof(again));
		}
	}
}

static void the_file_is_replaced_as_a_whole(void **state)
{
	char folder[] = "/tmp/box_file.XXXXXX";
	struct box_file f = example(), got;
	struct stat st;
	struct err e;
	int dir;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(box_file_read(dir, &got, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	for (unsigned stage = BOX_STARTING; stage <= BOX_OVER; stage++) {
		f.stage = stage;
		assert_int_equal(box_file_write(dir, &f, &e), 0);
		assert_int_equal(box_file_read(dir, &got, &e), 0);
		assert_same(&f, &got);
	}
	assert_int_equal(fstatat(dir, "box", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(unlinkat(dir, "box", 0), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(box_file_write(dir, &f, &e), -1); /* the folder is gone */
	assert_int_equal(close(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(the_longest_names_fit),
		cmocka_unit_test(no_bit_can_change_unnoticed),
		cmocka_unit_test(a_file_of_a_program_before_the_check_is_read),
		cmocka_unit_test(bytes_that_are_not_ours_are_refused),
		cmocka_unit_test(any_other_size_is_refused),
		cmocka_unit_test(random_changes_never_do_more_than_fail),
		cmocka_unit_test(the_file_is_replaced_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
