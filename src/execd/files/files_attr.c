// SPDX-License-Identifier: Apache-2.0
/* Modes and owners, as requests name them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/escape.h"
#include "execd/execd.h"
#include "execd/files/files.h"
#include "execd/task.h"

#include "base/banned.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* the same on every architecture */
#endif

bool mode_from_digits(int64_t digits, mode_t *ret)
{
	mode_t mode = 0;

	if (digits < 0 || digits > MODE_DIGITS_MAX)
		return false;
	for (unsigned shift = 0; digits > 0; digits /= 10, shift += 3) {
		mode_t digit = (mode_t)(digits % 10);

		if (digit > 7)
			return false;
		if (shift < 9)
			mode |= digit << shift;
	}
	*ret = mode;
	return true;
}

const char *check_mode(const void *value)
{
	mode_t ignored;

	return mode_from_digits(*(const int64_t *)value, &ignored) ? NULL : "must have octal digits, like 755 or 644";
}

int64_t mode_to_digits(mode_t mode)
{
	return INT64_C(100) * (mode >> 6 & 7) + INT64_C(10) * (mode >> 3 & 7) + (mode & 7);
}

static bool is_number(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return true;
}

static int look_up_names(struct task *t, const struct attr *a, struct attr_ids *ret, struct err *e)
{
	const struct users_text *users = task_users(t, e);
	struct str owner = str_of(a->owner), group = str_of(a->group);
	struct user u;

	if (!users) {
		e->code = ERR_INTERNAL; /* whatever is wrong with those files, the request is not */
		return -1;
	}
	if (owner.n > 0) {
		if (is_number(owner) || !passwd_by_name(users->files.passwd, owner, &u))
			return err_set(e, ERR_INTERNAL, "user '%s' is unknown", SHOWN(owner));
		ret->has_uid = true;
		ret->uid = u.uid;
	}
	if (group.n > 0) {
		if (is_number(group) || !group_by_name(users->files.group, group, &ret->gid))
			return err_set(e, ERR_INTERNAL, "group '%s' is unknown", SHOWN(group));
		ret->has_gid = true;
	}
	return 0;
}

int attr_look_up(struct task *t, const struct attr *a, struct attr_ids *ret, struct err *e)
{
	*ret = (struct attr_ids){ .has_mode = a->mode != 0 };
	if (a->mode != 0 && !mode_from_digits(a->mode, &ret->mode))
		return err_set(e, ERR_INVALID, "mode %lld is not made of octal digits", (long long)a->mode);
	if ((a->owner && *a->owner) || (a->group && *a->group))
		return look_up_names(t, a, ret, e);
	return 0;
}

/* fchmod() does not take O_PATH descriptors, and kernels before 6.6 know no other way than through /proc. */
static int change_mode(int fd, mode_t mode)
{
	char path[40];

	if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOSYS && errno != EPERM)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, mode);
}

int attr_apply(int fd, const struct attr_ids *ids, struct err *e)
{
	uid_t uid = ids->has_uid ? ids->uid : (uid_t)-1;
	gid_t gid = ids->has_gid ? ids->gid : (gid_t)-1;

	if ((ids->has_uid || ids->has_gid) && fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return err_sys(e, errno, "change the owner");
	if (ids->has_mode && change_mode(fd, ids->mode) < 0)
		return err_sys(e, errno, "change the mode");
	return 0;
}
