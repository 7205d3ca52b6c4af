// SPDX-License-Identifier: Apache-2.0
#include "execd/env.h"

#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "sys/path.h"

#include "base/banned.h"

#define FIRST_CAP 64

/* ---- the list ---- */

/* Room for one more item and the NULL behind it. */
static int make_room(struct env *env, struct arena *a, struct err *e)
{
	size_t cap = env->cap > 0 ? env->cap * 2 : FIRST_CAP;
	char **items;

	if (env->n >= ENV_ITEMS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d environment variables", ENV_ITEMS_MAX);
	if (env->n + 2 <= env->cap)
		return 0;
	items = arena_array(a, cap, sizeof(*items));
	if (!items)
		return err_no_memory(e);
	for (size_t i = 0; i < env->n; i++)
		items[i] = env->items[i];
	env->items = items;
	env->cap = cap;
	return 0;
}

static bool has_name(const char *item, struct str name)
{
	return strncmp(item, name.p, name.n) == 0 && item[name.n] == '=';
}

static char **find(const struct env *env, struct str name)
{
	for (size_t i = 0; i < env->n; i++)
		if (has_name(env->items[i], name))
			return &env->items[i];
	return NULL;
}

const char *env_get(const struct env *env, struct str name)
{
	char **item = name.n > 0 ? find(env, name) : NULL;

	return item ? *item + name.n + 1 : NULL;
}

int env_set(struct env *env, struct arena *a, struct str name, struct str value, struct err *e)
{
	char **at = find(env, name);
	char *item = arena_printf(a, "%.*s=%.*s", STR_ARG(name), STR_ARG(value));

	if (!item)
		return err_no_memory(e);
	if (at) {
		*at = item;
		return 0;
	}
	if (make_room(env, a, e) < 0)
		return -1;
	env->items[env->n++] = item;
	env->items[env->n] = NULL;
	return 0;
}

static bool is_excepted(const char *item, const char *const *except)
{
	for (; except && *except; except++)
		if (has_name(item, str_of(*except)))
			return true;
	return false;
}

int env_copy(struct env *env, struct arena *a, char *const *from, const char *const *except, struct err *e)
{
	*env = (struct env){ 0 };
	if (make_room(env, a, e) < 0)
		return -1;
	for (; from && *from; from++) {
		if (!strchr(*from, '=') || **from == '=' || is_excepted(*from, except))
			continue;
		if (make_room(env, a, e) < 0)
			return -1;
		env->items[env->n] = arena_dup(a, str_of(*from));
		if (!env->items[env->n])
			return err_no_memory(e);
		env->n++;
	}
	return 0;
}

/* ---- variables in text ---- */

static bool is_name_char(char c, bool is_first)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (!is_first && c >= '0' && c <= '9');
}

static size_t name_length(struct str s)
{
	size_t n = 0;

	while (n < s.n && is_name_char(s.p[n], n == 0))
		n++;
	return n;
}

/* What follows a '$': the name in *ret_name (empty for a special one) and how many bytes that takes; 0: a plain '$'. */
static size_t variable(struct str s, struct str *ret_name)
{
	size_t n = name_length(s);

	*ret_name = str_first(s, n);
	if (n > 0)
		return n;
	if (s.n > 0 && s.p[0] == '{') {
		n = name_length(str_skip(s, 1));
		*ret_name = str_first(str_skip(s, 1), n);
		return n > 0 && s.n > n + 1 && s.p[n + 1] == '}' ? n + 2 : 0;
	}
	return s.n > 0 && s.p[0] != '\0' && strchr("0123456789*#$@!?-", s.p[0]) ? 1 : 0;
}

/* Appends TEXT with its variables replaced; *ret_missing gets the first undefined one. */
static void expand(const struct env *env, struct str text, struct buf *out, struct str *ret_missing)
{
	while (text.n > 0) {
		struct str before, after, name;
		bool has_dollar = str_cut(text, '$', &before, &after);
		const char *value;
		size_t n;

		buf_add_str(out, before);
		if (!has_dollar)
			return;
		n = variable(after, &name);
		if (n == 0)
			buf_add_char(out, '$');
		value = n > 0 ? env_get(env, name) : NULL;
		if (value)
			buf_add_str(out, str_of(value));
		else if (n > 0 && name.n > 0 && ret_missing->n == 0)
			*ret_missing = name;
		text = str_skip(after, n);
	}
}

int env_expand_path(const struct env *env, struct str path, struct buf *out, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(PATH_BYTES_MAX);
	struct str missing = { 0 }, s;
	const char *home;

	expand(env, path, &text, &missing);
	if (missing.n > 0)
		return err_set(e, ERR_INVALID, "the variable '%s' is not defined", SHOWN(missing));
	s = buf_str(&text);
	if (str_eq(s, STR("~")) || str_starts(s, STR("~/"))) {
		home = env_get(env, STR("HOME"));
		if (!home)
			return err_set(e, ERR_INVALID, "'~' has no meaning: HOME is not defined");
		buf_add_str(out, str_of(home));
		s = str_skip(s, 1);
	}
	buf_add_str(out, s);
	if (text.failed || out->failed)
		return err_set(e, ERR_INVALID, "longer than %d bytes", PATH_BYTES_MAX);
	return 0;
}

static int add_line(struct env *env, struct arena *a, struct str line, const struct env *base, struct err *e)
{
	AUTO(buf_done) struct buf value = BUF_INIT(ENV_FILE_MAX);
	struct str key, text, missing = { 0 };

	line = str_trim(line);
	if (line.n == 0 || line.p[0] == '#' || memchr(line.p, '\0', line.n))
		return 0;
	if (!str_cut(line, '=', &key, &text) || key.n == 0)
		return 0;
	expand(base, text, &value, &missing);
	if (value.failed) /* a value that grows beyond all bounds is no use to anybody */
		return 0;
	return env_set(env, a, key, buf_str(&value), e);
}

int env_add_file(struct env *env, struct arena *a, struct str text, const struct env *base, struct err *e)
{
	while (text.n > 0) {
		struct str line;

		(void)str_cut(text, '\n', &line, &text);
		if (add_line(env, a, line, base, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- programs ---- */

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

const char *env_find_program(const struct env *env, struct arena *a, const char *name, struct err *e)
{
	const char *path = env_get(env, STR("PATH"));
	struct str rest = str_of(path ? path : ENV_DEFAULT_PATH), folder;

	if (strchr(name, '/'))
		return name;
	while (*name && rest.n > 0) {
		const char *full;

		(void)str_cut(rest, ':', &folder, &rest);
		full = folder.n > 0 ? arena_printf(a, "%.*s/%s", STR_ARG(folder), name) : NULL;
		if (full && is_program(full))
			return full;
	}
	(void)err_set(e, ERR_NOT_FOUND, "'%s' is not in PATH", SHOWN(str_of(name)));
	return NULL;
}
