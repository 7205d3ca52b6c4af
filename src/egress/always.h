// SPDX-License-Identifier: Apache-2.0
/* egress/always.h - the operator's lists, which go before every policy: deny.always, allow.always, log_skip.always, whose names
 * are not logged when they are reached, and doh.always, names of resolvers besides those of net/resolvers.h. A target a line. A list that is not there is empty; one that cannot be read or understood
 * leaves the one before in force. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/policy.h"

struct err;

#define ALWAYS_BYTES_MAX (512 * 1024) /* of one list */

struct always_list {
	struct policy *rules; /* never NULL once opened */
	int64_t mtime_ns, size; /* of the file that they are from; -1: there is none */
};

struct always {
	const char *dir; /* NULL: there are none */
	struct always_list deny, allow, log_skip, doh;
};

/* The first time everything must be right: E names the file. */
int always_open(struct always *a, const char *dir, struct err *e);
bool always_reload(struct always *a); /* what has changed; whether it was deny or allow. Says in the log what is wrong */
void always_done(struct always *a);

/* What holds for a sandbox with this policy: the lists before it. Where something is denied and the rest is allowed, resolvers that
 * would tell of it are denied, too, unless a rule allows them. */
bool always_is_loose(const struct always *a, const struct policy *p);
bool always_name(const struct always *a, const struct policy *p, const char *name);        /* may be asked for */
bool always_denies_name(const struct always *a, const struct policy *p, const char *name); /* by a rule, not by the default */
/* The ports at which the name may be reached under a default of deny. */
size_t always_ports(const struct always *a, const struct policy *p, const char *name, uint16_t out[POLICY_PORTS_MAX]);
/* About an address every deny goes before every allow. NULL: no rule does. */
const struct policy_rule *always_address(const struct always *a, const struct policy *p, const struct sockaddr *sa);
