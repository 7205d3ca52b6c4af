// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"
#include "server/config/config_impl.h"

#include "base/banned.h"

#define TOML_DEPTH 16
#define NOTES_MAX ((size_t)64 * 1024)

const char *config_expand_home(const char *path, const char *const *env, struct arena *a, struct err *e)
{
	const char *home = config_env(env, "HOME"), *full;

	if (path[0] != '~' || (path[1] != '/' && path[1] != '\0'))
		return path;
	if (!home || !home[0]) {
		(void)err_set(e, ERR_INVALID, "HOME is not set: '%s' needs it", path);
		return NULL;
	}
	full = arena_printf(a, "%s%s", home, path + 1);
	if (!full)
		(void)err_no_memory(e);
	return full;
}

/* A file of the user's own that is not there, or no user at all: not an error. */
static int find_at_home(const struct config_sources *sources, struct arena *a, const char **ret_path, struct err *e)
{
	const char *home = config_env(sources->env, "HOME"), *path = NULL;

	if (home && home[0]) {
		path = config_expand_home("~/.sandbox.toml", sources->env, a, e);
		if (!path)
			return -1;
		if (access(path, F_OK) < 0)
			path = NULL;
	}
	*ret_path = path;
	return 0;
}

int config_find(const struct config_sources *sources, struct arena *a, const char **ret_path, struct err *e)
{
	const char *named = sources->path ? sources->path : config_env(sources->env, "SANDBOX_CONFIG_PATH");
	const char *path;

	if (!named || !named[0])
		return find_at_home(sources, a, ret_path, e);
	path = config_expand_home(named, sources->env, a, e);
	if (!path)
		return err_wrap(e, "%s", sources->path ? "--config" : "SANDBOX_CONFIG_PATH");
	*ret_path = path;
	return 0;
}

/* ---- problems and their places ---- */

static const struct json *step_into(const struct json *at, struct str *key)
{
	size_t n = 0;
	uint64_t index;
	struct str name;

	if (key->p[0] == '[') {
		while (n < key->n && key->p[n] != ']')
			n++;
		name = (struct str){ key->p + 1, n - 1 };
		*key = str_skip(*key, n + 1);
		at = str_to_u64(name, 0, SIZE_MAX, &index) ? json_at(at, (size_t)index) : NULL;
	} else {
		while (n < key->n && key->p[n] != '.' && key->p[n] != '[')
			n++;
		name = str_first(*key, n);
		*key = str_skip(*key, n);
		at = at->type == JSON_OBJECT ? at->kids.first : NULL;
		while (at && !str_eq(at->key, name))
			at = at->next;
	}
	if (key->n > 0 && key->p[0] == '.')
		*key = str_skip(*key, 1);
	return at;
}

/* The value of KEY, or the table that it would be in. */
static const struct json *nearest(const struct config_loading *l, const char *key)
{
	const struct json *at = l->root, *next = at;
	struct str rest = str_of(key);

	while (next && rest.n > 0) {
		at = next;
		next = step_into(at, &rest);
	}
	return next ? next : at;
}

static void add_place(const struct config_loading *l, const struct json *v, struct buf *line)
{
	for (const struct config_origin *o = l->origins; v && o; o = o->next) {
		if (o->node == v) {
			buf_addf(line, "%s: ", o->name);
			return;
		}
	}
	if (l->path && v && v->line > 0)
		buf_addf(line, "%s:%u: ", l->path, v->line);
	else if (l->path)
		buf_addf(line, "%s: ", l->path);
}

static void add_problem(struct config_loading *l, const struct buf *line)
{
	if (l->n_problems++ == 0)
		err_set(l->e, ERR_INVALID, "%s", buf_z(line));
	buf_addf(l->problems, "%s\n", buf_z(line));
}

static void problem_at(struct config_loading *l, const struct json *where, const char *key, const char *msg)
{
	AUTO(buf_done) struct buf line = BUF_INIT(8192);

	add_place(l, where, &line);
	buf_addf(&line, "%s: %s", key, msg);
	add_problem(l, &line);
}

void config_problem(struct config_loading *l, const char *key, const char *fmt, ...)
{
	char msg[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap); /* our own texts, cut if a quoted value is long */
	va_end(ap);
	problem_at(l, nearest(l, key), key, msg);
}

void config_note(struct config_loading *l, const struct json *v, const char *fmt, ...)
{
	va_list ap;
	char msg[512];

	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap); /* for people: a long path is cut */
	va_end(ap);
	add_place(l, v, &l->notes);
	buf_addf(&l->notes, "%s\n", msg);
}

/* ---- the steps of loading ---- */

static int read_file(const char *path, struct buf *text, struct err *e)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = 1;

	if (fd < 0)
		return err_sys(e, errno, "open config '%s'", path);
	while (n > 0) {
		char *at = buf_reserve(text, 4096);

		if (!at)
			return err_set(e, ERR_LIMIT, "config '%s' is larger than %zu bytes", path, CONFIG_FILE_MAX);
		n = read(fd, at, 4096);
		if (n > 0)
			buf_commit(text, (size_t)n);
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	return n < 0 ? err_sys(e, errno, "read config '%s'", path) : 0;
}

static int parse_text(struct config_loading *l, struct str text)
{
	static const struct json_limits limits = { .bytes = CONFIG_FILE_MAX, .depth = TOML_DEPTH };
	AUTO(buf_done) struct buf line = BUF_INIT(8192);
	char prefix[32];
	struct err e = { 0 };
	unsigned at = 0;

	l->root = toml_parse(l->arena, text, &limits, &at, &e);
	if (l->root)
		return 0;
	(void)snprintf(prefix, sizeof(prefix), "line %u: ", at);
	if (at > 0)
		buf_addf(&line, "%s:%u: %s", l->path, at,
			 e.msg + (strncmp(e.msg, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0));
	else
		buf_addf(&line, "%s: %s", l->path, e.msg);
	add_problem(l, &line);
	return -1;
}

/* "" is "not set" wherever a string may be empty. */
static void drop_empty(const struct field *fields, char *base, unsigned depth)
{
	for (const struct field *f = fields; f->name && depth < 8; f++) {
		void *at = base + f->offset;

		if (f->kind == FIELD_OBJECT)
			drop_empty(f->fields, at, depth + 1);
		else if (f->kind == FIELD_STRING && *(const char **)at && !(*(const char **)at)[0])
			*(const char **)at = NULL;
	}
}

static int decode_tree(struct config_loading *l, struct config *c)
{
	struct decode d = { .arena = l->arena, .closed = true, .strict = true };
	struct err e = { 0 };

	if (decode(&d, l->root, config_fields, c, &e) == 0)
		return 0;
	for (size_t i = 0; i < d.n_problems; i++) {
		const struct decode_problem *p = &d.problems[i];
		const char *key = strncmp(p->path, "$.", 2) == 0 ? p->path + 2 : p->path;
		char msg[512];

		(void)snprintf(msg, sizeof(msg), "%s", strcmp(p->type, "extra_forbidden") == 0 ? "unknown key" : p->msg);
		if (msg[0] >= 'A' && msg[0] <= 'Z')
			msg[0] = (char)(msg[0] - 'A' + 'a'); /* the decoder speaks to HTTP clients, we do not */
		problem_at(l, p->where ? p->where : nearest(l, key), key, msg);
	}
	if (d.n_problems == 0) /* out of memory, for one */
		problem_at(l, NULL, "configuration", e.msg);
	return -1;
}

/* What is not in use may stay as it is. */
static void expand_paths(struct config_loading *l, struct config *c, const char *const *env)
{
	const bool has_store = c->runtime.type != RUNTIME_NATIVE; /* native has its own in native.state_dir */
	const struct {
		const char *key;
		const char **path;
		bool is_used;
	} paths[] = {
		{ "server.tls_cert", &c->server.tls_cert, true },
		{ "server.tls_key", &c->server.tls_key, true },
		{ "log.file_path", &c->log.file_path, c->log.file_enabled },
		{ "log.access_file_path", &c->log.access_file_path, false },
		{ "store.path", &c->store.path, has_store },
		{ "kubernetes.kubeconfig_path", &c->kubernetes.kubeconfig_path, c->has_kubernetes },
		{ "kubernetes.batchsandbox_template_file", &c->kubernetes.batchsandbox_template_file, c->has_kubernetes },
		{ "agent_sandbox.template_file", &c->agent_sandbox.template_file, c->has_agent_sandbox },
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const char *full;
		struct err e = { 0 };

		if (!*paths[i].path)
			continue;
		full = config_expand_home(*paths[i].path, env, l->arena, &e);
		if (full)
			*paths[i].path = full;
		else if (paths[i].is_used || e.code != ERR_INVALID)
			config_problem(l, paths[i].key, "%s", e.msg);
	}
}

static int load_text(struct config_loading *l, const struct config_sources *sources, struct str text,
		     struct config *c)
{
	if (parse_text(l, text) < 0)
		return -1;
	if (config_apply_env(l, sources->env) < 0 || config_apply_flags(l, sources->flags) < 0)
		return -1;
	if (decode_tree(l, c) < 0)
		return -1;
	drop_empty(config_fields, (char *)c, 0);
	if (c->server.api_key && str_trim(str_of(c->server.api_key)).n == 0)
		c->server.api_key = NULL;
	config_check_rules(l, c);
	expand_paths(l, c, sources->env);
	if (l->n_problems > 0)
		return -1;
	config_find_notes(l, c);
	return 0;
}

int config_load(const struct config_sources *sources, struct arena *a, struct config *c, struct buf *problems,
		struct err *e)
{
	struct config_loading l = { .arena = a, .problems = problems, .notes = BUF_INIT(NOTES_MAX), .e = e };
	AUTO(buf_done) struct buf text = BUF_INIT(CONFIG_FILE_MAX + 4097);
	int rc;

	config_defaults(c);
	if (config_find(sources, a, &l.path, e) < 0)
		return -1;
	if (l.path && read_file(l.path, &text, e) < 0)
		return -1;
	rc = load_text(&l, sources, buf_str(&text), c);
	if (text.p)
		secret_wipe(text.p, text.n); /* it may have held the key */
	buf_done(&l.notes);
	return rc;
}
