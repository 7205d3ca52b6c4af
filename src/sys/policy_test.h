// SPDX-License-Identifier: Apache-2.0
/* sys/policy_test.h - for tests and fuzzing: policies out of arbitrary bytes, and the question whether a
 * program does what its policy says. Nothing here asserts: callers differ in how they do that. */
#pragma once
#include <linux/audit.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/seccomp_sim.h"

#define POLICY_CASES 256

struct policy_bytes {
	const uint8_t *p;
	size_t n;
};

struct policy {
	struct seccomp_policy policy; /* of the rules below */
	struct seccomp_rule rules[SECCOMP_RULES_MAX + 1];
	struct seccomp_case cases[POLICY_CASES];
	size_t n_cases;
};

static inline uint8_t policy_byte(struct policy_bytes *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

static inline uint64_t policy_number(struct policy_bytes *in, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | policy_byte(in);
	return v;
}

static inline uint32_t policy_action(struct policy_bytes *in)
{
	uint8_t b = policy_byte(in);

	if (b == 0xff)
		return SECCOMP_RET_TRAP; /* not ours: refused */
	return b < 64 ? SECCOMP_RET_ALLOW : b < 96 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_FAIL(b & 31u);
}

static inline struct seccomp_test policy_one_test(struct policy_bytes *in)
{
	static const uint64_t masks[] = { SECCOMP_INT, SECCOMP_LONG, 0xf,
					  0x7e020000, 0xf0000000f, 0xffffffff00000000 };
	uint8_t b = policy_byte(in), m = policy_byte(in);
	struct seccomp_test t = { .op = b & 1 ? SECCOMP_NONE_OF : SECCOMP_ONE_OF };

	t.arg = (uint8_t)(b == 0xff ? 6 : (b >> 1) % 6); /* there is no argument 6 */
	t.n = (uint8_t)(b == 0 ? 0 : 1 + (b >> 5));
	t.mask = m < 240 ? masks[m % ARRAY_LEN(masks)] : policy_number(in, 8);
	for (size_t i = 0; i < t.n; i++)
		t.values[i] = (m & 64 ? policy_number(in, 8) : policy_byte(in) * 0x100000001u) & t.mask;
	return t;
}

static inline void policy_one_rule(struct policy *p, struct policy_bytes *in, struct seccomp_rule *r)
{
	size_t n = policy_byte(in);

	*r = (struct seccomp_rule){ .action = policy_action(in), .cases = &p->cases[p->n_cases] };
	for (n = n < 192 ? 0 : n % 8; n > 0 && p->n_cases < POLICY_CASES; n--) {
		struct seccomp_case *cs = &p->cases[p->n_cases++];
		uint8_t b = policy_byte(in);
		size_t tests = b == 0xff ? 0 : 1 + b % SECCOMP_TESTS_MAX;

		*cs = (struct seccomp_case){ .action = policy_action(in) };
		for (size_t i = 0; i < tests; i++)
			cs->tests[i] = policy_one_test(in);
		r->n_cases++;
	}
}

/* Mostly a policy; some bytes make one that has to be refused. */
static inline void policy_make(struct policy *p, struct policy_bytes in)
{
	uint32_t flags = policy_byte(&in), nr = 0;
	size_t n = policy_number(&in, 2) % (SECCOMP_RULES_MAX + 2);

	p->n_cases = 0;
	p->policy = (struct seccomp_policy){
		.arch = flags & 1 ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64,
		.has_x32 = flags & 2,
		.foreign = policy_action(&in),
		.unknown = policy_action(&in),
		.rules = p->rules,
	};
	while (p->policy.n_rules < n && in.n > 0) {
		uint8_t gap = policy_byte(&in);
		struct seccomp_rule *r = &p->rules[p->policy.n_rules++];

		policy_one_rule(p, &in, r);
		nr += gap < 200 ? 1u : gap < 250 ? gap - 198u : gap < 255 ? 1000 : 0;
		r->nr = flags & 4 ? 0x10000u - nr : nr; /* also from the highest down */
	}
}

/* What the kernel asks of a program before it takes it. */
static inline bool program_is_sound(const struct seccomp_program *p)
{
	if (p->n == 0 || p->n > BPF_MAXINSNS)
		return false;
	for (size_t i = 0; i < p->n; i++) {
		const struct sock_filter *f = &p->code[i];
		size_t left = p->n - i - 1;

		if (BPF_CLASS(f->code) != BPF_RET && left == 0)
			return false;
		if (f->code == (BPF_JMP | BPF_JA) && f->k >= left)
			return false;
		if (BPF_CLASS(f->code) == BPF_JMP && (f->jt >= left || f->jf >= left)) /* both are 0 in BPF_JA */
			return false;
	}
	return true;
}

static inline bool policy_agrees(const struct seccomp_policy *p, const struct seccomp_program *program,
				 const struct seccomp_data *d)
{
	struct err e = { 0 };
	uint32_t got = 1;

	return seccomp_simulate(program, d, NULL, &got, &e) == 0 && got == seccomp_judge(p, d);
}

/* Arguments that make the first DEPTH tests of CS hold, with JUNK in the bits that do not count. */
static inline void policy_satisfy(const struct seccomp_case *cs, size_t depth, uint64_t junk,
				  struct seccomp_data *d)
{
	for (size_t i = 0; i < depth; i++) {
		const struct seccomp_test *t = &cs->tests[i];
		uint64_t v = t->values[junk % t->n];

		if (t->op == SECCOMP_NONE_OF)
			v = ~v;
		d->args[t->arg] = (v & t->mask) | (junk & ~t->mask);
	}
}

static inline bool rule_agrees(const struct seccomp_policy *p, const struct seccomp_program *program,
			       const struct seccomp_rule *r)
{
	static const uint64_t junk[] = { 0, UINT64_MAX, 0xffffffff00000000, 0x123456789abcdef1 };
	struct seccomp_data d = { .nr = (int)r->nr, .arch = p->arch };

	if (!policy_agrees(p, program, &d))
		return false;
	for (size_t i = 0; i < r->n_cases; i++) {
		for (size_t k = 0; k < ARRAY_LEN(junk) * SECCOMP_TESTS_MAX; k++) {
			size_t depth = 1 + k % SECCOMP_TESTS_MAX;

			while (r->cases[i].tests[depth - 1].op == SECCOMP_NO_TEST)
				depth--;
			policy_satisfy(&r->cases[i], depth, junk[k / SECCOMP_TESTS_MAX], &d);
			if (!policy_agrees(p, program, &d))
				return false;
			d.args[k % 6] ^= 1u << k; /* what is left from one try is where the next one starts */
			if (!policy_agrees(p, program, &d))
				return false;
		}
	}
	return true;
}

/* Around every rule, at the edges of the numbers, and for all kinds of ABI. */
static inline bool program_agrees(const struct seccomp_policy *p, const struct seccomp_program *program)
{
	static const uint32_t edges[] = { 0, 1, 0xffff, 0x10000, 0x10001, 0x3fffffff, 0x40000000, 0x40000001,
					  0x7fffffff, 0x80000000, 0xbfffffff, 0xc0000000, 0xfffffffe,
						  0xffffffff };
	static const uint32_t archs[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386, 0 };

	for (size_t i = 0; i < ARRAY_LEN(edges) * ARRAY_LEN(archs); i++) {
		struct seccomp_data d = { .nr = (int)edges[i / 4], .arch = archs[i % 4] };

		if (!policy_agrees(p, program, &d))
			return false;
	}
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct seccomp_rule *r = &p->rules[i];
		struct seccomp_data before = { .nr = (int)r->nr - 1, .arch = p->arch };
		struct seccomp_data after = { .nr = (int)r->nr + 1, .arch = p->arch };

		if (!rule_agrees(p, program, r))
			return false;
		if (!policy_agrees(p, program, &before) || !policy_agrees(p, program, &after))
			return false;
	}
	return true;
}
