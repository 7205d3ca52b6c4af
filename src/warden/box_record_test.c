// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/memfd.h"
#include "warden/box_record.h"

#include "base/banned.h"

struct folder {
	char path[32];
	int dir;
};

static const struct box_file file = { .stage = BOX_STARTING, .id = "ab-12", .boot = "0b1e6a4c", .pid = 4711, .pid_start = 99, .layer = "blob-1" };
static struct slot_layer layers[] = { { .name = "snap-1", .id_base = 1 << 20, .is_disk = true }, { .name = "blob-2" } };

static int set_up(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	memcpy(f->path, "/tmp/record.XXXXXX", sizeof("/tmp/record.XXXXXX"));
	f->dir = mkdtemp(f->path) ? open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	*state = f;
	return f->dir < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct folder *f = *state;

	(void)unlinkat(f->dir, BOX_RECORD_NAME, 0);
	(void)close(f->dir);
	assert_int_equal(rmdir(f->path), 0);
	free(f);
	return 0;
}

static void put(struct folder *f, const char *text, bool is_first)
{
	AUTO_FD fd = memfd_sealed_bytes("t", str_of(text), &(struct err){ 0 });
	const struct stack s = { layers, ARRAY_LEN(layers), false };
	struct err e;

	assert_int_equal((is_first ? box_record_write : box_record_replace)(f->dir, &file, &s, fd, &e), 0);
}

static int get(struct folder *f, struct box_file *ret, struct stack *stack, struct buf *text, struct err *e)
{
	buf_clear(text);
	return box_record_read(f->dir, ret, stack, text, e);
}

static void what_is_written_is_read(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(4096);
	AUTO(stack_done) struct stack stack = { 0 };
	struct folder *f = *state;
	struct box_file got;
	struct err e;

	assert_int_equal(box_record_read(f->dir, &got, &stack, &text, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	put(f, "first", true);
	put(f, "the server's own words", false);
	assert_int_equal(get(f, &got, &stack, &text, &e), 0);
	assert_string_equal(buf_z(&text), "the server's own words");
	assert_string_equal(got.id, "ab-12");
	assert_int_equal(got.pid, 4711);
	assert_true(stack.n == 2 && stack_has(&stack, "snap-1") && stack_has(&stack, "blob-2") && !stack_has(&stack, "blob-3"));
}

/* G8: what is damaged is known to be. */
static void no_bit_can_change_unnoticed(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(4096);
	struct folder *f = *state;
	struct err e;
	struct stat st;
	AUTO_FD fd = -1;

	put(f, "text", true);
	fd = openat(f->dir, BOX_RECORD_NAME, O_RDWR | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t i = 0; i < 8 * st.st_size; i++) {
		unsigned char byte;

		assert_int_equal(pread(fd, &byte, 1, i / 8), 1);
		byte ^= (unsigned char)(1 << i % 8);
		assert_int_equal(pwrite(fd, &byte, 1, i / 8), 1);
		assert_int_equal(get(f, NULL, NULL, &text, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		byte ^= (unsigned char)(1 << i % 8);
		assert_int_equal(pwrite(fd, &byte, 1, i / 8), 1);
	}
	assert_int_equal(get(f, NULL, NULL, &text, &e), 0);
	for (off_t n = st.st_size - 1; n >= 0; n--) {
		assert_int_equal(ftruncate(fd, n), 0);
		assert_int_equal(get(f, NULL, NULL, &text, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void a_record_that_is_too_large_is_refused(void **state)
{
	struct folder *f = *state;
	const struct stack none = { 0 };
	AUTO_FD fd = openat(f->dir, BOX_RECORD_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct err e;

	assert_int_equal(ftruncate(fd, WIRE_RECORD_MAX + 1), 0);
	assert_int_equal(box_record_replace(f->dir, &file, &none, fd, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_bit_can_change_unnoticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_record_that_is_too_large_is_refused, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
