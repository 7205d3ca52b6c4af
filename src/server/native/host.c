// SPDX-License-Identifier: Apache-2.0
#include "server/native/host.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "server/config/config.h"
#include "sys/path.h"

#include "base/banned.h"

#define LOCK_NAME "server.lock"
#define SERVER_DIR "server"
#define BLOBS_DIR "blobs"
#define EGRESS_DIR "egress"
#define BACKLOG 64

/* Where no account was made for the server: ids that systemd, too, gives to services for as long as they run. */
#define SPARE_UID_FIRST 61184
#define SPARE_UID_LAST 65519

/* ---- names ---- */

static int join(char out[PATH_MAX], const char *dir, const char *name, struct err *e)
{
	if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		return err_set(e, ERR_LIMIT, "'%s': path too long", dir);
	return 0;
}

/* Our programs are installed side by side. */
int native_host_programs(const struct config *c, struct native_host *n, struct err *e)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len < 0)
		return err_sys(e, errno, "find our own program");
	self[len] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return err_set(e, ERR_INTERNAL, "our own program has no folder");
	*slash = '\0';
	if (join(n->warden, self, "opensandbox-warden", e) < 0 || join(n->fetch, self, "opensandbox-fetch", e) < 0 ||
	    join(n->egress, self, "opensandbox-egress", e) < 0)
		return -1;
	if (!c->native.execd)
		return join(n->execd, self, "execd", e);
	(void)snprintf(n->execd, sizeof(n->execd), "%s", c->native.execd); /* the configuration's ceiling is lower */
	return 0;
}

int native_host_names(const struct config *c, struct native_host *n, struct err *e)
{
	if (join(n->server_dir, c->native.state_dir, SERVER_DIR, e) < 0 || join(n->blobs_dir, n->server_dir, BLOBS_DIR, e) < 0 ||
	    join(n->socket, c->native.run_dir, "warden.sock", e) < 0 || join(n->fetch_socket, c->native.run_dir, "fetch.sock", e) < 0)
		return -1;
	if (join(n->egress_dir, c->native.state_dir, EGRESS_DIR, e) < 0 ||
	    join(n->egress_socket, c->native.run_dir, "egress.sock", e) < 0 ||
	    join(n->egress_warden_socket, c->native.run_dir, "egress-warden.sock", e) < 0)
		return -1;
	if (strlen(n->egress_warden_socket) >= sizeof(((struct sockaddr_un *)0)->sun_path)) /* the longest of them */
		return err_set(e, ERR_LIMIT, "native.run_dir: '%s' is too long for the name of a socket", n->egress_warden_socket);
	return native_host_programs(c, n, e);
}

/* ---- users ---- */

/* Whom a process without privileges runs as. */
struct account {
	const char *key, *name; /* of the configuration, and what it says */
	const char *dir;        /* what it keeps */
	const struct account *next; /* that is known already: never the same one */
	uid_t uid;
	gid_t gid;
};

static const struct account *same_user(const struct account *a, uid_t uid)
{
	for (a = a->next; a && a->uid != uid; a = a->next)
		;
	return a;
}

/* The one that the files of an earlier start belong to, or the first that no account has. */
static int find_spare_user(struct account *a, struct err *e)
{
	struct stat st;

	if (lstat(a->dir, &st) == 0 && st.st_uid >= SPARE_UID_FIRST && st.st_uid <= SPARE_UID_LAST && !same_user(a, st.st_uid)) {
		a->uid = st.st_uid;
		a->gid = (gid_t)st.st_uid;
		return 0;
	}
	for (uid_t id = SPARE_UID_FIRST; id <= SPARE_UID_LAST; id++)
		if (!same_user(a, id) && !getpwuid(id) && !getgrgid((gid_t)id)) {
			a->uid = id;
			a->gid = (gid_t)id;
			return 0;
		}
	return err_set(e, ERR_UNAVAILABLE, "%s: there is no such account, and no spare id either", a->key);
}

static int find_user(struct account *a, struct err *e)
{
	const struct passwd *pw = getpwnam(a->name);
	const struct account *same;

	if (!pw)
		return find_spare_user(a, e);
	if (pw->pw_uid == 0)
		return err_set(e, ERR_INVALID, "%s: '%s' is root: it must have no privileges", a->key, a->name);
	same = same_user(a, pw->pw_uid);
	if (same)
		return err_set(e, ERR_INVALID, "%s: '%s' is %s, too: it must be another one", a->key, a->name, same->key);
	a->uid = pw->pw_uid;
	a->gid = pw->pw_gid;
	return 0;
}

static int find_users(const struct config *c, struct native_host *n, struct err *e)
{
	struct account server = { .key = "native.user", .name = c->native.user, .dir = n->server_dir };
	struct account egress = { .key = "egress.user", .name = c->egress.user, .dir = n->egress_dir, .next = &server };
	struct account fetch = { .key = "images.user", .name = c->images.user, .dir = n->blobs_dir, .next = &egress };

	if (find_user(&server, e) < 0 || find_user(&egress, e) < 0 || find_user(&fetch, e) < 0)
		return -1;
	n->uid = server.uid;
	n->gid = server.gid;
	n->egress_uid = egress.uid;
	n->egress_gid = egress.gid;
	n->fetch_uid = fetch.uid;
	n->fetch_gid = fetch.gid;
	return 0;
}

/* ---- folders ---- */

/* Root's own, and nobody else can change what is in it. */
static int make_ours(const char *path, struct err *e)
{
	AUTO_FD fd = -1;
	struct stat st;

	if (path_make_parents(path, 0711, e) < 0)
		return -1;
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (st.st_uid != 0)
		return err_set(e, ERR_DENIED, "'%s' belongs to user %u, not to root", path, st.st_uid);
	return fchmod(fd, 0711) < 0 ? err_sys(e, errno, "change the mode of '%s'", path) : 0;
}

static int make_theirs(uid_t uid, gid_t gid, mode_t mode, const char *path, struct err *e)
{
	AUTO_FD fd = -1;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)
		return err_sys(e, errno, "give '%s' to user %u", path, uid);
	return 0;
}

/* A log that the server can write. In a folder of root's only the file itself becomes the server's: it is not rotated
 * there. What the server owns it can make on its own, and nothing in it is to be trusted with. */
static int give_log(const struct native_host *n, const char *path, struct err *e)
{
	AUTO_FD dir = -1;
	AUTO_FD fd = -1;
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;

	(void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
	if (path_make_parents(folder, 0711, e) < 0)
		return -1;
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0)
		return err_sys(e, errno, "open '%s'", folder);
	if (st.st_uid != 0)
		return 0;
	fd = openat(dir, slash ? slash + 1 : path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_uid == n->uid)
		return 0;
	/* In a folder that all may write to, a name can be somebody's link to any file of root's. */
	if (st.st_uid != 0 || st.st_nlink != 1)
		return err_set(e, ERR_DENIED, "log.file_path: '%s' is not a file of root's with this name alone", path);
	if (fchown(fd, n->uid, n->gid) < 0)
		return err_sys(e, errno, "give '%s' to the server", path);
	return 0;
}

/* A lock of the process: children do not have it, so it ends with this one whatever they do. */
static int lock(const char *dir, const char *what, int *ret_fd, bool *ret_is_taken, struct err *e)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];

	if (join(path, dir, LOCK_NAME, e) < 0)
		return -1;
	*ret_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (*ret_fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (fcntl(*ret_fd, F_SETLK, &whole) == 0)
		return 0;
	*ret_is_taken = errno == EAGAIN || errno == EACCES;
	return *ret_is_taken ? err_set(e, ERR_CONFLICT, "another server runs with the %s '%s'", what, dir) :
			       err_sys(e, errno, "lock '%s'", path);
}

/* Of TYPE; UID alone can connect to it. */
static int open_socket(int type, const char *path, uid_t uid, int *ret_fd, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	AUTO_FD fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_sys(e, errno, "create a socket");
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path); /* native_host_names() has measured the longest */
	if (unlink(path) < 0 && errno != ENOENT) /* of an earlier start: the lock of its folder is ours */
		return err_sys(e, errno, "remove '%s'", path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return err_sys(e, errno, "listen on '%s'", path);
	if (chmod(path, 0600) < 0 || lchown(path, uid, (gid_t)-1) < 0)
		return err_sys(e, errno, "give '%s' to user %u", path, uid);
	*ret_fd = take_fd(&fd);
	return 0;
}

/* What the fetcher works with. It gets the folder as a descriptor: the one above is closed to its user. What it makes there has
 * the folder's group, by which the server reads it. */
static int open_blobs(struct native_host *n, struct err *e)
{
	if (make_theirs(n->fetch_uid, n->gid, S_ISGID | 0750, n->blobs_dir, e) < 0)
		return -1;
	n->blobs = open(n->blobs_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (n->blobs < 0)
		return err_sys(e, errno, "open '%s'", n->blobs_dir);
	return open_socket(SOCK_SEQPACKET, n->fetch_socket, n->uid, &n->fetch_listener, e);
}

static int open_egress(struct native_host *n, struct err *e)
{
	if (make_theirs(n->egress_uid, n->egress_gid, 0700, n->egress_dir, e) < 0)
		return -1;
	n->egress_state = open(n->egress_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (n->egress_state < 0)
		return err_sys(e, errno, "open '%s'", n->egress_dir);
	if (open_socket(SOCK_STREAM, n->egress_socket, n->uid, &n->egress_listener, e) < 0)
		return -1;
	return open_socket(SOCK_SEQPACKET, n->egress_warden_socket, n->egress_uid, &n->egress_warden_listener, e);
}

int native_host_prepare(const struct config *c, struct native_host *n, bool *ret_is_taken, struct err *e)
{
	*ret_is_taken = false;
	if (geteuid() != 0)
		return err_set(e, ERR_DENIED, "the native runtime needs root: it makes namespaces, mounts and control groups, "
					      "and then serves as another user");
	if (native_host_names(c, n, e) < 0 || make_ours(c->native.state_dir, e) < 0 ||
	    lock(c->native.state_dir, "state directory", &n->lock, ret_is_taken, e) < 0)
		return -1;
	if (make_ours(c->native.run_dir, e) < 0 || lock(c->native.run_dir, "run directory", &n->run_lock, ret_is_taken, e) < 0)
		return -1;
	if (find_users(c, n, e) < 0 || make_theirs(n->uid, n->gid, 0700, n->server_dir, e) < 0)
		return -1;
	if (c->log.file_enabled && give_log(n, c->log.file_path, e) < 0)
		return -1;
	if (open_socket(SOCK_SEQPACKET, n->socket, n->uid, &n->listener, e) < 0 || open_blobs(n, e) < 0)
		return -1;
	return open_egress(n, e);
}

void native_host_done(struct native_host *n)
{
	closep(&n->listener);
	closep(&n->fetch_listener);
	closep(&n->blobs);
	closep(&n->egress_listener);
	closep(&n->egress_warden_listener);
	closep(&n->egress_state);
	closep(&n->lock);
	closep(&n->run_lock);
}
