// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <fcntl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/toml.h"
#include "sys/fd.h"

#include "base/banned.h"

struct file {
	struct connection {
		const char *api_key, *domain, *protocol;
		int64_t request_timeout;
		bool use_server_proxy, has_proxy;
	} connection;
	struct {
		bool color;
	} output;
	struct {
		const char *image, *timeout;
	} defaults;
};

static const struct field connection_fields[] = {
	FIELD(struct connection, api_key, FIELD_STRING, "api_key", .secret = true),
	FIELD(struct connection, domain, FIELD_STRING, "domain"),
	FIELD(struct connection, protocol, FIELD_STRING, "protocol"),
	FIELD(struct connection, request_timeout, FIELD_INT, "request_timeout", .min = 0, .max = 86400),
	FIELD(struct connection, use_server_proxy, FIELD_BOOL, "use_server_proxy", .has = HAS(struct connection, has_proxy)),
	{ 0 },
};
static const struct field output_fields[] = {
	{ .name = "color", .kind = FIELD_BOOL, .offset = 0 },
	{ 0 },
};
static const struct field defaults_fields[] = {
	{ .name = "image", .kind = FIELD_STRING, .offset = 0 },
	{ .name = "timeout", .kind = FIELD_STRING, .offset = sizeof(const char *) },
	{ 0 },
};
static const struct field file_fields[] = {
	FIELD(struct file, connection, FIELD_OBJECT, "connection", .fields = connection_fields),
	FIELD(struct file, output, FIELD_OBJECT, "output", .fields = output_fields),
	FIELD(struct file, defaults, FIELD_OBJECT, "defaults", .fields = defaults_fields),
	{ 0 },
};

const char *settings_env(const char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (str_starts(str_of(*env), (struct str){ name, n }) && (*env)[n] == '=')
			return (*env)[n + 1] ? *env + n + 1 : NULL;
	return NULL;
}

/* The file that FLAGS or ENV (ended by NULL) say; ~/.opensandbox/config.toml if they do not. NULL: no memory. */
static const char *settings_path(const struct settings_flags *flags, const char *const *env, struct arena *a)
{
	const char *home = settings_env(env, "HOME");

	if (flags->config && *flags->config)
		return flags->config;
	return arena_printf(a, "%s/.opensandbox/config.toml", home ? home : "");
}

/* ---- the file -------------------------------------------------------------------------------------------- */

static int file_decode(const char *path, struct str text, struct arena *a, struct file *ret, struct err *e)
{
	struct decode d = { .arena = a, .strict = true };
	struct json *root = toml_parse(a, text, &(struct json_limits){ .bytes = SETTINGS_FILE_MAX }, NULL, e);

	if (!root || decode(&d, root, file_fields, ret, e) < 0)
		return err_wrap(e, "%s", path);
	return 0;
}

int settings_check(struct str text, struct arena *a, struct err *e)
{
	return file_decode("settings", text, a, &(struct file){ 0 }, e);
}

/* No file is an empty one. */
static int file_load(const char *path, struct arena *a, struct file *ret, bool *ret_exists, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(SETTINGS_FILE_MAX);
	struct err why = { 0 };
	const char *copy;

	*ret_exists = fd_read_file(AT_FDCWD, path, SETTINGS_FILE_MAX, &text, &why) == 0;
	if (!*ret_exists && (why.sys == ENOENT || why.sys == ENOTDIR))
		return 0;
	if (!*ret_exists)
		return *e = why, -1;
	copy = arena_dup(a, buf_str(&text));
	if (!copy)
		return err_no_memory(e);
	return file_decode(path, (struct str){ copy, text.n }, a, ret, e);
}

/* ---- precedence ------------------------------------------------------------------------------------------ */

static const char *first_text(const char *flag, const char *variable, const char *file, const char *built_in)
{
	const char *const sources[] = { flag, variable, file };

	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		if (sources[i] && *sources[i])
			return sources[i];
	return built_in;
}

static int64_t env_integer(const char *const *env, const char *name)
{
	const char *text = settings_env(env, name);
	int64_t v = 0;

	return text && str_to_i64(str_trim(str_of(text)), 0, 86400, &v) ? v : 0;
}

/* 1, 0, or -1 for what says neither. */
static int env_boolean(const char *const *env, const char *name)
{
	static const char *const words[2][4] = { { "0", "false", "no", "off" }, { "1", "true", "yes", "on" } };
	const char *text = settings_env(env, name);

	for (int v = 0; text && v < 2; v++)
		for (size_t i = 0; i < ARRAY_LEN(words[v]); i++)
			if (str_eq_nocase(str_trim(str_of(text)), str_of(words[v][i])))
				return v;
	return -1;
}

static bool resolve_proxy(const struct settings_flags *flags, const char *const *env, const struct file *f)
{
	int variable = env_boolean(env, "OPEN_SANDBOX_USE_SERVER_PROXY");

	if (flags->use_server_proxy >= 0)
		return flags->use_server_proxy > 0;
	if (variable >= 0)
		return variable > 0;
	return f->connection.has_proxy && f->connection.use_server_proxy;
}

static void resolve(const struct settings_flags *flags, const char *const *env, const struct file *f, struct settings *ret)
{
	const int64_t seconds[] = { flags->request_timeout_s, env_integer(env, "OPEN_SANDBOX_REQUEST_TIMEOUT"),
				    f->connection.request_timeout, SETTINGS_TIMEOUT_S };
	size_t i = 0;

	while (seconds[i] == 0)
		i++;
	ret->request_timeout_s = seconds[i];
	ret->api_key = first_text(flags->api_key, settings_env(env, "OPEN_SANDBOX_API_KEY"), f->connection.api_key, NULL);
	ret->domain = first_text(flags->domain, settings_env(env, "OPEN_SANDBOX_DOMAIN"), f->connection.domain, NULL);
	ret->protocol = first_text(flags->protocol, settings_env(env, "OPEN_SANDBOX_PROTOCOL"), f->connection.protocol, "http");
	ret->use_server_proxy = resolve_proxy(flags, env, f);
	ret->color = f->output.color;
	ret->default_image = first_text(NULL, NULL, f->defaults.image, NULL);
	ret->default_timeout = first_text(NULL, NULL, f->defaults.timeout, NULL);
}

static int load(const struct settings_flags *flags, const char *const *env, struct arena *a, bool with_file, struct settings *ret,
		struct err *e)
{
	struct file f = { .output = { .color = true } };
	struct settings s = { .path = settings_path(flags, env, a) };

	if (!s.path)
		return err_no_memory(e);
	if (with_file && file_load(s.path, a, &f, &s.file_exists, e) < 0)
		return -1;
	s.file_has_key = f.connection.api_key && *f.connection.api_key;
	resolve(flags, env, &f, &s);
	*ret = s;
	return 0;
}

int settings_load(const struct settings_flags *flags, const char *const *env, struct arena *a, struct settings *ret, struct err *e)
{
	return load(flags, env, a, true, ret, e);
}

int settings_without_file(const struct settings_flags *flags, const char *const *env, struct arena *a, struct settings *ret, struct err *e)
{
	return load(flags, env, a, false, ret, e);
}
