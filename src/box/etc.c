// SPDX-License-Identifier: Apache-2.0
#include "box/etc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "box/disk.h"
#include "box/slot.h"
#include "sys/fd.h"
#include "sys/userns.h"

#include "base/banned.h"

#define READY "etc" /* of the disk, until it is placed */
#define LOCALHOST "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

const char *const etc_files[] = { "etc/hosts", "etc/resolv.conf", NULL };

static int write_file(int dir, const char *name, const char *text, uint64_t owner, struct err *e)
{
	AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_sys(e, errno, "make '%s'", name);
	if (fd_write_all(fd, text, strlen(text), e) < 0)
		return err_wrap(e, "write '%s'", name);
	if (fchown(fd, (uid_t)owner, (gid_t)owner) < 0 || fchmod(fd, 0644) < 0)
		return err_sys(e, errno, "own '%s'", name);
	return 0;
}

int etc_make(int disk, uint64_t owner, uint32_t gateway, struct err *e)
{
	char server[INET_ADDRSTRLEN], resolver[INET_ADDRSTRLEN + 64];
	AUTO_FD dir = -1;

	if (mkdirat(disk, READY, 0755) < 0)
		return err_sys(e, errno, "make a folder for names");
	dir = openat(disk, READY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchown(dir, (uid_t)owner, (gid_t)owner) < 0 || fchmod(dir, 0755) < 0)
		return err_sys(e, errno, "own the folder for names");
	(void)inet_ntop(AF_INET, &gateway, server, sizeof(server));
	(void)snprintf(resolver, sizeof(resolver), "nameserver %s\n", server);
	return write_file(dir, "resolv.conf", resolver, owner, e) < 0 ? -1 : write_file(dir, "hosts", LOCALHOST, owner, e);
}

/* The id that a file of a layer has in the box. */
static uid_t shown(uint64_t on_disk, uint64_t base, uint64_t id_base)
{
	return (uid_t)(on_disk >= base && on_disk - base < USERNS_IDS ? on_disk - base + id_base : id_base);
}

/* As the uppermost layer has it that has a folder there; a link or a whiteout in its place is as good as nothing. */
static int inherit(const struct etc_place *p, struct err *e)
{
	char path[SLOT_LAYER_NAME_MAX + 24];
	uint64_t base = 0;
	struct stat st;
	int r = -1;

	for (size_t i = 0; r < 0 && i < p->n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s%setc", p->list[i].name, p->list[i].is_disk ? "upper/" : "", disk_root(p->has_usr));
		base = p->list[i].id_base;
		r = fstatat(p->layers, path, &st, AT_SYMLINK_NOFOLLOW);
	}
	if (r < 0 && p->image >= 0) {
		base = 0;
		r = fstatat(p->image, "etc", &st, AT_SYMLINK_NOFOLLOW);
	}
	if (r < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (fchownat(p->disk, READY, shown(st.st_uid, base, p->id_base), shown(st.st_gid, base, p->id_base), AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(p->disk, READY, st.st_mode & 07777, 0) < 0)
		return err_sys(e, errno, "give /etc the owner and mode that it had");
	return 0;
}

static const char *placed(bool has_usr)
{
	return has_usr ? "upper/" DISK_ROOT "/etc" : "upper/etc";
}

static int forget_resolver(int disk, struct err *e)
{
	AUTO_FD fd = openat(disk, READY "/resolv.conf", O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "empty 'resolv.conf'") : 0;
}

int etc_place(const struct etc_place *p, struct err *e)
{
	if (p->is_alone && faccessat(p->disk, READY, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look for the files for names");
	if (p->is_alone && forget_resolver(p->disk, e) < 0)
		return -1;
	if (inherit(p, e) < 0)
		return -1;
	return renameat(p->disk, READY, p->disk, placed(p->has_usr)) < 0 ? err_sys(e, errno, "place the files for names") : 0;
}

int etc_take_back(int disk, bool has_usr, struct err *e)
{
	return renameat(disk, placed(has_usr), disk, READY) < 0 ? err_sys(e, errno, "take the files for names back") : 0;
}

/* Both parts of the path are the uppermost layer's and were made here: no link of an image is in the way. */
int etc_open_hosts(int root, struct err *e)
{
	int fd = openat(root, "etc/hosts", O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open 'hosts'") : fd;
}

int etc_add_name(int root, uint32_t address, const char *hostname, struct err *e)
{
	AUTO_FD fd = etc_open_hosts(root, e);
	char text[INET_ADDRSTRLEN], line[INET_ADDRSTRLEN + 72];

	(void)inet_ntop(AF_INET, &address, text, sizeof(text));
	(void)snprintf(line, sizeof(line), "%s\t%.64s\n", text, hostname);
	return fd < 0 ? -1 : fd_write_all(fd, line, strlen(line), e);
}
