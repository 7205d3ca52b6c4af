// SPDX-License-Identifier: Apache-2.0
/* egress/sidecar.h - egress for one sandbox whose network it shares: a container next to it, in a pod or
 * joined to it.
 *
 * All settings come from the environment (OPENSANDBOX_EGRESS_..., see the table in sidecar.c). There are two
 * processes. The keeper (keeper.h) has CAP_NET_ADMIN and writes the rules, before anything else starts; they
 * stay when it ends. The other one is egress as on hosts, unprivileged, and restarted when it ends. They use
 * box/egress_wire.h, with the keeper in the role of the warden. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "egress/egress.h"

struct err;

#define SIDECAR_PORT 18080
#define SIDECAR_TOKEN_MAX 4096
#define SIDECAR_POLICY_MAX (1024 * 1024)
#define SIDECAR_RESOLVERS_MAX 256 /* networks that are behind port 443 of DNS over HTTPS */

struct sidecar {
	struct egress_options egress; /* but for what comes from the keeper */
	char id[WIRE_ID_SIZE];
	const char *policy; /* as text; "": deny everything */
	struct addr api;
	const char *policy_file; /* or NULL */
	enum log_level log_level;
	const char *log_output; /* "stdout", "stderr", or a path */
	bool blocks_443;        /* also where no network is named for it */
	struct policy_rule resolvers[SIDECAR_RESOLVERS_MAX];
	size_t n_resolvers;
};

/* GET is getenv(), but for tests. Its strings are kept. ERR_INVALID names the variable. */
int sidecar_read(struct sidecar *s, const char *(*get)(const char *name), struct err *e);
/* The keeper, until it is told to end or cannot go on: what main() returns. EGRESS is the other process. */
int sidecar_run(int (*egress)(const struct egress_options *o));
/* The rules, for `nft -f -`: the table SIDECAR_TABLE, whose elements stay as they are. MARK is on what egress
 * itself sends. */
#define SIDECAR_TABLE "opensandbox"
#define SIDECAR_RESOLVER_PORT 15353
#define SIDECAR_RELAY_PORT 15080
void sidecar_table(const struct sidecar *s, uint32_t mark, struct buf *out);
