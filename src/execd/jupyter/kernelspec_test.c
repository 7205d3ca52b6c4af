// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/kernelspec.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/env.h"
#include "sys/fd.h"
#include "sys/tree.h"

#include "base/banned.h"

struct home {
	char dir[64];
	struct arena arena;
	struct env env;
};

static void make(struct home *h, const char *path, const char *text)
{
	char full[256];
	AUTO_FD fd = -1;

	(void)snprintf(full, sizeof(full), "%s/%s", h->dir, path);
	for (char *at = strchr(full + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(full, 0755);
		*at = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text), &(struct err){ 0 }), 0);
}

static void set(struct home *h, const char *name, const char *rest)
{
	assert_int_equal(env_set(&h->env, &h->arena, str_of(name), str_of(arena_printf(&h->arena, "%s%s", h->dir, rest)), &(struct err){ 0 }), 0);
}

static void home_open(struct home *h)
{
	*h = (struct home){ .dir = "/tmp/kernelspec-XXXXXX", .arena = ARENA_INIT((size_t)8 * 1024 * 1024) };
	assert_non_null(mkdtemp(h->dir));
	assert_int_equal(env_copy(&h->env, &h->arena, NULL, NULL, &(struct err){ 0 }), 0);
	set(h, "HOME", "");
}

static void home_close(struct home *h)
{
	assert_int_equal(tree_remove(AT_FDCWD, h->dir, &(struct err){ 0 }), 0);
	arena_done(&h->arena);
}
DEFINE_AUTO_DONE(struct home, home_close)

static int find(struct home *h, const char *language, const char *name, struct kernelspec *k)
{
	struct err e = { 0 };

	return kernelspec_find(&h->env, language, name, &h->arena, k, &e);
}

static void kernels_are_found_by_language_and_by_name(void **state)
{
	AUTO(home_close) struct home h;
	struct kernelspec k;

	(void)state;
	home_open(&h);
	make(&h, ".local/share/jupyter/kernels/zed/kernel.json", "{\"argv\":[\"x\"],\"language\":\"ada\"}");
	make(&h, ".local/share/jupyter/kernels/broken/kernel.json", "{\"argv\":[]}");
	make(&h, ".local/share/jupyter/kernels/plain", "not a folder");
	assert_int_equal(find(&h, "ada", NULL, &k), 1);
	assert_string_equal(k.name, "zed");
	assert_false(k.interrupts_by_message);
	assert_int_equal(find(&h, "cobol", NULL, &k), 0);
	assert_int_equal(find(&h, "cobol", "zed", &k), 1);
	assert_int_equal(find(&h, "ada", "broken", &k), 0);
	assert_int_equal(find(&h, "ada", "../zed", &k), -1);
	make(&h, "venv/share/jupyter/kernels/ada/kernel.json", "{\"argv\":[\"y\"],\"language\":\"ada\",\"interrupt_mode\":\"message\"}");
	set(&h, "PATH", "/venv/bin/");
	assert_int_equal(find(&h, "ada", NULL, &k), 1); /* the one that is called like the language */
	assert_string_equal(k.name, "ada");
	assert_true(k.interrupts_by_message);
	set(&h, "JUPYTER_PATH", "/first");
	make(&h, "first/kernels/ada/kernel.json", "{\"argv\":[\"z\"],\"language\":\"ada\"}");
	assert_int_equal(find(&h, "ada", NULL, &k), 1);
	assert_string_equal(k.argv[0], "z");
}

static void places_in_arguments_are_filled_in(void **state)
{
	AUTO(home_close) struct home h;
	struct err e = { 0 };
	struct kernelspec k;
	char *const *argv;
	const char *path;

	(void)state;
	home_open(&h);
	make(&h, "venv/share/jupyter/kernels/ada/kernel.json",
	     "{\"argv\":[\"ada\",\"-f={connection_file}\",\"{resource_dir}/x{\"],\"language\":\"ada\",\"env\":{\"A\":\"b:${HOME}\",\"n\":1}}");
	make(&h, "venv/bin/ada", "#!/bin/sh\n");
	set(&h, "PATH", "/venv/bin");
	assert_int_equal(find(&h, "ada", NULL, &k), 1);
	assert_int_equal(kernelspec_argv(&k, &h.env, "/tmp/c.json", &h.arena, &path, &argv, &e), 0);
	assert_string_equal(path, arena_printf(&h.arena, "%s/venv/bin/ada", h.dir));
	assert_string_equal(argv[1], "-f=/tmp/c.json");
	assert_string_equal(argv[2], arena_printf(&h.arena, "%s/venv/share/jupyter/kernels/ada/x{", h.dir));
	assert_null(argv[3]);
	assert_int_equal(kernelspec_env(&k, &h.env, &h.arena, &e), 0);
	assert_string_equal(env_get(&h.env, STR("A")), arena_printf(&h.arena, "b:%s", h.dir));
	assert_null(env_get(&h.env, STR("n")));
	k.argv[0] = "no-such-program";
	assert_int_equal(kernelspec_argv(&k, &h.env, "/tmp/c.json", &h.arena, &path, &argv, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void files_that_are_not_well_formed_are_refused(void **state)
{
	static const char *const rows[] = { "", "[]", "{}", "{\"argv\":[]}", "{\"argv\":\"x\"}", "{\"argv\":[1]}", "{\"argv\":[\"x\"],\"language\":1}" };
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct kernelspec k;
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(kernelspec_parse(str_of(rows[i]), &a, &k, &e), -1);
	assert_int_equal(kernelspec_parse(STR("{\"argv\":[\"x\"],\"env\":null,\"metadata\":{\"a\":[]}}"), &a, &k, &e), 0);
	assert_string_equal(k.language, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_are_found_by_language_and_by_name),
		cmocka_unit_test(places_in_arguments_are_filled_in),
		cmocka_unit_test(files_that_are_not_well_formed_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
