// SPDX-License-Identifier: Apache-2.0
#include "box/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/tree.h"

#include "base/banned.h"

#define ASIDE "upper-2"

static int make_owned(int disk, const char *path, uint64_t owner, struct err *e)
{
	if (mkdirat(disk, path, 0755) < 0)
		return err_sys(e, errno, "make '%s'", path);
	if (fchownat(disk, path, (uid_t)owner, (gid_t)owner, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(disk, path, 0755, 0) < 0)
		return err_sys(e, errno, "own '%s'", path);
	return 0;
}

int disk_fill(int disk, uint64_t owner, bool has_usr, struct err *e)
{
	static const char *const places[] = { "proc", "sys", "dev" };
	char path[32];

	if (make_owned(disk, "upper", owner, e) < 0 || (has_usr && make_owned(disk, "upper/" DISK_ROOT, owner, e) < 0))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		(void)snprintf(path, sizeof(path), "upper/%s%s", disk_root(has_usr), places[i]);
		if (make_owned(disk, path, owner, e) < 0)
			return -1;
	}
	return mkdirat(disk, "work", 0700) < 0 ? err_sys(e, errno, "make a work folder") : 0;
}

static int move(int disk, const char *from, const char *to, struct err *e)
{
	return renameat(disk, from, disk, to) < 0 ? err_sys(e, errno, "rename '%s' to '%s'", from, to) : 0;
}

int disk_turn(int disk, uint64_t owner, bool has_usr, struct err *e)
{
	if (has_usr)
		return move(disk, "upper", ASIDE, e) < 0 || make_owned(disk, "upper", owner, e) < 0 ||
		       move(disk, ASIDE, "upper/" DISK_ROOT, e) < 0 ? -1 : 0;
	if (move(disk, "upper/" DISK_ROOT, ASIDE, e) < 0)
		return -1;
	if (unlinkat(disk, "upper", AT_REMOVEDIR) < 0)
		return err_sys(e, errno, "remove 'upper'");
	return move(disk, ASIDE, "upper", e);
}

int disk_join(int disk, struct err *e)
{
	AUTO_FD usr = openat(disk, DISK_OLD_USR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (usr < 0)
		return err_sys(e, errno, "open '" DISK_OLD_USR "'");
	if (faccessat(disk, "upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0) { /* or it was cut off behind this */
		if (tree_remove(usr, DISK_ROOT, e) < 0 || move(disk, "upper", DISK_OLD_USR "/" DISK_ROOT, e) < 0)
			return -1;
	}
	return move(disk, DISK_OLD_USR, "upper", e);
}
