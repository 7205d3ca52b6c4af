// SPDX-License-Identifier: Apache-2.0
/* opensandbox-egress as the supervisor starts it: as its own user, with what box/egress_start.h names. */
#include "server/native/children.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "box/egress_start.h"
#include "server/config/config.h"
#include "sys/memfd.h"
#include "sys/process.h"

#include "base/banned.h"

struct arguments {
	const char *argv[18 + 2 * CONFIG_UPSTREAMS_MAX + 2 * CONFIG_PRIVATE_MAX];
	size_t n;
	char max_rules[24];
};

static void add(struct arguments *a, const char *option, const char *value)
{
	a->argv[a->n++] = option;
	if (value)
		a->argv[a->n++] = value;
	a->argv[a->n] = NULL;
}

static void make_arguments(const struct config *c, const struct native_host *n, struct arguments *a)
{
	(void)snprintf(a->max_rules, sizeof(a->max_rules), "%lld", (long long)c->egress.max_rules);
	a->n = 0;
	add(a, "opensandbox-egress", NULL);
	add(a, "--warden", n->egress_warden_socket);
	add(a, "--rules-dir", c->egress.rules_dir);
	add(a, "--max-rules", a->max_rules);
	for (size_t i = 0; i < c->egress.upstreams.n; i++)
		add(a, "--upstream", c->egress.upstreams.items[i]);
	for (size_t i = 0; i < c->egress.allow_private.n; i++)
		add(a, "--allow-private", c->egress.allow_private.items[i]);
	add(a, "--pulse-fd", EGRESS_FD_PULSE_TEXT);
	if (c->egress.deny_webhook && c->egress.deny_webhook[0])
		add(a, "--deny-webhook-fd", EGRESS_FD_WEBHOOK_TEXT);
	add(a, "--log-level", c->log.level);
	if (c->log.format == LOG_FORMAT_JSON)
		add(a, "--log-json", NULL);
}

/* A URL may hold a secret, and everybody can read arguments (A9): it comes as a file. */
static int make_webhook(const struct config *c, struct err *e)
{
	return memfd_sealed_bytes("webhook", str_of(c->egress.deny_webhook), e);
}

int native_start_egress(struct runtime_host *h, int pulse, struct err *e)
{
	const struct native_host *n = &native_children_of(h)->host;
	const struct config *c = native_children_of(h)->config;
	bool has_webhook = c->egress.deny_webhook && c->egress.deny_webhook[0];
	AUTO_FD program = open(n->egress, O_PATH | O_CLOEXEC);
	AUTO_FD webhook = -1;
	/* By its descriptor: the folders above it need not be open to its user. */
	struct spawn_fd fds[] = {
		{ n->egress_listener, EGRESS_FD_API }, { n->egress_state, EGRESS_FD_STATE }, { program, EGRESS_FD_PROGRAM },
		{ pulse, EGRESS_FD_PULSE }, { -1, EGRESS_FD_WEBHOOK },
	};
	struct arguments a;
	struct spawn_spec sp = SPAWN_INIT("/proc/self/fd/" EGRESS_FD_PROGRAM_TEXT, (char *const *)(uintptr_t)a.argv);

	if (program < 0)
		return err_sys(e, errno, "open '%s'", n->egress);
	if (has_webhook && (webhook = make_webhook(c, e)) < 0)
		return -1;
	fds[ARRAY_LEN(fds) - 1].fd = webhook;
	make_arguments(c, n, &a);
	sp.err = STDERR_FILENO;
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds) - !has_webhook;
	sp.keep_ids = false;
	sp.uid = n->egress_uid;
	sp.gid = n->egress_gid;
	sp.new_group = true;
	sp.death_signal = SIGKILL; /* the rules that it has asked for stay */
	return process_spawn(&sp, NULL, e);
}
