// SPDX-License-Identifier: Apache-2.0
#include "server/boot/doctor.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/own.h"
#include "box/preflight.h"
#include "server/config/config.h"
#include "server/http/listen.h"
#include "server/native/host.h"
#include "sys/closed_files.h"

#include "base/banned.h"

#define SOCKET_NAME_MAX 32 /* bytes of the longest name of a socket in run_dir, with its slash and NUL */

typedef enum preflight_outcome config_probe(const struct config *c, char *detail);

struct config_check {
	struct preflight_check row;
	config_probe *probe;
};

static void say(char *detail, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char *detail, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(detail, PREFLIGHT_DETAIL_MAX, fmt, ap); /* a long one is cut: it is for people */
	va_end(ap);
}

static enum preflight_outcome say_error(const struct err *e, char *detail)
{
	say(detail, "%s", e->msg);
	return PREFLIGHT_MISSING;
}

/* ---- folders ---- */

static const char *file_system(const char *path)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{ EXT4_SUPER_MAGIC, "ext4" }, { XFS_SUPER_MAGIC, "xfs" },     { BTRFS_SUPER_MAGIC, "btrfs" },
		{ TMPFS_MAGIC, "tmpfs" },     { OVERLAYFS_SUPER_MAGIC, "overlay" }, { NFS_SUPER_MAGIC, "nfs" },
		{ F2FS_SUPER_MAGIC, "f2fs" }, { 0x2fc12fc1, "zfs" },
	};
	struct statfs sf;

	if (statfs(path, &sf) < 0)
		return "unknown";
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if ((unsigned long)sf.f_type == known[i].magic)
			return known[i].name;
	return "another file system";
}

/* The folder, or the one above that it will be made in, is a folder that can be written to. */
static int check_folder(const char *path, char existing[PATH_MAX], struct err *e)
{
	struct stat st;

	preflight_existing(path, existing, PATH_MAX);
	if (stat(existing, &st) < 0)
		return err_sys(e, errno, "'%s'", existing);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is not a folder", existing);
	if (faccessat(AT_FDCWD, existing, W_OK | X_OK, AT_EACCESS) < 0)
		return err_sys(e, errno, "write to '%s'", existing);
	return 0;
}

static enum preflight_outcome probe_state_dir(const struct config *c, char *detail)
{
	char existing[PATH_MAX];
	const char *fs;
	struct err e = { 0 };

	if (geteuid() != 0)
		return PREFLIGHT_UNTRIED;
	if (check_folder(c->native.state_dir, existing, &e) < 0 || preflight_try_upper(existing, &e) < 0) {
		(void)say_error(&e, detail);
		return e.sys == PREFLIGHT_NOT_TRIED ? PREFLIGHT_UNTRIED : PREFLIGHT_MISSING;
	}
	fs = file_system(existing);
	if (strcmp(fs, "tmpfs") == 0) {
		say(detail, "%s is on tmpfs: all is gone after a reboot", c->native.state_dir);
		return PREFLIGHT_WARNING;
	}
	say(detail, "%s, %s", c->native.state_dir, fs);
	return PREFLIGHT_OK;
}

static enum preflight_outcome probe_run_dir(const struct config *c, char *detail)
{
	char existing[PATH_MAX];
	struct err e = { 0 };

	if (strlen(c->native.run_dir) + SOCKET_NAME_MAX > sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		say(detail, "the path is too long for sockets in it");
		return PREFLIGHT_MISSING;
	}
	if (check_folder(c->native.run_dir, existing, &e) < 0) {
		(void)say_error(&e, detail);
		return geteuid() == 0 || e.sys != EACCES ? PREFLIGHT_MISSING : PREFLIGHT_UNTRIED;
	}
	say(detail, "%s", c->native.run_dir);
	return PREFLIGHT_OK;
}

static enum preflight_outcome probe_file(const struct config *c, char *detail)
{
	say(detail, "%s", c->file_fault ? c->file_fault : "");
	return c->file_fault ? PREFLIGHT_WARNING : PREFLIGHT_OK;
}

static enum preflight_outcome probe_tls_key(const struct config *c, char *detail)
{
	say(detail, "%s", c->tls_key_fault ? c->tls_key_fault : c->server.tls_key ? c->server.tls_key : "the server has none");
	return c->tls_key_fault ? PREFLIGHT_WARNING : PREFLIGHT_OK;
}

/* ---- programs and accounts ---- */

static enum preflight_outcome probe_program(const char *path, char *detail)
{
	if (access(path, X_OK) < 0) {
		say(detail, "%s: %s", path, strerror(errno));
		return PREFLIGHT_MISSING;
	}
	say(detail, "%s", path);
	return PREFLIGHT_OK;
}

static enum preflight_outcome probe_warden(const struct config *c, char *detail)
{
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };

	return native_host_programs(c, &n, &e) < 0 ? say_error(&e, detail) : probe_program(n.warden, detail);
}

static enum preflight_outcome probe_execd(const struct config *c, char *detail)
{
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };

	return native_host_programs(c, &n, &e) < 0 ? say_error(&e, detail) : probe_program(n.execd, detail);
}

static enum preflight_outcome probe_fetch(const struct config *c, char *detail)
{
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };

	if (native_host_programs(c, &n, &e) < 0)
		return say_error(&e, detail);
	return probe_program(n.fetch, detail) == PREFLIGHT_OK ? PREFLIGHT_OK : PREFLIGHT_WARNING;
}

static enum preflight_outcome probe_egress(const struct config *c, char *detail)
{
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };

	if (native_host_programs(c, &n, &e) < 0)
		return say_error(&e, detail);
	return probe_program(n.egress, detail) == PREFLIGHT_OK ? PREFLIGHT_OK : PREFLIGHT_WARNING;
}

static enum preflight_outcome probe_user(const char *name, char *detail)
{
	const struct passwd *pw = getpwnam(name);

	if (!pw) {
		say(detail, "no account '%s'", name);
		return PREFLIGHT_WARNING;
	}
	say(detail, "'%s', %u", name, (unsigned)pw->pw_uid);
	return pw->pw_uid == 0 ? PREFLIGHT_MISSING : PREFLIGHT_OK;
}

static enum preflight_outcome probe_account(const struct config *c, char *detail)
{
	return probe_user(c->native.user, detail);
}

static enum preflight_outcome probe_egress_account(const struct config *c, char *detail)
{
	return probe_user(c->egress.user, detail);
}

static enum preflight_outcome probe_fetch_account(const struct config *c, char *detail)
{
	return probe_user(c->images.user, detail);
}

/* ---- the image 'host' ---- */

struct closed {
	struct timespec since; /* the warden's socket was made: what closed later is not hidden */
	size_t n, n_later;
	struct buf names; /* of those, or of all that there are */
};

static bool is_later(const struct closed *c, const struct stat *st)
{
	return c->since.tv_sec != 0 && (st->st_ctim.tv_sec > c->since.tv_sec ||
					(st->st_ctim.tv_sec == c->since.tv_sec && st->st_ctim.tv_nsec >= c->since.tv_nsec));
}

static int count_closed(const char *path, const struct stat *st, void *arg, struct err *e)
{
	struct closed *c = arg;
	bool is_first_later = is_later(c, st) && c->n_later++ == 0;

	(void)e;
	c->n++;
	if (is_first_later)
		buf_clear(&c->names);
	if (is_first_later || c->n_later == 0 || is_later(c, st))
		buf_addf(&c->names, "%s/usr/%s", c->names.n > 0 ? ", " : "", SHOWN(str_of(path)));
	return 0;
}

/* The warden hides them when it starts. */
static enum preflight_outcome probe_host_image(const struct config *c, char *detail)
{
	AUTO_FD usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct closed found = { .names = BUF_INIT(PREFLIGHT_DETAIL_MAX) };
	struct native_host n = NATIVE_HOST_INIT;
	struct err e = { 0 };
	struct stat st;

	if (geteuid() != 0)
		return PREFLIGHT_UNTRIED;
	if (native_host_names(c, &n, &e) == 0 && stat(n.socket, &st) == 0)
		found.since = st.st_ctim;
	if (usr >= 0 && closed_files_find(usr, count_closed, &found, &e) < 0)
		(void)say_error(&e, detail);
	else if (found.n_later > 0)
		say(detail, "%zu changed since the server started: %s", found.n_later, buf_z(&found.names));
	else
		say(detail, "%zu files of /usr are not open to everyone, and hidden%s%s", found.n, found.n > 0 ? ": " : "", buf_z(&found.names));
	buf_done(&found.names);
	return e.code != ERR_NONE || found.n_later > 0 ? PREFLIGHT_WARNING : PREFLIGHT_OK;
}

/* ---- ports ---- */

static int try_port(const struct config *c, int64_t port, struct err *e)
{
	int fds[LISTEN_ADDRESSES_MAX];
	struct listen_plan plan;
	size_t n = 0;

	if (listen_resolve(c->server.host, (unsigned)port, &plan, e) < 0 || listen_open(&plan, 1, fds, &n, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		closep(&fds[i]);
	return 0;
}

static enum preflight_outcome probe_ports(const struct config *c, char *detail)
{
	struct err e = { 0 };

	if (try_port(c, c->server.port, &e) < 0 || try_port(c, c->server.proxy_port, &e) < 0) {
		(void)say_error(&e, detail);
		return e.sys == EACCES && geteuid() != 0 ? PREFLIGHT_UNTRIED : PREFLIGHT_WARNING;
	}
	say(detail, "%s, %lld and %lld are free", c->server.host, (long long)c->server.port, (long long)c->server.proxy_port);
	return PREFLIGHT_OK;
}

/* ---- all of it ---- */

static const struct config_check config_checks[] = {
	{ { "configuration", "file", .cost = "whoever has the API key has all sandboxes; whoever writes the file is root",
	    .remedy = "let only its owner read and write the file" },
	  probe_file },
	{ { "configuration", "tls_key", .cost = "whoever has the key can pass himself off as this server",
	    .remedy = "let only its owner, and a group that needs it, read it" },
	  probe_tls_key },
	{ { "configuration", "state_dir", .is_needed = true,
	    .cost = "images, sandboxes and their records cannot be kept there",
	    .remedy = "let native.state_dir be a folder on ext4, xfs or btrfs" },
	  probe_state_dir },
	{ { "configuration", "run_dir", .is_needed = true, .cost = "the server cannot reach its warden: no sandbox can be created",
	    .remedy = "let native.run_dir be a folder with a short path, as /run/opensandbox" },
	  probe_run_dir },
	{ { "configuration", "warden", .is_needed = true, .cost = "nobody makes sandboxes: no sandbox can be created",
	    .remedy = "install opensandbox-warden beside opensandbox-server" },
	  probe_warden },
	{ { "configuration", "execd", .is_needed = true, .cost = "a sandbox has no PID 1: no sandbox can be created",
	    .remedy = "install execd beside opensandbox-server" },
	  probe_execd },
	{ { "configuration", "fetcher", .cost = "images of registries and archives cannot be had",
	    .remedy = "install opensandbox-fetch beside opensandbox-server" },
	  probe_fetch },
	{ { "configuration", "server account", .cost = "the server runs with a spare id that no account has",
	    .remedy = "useradd --system --no-create-home --shell /usr/sbin/nologin opensandbox" },
	  probe_account },
	{ { "configuration", "fetch account", .cost = "opensandbox-fetch runs with a spare id that no account has",
	    .remedy = "useradd --system --no-create-home --shell /usr/sbin/nologin opensandbox-fetch" },
	  probe_fetch_account },
	{ { "configuration", "egress", .cost = "no sandbox can have a network",
	    .remedy = "install opensandbox-egress beside opensandbox-server" },
	  probe_egress },
	{ { "configuration", "egress account", .cost = "opensandbox-egress runs with a spare id that no account has",
	    .remedy = "useradd --system --no-create-home --shell /usr/sbin/nologin opensandbox-egress" },
	  probe_egress_account },
	{ { "configuration", "image 'host'",
	    .cost = "sandboxes of it can read files of /usr that other users of the host cannot",
	    .remedy = "restart opensandbox-server: it hides them when it starts" },
	  probe_host_image },
	{ { "configuration", "ports", .cost = "the server cannot start, unless it runs already",
	    .remedy = "choose server.host, server.port and server.proxy_port so that they are free" },
	  probe_ports },
};

void doctor_examine(const struct config *c, struct preflight_report *ret)
{
	const struct preflight_host host = { .state_dir = c->native.state_dir, .volumes = c->storage.allowed_host_paths.items,
					     .n_volumes = c->storage.allowed_host_paths.n,
					     .no_disk_limit = c->native.unsafe_no_disk_limit };

	preflight_run(&host, ret);
	for (size_t i = 0; i < ARRAY_LEN(config_checks) && ret->n < PREFLIGHT_FINDINGS_MAX; i++) {
		struct preflight_finding *f = &ret->at[ret->n++];

		*f = (struct preflight_finding){ .check = &config_checks[i].row };
		f->outcome = config_checks[i].probe(c, f->detail);
	}
}

bool doctor_is_well(const struct preflight_report *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->at[i].outcome == PREFLIGHT_MISSING || (r->at[i].outcome == PREFLIGHT_UNTRIED && r->at[i].check->is_needed))
			return false;
	return true;
}
