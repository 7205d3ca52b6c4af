// SPDX-License-Identifier: Apache-2.0
#include "sys/seccomp.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "sys/policy_test.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

#define INT_TEST(op_, arg_, ...) \
	{ .op = (op_), .arg = (arg_), .mask = SECCOMP_INT, .n = sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), \
	  .values = { __VA_ARGS__ } }
#define POLICY(rules_) \
	{ .arch = AUDIT_ARCH_X86_64, .has_x32 = true, .foreign = SECCOMP_RET_KILL_PROCESS, \
	  .unknown = SECCOMP_FAIL(ENOSYS), .rules = (rules_), .n_rules = ARRAY_LEN(rules_) }
#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#else
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

static struct seccomp_program *compile(const struct seccomp_policy *p)
{
	struct seccomp_program *program = calloc(1, sizeof(*program));
	struct err e = { 0 };

	assert_non_null(program);
	if (seccomp_compile(p, program, &e) < 0)
		fail_msg("%s", e.msg);
	assert_true(program_is_sound(program));
	return program;
}

static uint32_t run(const struct seccomp_program *program, struct seccomp_data d)
{
	struct err e = { 0 };
	uint32_t action = 0;

	if (seccomp_simulate(program, &d, NULL, &action, &e) < 0)
		fail_msg("%s", e.msg);
	return action;
}

static void a_policy_without_rules_knows_no_call(void **state)
{
	struct seccomp_policy p = { .arch = AUDIT_ARCH_AARCH64, .foreign = SECCOMP_RET_KILL_PROCESS,
				    .unknown = SECCOMP_FAIL(ENOSYS) };
	AUTO(free) struct seccomp_program *program = compile(&p);

	(void)state;
	assert_int_equal(program->n, 5);
	assert_int_equal(run(program, (struct seccomp_data){ .arch = p.arch, .nr = 7 }), p.unknown);
	assert_int_equal(run(program, (struct seccomp_data){ .arch = p.arch, .nr = 0x40000007 }), p.unknown);
	assert_int_equal(run(program, (struct seccomp_data){ .arch = AUDIT_ARCH_ARM, .nr = 7 }), p.foreign);
}

static void x32_is_foreign_but_a_skipped_call_is_not(void **state)
{
	static const struct seccomp_rule rules[] = { { .nr = 39, .action = SECCOMP_RET_ALLOW } };
	struct seccomp_policy p = POLICY(rules);
	AUTO(free) struct seccomp_program *program = compile(&p);
	static const struct {
		uint32_t nr, want;
	} cases[] = {
		{ 38, SECCOMP_FAIL(ENOSYS) },
		{ 39, SECCOMP_RET_ALLOW },
		{ 40, SECCOMP_FAIL(ENOSYS) },
		{ 0x3fffffff, SECCOMP_FAIL(ENOSYS) },
		{ 0x40000000, SECCOMP_RET_KILL_PROCESS },
		{ 0x40000027, SECCOMP_RET_KILL_PROCESS },
		{ 0x7fffffff, SECCOMP_RET_KILL_PROCESS },
		{ 0x80000027, SECCOMP_FAIL(ENOSYS) },
		{ 0xc0000027, SECCOMP_RET_KILL_PROCESS },
		{ 0xfffffffe, SECCOMP_RET_KILL_PROCESS },
		{ 0xffffffff, SECCOMP_FAIL(ENOSYS) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(run(program, (struct seccomp_data){ .arch = p.arch, .nr = (int)cases[i].nr }),
				 cases[i].want);
}

static void the_first_case_that_holds_decides(void **state)
{
	static const struct seccomp_case cases[] = {
		{ { INT_TEST(SECCOMP_ONE_OF, 0, 1, 2), INT_TEST(SECCOMP_NONE_OF, 5, 7) }, SECCOMP_FAIL(11) },
		{ { INT_TEST(SECCOMP_ONE_OF, 0, 2, 3) }, SECCOMP_FAIL(12) },
		{ { { .op = SECCOMP_ONE_OF, .arg = 1, .mask = 0xf0, .n = 1, .values = { 0x30 } } }, SECCOMP_FAIL(13) },
	};
	static const struct seccomp_rule rules[] = { { 5, SECCOMP_RET_ALLOW, cases, ARRAY_LEN(cases) } };
	static const struct {
		uint64_t args[6];
		uint32_t want;
	} calls[] = {
		{ { 1 }, SECCOMP_FAIL(11) },
		{ { 2 }, SECCOMP_FAIL(11) },
		{ { 2, 0, 0, 0, 0, 7 }, SECCOMP_FAIL(12) },
		{ { 1, 0, 0, 0, 0, 7 }, SECCOMP_RET_ALLOW },
		{ { 1, 0x3f, 0, 0, 0, 7 }, SECCOMP_FAIL(13) },
		{ { 9, 0xffffff30 }, SECCOMP_FAIL(13) },
		{ { 9, 0x20 }, SECCOMP_RET_ALLOW },
	};
	struct seccomp_policy p = POLICY(rules);
	AUTO(free) struct seccomp_program *program = compile(&p);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct seccomp_data d = { .nr = 5, .arch = p.arch };

		memcpy(d.args, calls[i].args, sizeof(d.args));
		assert_int_equal(run(program, d), calls[i].want);
		assert_int_equal(seccomp_judge(&p, &d), calls[i].want);
	}
}

static void ints_are_their_low_half_and_longs_are_whole(void **state)
{
	static const struct seccomp_case cases[] = {
		{ { INT_TEST(SECCOMP_ONE_OF, 0, 4) }, SECCOMP_FAIL(1) },
		{ { { .op = SECCOMP_ONE_OF, .arg = 1, .mask = SECCOMP_LONG, .n = 2, .values = { 4, 0x500000004 } } },
		  SECCOMP_FAIL(2) },
		{ { { .op = SECCOMP_ONE_OF, .arg = 2, .mask = 0xff00000000, .n = 1, .values = { 0x700000000 } } },
		  SECCOMP_FAIL(3) },
	};
	static const struct seccomp_rule rules[] = { { 5, SECCOMP_RET_ALLOW, cases, ARRAY_LEN(cases) } };
	struct seccomp_policy p = POLICY(rules);
	AUTO(free) struct seccomp_program *program = compile(&p);
	struct seccomp_data d = { .nr = 5, .arch = p.arch };

	(void)state;
	d.args[0] = 0xffffffff00000004;
	assert_int_equal(run(program, d), SECCOMP_FAIL(1));
	d.args[0] = 0;
	d.args[1] = 4;
	assert_int_equal(run(program, d), SECCOMP_FAIL(2));
	d.args[1] = 0x500000004;
	assert_int_equal(run(program, d), SECCOMP_FAIL(2));
	d.args[1] = 0x400000004;
	assert_int_equal(run(program, d), SECCOMP_RET_ALLOW);
	d.args[2] = 0x1707ffffffff;
	assert_int_equal(run(program, d), SECCOMP_FAIL(3));
	d.args[2] = 0x17ffffffff;
	assert_int_equal(run(program, d), SECCOMP_RET_ALLOW);
}

static void the_order_of_rules_makes_no_difference(void **state)
{
	const struct seccomp_rule up[] = {
		{ .nr = 1, .action = SECCOMP_RET_ALLOW },
		{ .nr = 2, .action = SECCOMP_FAIL(1) },
		{ .nr = 9, .action = SECCOMP_FAIL(2) },
	};
	const struct seccomp_rule down[] = { up[2], up[1], up[0] };
	struct seccomp_policy p = POLICY(up), q = POLICY(down);
	AUTO(free) struct seccomp_program *a = compile(&p), *b = compile(&q);

	(void)state;
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->code, b->code, a->n * sizeof(a->code[0]));
}

static void neighbours_with_one_answer_are_one_range(void **state)
{
	struct seccomp_rule rules[300] = { 0 };
	struct seccomp_policy p = POLICY(rules);
	AUTO(free) struct seccomp_program *program = NULL;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(rules); i++)
		rules[i] = (struct seccomp_rule){ .nr = i, .action = SECCOMP_RET_ALLOW };
	p.has_x32 = false;
	program = compile(&p);
	assert_int_equal(program->n, 7); /* load, test, load, search, three answers */
}

/* No two neighbours have the same answer: as many ranges as there can be, and jumps over most of the program. */
static struct policy *make_big(void)
{
	struct policy *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->policy = (struct seccomp_policy){ .arch = NATIVE_ARCH, .has_x32 = true, .rules = p->rules,
					     .foreign = SECCOMP_RET_KILL_PROCESS, .unknown = SECCOMP_FAIL(ENOSYS) };
	for (uint32_t i = 0; i < SECCOMP_RULES_MAX; i++)
		p->rules[i] = (struct seccomp_rule){ .nr = 1 + 2 * i,
						     .action = i % 9 ? SECCOMP_FAIL(i % 9) : SECCOMP_RET_ALLOW };
	p->policy.n_rules = SECCOMP_RULES_MAX;
	return p;
}

static size_t count_code(const struct seccomp_program *program, uint16_t code)
{
	size_t n = 0;

	for (size_t i = 0; i < program->n; i++)
		n += program->code[i].code == code;
	return n;
}

static int load(void *arg)
{
	struct err e = { 0 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load(arg, &e) < 0)
		return 1;
	return 0;
}

/* _exit() does more than that under sanitizers, with calls that a filter may have closed. */
static int leave(int code)
{
	(void)syscall(SYS_exit_group, code);
	return 1;
}

static int load_and_leave(void *arg)
{
	return leave(load(arg));
}

static void the_largest_policy_compiles_and_loads(void **state)
{
	AUTO(free) struct policy *p = make_big();
	AUTO(free) struct seccomp_program *program = NULL;

	(void)state;
	p->rules[SYS_exit_group / 2].nr = SYS_exit_group; /* where its number is even, instead of the odd one after it */
	p->rules[SYS_exit_group / 2].action = SECCOMP_RET_ALLOW;
	program = compile(&p->policy);
	assert_true(program_agrees(&p->policy, program));
	assert_in_range(program->n, 2 * SECCOMP_RULES_MAX, BPF_MAXINSNS);
	assert_true(count_code(program, BPF_JMP | BPF_JA) > 0);
	assert_int_equal(in_child(load_and_leave, program), 0);
}

static void a_search_takes_a_dozen_steps(void **state)
{
	AUTO(free) struct policy *p = make_big();
	AUTO(free) struct seccomp_program *program = compile(&p->policy);
	AUTO(free) unsigned *counts = calloc(program->n, sizeof(*counts));

	(void)state;
	assert_non_null(counts);
	for (int nr = 0; nr < 2 * SECCOMP_RULES_MAX + 9; nr++) {
		struct seccomp_data d = { .nr = nr, .arch = p->policy.arch };
		struct err e = { 0 };
		uint32_t action;
		unsigned steps = 0;

		memset(counts, 0, program->n * sizeof(*counts));
		assert_int_equal(seccomp_simulate(program, &d, counts, &action, &e), 0);
		for (size_t i = 0; i < program->n; i++)
			steps += counts[i];
		assert_in_range(steps, 3, 3 + 12 + 6 + 1); /* the start, the search, long jumps, the answer */
	}
}

/* A rule with the answers 1 and OTHER, one with 1 and 2, and N instructions or a few more between them. */
static void make_apart(struct policy *p, size_t n, uint32_t other)
{
	struct seccomp_case *ends = p->cases, *between = p->cases + 2;
	size_t n_between = 0;

	for (size_t i = 0; i < 2; i++)
		ends[i] = (struct seccomp_case){ { INT_TEST(SECCOMP_ONE_OF, 0, 1) }, SECCOMP_FAIL(1) };
	for (; n > 1; n_between++) { /* a load and up to eight comparisons */
		struct seccomp_test t = INT_TEST(SECCOMP_ONE_OF, 1, 1, 2, 3, 4, 5, 6, 7, 8);

		t.n = (uint8_t)MIN(n - 1, (size_t)SECCOMP_VALUES_MAX);
		between[n_between] = (struct seccomp_case){ { t }, SECCOMP_FAIL(3) };
		n -= 1u + t.n;
	}
	p->policy.n_rules = 3;
	p->rules[0] = (struct seccomp_rule){ 1, SECCOMP_FAIL(2), &ends[0], 1 };
	p->rules[1] = (struct seccomp_rule){ 2, SECCOMP_FAIL(3), between, n_between };
	p->rules[2] = (struct seccomp_rule){ 3, SECCOMP_FAIL(other), &ends[1], 1 };
}

/* Each length that has to be jumped over, around the 255 that a jump reaches. */
static void jumps_of_every_length_arrive(void **state)
{
	AUTO(free) struct policy *p = make_big();
	size_t long_jumps = 0;

	(void)state;
	for (size_t n = 2; n <= 540; n++) {
		for (uint32_t other = 1; other <= 2; other++) {
			AUTO(free) struct seccomp_program *program = NULL;

			make_apart(p, n, other);
			program = compile(&p->policy);
			if (!program_agrees(&p->policy, program))
				fail_msg("%zu instructions apart", n);
			long_jumps += count_code(program, BPF_JMP | BPF_JA);
		}
	}
	assert_in_range(long_jumps, 500, 1200); /* none while it is not needed */
}

static void random_policies_do_what_they_say(void **state)
{
	AUTO(free) struct policy *p = calloc(1, sizeof(*p));
	AUTO(free) struct seccomp_program *program = calloc(1, sizeof(*program));
	uint64_t x = 88172645463325252;
	unsigned compiled = 0, refused = 0;
	uint8_t bytes[600];

	(void)state;
	assert_non_null(p);
	assert_non_null(program);
	for (size_t round = 0; round < 600; round++) {
		struct err e = { 0 };

		for (size_t i = 0; i < sizeof(bytes); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			bytes[i] = (uint8_t)(x >> 32);
		}
		policy_make(p, (struct policy_bytes){ bytes, 8 + round });
		if (seccomp_compile(&p->policy, program, &e) < 0) {
			refused++;
			continue;
		}
		compiled++;
		assert_true(program_is_sound(program));
		assert_true(program_agrees(&p->policy, program));
	}
	assert_true(compiled > 50);
	assert_true(refused > 50);
}

static void a_program_beyond_the_kernels_length_is_refused(void **state)
{
	AUTO(free) struct policy *p = make_big();
	AUTO(free) struct seccomp_program *program = calloc(1, sizeof(*program));
	struct err e = { 0 };

	(void)state;
	assert_non_null(program);
	for (size_t i = 0; i < SECCOMP_CASES_MAX; i++)
		p->cases[i] = (struct seccomp_case){
			{ INT_TEST(SECCOMP_ONE_OF, 0, 1, 2, 3, 4, 5, 6, 7, 8),
			  INT_TEST(SECCOMP_NONE_OF, 1, 1, 2, 3, 4, 5) },
			SECCOMP_FAIL((uint32_t)i)
		};
	for (size_t i = 0; i < 10; i++) {
		p->rules[i].cases = p->cases;
		p->rules[i].n_cases = SECCOMP_CASES_MAX;
	}
	program->n = 77;
	assert_int_equal(seccomp_compile(&p->policy, program, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(strstr(e.msg, "4096"));
	assert_int_equal(program->n, 77);
}

/* ---- policies that make no sense --------------------------------------------------------------------------- */

static void check_refused(const struct seccomp_policy *p, enum err_code code, const char *word)
{
	AUTO(free) struct seccomp_program *program = calloc(1, sizeof(*program));
	struct err e = { 0 };

	assert_non_null(program);
	assert_int_equal(seccomp_compile(p, program, &e), -1);
	assert_int_equal(e.code, code);
	if (!strstr(e.msg, word))
		fail_msg("'%s' in '%s'", word, e.msg);
}

static void bad_policies_are_refused(void **state)
{
	static const struct seccomp_rule twice[] = {
		{ .nr = 1, .action = SECCOMP_RET_ALLOW },
		{ .nr = 2, .action = SECCOMP_RET_ALLOW },
		{ .nr = 1, .action = SECCOMP_FAIL(1) },
	};
	static const struct seccomp_rule high[] = { { .nr = SECCOMP_NR_MAX + 1, .action = SECCOMP_RET_ALLOW } };
	struct seccomp_policy p = POLICY(twice), q = POLICY(high);
	AUTO(free) struct policy *big = make_big();

	(void)state;
	check_refused(&p, ERR_INVALID, "system call 1 has two rules");
	check_refused(&q, ERR_INVALID, "above 65535");
	p = (struct seccomp_policy)POLICY(twice);
	p.arch = AUDIT_ARCH_I386;
	check_refused(&p, ERR_INVALID, "architecture");
	p.arch = AUDIT_ARCH_S390X;
	check_refused(&p, ERR_INVALID, "architecture");
	p = (struct seccomp_policy)POLICY(twice);
	p.unknown = SECCOMP_RET_TRACE;
	check_refused(&p, ERR_INVALID, "default actions");
	big->policy.n_rules++;
	check_refused(&big->policy, ERR_LIMIT, "too many");
}

static void bad_rules_are_refused(void **state)
{
	static const uint32_t actions[] = {
		SECCOMP_RET_TRAP, SECCOMP_RET_USER_NOTIF, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_LOG,
		SECCOMP_FAIL(4096), SECCOMP_RET_ALLOW | 1, SECCOMP_RET_KILL_PROCESS | 1,
	};
	static const struct seccomp_case fine[SECCOMP_CASES_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		struct seccomp_rule rules[] = { { .nr = 1, .action = actions[i] } };
		struct seccomp_policy p = POLICY(rules);

		check_refused(&p, ERR_INVALID, "unknown action");
	}
	for (size_t i = 1; i < 3; i++) { /* a case without tests, and too many of them */
		struct seccomp_rule rules[] = { { .nr = 1, .action = SECCOMP_RET_ALLOW, .cases = fine,
						  .n_cases = i == 1 ? 1 : ARRAY_LEN(fine) } };
		struct seccomp_policy p = POLICY(rules);

		check_refused(&p, ERR_INVALID, i == 1 ? "case 1 of system call 1" : "65 cases");
	}
}

static void bad_tests_are_refused(void **state)
{
	static const struct seccomp_case cases[] = {
		{ { { .op = SECCOMP_ONE_OF, .arg = 6, .mask = 1, .n = 1 } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_ONE_OF, .arg = 0, .mask = 0, .n = 1 } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_ONE_OF, .arg = 0, .mask = 1, .n = 0 } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_ONE_OF, .arg = 0, .mask = 1, .n = SECCOMP_VALUES_MAX + 1 } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_ONE_OF, .arg = 0, .mask = 1, .n = 1, .values = { 2 } } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_NONE_OF + 1, .arg = 0, .mask = 1, .n = 1 } }, SECCOMP_RET_ALLOW },
		{ { { .op = SECCOMP_ONE_OF, .arg = 0, .mask = 1, .n = 1 } }, SECCOMP_RET_TRAP },
		{ { INT_TEST(SECCOMP_ONE_OF, 0, 1), { 0 }, INT_TEST(SECCOMP_ONE_OF, 0, 1) }, SECCOMP_RET_ALLOW },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seccomp_rule rules[] = { { 1, SECCOMP_RET_ALLOW, &cases[i], 1 } };
		struct seccomp_policy p = POLICY(rules);

		check_refused(&p, ERR_INVALID, "case 1 of system call 1");
	}
}

/* ---- the simulator ----------------------------------------------------------------------------------------- */

static void the_simulator_refuses_what_the_kernel_would(void **state)
{
	static const struct {
		struct sock_filter code[2];
		size_t n;
		const char *word;
	} cases[] = {
		{ { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2) }, 2, "loads" },
		{ { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)) }, 2, "loads" },
		{ { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0xfffffffc) }, 2, "loads" },
		{ { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0) }, 2, "not known" },
		{ { BPF_STMT(BPF_RET | BPF_A, 0) }, 2, "not known" },
		{ { BPF_STMT(BPF_JMP | BPF_JA, 1) }, 2, "without a return" },
		{ { BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff) }, 2, "without a return" },
		{ { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0) }, 2, "without a return" },
		{ { { 0 } }, 0, "without a return" },
	};
	AUTO(free) struct seccomp_program *program = calloc(1, sizeof(*program));

	(void)state;
	assert_non_null(program);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seccomp_data d = { 0 };
		struct err e = { 0 };
		uint32_t action;

		memcpy(program->code, cases[i].code, sizeof(cases[i].code));
		program->n = cases[i].n;
		assert_int_equal(seccomp_simulate(program, &d, NULL, &action, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_non_null(strstr(e.msg, cases[i].word));
	}
}

static void the_simulator_jumps_and_counts(void **state)
{
	static const struct {
		uint16_t op;
		uint32_t k;
		bool want;
	} cases[] = {
		{ BPF_JEQ, 5, true }, { BPF_JEQ, 4, false }, { BPF_JGE, 5, true }, { BPF_JGE, 6, false },
		{ BPF_JGT, 4, true }, { BPF_JGT, 5, false }, { BPF_JSET, 4, true }, { BPF_JSET, 2, false },
	};
	AUTO(free) struct seccomp_program *program = calloc(1, sizeof(*program));

	(void)state;
	assert_non_null(program);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
			BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
			BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | cases[i].op), cases[i].k, 1, 0),
			BPF_STMT(BPF_RET | BPF_K, 0),
			BPF_STMT(BPF_RET | BPF_K, 1),
		};
		struct seccomp_data d = { .args = { 0x105 } };
		unsigned counts[ARRAY_LEN(code)] = { 0 };
		struct err e = { 0 };
		uint32_t action;

		memcpy(program->code, code, sizeof(code));
		program->n = ARRAY_LEN(code);
		assert_int_equal(seccomp_simulate(program, &d, counts, &action, &e), 0);
		assert_int_equal(action, cases[i].want);
		assert_int_equal(counts[2], 1);
		assert_int_equal(counts[3], !cases[i].want);
		assert_int_equal(counts[4], cases[i].want);
	}
}

/* ---- in the kernel ----------------------------------------------------------------------------------------- */

static const struct seccomp_case only_one[] = { { { INT_TEST(SECCOMP_NONE_OF, 1, 1) }, SECCOMP_FAIL(E2BIG) } };
static const struct seccomp_rule real_rules[] = {
	{ .nr = SYS_exit_group, .action = SECCOMP_RET_ALLOW },
	{ .nr = SYS_getppid, .action = SECCOMP_FAIL(0) },
	{ .nr = SYS_getpgid, .action = SECCOMP_FAIL(EXDEV) },
	{ .nr = SYS_getpriority, .action = SECCOMP_FAIL(EDOM), .cases = only_one, .n_cases = 1 },
	{ .nr = SYS_getuid, .action = SECCOMP_RET_KILL_PROCESS },
};

static int try_calls(void)
{
	if (syscall(SYS_getppid) != 0)
		return 2;
	if (syscall(SYS_getpgid, 0) != -1 || errno != EXDEV)
		return 3;
	if (syscall(SYS_getpriority, 0, 2) != -1 || errno != E2BIG)
		return 4;
	if (syscall(SYS_getpriority, 0, 0xffffffff00000001) != -1 || errno != EDOM)
		return 5;
	if (syscall(SYS_getpid) != -1 || errno != ENOSYS)
		return 6;
	return 0;
}

static int under_the_filter(void *arg)
{
	return leave(load(arg) == 0 ? try_calls() : 1);
}

static int is_killed(void *arg)
{
	if (load(arg) == 0)
		(void)syscall(SYS_getuid);
	return leave(0);
}

static void the_kernel_answers_as_the_policy_says(void **state)
{
	struct seccomp_policy p = POLICY(real_rules);
	AUTO(free) struct seccomp_program *program = NULL;

	(void)state;
	p.arch = NATIVE_ARCH;
	program = compile(&p);
	assert_int_equal(in_child(under_the_filter, program), 0);
	assert_int_equal(in_child(is_killed, program), -1);
}

static int load_without_no_new_privs(void *arg)
{
	struct err e = { 0 };

	if (seccomp_load(arg, &e) == 0)
		return 1;
	return e.code == ERR_DENIED && strstr(e.msg, "no_new_privs") ? 0 : 2;
}

static int load_nothing(void *arg)
{
	struct seccomp_program *program = arg;
	struct err e = { 0 };

	program->n = 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_load(program, &e) == 0)
		return 1;
	return e.sys == EINVAL ? 0 : 2;
}

static void loading_fails_with_a_reason(void **state)
{
	struct seccomp_policy p = { NATIVE_ARCH, .foreign = SECCOMP_RET_ALLOW, .unknown = SECCOMP_RET_ALLOW };
	AUTO(free) struct seccomp_program *program = compile(&p);

	(void)state;
	assert_int_equal(in_child(load_nothing, program), 0);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		skip(); /* it cannot be taken back */
	assert_int_equal(in_child(load_without_no_new_privs, program), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_policy_without_rules_knows_no_call),
		cmocka_unit_test(x32_is_foreign_but_a_skipped_call_is_not),
		cmocka_unit_test(the_first_case_that_holds_decides),
		cmocka_unit_test(ints_are_their_low_half_and_longs_are_whole),
		cmocka_unit_test(the_order_of_rules_makes_no_difference),
		cmocka_unit_test(neighbours_with_one_answer_are_one_range),
		cmocka_unit_test(the_largest_policy_compiles_and_loads),
		cmocka_unit_test(a_search_takes_a_dozen_steps),
		cmocka_unit_test(jumps_of_every_length_arrive),
		cmocka_unit_test(random_policies_do_what_they_say),
		cmocka_unit_test(a_program_beyond_the_kernels_length_is_refused),
		cmocka_unit_test(bad_policies_are_refused),
		cmocka_unit_test(bad_rules_are_refused),
		cmocka_unit_test(bad_tests_are_refused),
		cmocka_unit_test(the_simulator_refuses_what_the_kernel_would),
		cmocka_unit_test(the_simulator_jumps_and_counts),
		cmocka_unit_test(the_kernel_answers_as_the_policy_says),
		cmocka_unit_test(loading_fails_with_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
