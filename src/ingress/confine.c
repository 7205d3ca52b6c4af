// SPDX-License-Identifier: Apache-2.0
#include "ingress/confine.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/confine.h"
#include "sys/caps.h"

#include "base/banned.h"

/* Beyond the accounts of distributions; from the end, because the server takes its own from the beginning. */
#define SPARE_UID_FIRST 61184
#define SPARE_UID_LAST 65519

/* Besides what all may not: other processes, changing files. */
static const char *const denied[] = {
	"rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "truncate", "ftruncate", "chmod", "fchmod",
	"fchmodat", "fork", "vfork",
};

static int find_ids(const char *user, uid_t *ret_uid, gid_t *ret_gid, struct err *e)
{
	const struct passwd *pw = getpwnam(user);

	if (pw && pw->pw_uid == 0)
		return err_set(e, ERR_INVALID, "--user: '%s' is root: the gateway must have no privileges", user);
	if (pw) {
		*ret_uid = pw->pw_uid;
		*ret_gid = pw->pw_gid;
		return 0;
	}
	for (uid_t id = SPARE_UID_LAST; id >= SPARE_UID_FIRST; id--)
		if (!getpwuid(id) && !getgrgid((gid_t)id)) {
			*ret_uid = id;
			*ret_gid = (gid_t)id;
			return 0;
		}
	return err_set(e, ERR_UNAVAILABLE, "--user: no such account, and no unused id");
}

static int become(const char *user, struct err *e)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;

	if (find_ids(user, &uid, &gid, e) < 0 || caps_bound(0, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_sys(e, errno, "become user %u", uid);
	return 0;
}

int confine_gateway(const char *user, struct err *e)
{
	if (geteuid() == 0 && become(user, e) < 0)
		return -1;
	return confine_process(denied, ARRAY_LEN(denied), e);
}
