// SPDX-License-Identifier: Apache-2.0
/* The warden and the fetchers as the supervisor starts them. */
#include "server/native/children.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/quantity.h"
#include "box/egress_start.h"
#include "image/fetch.h"
#include "server/config/config.h"
#include "sys/process.h"

#include "base/banned.h"

#define WARDEN_FD 3 /* its listening socket */
#define WARDEN_FD_PULSE 6
#define WARDEN_FD_PULSE_TEXT "6"
#define FDS_MAX 4

/* ---- the warden ---- */

struct arguments {
	const char *argv[40 + 2 * CONFIG_IMAGES_MAX + 2 * CONFIG_HOST_PATHS_MAX + 2 * CONFIG_PRIVATE_MAX];
	size_t n;
	char uid[24], egress_uid[24], slots[24], disk_size[24], disk_reserve[24];
};

static void add(struct arguments *a, const char *option, const char *value)
{
	a->argv[a->n++] = option;
	if (value)
		a->argv[a->n++] = value;
	a->argv[a->n] = NULL;
}

static void make_arguments(const struct native_children *n, struct arguments *a)
{
	const struct config *c = n->config;
	uint64_t disk_size;

	(void)snprintf(a->uid, sizeof(a->uid), "%u", n->host.uid);
	(void)snprintf(a->egress_uid, sizeof(a->egress_uid), "%u", n->host.egress_uid);
	(void)snprintf(a->slots, sizeof(a->slots), "%lld", (long long)c->native.slots);
	a->n = 0;
	add(a, "opensandbox-warden", NULL);
	add(a, "--state-dir", c->native.state_dir);
	add(a, "--prefix", c->native.prefix);
	add(a, "--execd", n->host.execd);
	add(a, "--socket-fd", "3");
	add(a, "--server-uid", a->uid);
	add(a, "--pulse-fd", WARDEN_FD_PULSE_TEXT);
	if (n->rt.has_network) {
		add(a, "--egress-fd", WARDEN_FD_EGRESS_TEXT);
		add(a, "--egress-uid", a->egress_uid);
	} else {
		add(a, "--no-network", NULL);
	}
	add(a, "--slots", a->slots);
	add(a, "--log-level", c->log.level);
	if (c->log.format == LOG_FORMAT_JSON)
		add(a, "--log-json", NULL);
	if (c->native.disk_size && quantity_storage(str_of(c->native.disk_size), &disk_size, &(struct err){ 0 }) == 0) {
		(void)snprintf(a->disk_size, sizeof(a->disk_size), "%llu", (unsigned long long)disk_size);
		add(a, "--disk-size", a->disk_size);
	}
	if (config_disk_reserve(c) > 0) {
		(void)snprintf(a->disk_reserve, sizeof(a->disk_reserve), "%llu", (unsigned long long)config_disk_reserve(c));
		add(a, "--disk-reserve", a->disk_reserve);
	}
	if (c->native.unsafe_no_disk_limit)
		add(a, "--unsafe-no-disk-limit", NULL);
	if (c->native.network_range && c->native.network_range[0])
		add(a, "--network-range", c->native.network_range);
	for (size_t i = 0; i < c->egress.allow_private.n; i++)
		add(a, "--network-open", c->egress.allow_private.items[i]);
	for (size_t i = 0; i < c->native.images.n; i++) /* numbered by their order, for the server as well */
		add(a, "--image", c->native.images.items[i].value);
	for (size_t i = 0; i < c->storage.allowed_host_paths.n; i++) /* likewise */
		add(a, "--volume-prefix", c->storage.allowed_host_paths.items[i]);
}

/* The environment of the warden: none, but for what test builds need. */
static char *const *warden_env(const struct native_children *n, struct spawn_fd *fd, size_t *n_fds)
{
#ifdef KILL_POINTS
	static const char *const env[] = { KILL_POINT_FD_ENV "=4", NULL };

	if (n->rt.kill_points >= 0) {
		*fd = (struct spawn_fd){ n->rt.kill_points, WARDEN_FD + 1 };
		(*n_fds)++;
		return (char *const *)(uintptr_t)env;
	}
#endif
	(void)n, (void)fd, (void)n_fds;
	return NULL;
}

int native_start_warden(struct runtime_host *h, int pulse, struct err *e)
{
	const struct native_children *n = native_children_of(h);
	struct spawn_fd fds[FDS_MAX] = { { n->host.listener, WARDEN_FD }, { n->host.egress_warden_listener, WARDEN_FD_EGRESS },
					 { pulse, WARDEN_FD_PULSE } };
	struct arguments a;
	struct spawn_spec sp = SPAWN_INIT(n->host.warden, (char *const *)(uintptr_t)a.argv);

	make_arguments(n, &a);
	sp.err = STDERR_FILENO;
	sp.fds = fds;
	sp.n_fds = 3;
	sp.envp = warden_env(n, &fds[3], &sp.n_fds);
	sp.new_group = true; /* a terminal's Ctrl-C is for us */
	sp.death_signal = SIGTERM;
	return process_spawn(&sp, NULL, e);
}

/* ---- fetchers ---- */

/* One for each connection that the server makes: what it says there is none of our business. */
int native_start_fetcher(struct runtime_host *h, int *ret_pidfd, struct err *e)
{
	const struct native_children *n = native_children_of(h);
	AUTO_FD order = accept4(n->host.fetch_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	AUTO_FD program = open(n->host.fetch, O_PATH | O_CLOEXEC);
	const char *argv[] = { "opensandbox-fetch", NULL };
	/* By its descriptor: the folders above it need not be open to the fetcher's user. */
	struct spawn_fd fds[] = { { order, FETCH_FD_ASKER }, { n->host.blobs, FETCH_FD_BLOBS }, { program, FETCH_FD_PROGRAM } };
	struct spawn_spec sp = SPAWN_INIT("/proc/self/fd/" FETCH_FD_PROGRAM_TEXT, (char *const *)(uintptr_t)argv);

	if (order < 0)
		return errno == EAGAIN ? 0 : err_sys(e, errno, "take an order");
	if (program < 0)
		return err_sys(e, errno, "open '%s'", n->host.fetch);
	sp.err = STDERR_FILENO;
	sp.fds = fds;
	sp.n_fds = ARRAY_LEN(fds);
	sp.keep_ids = false;
	sp.uid = n->host.fetch_uid;
	sp.gid = n->host.fetch_gid;
	sp.new_group = true;
	sp.death_signal = SIGKILL;
	*ret_pidfd = process_spawn(&sp, NULL, e);
	return *ret_pidfd < 0 ? -1 : 0;
}
