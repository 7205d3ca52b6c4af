// SPDX-License-Identifier: Apache-2.0
/* The program is made from its end to its beginning. BPF jumps only forward, so the place that a jump leads to
 * exists by the time the jump is written, and its distance is known. A place is counted from the end. */
#include "sys/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define JUMP_MAX 255 /* of a conditional jump */
#define RANGES_MAX (2 * SECCOMP_RULES_MAX + 5)
#define DATA_ARG(arg, half) ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (arg) + 4 * (half)))

/* The numbers from `first` up to the next range's. */
struct range {
	uint32_t first;
	uint32_t action;
	const struct seccomp_rule *rule; /* when its cases come before the action */
};

struct compiler {
	struct sock_filter code[BPF_MAXINSNS]; /* last instruction first */
	size_t n;
	bool is_full;
	struct range ranges[RANGES_MAX];
	size_t n_ranges;
	const struct seccomp_rule *rules[SECCOMP_RULES_MAX]; /* by number */
};

/* Where to go on: an answer, which is written wherever it is needed, or a place. */
struct target {
	bool is_action;
	uint32_t action;
	size_t place;
};

static struct target action_target(uint32_t action)
{
	return (struct target){ .is_action = true, .action = action };
}

/* ---- is it a policy? --------------------------------------------------------------------------------------- */

static bool action_is_valid(uint32_t action)
{
	uint32_t data = action & SECCOMP_RET_DATA;

	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_KILL_PROCESS:
		return data == 0;
	case SECCOMP_RET_ERRNO:
		return data <= 4095; /* the kernel's MAX_ERRNO, to which it would cut it down */
	default:
		return false;
	}
}

static bool test_is_valid(const struct seccomp_test *t)
{
	if (t->op != SECCOMP_ONE_OF && t->op != SECCOMP_NONE_OF)
		return false;
	if (t->arg > 5 || t->mask == 0 || t->n == 0 || t->n > SECCOMP_VALUES_MAX)
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (t->values[i] & ~t->mask)
			return false;
	return true;
}

static size_t case_tests(const struct seccomp_case *cs)
{
	size_t n = 0;

	while (n < SECCOMP_TESTS_MAX && cs->tests[n].op != SECCOMP_NO_TEST)
		n++;
	return n;
}

static bool case_is_valid(const struct seccomp_case *cs)
{
	size_t n = case_tests(cs);

	for (size_t i = 0; i < n; i++)
		if (!test_is_valid(&cs->tests[i]))
			return false;
	for (size_t i = n; i < SECCOMP_TESTS_MAX; i++)
		if (cs->tests[i].op != SECCOMP_NO_TEST)
			return false; /* behind a gap: somebody counts on it */
	return n > 0 && action_is_valid(cs->action);
}

static int rule_check(const struct seccomp_rule *r, struct err *e)
{
	if (r->nr > SECCOMP_NR_MAX)
		return err_set(e, ERR_INVALID, "system call %u is above %u", r->nr, SECCOMP_NR_MAX);
	if (!action_is_valid(r->action))
		return err_set(e, ERR_INVALID, "system call %u has an unknown action %#x", r->nr, r->action);
	if (r->n_cases > SECCOMP_CASES_MAX)
		return err_set(e, ERR_INVALID, "system call %u has %zu cases", r->nr, r->n_cases);
	for (size_t i = 0; i < r->n_cases; i++)
		if (!case_is_valid(&r->cases[i]))
			return err_set(e, ERR_INVALID, "case %zu of system call %u makes no sense", i + 1, r->nr);
	return 0;
}

static int policy_check(const struct seccomp_policy *p, struct err *e)
{
	uint32_t need = __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE;

	if ((p->arch & need) != need) /* where the halves of an argument are depends on it */
		return err_set(e, ERR_INVALID, "architecture %#x is not a little-endian one of 64 bits", p->arch);
	if (!action_is_valid(p->foreign) || !action_is_valid(p->unknown))
		return err_set(e, ERR_INVALID, "the default actions are not valid");
	if (p->n_rules > SECCOMP_RULES_MAX)
		return err_set(e, ERR_LIMIT, "%zu rules are too many", p->n_rules);
	for (size_t i = 0; i < p->n_rules; i++)
		if (rule_check(&p->rules[i], e) < 0)
			return -1;
	return 0;
}

/* ---- ranges ------------------------------------------------------------------------------------------------ */

static int rule_order(const void *a, const void *b)
{
	const struct seccomp_rule *const *x = a, *const *y = b;

	return ((*x)->nr > (*y)->nr) - ((*x)->nr < (*y)->nr);
}

static int sort_rules(struct compiler *c, const struct seccomp_policy *p, struct err *e)
{
	for (size_t i = 0; i < p->n_rules; i++)
		c->rules[i] = &p->rules[i];
	if (p->n_rules > 0)
		qsort(c->rules, p->n_rules, sizeof(c->rules[0]), rule_order);
	for (size_t i = 1; i < p->n_rules; i++)
		if (c->rules[i]->nr == c->rules[i - 1]->nr)
			return err_set(e, ERR_INVALID, "system call %u has two rules", c->rules[i]->nr);
	return 0;
}

static void add_range(struct compiler *c, uint32_t first, uint32_t action, const struct seccomp_rule *rule)
{
	const struct range *last = c->n_ranges > 0 ? &c->ranges[c->n_ranges - 1] : NULL;

	if (rule && rule->n_cases == 0)
		rule = NULL;
	if (last && !rule && !last->rule && last->action == action)
		return;
	c->ranges[c->n_ranges++] = (struct range){ .first = first, .action = action, .rule = rule };
}

static void find_ranges(struct compiler *c, const struct seccomp_policy *p)
{
	uint32_t next = 0;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct seccomp_rule *r = c->rules[i];

		if (r->nr > next)
			add_range(c, next, p->unknown, NULL);
		add_range(c, r->nr, r->action, r);
		next = r->nr + 1;
	}
	add_range(c, next, p->unknown, NULL);
	if (!p->has_x32)
		return;
	add_range(c, SECCOMP_X32_BIT, p->foreign, NULL);
	add_range(c, 0x80000000, p->unknown, NULL);
	add_range(c, 0x80000000 | SECCOMP_X32_BIT, p->foreign, NULL);
	add_range(c, UINT32_MAX, p->unknown, NULL);
}

/* ---- instructions ------------------------------------------------------------------------------------------ */

static size_t emit(struct compiler *c, struct sock_filter insn)
{
	if (c->n == BPF_MAXINSNS) {
		c->is_full = true;
		return c->n - 1;
	}
	c->code[c->n] = insn;
	return c->n++;
}

/* A place that leads to T and is at most JUMP_MAX away from the instruction that comes after SPARE more. */
static size_t near_place(struct compiler *c, struct target t, size_t spare)
{
	if (!t.is_action) {
		if (c->n + spare - t.place - 1 <= JUMP_MAX)
			return t.place;
		return emit(c, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(c->n - t.place - 1)));
	}
	for (size_t away = 0; away + spare <= JUMP_MAX && away < c->n; away++) {
		const struct sock_filter *insn = &c->code[c->n - 1 - away];

		if (insn->code == (BPF_RET | BPF_K) && insn->k == t.action)
			return c->n - 1 - away;
	}
	return emit(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, t.action));
}

static struct target emit_jump(struct compiler *c, uint16_t op, uint32_t k, struct target yes, struct target no)
{
	size_t yes_place = near_place(c, yes, 1); /* the other one may need an instruction in between */
	size_t no_place = near_place(c, no, 0);
	uint8_t jt = (uint8_t)(c->n - yes_place - 1), jf = (uint8_t)(c->n - no_place - 1);

	return (struct target){
		.place = emit(c, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | op), k, jt, jf)),
	};
}

/* Loads a word of the call's data for the instruction that was emitted last. */
static struct target emit_load(struct compiler *c, uint32_t offset, uint32_t mask)
{
	if (mask != UINT32_MAX)
		(void)emit(c, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
	return (struct target){ .place = emit(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)) };
}

/* HIT when the argument equals one of the values, else MISS. All values are in one half of it. */
static struct target emit_half(struct compiler *c, const struct seccomp_test *t, unsigned half, struct target hit,
			       struct target miss)
{
	for (size_t i = t->n; i-- > 0;)
		miss = emit_jump(c, BPF_JEQ, (uint32_t)(t->values[i] >> 32 * half), hit, miss);
	return emit_load(c, DATA_ARG(t->arg, half), (uint32_t)(t->mask >> 32 * half));
}

static struct target emit_whole(struct compiler *c, const struct seccomp_test *t, struct target hit,
				struct target miss)
{
	for (size_t i = t->n; i-- > 0;) {
		struct target low;

		(void)emit_jump(c, BPF_JEQ, (uint32_t)t->values[i], hit, miss);
		low = emit_load(c, DATA_ARG(t->arg, 0), (uint32_t)t->mask);
		(void)emit_jump(c, BPF_JEQ, (uint32_t)(t->values[i] >> 32), low, miss);
		miss = emit_load(c, DATA_ARG(t->arg, 1), (uint32_t)(t->mask >> 32));
	}
	return miss;
}

static struct target emit_test(struct compiler *c, const struct seccomp_test *t, struct target holds,
			       struct target fails)
{
	struct target hit = t->op == SECCOMP_ONE_OF ? holds : fails;
	struct target miss = t->op == SECCOMP_ONE_OF ? fails : holds;

	if (t->mask <= UINT32_MAX)
		return emit_half(c, t, 0, hit, miss);
	if ((uint32_t)t->mask == 0)
		return emit_half(c, t, 1, hit, miss);
	return emit_whole(c, t, hit, miss);
}

static struct target emit_rule(struct compiler *c, const struct seccomp_rule *r)
{
	struct target otherwise = action_target(r->action);

	for (size_t i = r->n_cases; i-- > 0;) {
		const struct seccomp_case *cs = &r->cases[i];
		struct target at = action_target(cs->action);

		for (size_t k = case_tests(cs); k-- > 0;)
			at = emit_test(c, &cs->tests[k], at, otherwise);
		otherwise = at;
	}
	return otherwise;
}

/* Halves the ranges at each step, so it is at most 12 calls deep. */
static struct target emit_search(struct compiler *c, const struct range *ranges, size_t n)
{
	struct target above, below;

	if (n == 1)
		return ranges->rule ? emit_rule(c, ranges->rule) : action_target(ranges->action);
	above = emit_search(c, ranges + n / 2, n - n / 2);
	below = emit_search(c, ranges, n / 2);
	return emit_jump(c, BPF_JGE, ranges[n / 2].first, above, below);
}

static void emit_program(struct compiler *c, const struct seccomp_policy *p)
{
	struct target at = emit_search(c, c->ranges, c->n_ranges);

	if (at.is_action)
		(void)emit(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, at.action));
	at = emit_load(c, offsetof(struct seccomp_data, nr), UINT32_MAX);
	(void)emit_jump(c, BPF_JEQ, p->arch, at, action_target(p->foreign));
	(void)emit_load(c, offsetof(struct seccomp_data, arch), UINT32_MAX);
}

int seccomp_compile(const struct seccomp_policy *policy, struct seccomp_program *ret, struct err *e)
{
	AUTO(free) struct compiler *c = NULL;

	if (policy_check(policy, e) < 0)
		return err_wrap(e, "system call policy");
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_no_memory(e);
	if (sort_rules(c, policy, e) < 0)
		return err_wrap(e, "system call policy");
	find_ranges(c, policy);
	emit_program(c, policy);
	if (c->is_full)
		return err_set(e, ERR_LIMIT, "system call policy: longer than %d instructions", BPF_MAXINSNS);
	for (size_t i = 0; i < c->n; i++)
		ret->code[i] = c->code[c->n - 1 - i];
	ret->n = c->n;
	return 0;
}

/* ---- loading ----------------------------------------------------------------------------------------------- */

int seccomp_load(const struct seccomp_program *program, struct err *e)
{
	struct sock_filter *code = (struct sock_filter *)(uintptr_t)program->code; /* the kernel only reads it */
	struct sock_fprog fprog = { .len = (unsigned short)program->n, .filter = code };

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(e, ERR_DENIED, "system call filter: no_new_privs is not set");
	/* No flags: among them is the one that would lift the mitigation of speculative store bypass. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) < 0)
		return err_sys(e, errno, "load the system call filter");
	return 0;
}
