// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "execd/env.h"
#include "sys/path.h"

#include "base/banned.h"

static char *const from[] = { (char[]){ "HOME=/home/me" }, (char[]){ "A=1" },       (char[]){ "SECRET=x" },
			      (char[]){ "nonsense" },      (char[]){ "=C:=x" },     (char[]){ "EMPTY=" },
			      (char[]){ "AB=2" },          NULL };
static const char *const except[] = { "SECRET", NULL };

struct fixture {
	struct arena a;
	struct env env;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->a = ARENA_INIT(1 << 20);
	*state = f;
	return env_copy(&f->env, &f->a, from, except, &f->e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	arena_done(&f->a);
	free(f);
	return 0;
}

static void a_copy_leaves_out_secrets_and_nonsense(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->env.n, 4);
	assert_null(f->env.items[4]);
	assert_null(env_get(&f->env, STR("SECRET")));
	assert_string_equal(env_get(&f->env, STR("A")), "1");
	assert_string_equal(env_get(&f->env, STR("EMPTY")), "");
	assert_null(env_get(&f->env, STR("")));
	assert_null(env_get(&f->env, STR("HOM")));
}

static void setting_replaces_or_adds(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(env_set(&f->env, &f->a, STR("A"), STR("=b"), &f->e), 0);
	assert_int_equal(f->env.n, 4);
	assert_string_equal(env_get(&f->env, STR("A")), "=b");
	for (int i = 0; i < 200; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "N%d", i);
		assert_int_equal(env_set(&f->env, &f->a, str_of(name), STR("v"), &f->e), 0);
	}
	assert_int_equal(f->env.n, 204);
	assert_null(f->env.items[204]);
	assert_string_equal(env_get(&f->env, STR("N199")), "v");
}

static void there_is_a_ceiling(void **state)
{
	struct fixture *f = *state;
	int r = 0;

	for (int i = 0; r == 0; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "N%d", i);
		r = env_set(&f->env, &f->a, str_of(name), STR("v"), &f->e);
		assert_true(i <= ENV_ITEMS_MAX);
	}
	assert_int_equal(f->e.code, ERR_LIMIT);
}

static void a_file_adds_its_good_lines(void **state)
{
	struct fixture *f = *state;
	struct env base;

	assert_int_equal(env_copy(&base, &f->a, from, NULL, &f->e), 0);
	assert_int_equal(env_add_file(&f->env, &f->a,
				      STR("# comment\n\n  X = y z \r\nA=2\nA=3$A${AB}\nno equals\n=novalue\nQ=\"q\"\nU=$NOPE.\n"
					  "D=$$5 $- ${A ${} $\nZ=a\0b\nLAST=1"),
				      &base, &f->e), 0);
	assert_string_equal(env_get(&f->env, STR("X ")), " y z");
	assert_string_equal(env_get(&f->env, STR("A")), "312");
	assert_string_equal(env_get(&f->env, STR("Q")), "\"q\"");
	assert_string_equal(env_get(&f->env, STR("U")), ".");
	assert_string_equal(env_get(&f->env, STR("D")), "5  ${A ${} $");
	assert_string_equal(env_get(&f->env, STR("LAST")), "1");
	assert_null(env_get(&f->env, STR("Z")));
}

static void paths_are_expanded(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "/a/b", "/a/b" },       { "~", "/home/me" },          { "~/x", "/home/me/x" },
		{ "~x", "~x" },           { "/~", "/~" },               { "$HOME/x", "/home/me/x" },
		{ "${A}b$AB", "1b2" },    { "cost$5.txt", "cost.txt" }, { "a$", "a$" },
		{ "a$.b", "a$.b" },       { "$NOPE/x", NULL },          { "${NOPE}", NULL },
		{ "${A", "${A" },         { "$EMPTY", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(PATH_BYTES_MAX);
		struct err e = { 0 };
		int r = env_expand_path(&f->env, str_of(cases[i].in), &out, &e);

		assert_int_equal(r, cases[i].want ? 0 : -1);
		if (cases[i].want)
			assert_string_equal(buf_z(&out), cases[i].want);
		else
			assert_int_equal(e.code, ERR_INVALID);
	}
}

static void a_path_without_home_or_beyond_its_length_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf out = BUF_INIT(PATH_BYTES_MAX);
	char text[PATH_BYTES_MAX + 2];
	struct env none = { 0 };

	assert_int_equal(env_expand_path(&none, STR("~/x"), &out, &f->e), -1);
	assert_int_equal(f->e.code, ERR_INVALID);
	memset(text, 'x', sizeof(text));
	assert_int_equal(env_expand_path(&f->env, (struct str){ text, sizeof(text) }, &out, &f->e), -1);
	assert_int_equal(f->e.code, ERR_INVALID);
}

static void programs_are_found_in_path(void **state)
{
	struct fixture *f = *state;
	const char *sh;

	sh = env_find_program(&f->env, &f->a, "sh", &f->e);
	assert_non_null(sh);
	assert_true(str_ends(str_of(sh), STR("/sh")));
	assert_string_equal(env_find_program(&f->env, &f->a, "./x", &f->e), "./x");
	assert_null(env_find_program(&f->env, &f->a, "no-such-program", &f->e));
	assert_int_equal(f->e.code, ERR_NOT_FOUND);
	assert_null(env_find_program(&f->env, &f->a, "", &f->e));
	assert_int_equal(env_set(&f->env, &f->a, STR("PATH"), STR(":/etc::/bin"), &f->e), 0);
	assert_string_equal(env_find_program(&f->env, &f->a, "sh", &f->e), "/bin/sh");
	assert_null(env_find_program(&f->env, &f->a, "passwd-", &f->e));
	assert_null(env_find_program(&f->env, &f->a, "ssl", &f->e)); /* a directory */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_copy_leaves_out_secrets_and_nonsense, setup, teardown),
		cmocka_unit_test_setup_teardown(setting_replaces_or_adds, setup, teardown),
		cmocka_unit_test_setup_teardown(there_is_a_ceiling, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_adds_its_good_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(paths_are_expanded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_path_without_home_or_beyond_its_length_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(programs_are_found_in_path, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
