// SPDX-License-Identifier: Apache-2.0
#include "sys/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

/* The first version of it: what came later is allowed, as it is without Landlock. */
#define ALL_FIRST ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define READ_FILE (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)
#define READ_DIR (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_DIR (READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG)
#define WRITE_FILE (READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)

static int add(int ruleset, const struct landlock_rule *rule, struct err *e)
{
	struct landlock_path_beneath_attr attr = { .parent_fd = rule->fd };
	struct stat st;

	if (fstat(rule->fd, &st) < 0)
		return err_sys(e, errno, "look at what may be opened");
	if (S_ISDIR(st.st_mode))
		attr.allowed_access = rule->is_writable ? WRITE_DIR : READ_DIR;
	else
		attr.allowed_access = rule->is_writable ? WRITE_FILE : READ_FILE;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return err_sys(e, errno, "allow a folder");
	return 0;
}

int landlock_confine(const struct landlock_rule *rules, size_t n, struct err *e)
{
	const struct landlock_ruleset_attr attr = { .handled_access_fs = ALL_FIRST };
	AUTO_FD ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);

	if (ruleset < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : err_sys(e, errno, "make a Landlock ruleset");
	for (size_t i = 0; i < n; i++)
		if (add(ruleset, &rules[i], e) < 0)
			return -1;
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, errno, "restrict files by Landlock");
	return 1;
}
