// SPDX-License-Identifier: Apache-2.0
#include "warden/host_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/random.h"
#include "box/disk.h"
#include "box/host.h"
#include "sys/closed_files.h"
#include "sys/fd.h"
#include "sys/tree.h"
#include "warden/layer_dir.h"

#include "base/banned.h"

#define FILE_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define DEPTH_MAX 6
#define TEMP_LAYER "new-" HOST_IMAGE_PREFIX

DEFINE_AUTO(DIR *, closedir)

/* ---- what there is ---- */

static const struct {
	const char *path;
	mode_t mode;
} folders[] = {
	{ "usr", 0755 },       { "etc", 0755 },     { "etc/ssl", 0755 },   { "root", 0700 },    { "home", 0755 },
	{ "tmp", 01777 },      { "run", 0755 },     { "opt", 0755 },       { "srv", 0755 },     { "mnt", 0755 },
	{ "media", 0755 },     { "var", 0755 },     { "var/cache", 0755 }, { "var/lib", 0755 }, { "var/log", 0755 },
	{ "var/tmp", 01777 },
};

static const struct {
	const char *path, *to;
} links[] = {
	{ "var/run", "/run" },
	{ "var/lock", "/run/lock" },
	{ "etc/mtab", "../proc/self/mounts" },
};

/* On a host whose programs are all in /usr these are links into it, and here they are the same. */
static const char *const merged[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static const struct {
	const char *path, *text;
} files[] = {
	{ "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
			"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
			"bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
			"sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
			"sync:x:4:65534:sync:/bin:/bin/sync\n"
			"games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
			"man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
			"mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
			"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nlp:x:7:\nmail:x:8:\n"
		       "man:x:12:\nkmem:x:15:\nsudo:x:27:\naudio:x:29:\nwww-data:x:33:\nutmp:x:43:\nvideo:x:44:\n"
		       "staff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\n" },
	{ "etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" },
	{ "etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
			       "protocols: files\nservices: files\nethers: files\nrpc: files\n" },
	{ "etc/resolv.conf", "" },
	{ "etc/shells", "/bin/sh\n/bin/bash\n" },
	{ "etc/profile", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\numask 022\n" },
};

/* Copied, where the host has them: how its programs find libraries, certificates, each other, the time and what
 * they cannot start without. */
static const char *const copied[] = {
	"etc/ld.so.cache", "etc/ld.so.conf", "etc/ld.so.conf.d", "etc/alternatives", "etc/ssl/certs", "etc/ssl/openssl.cnf",
	"etc/localtime",   "etc/timezone",   "etc/os-release",   "etc/debian_version", "etc/services", "etc/protocols",
	"etc/mime.types",  "etc/fonts",      "etc/perl",        "etc/matplotlibrc",
};

/* Interpreters whose /usr has links into a folder of /etc that is named after their version. */
static const char *const copied_prefixes[] = { "java-", "python3" };

/* ---- copying ---- */

struct copy {
	size_t bytes, entries;
};

static int make_dir(int dir, const char *path, mode_t mode, struct err *e)
{
	if ((mkdirat(dir, path, 0700) < 0 && errno != EEXIST) || fchmodat(dir, path, mode, 0) < 0)
		return err_sys(e, errno, "make '%s'", path);
	return 0;
}

static int write_file(int dir, const char *path, struct str text, mode_t mode, struct err *e)
{
	AUTO_FD fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "make '%s'", path);
	if (fd_write_all(fd, text.p, text.n, e) < 0)
		return err_wrap(e, "write '%s'", path);
	return fchmod(fd, mode) < 0 ? err_sys(e, errno, "set the mode of '%s'", path) : 0;
}

static int copy_link(int from, int to, const char *name, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0 || (size_t)n >= sizeof(target) - 1)
		return err_sys(e, n < 0 ? errno : ENAMETOOLONG, "read the link '%s'", name);
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? err_sys(e, errno, "make the link '%s'", name) : 0;
}

static int copy_file(struct copy *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(FILE_BYTES_MAX);

	if (c->bytes + (size_t)st->st_size > HOST_IMAGE_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the host's /etc has more than %d bytes to copy", HOST_IMAGE_BYTES_MAX);
	if (fd_read_file(from, name, FILE_BYTES_MAX, &b, e) < 0)
		return -1;
	c->bytes += b.n;
	return write_file(to, name, buf_str(&b), (st->st_mode & 0111) ? 0755 : 0644, e);
}

static int copy_entry(struct copy *c, int from, int to, const char *name, unsigned depth, struct err *e);

static int copy_folder(struct copy *c, int from, int to, const char *name, unsigned depth, struct err *e)
{
	AUTO_FD in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO(closedir) DIR *d = in < 0 ? NULL : fdopendir(in);
	AUTO_FD out = -1;
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", name);
	(void)take_fd(&in); /* the DIR's now */
	if (make_dir(to, name, 0755, e) < 0)
		return -1;
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return err_sys(e, errno, "open '%s'", name);
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    copy_entry(c, dirfd(d), out, entry->d_name, depth + 1, e) < 0)
			return -1;
	return 0;
}

/* What is gone, not for everybody, or neither file, link nor folder is left out; so is what is too deep or too large. */
static int copy_entry(struct copy *c, int from, int to, const char *name, unsigned depth, struct err *e)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", name);
	if (depth > DEPTH_MAX || !(st.st_mode & 04))
		return 0;
	if (++c->entries > HOST_IMAGE_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "the host's /etc has more than %d entries to copy", HOST_IMAGE_ENTRIES_MAX);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, name, e);
	if (S_ISDIR(st.st_mode))
		return copy_folder(c, from, to, name, depth, e);
	if (S_ISREG(st.st_mode) && st.st_size <= (off_t)FILE_BYTES_MAX)
		return copy_file(c, from, to, name, &st, e);
	return 0;
}

/* PATH of the host to the same path of the layer, where the folder above it exists. */
static int copy_path(struct copy *c, int root, int layer, const char *path, struct err *e)
{
	const char *name = strrchr(path, '/') + 1;
	char above[64];
	AUTO_FD from = -1;
	AUTO_FD to = -1;

	(void)snprintf(above, sizeof(above), "%.*s", (int)(name - 1 - path), path); /* paths of ours are short */
	from = openat(root, above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = openat(layer, above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return 0;
	if (to < 0)
		return err_sys(e, errno, "open '%s' of the layer", above);
	return copy_entry(c, from, to, name, 0, e) < 0 ? err_wrap(e, "copy '/%s'", path) : 0;
}

static bool is_versioned(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(copied_prefixes); i++)
		if (str_starts(str_of(name), str_of(copied_prefixes[i])))
			return true;
	return false;
}

static int copy_versioned(struct copy *c, int layer, struct err *e)
{
	AUTO(closedir) DIR *d = opendir("/etc");
	AUTO_FD to = openat(layer, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;

	if (!d || to < 0)
		return err_sys(e, errno, "open '/etc'");
	while ((entry = readdir(d)))
		if (is_versioned(entry->d_name) && copy_entry(c, dirfd(d), to, entry->d_name, 0, e) < 0)
			return err_wrap(e, "copy '/etc/%s'", entry->d_name);
	return 0;
}

/* ---- the layer ---- */

static int fill_own(int layer, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (make_dir(layer, folders[i].path, folders[i].mode, e) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].to, layer, links[i].path) < 0)
			return err_sys(e, errno, "make the link '%s'", links[i].path);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (write_file(layer, files[i].path, str_of(files[i].text), 0644, e) < 0)
			return -1;
	return 0;
}

static int fill(int layer, struct err *e)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct copy c = { 0 };
	struct stat st;

	if (root < 0)
		return err_sys(e, errno, "open '/'");
	if (fill_own(layer, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(merged); i++)
		if (fstatat(root, merged[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
		    copy_link(root, layer, merged[i], e) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(copied); i++)
		if (copy_path(&c, root, layer, copied[i], e) < 0)
			return -1;
	return copy_versioned(&c, layer, e);
}

/* ---- what stays hidden of /usr ---- */

struct hiding {
	int usr, layer; /* the host's; the root of the layer, which covers it */
	size_t n;
};

/* What a box sees of a folder is the layer's, if it has it. */
static int make_alike(const struct hiding *h, const char *path, struct err *e)
{
	struct stat st;

	if (fstatat(h->usr, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at '%s'", path);
	if (mkdirat(h->layer, path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	if (fchownat(h->layer, path, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(h->layer, path, st.st_mode & 07777, 0) < 0)
		return err_sys(e, errno, "give '%s' its owner", path);
	return 0;
}

static int set_time_alike(const struct hiding *h, const char *path, struct err *e)
{
	struct stat st;

	if (fstatat(h->usr, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at '%s'", path);
	return utimensat(h->layer, path, (struct timespec[]){ st.st_mtim, st.st_mtim }, AT_SYMLINK_NOFOLLOW) < 0 ?
		       err_sys(e, errno, "set the time of '%s'", path) : 0;
}

/* Calls FN for each folder above PATH, from the top. */
static int for_folders(const struct hiding *h, const char *path, int (*fn)(const struct hiding *, const char *, struct err *), struct err *e)
{
	char above[PATH_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path); /* a part of a path */
		if (fn(h, above, e) < 0)
			return -1;
	}
	return 0;
}

/* By a whiteout of overlayfs. */
static int hide(const char *path, const struct stat *st, void *arg, struct err *e)
{
	struct hiding *h = arg;

	(void)st;
	if (++h->n > HOST_IMAGE_HIDDEN_MAX)
		return err_set(e, ERR_LIMIT, "/usr has more than %d files that are not open to everyone", HOST_IMAGE_HIDDEN_MAX);
	if (str_eq(str_of(path), STR(DISK_ROOT)) || str_starts(str_of(path), STR(DISK_ROOT "/"))) /* the layer's own covers it */
		return 0;
	if (for_folders(h, path, make_alike, e) < 0)
		return -1;
	if (mknodat(h->layer, path, S_IFCHR, makedev(0, 0)) < 0)
		return err_sys(e, errno, "hide '%s'", path);
	return for_folders(h, path, set_time_alike, e);
}

static int hide_closed(int layers, struct err *e)
{
	AUTO_FD usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD layer = openat(layers, TEMP_LAYER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct hiding h = { .usr = usr, .layer = layer };

	if (usr < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open '/usr'");
	if (layer < 0)
		return err_sys(e, errno, "open a new layer");
	return closed_files_find(usr, hide, &h, e);
}

static int make_in(int layers, const char *name, struct err *e)
{
	AUTO_FD layer = -1;

	if (tree_remove(layers, TEMP_LAYER, e) < 0 || make_dir(layers, TEMP_LAYER, 0755, e) < 0 ||
	    make_dir(layers, TEMP_LAYER "/" DISK_ROOT, 0755, e) < 0)
		return -1;
	layer = openat(layers, TEMP_LAYER "/" DISK_ROOT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (layer < 0)
		return err_sys(e, errno, "open a new layer");
	if (fsetxattr(layer, LAYER_OPAQUE_ATTR, "y", 1, 0) < 0) /* whatever the host's /usr has there */
		return err_sys(e, errno, "close a new layer to what is below it");
	if (fill(layer, e) < 0)
		return -1;
	if (hide_closed(layers, e) < 0)
		return err_wrap(e, "keep files of /usr that are not open to everyone out of it");
	return renameat(layers, TEMP_LAYER, layers, name) < 0 ? err_sys(e, errno, "name a new layer") : 0;
}

int host_image_make(const struct box_host *h, char ret_layer[SLOT_LAYER_NAME_MAX + 1], struct err *e)
{
	AUTO_FD layers = open(h->layers_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	unsigned char unique[8];
	char name[SLOT_LAYER_NAME_MAX + 1] = HOST_IMAGE_PREFIX;

	if (layers < 0)
		return err_sys(e, errno, "open '%s'", h->layers_path);
	if (random_bytes(unique, sizeof(unique), e) < 0)
		return -1;
	hex_encode(name + strlen(HOST_IMAGE_PREFIX), unique, sizeof(unique));
	if (make_in(layers, name, e) < 0)
		return err_wrap(e, "make the image 'host'");
	memcpy(ret_layer, name, sizeof(name));
	return 0;
}

int host_image_sweep(const struct box_host *h, host_image_used_fn *is_used, void *arg, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(h->layers_path);
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", h->layers_path);
	while ((entry = readdir(d)))
		if (str_starts(str_of(entry->d_name), STR(HOST_IMAGE_PREFIX)) && !is_used(entry->d_name, arg) &&
		    tree_remove(dirfd(d), entry->d_name, e) < 0)
			return -1;
	return 0;
}
