// SPDX-License-Identifier: Apache-2.0
#include "execd/jupyter/kernelspec.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "execd/env.h"
#include "sys/fd.h"

#include "base/banned.h"

DEFINE_AUTO(DIR *, closedir)

#define CONNECTION_FILE "{connection_file}"
#define RESOURCE_DIR "{resource_dir}"

/* ---- one file ---- */

int kernelspec_parse(struct str text, struct arena *a, struct kernelspec *ret, struct err *e)
{
	struct file {
		struct string_list argv;
		const char *language;
		const char *interrupt_mode;
		const struct json *env;
	} f = { 0 };
	static const struct field fields[] = {
		FIELD(struct file, argv, FIELD_STRINGS, "argv", .required = true, .min = 1, .max = KERNELSPEC_ARGS_MAX),
		FIELD(struct file, language, FIELD_STRING, "language", .max = KERNELSPEC_NAME_MAX),
		FIELD(struct file, interrupt_mode, FIELD_STRING, "interrupt_mode", .max = 16),
		FIELD(struct file, env, FIELD_ANY, "env"),
		{ 0 }
	};
	struct decode d = { .arena = a };
	const struct json *v = json_parse(a, text, &(struct json_limits){ .bytes = KERNELSPEC_FILE_MAX, .values = 1024 }, NULL, e);

	if (!v || decode(&d, v, fields, &f, e) < 0)
		return -1;
	*ret = (struct kernelspec){
		.language = f.language ? f.language : "",
		.argv = f.argv.items,
		.n_argv = f.argv.n,
		.env = f.env && f.env->type == JSON_OBJECT ? f.env : NULL,
		.interrupts_by_message = f.interrupt_mode && strcmp(f.interrupt_mode, "message") == 0,
	};
	return 0;
}

/* 1, or 0: there is none that could be used; -1: no memory to know. */
static int read_spec(const char *dir, const char *name, struct arena *a, struct kernelspec *ret)
{
	AUTO(buf_done) struct buf text = BUF_INIT(KERNELSPEC_FILE_MAX);
	struct err e = { 0 };
	const char *path = arena_printf(a, "%s/%s", dir, name);
	const char *file = path ? arena_printf(a, "%s/kernel.json", path) : NULL;
	struct str copy;

	if (!file)
		return -1;
	if (fd_read_file(AT_FDCWD, file, KERNELSPEC_FILE_MAX, &text, &e) < 0)
		return e.sys == ENOMEM ? -1 : 0;
	copy = (struct str){ arena_dup(a, buf_str(&text)), text.n }; /* what is borrowed from it stays */
	if (!copy.p || kernelspec_parse(copy, a, ret, &e) < 0)
		return !copy.p || e.sys == ENOMEM ? -1 : 0;
	ret->name = arena_dup(a, str_of(name));
	ret->dir = path;
	return ret->name ? 1 : -1;
}

/* ---- directories ---- */

struct dirs {
	const char *paths[KERNELSPEC_DIRS_MAX];
	size_t n;
	bool is_short; /* there was no memory for one */
};

static void add_dir(struct dirs *d, struct arena *a, const char *base, size_t n, const char *rest)
{
	const char *path;

	if (n == 0 || base[0] != '/' || d->n == KERNELSPEC_DIRS_MAX)
		return;
	path = arena_printf(a, "%.*s%s/kernels", (int)n, base, rest);
	d->is_short |= !path;
	if (!path)
		return;
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->paths[i], path) == 0)
			return;
	d->paths[d->n++] = path;
}

/* Each entry of a list; with a SUFFIX those that end with it, without it. */
static void add_list(struct dirs *d, struct arena *a, const char *list, struct str suffix, const char *rest)
{
	struct str left = str_of(list), entry;

	while (left.n > 0) {
		(void)str_cut(left, ':', &entry, &left);
		while (entry.n > 1 && entry.p[entry.n - 1] == '/')
			entry.n--;
		if (str_ends(entry, suffix))
			add_dir(d, a, entry.p, entry.n - suffix.n, rest);
	}
}

static void add_dirs(struct dirs *d, const struct env *env, struct arena *a)
{
	const char *data = env_get(env, STR("JUPYTER_DATA_DIR")), *xdg = env_get(env, STR("XDG_DATA_HOME"));
	const char *home = env_get(env, STR("HOME"));

	add_list(d, a, env_get(env, STR("JUPYTER_PATH")), STR(""), "");
	if (data && *data)
		add_dir(d, a, data, strlen(data), "");
	else if (xdg && *xdg)
		add_dir(d, a, xdg, strlen(xdg), "/jupyter");
	else if (home)
		add_dir(d, a, home, strlen(home), "/.local/share/jupyter");
	add_list(d, a, env_get(env, STR("PATH")), STR("/bin"), "/share/jupyter");
	add_list(d, a, "/usr/local:/usr", STR(""), "/share/jupyter");
}

static bool name_valid(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= KERNELSPEC_NAME_MAX && name[0] != '.' && !strchr(name, '/');
}

/* The first kernel in DIR for LANGUAGE. As read_spec(). */
static int search(const char *dir, const char *language, struct arena *a, struct kernelspec *ret)
{
	AUTO(closedir) DIR *folder = opendir(dir);
	struct dirent *entry = folder ? readdir(folder) : NULL;

	for (size_t n = 0; entry && n < KERNELSPECS_MAX; n++, entry = readdir(folder)) {
		struct kernelspec k;
		int found = name_valid(entry->d_name) ? read_spec(dir, entry->d_name, a, &k) : 0;

		if (found < 0)
			return -1;
		if (found == 0 || strcmp(k.language, language) != 0)
			continue;
		*ret = k;
		return 1;
	}
	return 0;
}

int kernelspec_find(const struct env *env, const char *language, const char *name, struct arena *a, struct kernelspec *ret, struct err *e)
{
	struct dirs d = { .n = 0 };
	const char *called = name ? name : language;
	int found = 0;

	if (name && !name_valid(name))
		return err_set(e, ERR_INVALID, "that is no name of a kernel");
	add_dirs(&d, env, a);
	for (size_t i = 0; i < d.n && found == 0 && name_valid(called); i++) {
		found = read_spec(d.paths[i], called, a, ret);
		if (found > 0 && !name && strcmp(ret->language, language) != 0)
			found = 0;
	}
	for (size_t i = 0; !name && i < d.n && found == 0; i++)
		found = search(d.paths[i], language, a, ret);
	return found < 0 || (found == 0 && d.is_short) ? err_no_memory(e) : found;
}

/* ---- starting ---- */

/* ARG with its two names replaced. */
static char *filled(const struct kernelspec *k, const char *arg, const char *connection_file, struct arena *a)
{
	AUTO(buf_done) struct buf out = BUF_INIT(KERNELSPEC_FILE_MAX);

	while (*arg) {
		if (strncmp(arg, CONNECTION_FILE, strlen(CONNECTION_FILE)) == 0) {
			buf_addf(&out, "%s", connection_file);
			arg += strlen(CONNECTION_FILE);
		} else if (strncmp(arg, RESOURCE_DIR, strlen(RESOURCE_DIR)) == 0) {
			buf_addf(&out, "%s", k->dir);
			arg += strlen(RESOURCE_DIR);
		} else {
			buf_add_char(&out, *arg++);
		}
	}
	return out.failed ? NULL : arena_dup(a, buf_str(&out));
}

/* A bare name means the program beside the kernel, as in an environment of python, before one in PATH. */
static const char *program(const struct kernelspec *k, const struct env *env, const char *name, struct arena *a, struct err *e)
{
	static const char below[] = "/share/jupyter/kernels/";
	const char *at = memmem(k->dir, strlen(k->dir), below, strlen(below));
	const char *path = at && !strchr(name, '/') ? arena_printf(a, "%.*s/bin/%s", (int)(at - k->dir), k->dir, name) : NULL;

	if (path && access(path, X_OK) == 0)
		return path;
	return env_find_program(env, a, name, e);
}

int kernelspec_argv(const struct kernelspec *k, const struct env *env, const char *connection_file, struct arena *a, const char **ret_path,
		    char *const **ret_argv, struct err *e)
{
	char **argv = arena_array(a, k->n_argv + 1, sizeof(*argv));
	const char *path;

	for (size_t i = 0; argv && i < k->n_argv; i++) {
		argv[i] = filled(k, k->argv[i], connection_file, a);
		if (!argv[i])
			return err_no_memory(e);
	}
	if (!argv)
		return err_no_memory(e);
	path = program(k, env, argv[0], a, e);
	if (!path)
		return err_wrap(e, "kernel '%s'", k->name);
	*ret_path = path;
	*ret_argv = argv;
	return 0;
}

int kernelspec_env(const struct kernelspec *k, struct env *env, struct arena *a, struct err *e)
{
	AUTO(buf_done) struct buf lines = BUF_INIT(2 * KERNELSPEC_FILE_MAX);

	for (const struct json *v = json_first(k->env); v; v = v->next)
		if (v->type == JSON_STRING && !memchr(v->key.p, '\n', v->key.n) && (v->s.n == 0 || !memchr(v->s.p, '\n', v->s.n)))
			buf_addf(&lines, "%.*s=%.*s\n", STR_ARG(v->key), STR_ARG(v->s));
	if (lines.failed)
		return err_no_memory(e);
	return env_add_file(env, a, buf_str(&lines), env, e);
}
