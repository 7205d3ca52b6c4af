// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/map.h"
#include "base/random.h"
#include "base/uuid.h"

#include "base/banned.h"

static void bytes_differ_from_call_to_call(void **state)
{
	unsigned char a[32] = { 0 }, b[32] = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(random_bytes(a, sizeof(a), &e), 0);
	assert_int_equal(random_bytes(b, sizeof(b), &e), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_int_equal(random_bytes(NULL, 0, &e), 0);
	assert_int_equal(e.code, ERR_NONE);
}

static void long_reads_are_filled_to_the_end(void **state)
{
	static unsigned char a[100000];
	struct err e = { 0 };
	size_t zeros = 0;

	(void)state;
	assert_int_equal(random_bytes(a, sizeof(a), &e), 0);
	for (size_t i = sizeof(a) - 4096; i < sizeof(a); i++)
		zeros += a[i] == 0;
	assert_true(zeros < 128);
}

static bool is_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static void the_pool_wipes_what_it_hands_out(void **state)
{
	AUTO(random_pool_done) struct random_pool pool = RANDOM_POOL_INIT;
	unsigned char a[16], b[16];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(random_pool_take(&pool, a, sizeof(a), &e), 0);
	assert_int_equal(pool.left, RANDOM_POOL_SIZE - 16);
	assert_true(is_zero(pool.bytes, 16));
	assert_int_equal(random_pool_take(&pool, b, sizeof(b), &e), 0);
	assert_memory_not_equal(a, b, sizeof(a));
	random_pool_done(&pool);
	assert_int_equal(pool.left, 0);
	assert_true(is_zero(pool.bytes, sizeof(pool.bytes)));
}

static void the_pool_refills_itself(void **state)
{
	AUTO(random_pool_done) struct random_pool pool = RANDOM_POOL_INIT;
	unsigned char seen[100][24];
	unsigned char large[RANDOM_POOL_SIZE * 3] = { 0 };
	struct err e = { 0 };
	size_t left;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
		assert_int_equal(random_pool_take(&pool, seen[i], sizeof(seen[i]), &e), 0);
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(seen[i], seen[j], sizeof(seen[i]));
	}
	left = pool.left;
	assert_int_equal(random_pool_take(&pool, large, sizeof(large), &e), 0);
	assert_int_equal(pool.left, left);
	assert_false(is_zero(large + sizeof(large) - 64, 64));
}

/* Makes getrandom fail with ENOSYS for the calling process. */
static bool forbid_getrandom(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_LEN(rules), .filter = rules };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static int without_getrandom(void)
{
	AUTO(map_done) struct map m = MAP_INIT;
	struct random_pool pool = RANDOM_POOL_INIT;
	char id[UUID_LEN + 1] = "";
	unsigned char b[16];
	struct err e = { 0 };

	if (random_bytes(b, sizeof(b), &e) != -1 || e.code != ERR_UNAVAILABLE || e.sys != ENOSYS)
		return 1;
	if (strncmp(e.msg, "read random bytes: ", 19) != 0)
		return 2;
	if (random_pool_take(&pool, b, sizeof(b), &e) != -1 || pool.left != 0)
		return 3;
	if (uuid_text(NULL, id, &e) != -1 || uuid_text(&pool, id, &e) != -1 || id[0])
		return 4;
	return map_put(&m, STR("key"), &m) || m.n > 0 ? 5 : 0;
}

static void without_the_kernel_nothing_is_made_up(void **state)
{
	int status = -1;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(forbid_getrandom() ? without_getrandom() : 77);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* no seccomp here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_differ_from_call_to_call),
		cmocka_unit_test(long_reads_are_filled_to_the_end),
		cmocka_unit_test(the_pool_wipes_what_it_hands_out),
		cmocka_unit_test(the_pool_refills_itself),
		cmocka_unit_test(without_the_kernel_nothing_is_made_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
