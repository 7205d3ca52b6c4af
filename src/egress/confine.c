// SPDX-License-Identifier: Apache-2.0
#include "egress/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "box/confine.h"
#include "sys/caps.h"
#include "sys/landlock.h"
#include "sys/limits.h"

#include "base/banned.h"

#define FILES_MAX 131072 /* descriptors: connections of sandboxes, both ways */

/* Besides what all may not: other processes, listening anywhere. */
static const char *const denied[] = {
	"fork", "vfork", "listen",
};

static const char *const readable[] = { "/etc", "/usr", "/lib", "/lib64", "/dev", "/proc", "/var/lib/ca-certificates",
					"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager" };

static void allow(struct landlock_rule *rules, size_t *n, const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0) /* what is not there, nobody will miss */
		rules[(*n)++] = (struct landlock_rule){ .fd = fd };
}

/* The folder of the lists may be made later: the one that it is to be in. */
static void allow_rules(struct landlock_rule *rules, size_t *n, const char *dir)
{
	char above[PATH_MAX];
	char *slash;

	if (snprintf(above, sizeof(above), "%s", dir) >= (int)sizeof(above))
		return;
	slash = strrchr(above, '/');
	if (!slash || slash == above) {
		allow(rules, n, dir);
		return;
	}
	*slash = '\0';
	allow(rules, n, above);
}

static int confine_files(int state, const char *rules_dir, struct err *e)
{
	struct landlock_rule rules[ARRAY_LEN(readable) + 2];
	size_t n = 0;
	int k;

	for (size_t i = 0; i < ARRAY_LEN(readable); i++)
		allow(rules, &n, readable[i]);
	if (rules_dir)
		allow_rules(rules, &n, rules_dir);
	rules[n] = (struct landlock_rule){ .fd = state, .is_writable = true };
	k = landlock_confine(rules, n + (state >= 0), e);
	while (n > 0)
		(void)close(rules[--n].fd);
	if (k == 0)
		log_warn("this kernel has no Landlock: files are kept from this process by their owners and modes alone");
	return k < 0 ? -1 : 0;
}

int confine_egress(int state, const char *rules_dir, struct err *e)
{
	const struct limit limits[] = {
		{ .resource = RLIMIT_NOFILE, .value = FILES_MAX, .or_less = true },
		{ .resource = RLIMIT_CORE, .value = 1, .or_less = true },
	};

	if (limits_apply(limits, ARRAY_LEN(limits), e) < 0 || caps_set(0, e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) /* before files can be given up */
		return err_sys(e, errno, "set no_new_privs");
	return confine_files(state, rules_dir, e) < 0 ? -1 : confine_process(denied, ARRAY_LEN(denied), e);
}
