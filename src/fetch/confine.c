// SPDX-License-Identifier: Apache-2.0
#include "fetch/confine.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "box/confine.h"
#include "fetch/order.h"
#include "image/manifest.h"
#include "sys/landlock.h"
#include "sys/limits.h"

#include "base/banned.h"

#define FILES_MAX 128

/* Besides what all may not: being asked. */
static const char *const denied[] = {
	"listen", "accept", "accept4",
};

int confine_fetcher(struct err *e)
{
	const struct limit limits[] = {
		{ .resource = RLIMIT_FSIZE, .value = MANIFEST_BLOBS_MAX, .or_less = true },
		{ .resource = RLIMIT_NOFILE, .value = FILES_MAX, .or_less = true },
		{ .resource = RLIMIT_CORE, .value = 1, .or_less = true },
	};

	return limits_apply(limits, ARRAY_LEN(limits), e) < 0 ? -1 : confine_process(denied, ARRAY_LEN(denied), e);
}

/* What TLS, the resolver of names and the libraries behind them read. */
static const char *const readable[] = {
	"/etc", "/usr", "/lib", "/lib64", "/dev", "/proc", "/run/systemd/resolve", "/var/lib/ca-certificates", "/var/lib/sss",
};

static void allow(struct landlock_rule *rules, size_t *n, const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0) /* what is not there, nobody will miss */
		rules[(*n)++] = (struct landlock_rule){ .fd = fd };
}

int confine_files(const struct order *o, int blobs, struct err *e)
{
	const struct registry_rule *registries = o->registries.items;
	struct landlock_rule rules[ARRAY_LEN(readable) + FETCH_REGISTRIES_MAX + 1];
	size_t n = 0;
	int k;

	for (size_t i = 0; i < ARRAY_LEN(readable); i++)
		allow(rules, &n, readable[i]);
	for (size_t i = 0; i < o->registries.n; i++)
		if (registries[i].ca_file)
			allow(rules, &n, registries[i].ca_file);
	rules[n] = (struct landlock_rule){ .fd = blobs, .is_writable = true };
	k = landlock_confine(rules, n + 1, e);
	while (n > 0)
		(void)close(rules[--n].fd);
	return k < 0 ? -1 : 0;
}
