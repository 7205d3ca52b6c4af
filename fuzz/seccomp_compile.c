// SPDX-License-Identifier: Apache-2.0
/* System call policies: what is compiled is a program that the kernel would take, answers as the policy says, and
 * is the same each time; what is refused leaves the result alone. */
#include <stdlib.h>

#include "sys/policy_test.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct policy p;
	static struct seccomp_program program, again;
	struct err e = { 0 };

	policy_make(&p, (struct policy_bytes){ data, size });
	program.n = BPF_MAXINSNS + 1;
	again.n = 0;
	if (seccomp_compile(&p.policy, &program, &e) < 0) {
		if (program.n != BPF_MAXINSNS + 1 || (e.code != ERR_INVALID && e.code != ERR_LIMIT))
			abort();
		return 0;
	}
	if (!program_is_sound(&program) || !program_agrees(&p.policy, &program))
		abort();
	if (seccomp_compile(&p.policy, &again, &e) < 0 || again.n != program.n)
		abort();
	if (memcmp(again.code, program.code, program.n * sizeof(program.code[0])) != 0)
		abort();
	return 0;
}
