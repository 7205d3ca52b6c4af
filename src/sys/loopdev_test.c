// SPDX-License-Identifier: Apache-2.0
#include "sys/loopdev.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sys/root_test.h"

#include "sys/image_test.h"

#include "base/banned.h"

static bool has_loop(void)
{
	return access("/dev/loop-control", R_OK | W_OK) == 0;
}

static int attach_twice(void *arg)
{
	struct image i;
	char first[LOOPDEV_PATH_MAX], second[LOOPDEV_PATH_MAX];
	struct err e = { 0 };
	char byte = 'x';
	int a, b, r;

	(void)arg;
	if (!has_loop())
		return CHILD_CANNOT;
	r = image_make(&i);
	if (r != 0)
		return r;
	CHECK(loopdev_find(i.file, first, &e) < 0 && e.code == ERR_NOT_FOUND);
	a = loopdev_attach(i.file, first, &e);
	CHECK_OK(a, &e);
	b = loopdev_attach(i.file, second, &e);
	CHECK_OK(b, &e);
	CHECK(strcmp(first, second) == 0);
	CHECK(pwrite(a, &byte, 1, 0) == 1 && fsync(a) == 0); /* through the device into the file */
	byte = 0;
	CHECK(pread(i.file, &byte, 1, 0) == 1 && byte == 'x');
	(void)close(a);
	CHECK((a = loopdev_find(i.file, second, &e)) >= 0); /* the other one still holds it */
	(void)close(a);
	(void)close(b);
	for (int tries = 0; (a = loopdev_find(i.file, second, &e)) >= 0; tries++) { /* with its last user it goes */
		(void)close(a);
		CHECK(tries < 100);
		(void)usleep(20000);
	}
	CHECK(e.code == ERR_NOT_FOUND);
	return image_remove(&i) < 0;
}

static void a_file_is_attached_once_and_let_go_with_its_last_user(void **state)
{
	(void)state;
	WITH_IMAGE(attach_twice);
}

static int grow(void *arg)
{
	struct image i;
	char path[LOOPDEV_PATH_MAX];
	struct err e = { 0 };
	uint64_t bytes;
	int r, dev;

	(void)arg;
	if (!has_loop())
		return CHILD_CANNOT;
	r = image_make(&i);
	if (r != 0)
		return r;
	dev = loopdev_attach(i.file, path, &e);
	CHECK_OK(dev, &e);
	CHECK_OK(loopdev_resize(dev, &bytes, &e), &e);
	CHECK(bytes == IMAGE_BYTES);
	CHECK(ftruncate(i.file, IMAGE_BYTES + (8 << 20)) == 0);
	CHECK_OK(loopdev_resize(dev, &bytes, &e), &e);
	CHECK(bytes == IMAGE_BYTES + (8 << 20));
	(void)close(dev);
	return image_remove(&i) < 0;
}

static void a_device_grows_with_its_file(void **state)
{
	(void)state;
	WITH_IMAGE(grow);
}

static int attach_what_is_no_file(void *arg)
{
	char path[LOOPDEV_PATH_MAX];
	struct err e = { 0 };
	AUTO_FD null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)arg;
	if (!has_loop())
		return CHILD_CANNOT;
	CHECK(loopdev_attach(null, path, &e) < 0 && e.msg[0]);
	CHECK(loopdev_attach(-1, path, &e) < 0 && e.code == ERR_UNAVAILABLE);
	return 0;
}

static void what_is_no_file_is_refused(void **state)
{
	(void)state;
	WITH_IMAGE(attach_what_is_no_file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_attached_once_and_let_go_with_its_last_user),
		cmocka_unit_test(a_device_grows_with_its_file),
		cmocka_unit_test(what_is_no_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
