// SPDX-License-Identifier: Apache-2.0
/* execd/config.h - where the daemon's configuration comes from: the warden, or a command line and an
 * environment. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct arena;
struct err;
struct execd_config;

struct options {
	bool guest;
	int64_t cgroups; /* of a guest: descriptors to enter the leaf with */
	bool oom_counter, stats;
	const char *hosts;
	int64_t port, log_level;
	const char *socket, *token;
	const char *jupyter_host, *jupyter_token;
	const char *grace, *idle_poll; /* known; of no effect in this version */
};

#define CONFIG_ARENA_MAX ((size_t)8 * 1024 * 1024)

/* Makes this process the PID 1 of a sandbox: takes the descriptors of base/guest.h, protects itself, enters
 * its directory. On failure ret->state_fd is set already, for the record. */
int config_from_guest(const struct options *o, struct arena *a, struct execd_config *ret, struct err *e);

/* OPERANDS (or none) are the entrypoint. The token is wiped from where it came from. */
int config_from_options(const struct options *o, char *const *operands, char **environment, struct arena *a,
			struct execd_config *ret, struct err *e);
