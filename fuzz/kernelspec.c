// SPDX-License-Identifier: Apache-2.0
/* kernel.json of an image: whatever it says, there is a program, arguments and an environment of bounded length, or an error. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/err.h"
#include "execd/env.h"
#include "execd/jupyter/kernelspec.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)16 * 1024 * 1024);
	struct kernelspec k;
	struct env env;
	struct err e = { 0 };
	char *const *argv;
	const char *path;

	if (size == 0 || kernelspec_parse((struct str){ (const char *)data, size }, &a, &k, &e) < 0)
		return 0;
	k.name = "fuzz";
	k.dir = "/nowhere/share/jupyter/kernels/fuzz";
	require(k.n_argv > 0 && k.n_argv <= KERNELSPEC_ARGS_MAX && k.language);
	require(env_copy(&env, &a, NULL, NULL, &e) == 0 && env_set(&env, &a, STR("PATH"), STR("/nowhere"), &e) == 0);
	if (kernelspec_env(&k, &env, &a, &e) == 0)
		for (size_t i = 0; i < env.n; i++)
			require(strchr(env.items[i], '='));
	if (kernelspec_argv(&k, &env, "/tmp/connection.json", &a, &path, &argv, &e) == 0)
		require(path && argv[0] && !argv[k.n_argv]);
	return 0;
}
