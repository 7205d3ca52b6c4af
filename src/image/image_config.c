// SPDX-License-Identifier: Apache-2.0
/* The configuration of an image: what its author chose, which is to be believed in nothing (I6). Labels and all else that a
 * configuration may have are not read. */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "sys/path.h"

#include "base/banned.h"

#define USER_MAX 256
#define ARG_MAX_BYTES 131071 /* of one argument of a program */

struct run_document {
	struct string_list env, entrypoint, cmd;
	const char *workdir, *user;
};

struct rootfs_document {
	const char *type;
	struct string_list diff_ids;
};

struct config_document {
	const char *os, *arch;
	struct run_document run;
	struct rootfs_document rootfs;
};

static const struct field run_fields[] = {
	FIELD(struct run_document, env, FIELD_STRINGS, "Env", .min = 0, .max = MANIFEST_ENV_MAX),
	FIELD(struct run_document, entrypoint, FIELD_STRINGS, "Entrypoint", .min = 0, .max = MANIFEST_ARGS_MAX),
	FIELD(struct run_document, cmd, FIELD_STRINGS, "Cmd", .min = 0, .max = MANIFEST_ARGS_MAX),
	FIELD(struct run_document, workdir, FIELD_STRING, "WorkingDir"),
	FIELD(struct run_document, user, FIELD_STRING, "User", .max = USER_MAX),
	{ 0 },
};

static const struct field rootfs_fields[] = {
	FIELD(struct rootfs_document, type, FIELD_STRING, "type", .max = 64),
	FIELD(struct rootfs_document, diff_ids, FIELD_STRINGS, "diff_ids", .required = true, .min = 1, .max = MANIFEST_LAYERS_MAX),
	{ 0 },
};

static const struct field config_fields[] = {
	FIELD(struct config_document, os, FIELD_STRING, "os", .max = 64),
	FIELD(struct config_document, arch, FIELD_STRING, "architecture", .max = 64),
	FIELD(struct config_document, run, FIELD_OBJECT, "config", .fields = run_fields),
	FIELD(struct config_document, rootfs, FIELD_OBJECT, "rootfs", .required = true, .fields = rootfs_fields),
	{ 0 },
};

static bool has_controls(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

static int check_env(const struct string_list *env, struct err *e)
{
	size_t bytes = 0;

	for (size_t i = 0; i < env->n; i++) {
		const char *item = env->items[i], *equals = strchr(item, '=');

		if (!equals || equals == item)
			return err_set(e, ERR_INVALID, "environment: '%s' is not NAME=value", SHOWN(str_of(item)));
		if (strpbrk(item, "\n\r"))
			return err_set(e, ERR_INVALID, "environment: '%.*s' has a line end in it", (int)MIN(equals - item, 64), item);
		bytes += strlen(item) + 1;
	}
	return bytes <= MANIFEST_ENV_BYTES_MAX ?
		       0 : err_set(e, ERR_LIMIT, "environment: more than %zu bytes", MANIFEST_ENV_BYTES_MAX);
}

static int check_args(const struct string_list *args, const char *what, struct err *e)
{
	for (size_t i = 0; i < args->n; i++)
		if (strlen(args->items[i]) > ARG_MAX_BYTES)
			return err_set(e, ERR_LIMIT, "%s: an argument of more than %d bytes", what, ARG_MAX_BYTES);
	return 0;
}

/* "name", "1000", "name:group": what a passwd file can have. */
static int check_user(const char *user, struct err *e)
{
	static const char more[] = "._-";
	size_t colons = 0;

	for (const char *p = user; *p; p++) {
		bool is_word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr(more, *p);

		colons += *p == ':';
		if ((!is_word && *p != ':') || colons > 1)
			return err_set(e, ERR_INVALID, "USER '%s' of the image is no name or number of a user", SHOWN(str_of(user)));
	}
	return user[0] == ':' ? err_set(e, ERR_INVALID, "USER '%s' of the image has no user", SHOWN(str_of(user))) : 0;
}

static int check_workdir(const char *path, struct err *e)
{
	if (path[0] != '/' || has_controls(path))
		return err_set(e, ERR_INVALID, "WORKDIR '%s' of the image is no absolute path", SHOWN(str_of(path)));
	return path_check(str_of(path), e) < 0 ? err_wrap(e, "WORKDIR '%s' of the image", SHOWN(str_of(path))) : 0;
}

int image_check_start(const char *user, const char *workdir, struct err *e)
{
	if (user && check_user(user, e) < 0)
		return -1;
	return workdir ? check_workdir(workdir, e) : 0;
}

static int take_diff_ids(const struct string_list *ids, struct image_config *c, struct err *e)
{
	for (size_t i = 0; i < ids->n; i++)
		if (!digest_parse(str_of(ids->items[i]), &c->diff_ids[i]))
			return err_set(e, ERR_INVALID, "diff id %zu is neither sha256 and 64 digits nor sha512 and 128", i + 1);
	c->n_diff_ids = ids->n;
	return 0;
}

static const char *or_null(const char *s)
{
	return s && s[0] ? s : NULL;
}

static int take_run(const struct run_document *run, struct image_config *c, struct err *e)
{
	c->env = run->env;
	c->entrypoint = run->entrypoint;
	c->cmd = run->cmd;
	c->workdir = or_null(run->workdir);
	c->user = or_null(run->user);
	if (check_env(&c->env, e) < 0 || check_args(&c->entrypoint, "entrypoint", e) < 0)
		return -1;
	return check_args(&c->cmd, "command", e);
}

static int bind_config(struct str text, struct arena *a, struct image_config *ret, struct err *e)
{
	const struct json_limits limits = { .bytes = MANIFEST_BYTES_MAX };
	struct config_document doc = { .os = "", .arch = "", .rootfs.type = "layers" };
	struct json *root = json_parse(a, text, &limits, NULL, e);
	struct decode *d = root ? arena_alloc(a, sizeof(*d)) : NULL;

	if (!root)
		return -1;
	if (!d)
		return err_no_memory(e);
	d->arena = a;
	d->strict = true;
	if (decode(d, root, config_fields, &doc, e) < 0)
		return -1;
	if (strcmp(doc.rootfs.type, "layers") != 0)
		return err_set(e, ERR_INVALID, "its root file system is not made of layers");
	ret->os = doc.os;
	ret->arch = doc.arch;
	return take_run(&doc.run, ret, e) < 0 ? -1 : take_diff_ids(&doc.rootfs.diff_ids, ret, e);
}

int image_config_parse(struct str text, struct arena *a, struct image_config *ret, struct err *e)
{
	*ret = (struct image_config){ 0 };
	return bind_config(text, a, ret, e) < 0 ? err_wrap(e, "image configuration") : 0;
}

int image_check(const struct manifest *m, const struct image_config *c, const struct platform *want, struct err *e)
{
	if (m->n_layers != c->n_diff_ids)
		return err_set(e, ERR_INVALID, "the manifest has %zu layers, the configuration %zu", m->n_layers, c->n_diff_ids);
	if ((c->os[0] && strcmp(c->os, want->os) != 0) || (c->arch[0] && strcmp(c->arch, want->arch) != 0))
		return err_set(e, ERR_NOT_FOUND, "there is none for %s/%s, only for: %s/%s", want->os, want->arch, SHOWN(str_of(c->os)),
			       SHOWN(str_of(c->arch)));
	return 0;
}
