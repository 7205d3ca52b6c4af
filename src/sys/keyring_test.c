// SPDX-License-Identifier: Apache-2.0
#include "sys/keyring.h"

#include <linux/keyctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/err.h"
#include "sys/root_test.h"

#include "base/banned.h"

static long session(void)
{
	return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0, 0, 0);
}

static long find_key(void)
{
	return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "keyring_test", 0);
}

/* In a session key ring of the test's own: the caller's is left alone. */
static int join(void *arg)
{
	struct err e = { 0 };
	long before;

	(void)arg;
	if (session() < 0 && errno == ENOSYS)
		return CHILD_CANNOT;
	CHECK_OK(keyring_join_fresh(&e), &e);
	before = session();
	CHECK(syscall(SYS_add_key, "user", "keyring_test", "x", 1, KEY_SPEC_SESSION_KEYRING) > 0 && find_key() > 0);
	CHECK_OK(keyring_join_fresh(&e), &e);
	CHECK(session() > 0 && session() != before);
	CHECK(find_key() < 0 && errno == ENOKEY);
	return 0;
}

static void keys_of_the_old_session_are_not_found_in_the_new_one(void **state)
{
	int r;

	(void)state;
	r = in_child(join, NULL);
	if (r == CHILD_CANNOT) {
		print_message("skipped: the kernel has no keys\n");
		skip();
	}
	assert_int_equal(r, 0);
}

static int join_without_keys(void *arg)
{
	struct err e = { 0 };

	(void)arg;
	CHECK(refuse_syscall(SYS_keyctl) == 0);
	CHECK_OK(keyring_join_fresh(&e), &e);
	return 0;
}

static int join_refused(void *arg)
{
	struct err e = { 0 };

	(void)arg;
	CHECK(refuse_flag(SYS_keyctl, 0, KEYCTL_JOIN_SESSION_KEYRING) == 0);
	CHECK(keyring_join_fresh(&e) < 0 && e.code == ERR_INVALID);
	return 0;
}

static void a_kernel_without_keys_is_fine_and_a_refusal_is_not(void **state)
{
	(void)state;
	assert_int_equal(in_child(join_without_keys, NULL), 0);
	assert_int_equal(in_child(join_refused, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_the_old_session_are_not_found_in_the_new_one),
		cmocka_unit_test(a_kernel_without_keys_is_fine_and_a_refusal_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
