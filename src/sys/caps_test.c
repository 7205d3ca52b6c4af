// SPDX-License-Identifier: Apache-2.0
#include "sys/caps.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/process.h"
#include "sys/root_test.h"

#include "base/banned.h"

#define MASK 0x800405fbULL /* C1 */

static bool are(const struct caps *c, uint64_t inheritable, uint64_t permitted, uint64_t effective, uint64_t bounding)
{
	return c->inheritable == inheritable && c->permitted == permitted && c->effective == effective &&
	       c->bounding == bounding && c->ambient == 0;
}

/* Something to clear: CHOWN inheritable and ambient. */
static int raise_ambient(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	data[0].inheritable |= 1;
	if (syscall(SYS_capset, &header, data) < 0)
		return -1;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0);
}

static int limit_self(void *arg)
{
	struct err e = { 0 };
	struct caps c;
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	(void)arg;
	CHECK(raise_ambient() == 0);
	CHECK_OK(caps_read(0, &c, &e), &e);
	CHECK(c.inheritable == 1 && c.ambient == 1);
	CHECK_OK(caps_limit(MASK, &e), &e);
	CHECK_OK(caps_read(getpid(), &c, &e), &e);
	CHECK(are(&c, 0, MASK, MASK, MASK));
	CHECK(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == bits);
	CHECK_OK(caps_limit(MASK, &e), &e); /* once more is the same */
	CHECK(caps_set(MASK | 1ULL << CAP_SYS_ADMIN, &e) < 0 && e.code == ERR_DENIED);
	CHECK_OK(caps_set(1, &e), &e);
	CHECK_OK(caps_read(0, &c, &e), &e);
	CHECK(are(&c, 0, 1, 1, MASK));
	CHECK(caps_bound(0, &e) < 0 && e.code == ERR_DENIED); /* SETPCAP is gone */
	return 0;
}

static void the_sets_are_exactly_the_mask(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	assert_int_equal(in_child(limit_self, NULL), 0);
}

static int limit_child(void *arg, struct err *e)
{
	(void)arg;
	return caps_limit(MASK, e);
}

/* What root's programs have after exec comes from the bounding set alone. */
static void a_program_started_afterwards_has_them_too(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	char program[] = "/bin/cat", file[] = "/proc/self/status";
	char *argv[] = { program, file, NULL };
	struct spawn_spec sp = SPAWN_INIT(argv[0], argv);
	AUTO_FD out = memfd_create("status", MFD_CLOEXEC);
	AUTO_FD pidfd = -1;
	struct process_end end;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	sp.out = out;
	sp.setup = limit_child;
	pidfd = process_spawn(&sp, NULL, &e);
	assert_string_equal(e.msg, "");
	assert_int_equal(process_wait(pidfd, 10000, &end, &e), 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	assert_int_equal(fd_read_all(out, 65536, &b, &e), 0);
	assert_non_null(strstr(buf_z(&b), "CapInh:\t0000000000000000\nCapPrm:\t00000000800405fb\n"
					  "CapEff:\t00000000800405fb\nCapBnd:\t00000000800405fb\n"
					  "CapAmb:\t0000000000000000\n"));
}

static void a_process_that_is_not_there_is_an_error(void **state)
{
	struct caps c;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(caps_read(INT32_MAX, &c, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sets_are_exactly_the_mask),
		cmocka_unit_test(a_program_started_afterwards_has_them_too),
		cmocka_unit_test(a_process_that_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
