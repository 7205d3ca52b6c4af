// SPDX-License-Identifier: Apache-2.0
#include "execd/config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/guest.h"
#include "base/own.h"
#include "execd/duration.h"
#include "execd/execd.h"
#include "execd/spec.h"
#include "net/addr.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define BACKLOG 1024

_Static_assert(CGROUP_GAUGES == GUEST_STATS, "the warden hands over as many");

static const char *const secrets[] = { "EXECD_ACCESS_TOKEN", "JUPYTER_TOKEN", NULL };

static void wipe(const char *z)
{
	if (z)
		secret_wipe((void *)(uintptr_t)z, strlen(z));
}

static int copy_argv(struct arena *a, const char *const *from, size_t n, char *const **ret, struct err *e)
{
	char **argv = arena_array(a, n + 1, sizeof(*argv));

	for (size_t i = 0; argv && i < n; i++) {
		argv[i] = arena_dup(a, str_of(from[i]));
		if (!argv[i])
			return err_no_memory(e);
	}
	*ret = argv;
	return argv ? 0 : err_no_memory(e);
}

static int copy_token(struct arena *a, const char *token, struct execd_config *ret, struct err *e)
{
	char *copy = token ? arena_dup(a, str_of(token)) : NULL;

	if (token && !copy)
		return err_no_memory(e);
	ret->token = str_of(copy);
	return 0;
}

static int copy_jupyter(struct arena *a, const char *host, const char *token, struct execd_config *ret, struct err *e)
{
	if (!host || !*host)
		return 0;
	ret->jupyter_host = arena_dup(a, str_of(host));
	ret->jupyter_token = arena_dup(a, str_of(token ? token : ""));
	return ret->jupyter_host && ret->jupyter_token ? 0 : err_no_memory(e);
}

/* ---- the warden ---- */

/* Until all N bytes are there. */
static int read_whole(int fd, void *to, size_t n, struct err *e)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = read(fd, (char *)to + at, n - at);

		if (got == 0)
			return err_set(e, ERR_UNAVAILABLE, "there is none");
		if (got < 0 && errno != EINTR)
			return err_sys(e, errno, "read");
		at += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

static int read_later(int fd, struct buf *ret, struct err *e)
{
	uint32_t size;
	char *room;

	if (read_whole(fd, &size, sizeof(size), e) < 0)
		_exit(0); /* nobody wants this sandbox any more, nor to know of it */
	room = buf_reserve(ret, size);
	if (!room)
		return err_set(e, ERR_LIMIT, "too long");
	if (read_whole(fd, room, size, e) < 0)
		return -1;
	buf_commit(ret, size);
	return 0;
}

static int read_spec(struct arena *a, struct spec *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(GUEST_SPEC_MAX);
	bool is_later = lseek(GUEST_FD_SPEC, 0, SEEK_SET) < 0;
	struct str copy;
	int r;

	if (is_later && errno != ESPIPE)
		return err_sys(e, errno, "spec");
	if ((is_later ? read_later(GUEST_FD_SPEC, &text, e) : fd_read_all(GUEST_FD_SPEC, GUEST_SPEC_MAX, &text, e)) < 0)
		return err_wrap(e, "spec");
	(void)close(GUEST_FD_SPEC);
	copy = (struct str){ arena_dup(a, buf_str(&text)), text.n }; /* what it is bound to may be views of it */
	r = copy.p ? spec_parse(copy, a, ret, e) : err_no_memory(e);
	secret_wipe(text.p, text.n);
	return r;
}

static int take_leaf(const struct options *o, struct leaf *ret, struct cgroup_gauges *gauges, int *ret_hosts, struct err *e)
{
	int next = GUEST_FD_CGROUPS;

	*ret = LEAF_INIT;
	for (int64_t i = 0; i < o->cgroups; i++)
		ret->fds[ret->n++] = next++;
	if (o->oom_counter)
		ret->oom_fd = next++;
	for (int i = 0; o->stats && i < CGROUP_GAUGES; i++)
		gauges->fds[i] = next++;
	if (o->hosts)
		*ret_hosts = next++;
	for (int fd = GUEST_FD_LISTEN; fd < next; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return err_sys(e, errno, "descriptor %d", fd);
	return close_from((unsigned)next, e);
}

/* Our name, which the warden gave us before the spec, at the address that it has. */
static int add_name(int hosts, const char *address, struct err *e)
{
	char name[HOST_NAME_MAX + 1] = "", line[HOST_NAME_MAX + 64];

	if (hosts < 0)
		return 0;
	if (gethostname(name, sizeof(name) - 1) < 0)
		return err_sys(e, errno, "host name");
	(void)snprintf(line, sizeof(line), "%.47s\t%s\n", address, name);
	return fd_write_all(hosts, line, strlen(line), e);
}

static int take_env(struct arena *a, const struct spec *s, struct env *ret, struct err *e)
{
	if (env_copy(ret, a, NULL, NULL, e) < 0)
		return -1;
	for (size_t i = 0; i < s->env.n; i++)
		if (env_set(ret, a, str_of(s->env.items[i].key), str_of(s->env.items[i].value), e) < 0)
			return -1;
	if (!env_get(ret, STR("PATH")))
		return env_set(ret, a, STR("PATH"), STR(ENV_DEFAULT_PATH), e);
	return 0;
}

/* As with every container: the home of who programs run as, unless the environment has one. */
static int take_home(struct arena *a, const struct identity *as, struct env *env, struct err *e)
{
	AUTO(users_text_done) struct users_text text = { 0 };
	struct str home = as->uid == 0 ? STR("/root") : STR("/");
	char number[16];
	struct user u;

	if (env_get(env, STR("HOME")))
		return 0;
	(void)snprintf(number, sizeof(number), "%u", as->uid);
	if (as->uid != 0 && users_find(str_of(number), STR(""), &text, &(struct err){ 0 }) == 0 && passwd_by_uid(text.files.passwd, as->uid, &u) &&
	    str_starts(u.home, STR("/")))
		home = u.home;
	return env_set(env, a, STR("HOME"), home, e);
}

static int take_identity(const struct spec *s, struct execd_config *ret, struct err *e)
{
	if (s->user && *s->user) {
		if (users_by_text(str_of(s->user), &ret->as, e) == 0)
			return 0;
		ret->is_image_bad = e->code == ERR_INVALID;
		return err_wrap(e, "USER '%s' of the image", SHOWN(str_of(s->user)));
	}
	if (s->has_uid && !s->has_gid)
		return users_by_uid((uid_t)s->uid, &ret->as, e);
	identity_of_ids((uid_t)s->uid, (gid_t)s->gid, &ret->as);
	return 0;
}

int config_from_guest(const struct options *o, struct arena *a, struct execd_config *ret, struct err *e)
{
	AUTO_FD hosts = -1;
	struct spec s = { 0 };

	*ret = (struct execd_config){
		.listen_fd = GUEST_FD_LISTEN,
		.ready_fd = GUEST_FD_READY,
		.state_fd = GUEST_FD_STATE,
		.segments = SEGMENTS_INIT(GUEST_FD_LOG_0, GUEST_FD_LOG_1, GUEST_LOG_SEGMENT_MAX),
		.has_identity = true,
		.gauges = CGROUP_GAUGES_INIT,
		.is_guest = true,
	};
	(void)umask(022);
	if (cloexec_from(3, e) < 0 || take_leaf(o, &ret->leaf, &ret->gauges, &hosts, e) < 0 || init_protect(e) < 0)
		return -1;
	if (read_spec(a, &s, e) < 0 || add_name(hosts, o->hosts, e) < 0 || copy_token(a, s.token, ret, e) < 0)
		return -1;
	wipe(s.token);
	if (take_env(a, &s, &ret->env, e) < 0 || take_identity(&s, ret, e) < 0 || take_home(a, &ret->as, &ret->env, e) < 0)
		return -1;
	ret->env_file = env_get(&ret->env, STR("EXECD_ENVS"));
	/* An image has them in its environment; its entrypoint, which is the server, needs both as well. */
	if (copy_jupyter(a, env_get(&ret->env, STR("JUPYTER_HOST")), env_get(&ret->env, STR("JUPYTER_TOKEN")), ret, e) < 0)
		return -1;
	ret->cwd = arena_dup(a, str_of(s.cwd && *s.cwd ? s.cwd : "/"));
	if (!ret->cwd)
		return err_no_memory(e);
	if (launch_make_cwd(ret->cwd, e) < 0) {
		ret->is_image_bad = launch_is_about_path(e);
		return err_wrap(e, "WORKDIR '%s' of the image", SHOWN(str_of(ret->cwd)));
	}
	if (fd_set_nonblock(ret->listen_fd, true, e) < 0)
		return -1;
	return s.stays ? 0 : copy_argv(a, s.entrypoint.items, s.entrypoint.n, &ret->argv, e);
}

/* ---- the command line ---- */

static int listen_unix(const char *path, struct err *e)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct addr a;
	struct stat st;
	mode_t before;
	int r;

	if (fd < 0)
		return err_sys(e, errno, "create a socket");
	if (sockaddr_unix(path, &a, e) < 0)
		return -1;
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path); /* of a run before this one */
	before = umask(077);
	r = bind(fd, &a.sa, a.len);
	(void)umask(before);
	if (r < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "listen on '%s'", path);
	return take_fd(&fd);
}

static int listen_port(int64_t port, struct err *e)
{
	AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int on = 1;

	if (fd < 0)
		return err_sys(e, errno, "create a socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return err_sys(e, errno, "listen on port %d: SO_REUSEADDR", (int)port);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "listen on port %d", (int)port);
	return take_fd(&fd);
}

/* Settings of features to come: wrong ones are refused now, so that they do not surprise later. */
static int check_settings(const struct options *o, const struct env *env, struct err *e)
{
	const char *host = env_get(env, STR("JUPYTER_HOST")), *grace = o->grace;
	uint64_t ignored;

	if (!o->jupyter_host && host && *host && !str_starts(str_of(host), STR("http://")) &&
	    !str_starts(str_of(host), STR("https://")))
		return err_set(e, ERR_INVALID, "JUPYTER_HOST must begin with http:// or https://");
	if (!grace)
		grace = env_get(env, STR("EXECD_API_GRACE_SHUTDOWN"));
	if (grace && *grace && !duration_ms(str_of(grace), &ignored))
		return err_set(e, ERR_INVALID, "the graceful shutdown timeout is no duration such as 500ms or 1s");
	return 0;
}

int config_from_options(const struct options *o, char *const *operands, char **environment, struct arena *a,
			struct execd_config *ret, struct err *e)
{
	struct env all = { .items = environment };
	char here[PATH_BYTES_MAX + 1];
	const char *token;
	size_t n = 0;

	while (environment[all.n])
		all.n++;
	*ret = (struct execd_config){
		.leaf = LEAF_INIT,
		.gauges = CGROUP_GAUGES_INIT,
		.listen_fd = -1,
		.ready_fd = -1,
		.state_fd = -1,
		.segments = SEGMENTS_INIT(-1, -1, GUEST_LOG_SEGMENT_MAX),
	};
	token = o->token ? o->token : env_get(&all, STR("EXECD_ACCESS_TOKEN"));
	if (check_settings(o, &all, e) < 0 || copy_token(a, token, ret, e) < 0 ||
	    copy_jupyter(a, o->jupyter_host ? o->jupyter_host : env_get(&all, STR("JUPYTER_HOST")),
			 o->jupyter_token ? o->jupyter_token : env_get(&all, STR("JUPYTER_TOKEN")), ret, e) < 0 ||
	    env_copy(&ret->env, a, environment, secrets, e) < 0)
		return -1;
	for (size_t i = 0; secrets[i]; i++)
		wipe(env_get(&all, str_of(secrets[i])));
	wipe(o->token);
	wipe(o->jupyter_token);
	ret->env_file = env_get(&ret->env, STR("EXECD_ENVS"));
	while (operands && operands[n])
		n++;
	if (!spec_stays(&(struct string_list){ (const char **)(uintptr_t)operands, n }) &&
	    copy_argv(a, (const char *const *)operands, n, &ret->argv, e) < 0)
		return -1;
	if (!getcwd(here, sizeof(here)))
		return err_sys(e, errno, "read the working directory");
	ret->cwd = arena_dup(a, str_of(here));
	if (!ret->cwd)
		return err_no_memory(e);
	cgroup_gauges_open_own(&ret->gauges);
	ret->port = o->socket ? 0 : (unsigned)o->port;
	ret->listen_fd = o->socket ? listen_unix(o->socket, e) : listen_port(o->port, e);
	return ret->listen_fd < 0 ? -1 : 0;
}
