// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "warden/stack.h"

#include "base/banned.h"

static void layers_are_named_after_what_they_are(void **state)
{
	struct wire_layer blob = { WIRE_LAYER_BLOB, { 0xab, [31] = 1 } }, snap = { WIRE_LAYER_SNAPSHOT, { 0xcd, [15] = 2 } };
	char name[SLOT_LAYER_NAME_MAX + 1];

	(void)state;
	stack_layer_name(&blob, name);
	assert_string_equal(name, "blob-ab00000000000000000000000000000000000000000000000000000000000001");
	stack_layer_name(&snap, name);
	assert_string_equal(name, "snap-cd000000000000000000000000000002");
}

static void what_is_noted_is_read(void **state)
{
	struct slot_layer layers[] = { { .name = "snap-1", .id_base = 1 << 20, .is_disk = true }, { .name = "blob-2" } };
	struct stack s = { layers, 2, false }, got;
	char folder[] = "/tmp/stack.XXXXXX";
	struct err e = { 0 };
	int dir, fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(stack_read(dir, &got, &e), 0); /* no layers, no file */
	assert_int_equal(got.n, 0);
	assert_int_equal(stack_write(dir, &s, &e), 0);
	assert_int_equal(stack_read(dir, &got, &e), 0);
	assert_int_equal(got.n, 2);
	assert_true(stack_has(&got, "snap-1") && stack_has(&got, "blob-2") && !stack_has(&got, "blob-1"));
	assert_true(got.layers[0].id_base == 1 << 20 && got.layers[0].is_disk);
	stack_done(&got);
	memcpy(layers[1].name, "../x", 5);
	assert_int_equal(stack_write(dir, &s, &e), 0);
	assert_int_equal(stack_read(dir, &got, &e), -1);
	fd = openat(dir, "stack", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(stack_read(dir, &got, &e), -1);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlinkat(dir, "stack", 0), 0);
	assert_int_equal(close(dir), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_are_named_after_what_they_are),
		cmocka_unit_test(what_is_noted_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
