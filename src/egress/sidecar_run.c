// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/keeper.h"
#include "egress/sidecar.h"
#include "sys/caps.h"
#include "sys/signals.h"

#include "base/banned.h"

#define NET_ADMIN (UINT64_C(1) << CAP_NET_ADMIN)

/* Lines of JSON, as operators of containers have them; before anything can go wrong they go to the standard error. */
static int open_log(const struct sidecar *s, struct err *e)
{
	int fd = strcmp(s->log_output, "stdout") == 0 ? STDOUT_FILENO : STDERR_FILENO;

	if (s->log_output[0] == '/')
		fd = open(s->log_output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0)
		return err_sys(e, errno, "open the log '%s'", s->log_output);
	log_set_fd(fd);
	log_set_level(s->log_level);
	return 0;
}

static int open_state(struct sidecar *s, struct err *e)
{
	static char dir[PATH_MAX]; /* the name behind the folder is kept */
	struct state *st = &s->egress.state;
	char *slash;

	if (!s->policy_file) {
		st->memory = state_memory_new(e);
		return st->memory ? 0 : -1;
	}
	if (snprintf(dir, sizeof(dir), "%s", s->policy_file) >= (int)sizeof(dir))
		return err_set(e, ERR_INVALID, "the path of the policy file is too long");
	slash = strrchr(dir, '/');
	*slash = '\0';
	st->file = slash + 1;
	if (strlen(st->file) + sizeof(".json") > NAME_MAX)
		return err_set(e, ERR_INVALID, "the name of the policy file is too long");
	st->dir = open(slash == dir ? "/" : dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return st->dir < 0 ? err_sys(e, errno, "open the folder of '%s'", s->policy_file) : 0;
}

/* The bounding set takes a right that containers may not have; what it would keep from `nft` is no loss then. */
static int give_up_rights(struct err *e)
{
	if (caps_bound(NET_ADMIN, e) < 0 && e->code != ERR_DENIED)
		return -1;
	return caps_set(NET_ADMIN, e) < 0 ? err_wrap(e, "a sidecar needs CAP_NET_ADMIN") : 0;
}

static const char *environment(const char *name)
{
	return getenv(name);
}

static int run(struct sidecar *s, int (*egress)(const struct egress_options *o), struct err *e)
{
	const sigset_t set = SIGNALS(SIGTERM, SIGINT, SIGHUP);

	log_set_format(LOG_FORMAT_JSON);
	if (sidecar_read(s, environment, e) < 0 || open_log(s, e) < 0 || open_state(s, e) < 0 || give_up_rights(e) < 0)
		return -1;
	return signals_block(&set, e) < 0 ? -1 : keeper_run(s, &set, egress, e);
}

int sidecar_run(int (*egress)(const struct egress_options *o))
{
	static struct sidecar s; /* too large for the stack */
	struct err e = { 0 };

	if (run(&s, egress, &e) == 0)
		return EXIT_SUCCESS;
	log_error("the sidecar ends", LOG_ERR(&e));
	return EXIT_FAILURE;
}
