// SPDX-License-Identifier: Apache-2.0
/* What execd needs to know of a sandbox, as base/guest.h describes it: what the request says, above what its image says. */
#include "base/buf.h"
#include "base/json_out.h"
#include "server/native/native_impl.h"
#include "sys/memfd.h"

#include "base/banned.h"

#define SPEC_MAX (1024 * 1024)

static bool has_name(const struct runtime_spec *spec, struct str name)
{
	for (size_t i = 0; i < spec->env.n; i++)
		if (str_is(name, spec->env.items[i].key))
			return true;
	return false;
}

/* Of several of one name the last counts, and none that the request has. */
static bool is_hidden(const struct runtime_spec *spec, const struct string_list *env, size_t at)
{
	struct str name, other, value;

	(void)str_cut(str_of(env->items[at]), '=', &name, &value);
	for (size_t i = at + 1; i < env->n; i++) {
		(void)str_cut(str_of(env->items[i]), '=', &other, &value);
		if (str_eq(name, other))
			return true;
	}
	return name.n == 0 || has_name(spec, name);
}

static void write_env(struct json_out *o, const struct runtime_spec *spec, const struct string_list *env)
{
	json_key(o, "env"), json_open(o, '{');
	for (size_t i = 0; env && i < env->n; i++) {
		struct str name, value;

		(void)str_cut(str_of(env->items[i]), '=', &name, &value);
		if (!is_hidden(spec, env, i))
			json_key_str(o, name), json_str(o, value);
	}
	for (size_t i = 0; i < spec->env.n; i++)
		json_key(o, spec->env.items[i].key), json_cstr(o, spec->env.items[i].value);
	json_close(o, '}');
}

int native_spec_make(const struct runtime_spec *spec, const struct native_config *image, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(SPEC_MAX);
	struct json_out o = json_out(&b);
	int fd;

	json_open(&o, '{');
	json_key(&o, "id"), json_cstr(&o, spec->id);
	json_key(&o, "entrypoint"), json_open(&o, '[');
	for (size_t i = 0; i < spec->entrypoint.n; i++)
		json_cstr(&o, spec->entrypoint.items[i]);
	json_close(&o, ']');
	write_env(&o, spec, image ? &image->env : NULL);
	if (image && image->workdir)
		json_key(&o, "cwd"), json_cstr(&o, image->workdir);
	if (image && image->user)
		json_key(&o, "user"), json_cstr(&o, image->user);
	json_key(&o, "token"), json_cstr(&o, spec->execd_token);
	json_close(&o, '}');
	if (b.failed)
		return err_set(e, ERR_LIMIT, "the description of the sandbox is larger than %d bytes", SPEC_MAX);
	fd = memfd_sealed_bytes("spec", buf_str(&b), e);
	secret_wipe(b.p, b.n);
	return fd;
}
