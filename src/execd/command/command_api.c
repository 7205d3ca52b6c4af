// SPDX-License-Identifier: Apache-2.0
/* POST /command; what is remembered of commands is in command_history_api.c.
 *
 * `uid` and `gid` are numbers, or strings: digits are a number, anything else is a name of the sandbox's
 * passwd and group files (C2). An unknown name is answered 400. A uid without a gid has the groups that the
 * files give it; one that they do not know has the group of the same number, never 0. A gid without a uid is
 * refused.
 *
 * `stdin` is text of at most INPUT_MAX bytes that the command reads, and then the end; in the background as
 * well. By default there is nothing to read (/dev/null). A command that does not read it is not waited for,
 * and what it has not read by its end is dropped. 503 when too much of other commands' input waits. */
#include <fcntl.h>
#include <inttypes.h>

#include "base/decode.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/guest.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/io/body.h"
#include "execd/io/input.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define COMMAND_ENV_BYTES_MAX (128 * 1024)
#define TIMEOUT_MAX_MS (INT64_C(1) << 53)

struct command_request {
	const char *command, *cwd;
	bool background;
	int64_t timeout_ms;
	const struct json *uid, *gid;
	struct str user, group; /* the two as text; empty: not given */
	struct str input;
	struct string_map envs;
};

/* Names that could not be told apart in a list of lines are none (A9). */
const char *bad_env_name(const struct string_map *envs)
{
	for (size_t i = 0; i < envs->n; i++) {
		const char *name = envs->items[i].key;

		if (name[0] == '\0' || strchr(name, '=') || !escape_is_free(str_of(name)))
			return name;
	}
	return NULL;
}

int refuse_env_name(struct reply *rp, const char *field, const char *name)
{
	(void)reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: $.%s: '%s' is not a name", field, SHOWN(str_of(name)));
	return 1;
}

const char *check_envs(const void *value)
{
	const struct string_map *envs = value;
	size_t bytes = 0;

	for (size_t i = 0; i < envs->n; i++) {
		const struct string_pair *p = &envs->items[i];

		bytes += strlen(p->key) + strlen(p->value) + 2;
	}
	return bytes > COMMAND_ENV_BYTES_MAX ? "more than 131072 bytes" : NULL;
}

static const struct field fields[] = {
	FIELD(struct command_request, command, FIELD_STRING, "command", .required = true, .min = 1, .max = 0),
	FIELD(struct command_request, cwd, FIELD_STRING, "cwd", .min = 0, .max = PATH_BYTES_MAX),
	FIELD(struct command_request, background, FIELD_BOOL, "background"),
	FIELD(struct command_request, timeout_ms, FIELD_INT, "timeout", .min = 0, .max = TIMEOUT_MAX_MS),
	FIELD(struct command_request, uid, FIELD_ANY, "uid"),
	FIELD(struct command_request, gid, FIELD_ANY, "gid"),
	FIELD(struct command_request, envs, FIELD_MAP, "envs", .min = 0, .max = COMMAND_ENVS_MAX, .secret = true,
	      .check = check_envs),
	FIELD(struct command_request, input, FIELD_TEXT, "stdin", .min = 0, .max = INPUT_MAX, .secret = true),
	{ 0 },
};

/* 1 after having answered. */
static int refuse(struct reply *rp, const char *field, const char *why)
{
	(void)reply_error(rp, 400, CODE_INVALID_BODY, "invalid request body: $.%s: %s", field, why);
	return 1;
}

/* A number or a string, as text. 1 after having answered. */
static int take_id(const struct json *v, const char *field, struct arena *a, struct reply *rp, struct str *ret, struct err *e)
{
	const char *text;

	if (!v || v->type == JSON_NULL)
		return 0;
	if (v->type == JSON_STRING && v->s.n > 0 && v->s.n <= USERS_NAME_MAX) {
		*ret = v->s;
		return 0;
	}
	if (v->type != JSON_INT || v->i < 0 || v->i > GUEST_ID_MAX)
		return refuse(rp, field, "must be a number from 0 to 65535 or a name");
	text = arena_printf(a, "%" PRId64, v->i);
	if (!text)
		return err_no_memory(e);
	*ret = str_of(text);
	return 0;
}

/* Rules that the table does not know. 0, or 1 after having answered. */
static int check_request(const struct command_request *cr, struct reply *rp)
{
	if (strlen(cr->command) > COMMAND_TEXT_MAX) {
		(void)reply_error(rp, 413, CODE_TOO_LARGE, "$.command: longer than %d bytes", COMMAND_TEXT_MAX);
		return 1;
	}
	if (bad_env_name(&cr->envs))
		return refuse_env_name(rp, "envs", bad_env_name(&cr->envs));
	return cr->group.n > 0 && cr->user.n == 0 ? refuse(rp, "gid", "not without uid") : 0;
}

int execd_env(const struct execd_config *config, struct arena *a, struct env *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(ENV_FILE_MAX);
	AUTO(buf_done) struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct err why = { 0 };

	if (env_copy(ret, a, config->env.items, NULL, e) < 0)
		return -1;
	if (config->env_file) {
		if (env_expand_path(&config->env, str_of(config->env_file), &path, &why) < 0 ||
		    fd_read_file(AT_FDCWD, path.p, ENV_FILE_MAX, &text, &why) < 0)
			log_debug("the file of EXECD_ENVS cannot be read, ignoring", LOG_ERR(&why));
		else if (env_add_file(ret, a, buf_str(&text), &config->env, e) < 0)
			return -1;
	}
	return 0;
}

static int make_env(const struct execd_config *config, const struct command_request *cr, struct arena *a,
		    struct env *ret, struct err *e)
{
	if (execd_env(config, a, ret, e) < 0)
		return -1;
	for (size_t i = 0; i < cr->envs.n; i++)
		if (env_set(ret, a, str_of(cr->envs.items[i].key), str_of(cr->envs.items[i].value), e) < 0)
			return -1;
	return 0;
}

static bool is_number(struct str s)
{
	uint64_t ignored;

	return str_to_u64(s, 0, UINT64_MAX, &ignored);
}

/* Numbers for both need no file, and so no file that is well. 1 after having answered. */
static int look_up(const struct command_request *cr, struct reply *rp, struct identity *ret, struct err *e)
{
	AUTO(users_text_done) struct users_text t = { 0 };
	struct err why = { 0 };
	gid_t gid;

	if (!(is_number(cr->user) && is_number(cr->group)) && users_find(cr->user, cr->group, &t, e) < 0)
		return e->code == ERR_INVALID ? refuse(rp, "uid", e->msg) : -1;
	if (identity_of_name(&t.files, cr->user, ret, &why) < 0)
		return refuse(rp, "uid", why.msg);
	if (cr->group.n == 0)
		return 0;
	if (gid_of_name(&t.files, cr->group, &gid, &why) < 0)
		return refuse(rp, "gid", why.msg);
	identity_of_ids(ret->uid, gid, ret);
	return 0;
}

/* Who it runs as; NULL in *ret: as we are. 1 after having answered. */
static int find_identity(const struct execd_config *config, const struct command_request *cr, struct reply *rp,
			 struct identity *room, const struct identity **ret, struct err *e)
{
	*ret = config->has_identity ? &config->as : NULL;
	if (cr->user.n == 0)
		return 0;
	*ret = room;
	return look_up(cr, rp, room, e);
}

/* The directory, or -1 in *ret for ours. 1 after having answered. */
static int open_cwd(const struct execd_config *config, const struct command_request *cr, const struct env *env, struct reply *rp,
		    int *ret, struct err *e)
{
	struct err why = { 0 };

	if ((!cr->cwd || !*cr->cwd) && launch_keep_cwd(config->cwd))
		return 0;
	*ret = launch_open_cwd(env, str_of(cr->cwd && *cr->cwd ? cr->cwd : config->cwd), &why);
	if (*ret >= 0)
		return 0;
	if (why.code != ERR_INVALID) {
		*e = why;
		return -1;
	}
	return refuse(rp, "cwd", why.msg);
}

static int run(struct execd *x, const struct command_request *cr, struct arena *a, struct reply *rp, struct err *e)
{
	AUTO_FD cwd = -1;
	struct command_spec sp = { .timeout_ms = (uint64_t)cr->timeout_ms, .is_background = cr->background,
				   .content = str_of(cr->command), .input = cr->input };
	struct identity room;
	struct env env;
	char *argv[4] = { 0 };
	int r;

	if (make_env(x->config, cr, a, &env, e) < 0)
		return -1;
	r = open_cwd(x->config, cr, &env, rp, &cwd, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	r = find_identity(x->config, cr, rp, &room, &sp.as, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	sp.path = launch_shell(&x->config->env, a);
	argv[0] = arena_dup(a, str_of(strrchr(sp.path, '/') + 1)); /* what the shell calls itself in its messages */
	argv[1] = arena_dup(a, STR("-c"));
	argv[2] = arena_dup(a, str_of(cr->command));
	if (!argv[0] || !argv[1] || !argv[2])
		return err_no_memory(e);
	sp.argv = argv;
	sp.envp = env.items;
	sp.cwd_fd = cwd;
	return command_run(&x->commands, &sp, rp, e);
}

static bool is_full(const struct execd *x)
{
	return x->commands.n >= x->commands.max;
}

int command_run_text(struct execd *x, const char *text, bool is_background, struct arena *a, struct reply *rp, struct err *e)
{
	const struct command_request cr = { .command = text, .background = is_background };

	if (check_request(&cr, rp) != 0)
		return 0;
	return is_full(x) ? reply_too_many(rp, "commands") : run(x, &cr, a, rp, e);
}

static int on_body(struct request *rq, struct reply *rp, struct str body, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(BODY_ARENA_MAX);
	struct execd *x = execd_of(rq);
	struct command_request cr = { 0 };
	int r = body_decode(rp, body, &a, fields, &cr, e);

	if (r == 0)
		r = take_id(cr.uid, "uid", &a, rp, &cr.user, e);
	if (r == 0)
		r = take_id(cr.gid, "gid", &a, rp, &cr.group, e);
	if (r == 0)
		r = check_request(&cr, rp);
	if (r != 0)
		return r < 0 ? -1 : 0;
	if (is_full(x))
		return reply_too_many(rp, "commands");
	return run(x, &cr, &a, rp, e);
}

int command_post(struct request *rq, struct reply *rp, struct err *e)
{
	struct execd *x = execd_of(rq);

	if (is_full(x))
		return reply_too_many(rp, "commands");
	return body_read(rq, rp, &x->budget, on_body, e);
}
