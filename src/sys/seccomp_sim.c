// SPDX-License-Identifier: Apache-2.0
#include "sys/seccomp_sim.h"

#include <string.h>

#include "base/err.h"

#include "base/banned.h"

/* How many instructions to leave out after a jump. */
static int jump(const struct sock_filter *insn, uint32_t a, size_t *ret_skip, struct err *e)
{
	bool is_true;

	switch (insn->code) {
	case BPF_JMP | BPF_JA:
		*ret_skip = insn->k;
		return 0;
	case BPF_JMP | BPF_JEQ | BPF_K:
		is_true = a == insn->k;
		break;
	case BPF_JMP | BPF_JGE | BPF_K:
		is_true = a >= insn->k;
		break;
	case BPF_JMP | BPF_JGT | BPF_K:
		is_true = a > insn->k;
		break;
	case BPF_JMP | BPF_JSET | BPF_K:
		is_true = (a & insn->k) != 0;
		break;
	default:
		return err_set(e, ERR_INVALID, "instruction %#x is not known", insn->code);
	}
	*ret_skip = is_true ? insn->jt : insn->jf;
	return 0;
}

int seccomp_simulate(const struct seccomp_program *program, const struct seccomp_data *d, unsigned *counts,
		     uint32_t *ret_action, struct err *e)
{
	uint32_t a = 0;
	size_t skip;

	for (size_t at = 0; at < program->n; at += 1 + skip) {
		const struct sock_filter *insn = &program->code[at];

		skip = 0;
		if (counts)
			counts[at]++;
		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (insn->k % sizeof(a) != 0 || insn->k > sizeof(*d) - sizeof(a))
				return err_set(e, ERR_INVALID, "instruction %zu loads from %#x", at, insn->k);
			memcpy(&a, (const char *)d + insn->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= insn->k;
			break;
		case BPF_RET | BPF_K:
			*ret_action = insn->k;
			return 0;
		default:
			if (jump(insn, a, &skip, e) < 0)
				return -1;
		}
	}
	return err_set(e, ERR_INVALID, "the program is left without a return");
}

static bool test_holds(const struct seccomp_test *t, const struct seccomp_data *d)
{
	uint64_t value = d->args[t->arg] & t->mask;
	bool found = false;

	for (size_t i = 0; i < t->n; i++)
		found |= t->values[i] == value;
	return found == (t->op == SECCOMP_ONE_OF);
}

static bool case_holds(const struct seccomp_case *cs, const struct seccomp_data *d)
{
	for (size_t i = 0; i < SECCOMP_TESTS_MAX && cs->tests[i].op != SECCOMP_NO_TEST; i++)
		if (!test_holds(&cs->tests[i], d))
			return false;
	return true;
}

uint32_t seccomp_judge(const struct seccomp_policy *policy, const struct seccomp_data *d)
{
	uint32_t nr = (uint32_t)d->nr;

	if (d->arch != policy->arch || (policy->has_x32 && (nr & SECCOMP_X32_BIT) && nr != UINT32_MAX))
		return policy->foreign;
	for (size_t i = 0; i < policy->n_rules; i++) {
		const struct seccomp_rule *r = &policy->rules[i];

		if (r->nr != nr)
			continue;
		for (size_t k = 0; k < r->n_cases; k++)
			if (case_holds(&r->cases[k], d))
				return r->cases[k].action;
		return r->action;
	}
	return policy->unknown;
}
