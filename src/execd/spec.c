// SPDX-License-Identifier: Apache-2.0
#include "execd/spec.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/guest.h"
#include "base/own.h"
#include "base/uuid.h"
#include "execd/users.h"
#include "sys/path.h"

#include "base/banned.h"

static const char *check_id(const void *value)
{
	return id_valid(str_of(*(const char *const *)value)) ? NULL : "must be lower-case letters, digits and '-'";
}

static const char *check_env(const void *value)
{
	const struct string_map *env = value;

	for (size_t i = 0; i < env->n; i++)
		if (env->items[i].key[0] == '\0' || strchr(env->items[i].key, '='))
			return "names must not be empty and must not have a '='";
	return NULL;
}

static const char *check_argv(const void *value)
{
	const struct string_list *argv = value;

	return argv->n > 0 && argv->items[0][0] == '\0' ? "the program must not be empty" : NULL;
}

static const struct field spec_fields[] = {
	FIELD(struct spec, id, FIELD_STRING, "id", .min = 1, .max = ID_MAX, .check = check_id),
	FIELD(struct spec, entrypoint, FIELD_STRINGS, "entrypoint", .min = 0, .max = SPEC_ARGS_MAX, .check = check_argv),
	FIELD(struct spec, env, FIELD_MAP, "env", .min = 0, .max = SPEC_ENV_MAX, .secret = true, .check = check_env),
	FIELD(struct spec, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	FIELD(struct spec, user, FIELD_STRING, "user", .min = 0, .max = 2 * USERS_NAME_MAX),
	FIELD(struct spec, uid, FIELD_INT, "uid", .min = 0, .max = GUEST_ID_MAX, .has = HAS(struct spec, has_uid)),
	FIELD(struct spec, gid, FIELD_INT, "gid", .min = 0, .max = GUEST_ID_MAX, .has = HAS(struct spec, has_gid)),
	FIELD(struct spec, token, FIELD_STRING, "token", .min = 1, .max = GUEST_TOKEN_MAX, .secret = true),
	{ 0 },
};

bool spec_stays(const struct string_list *argv)
{
	static const char *const stay[] = GUEST_STAY;

	if (argv->n == 0)
		return true;
	if (argv->n != ARRAY_LEN(stay))
		return false;
	for (size_t i = 0; i < argv->n; i++)
		if (strcmp(argv->items[i], stay[i]) != 0)
			return false;
	return true;
}

int spec_parse(struct str text, struct arena *a, struct spec *ret, struct err *e)
{
	const struct json_limits limits = { .bytes = GUEST_SPEC_MAX };
	struct decode d = { .arena = a, .closed = true, .strict = true };
	struct spec s = { 0 };
	const struct json *v = json_parse(a, text, &limits, NULL, e);

	if (!v || decode(&d, v, spec_fields, &s, e) < 0)
		return err_wrap(e, "spec");
	if (s.user && (s.has_uid || s.has_gid))
		return err_set(e, ERR_INVALID, "spec: $.user: not together with uid and gid");
	if (s.has_gid && !s.has_uid)
		return err_set(e, ERR_INVALID, "spec: $.gid: not without uid");
	s.stays = spec_stays(&s.entrypoint);
	*ret = s;
	return 0;
}
