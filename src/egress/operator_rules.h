// SPDX-License-Identifier: Apache-2.0
/* egress/operator_rules.h - the operator's lists, which precede every policy: deny.always, allow.always,
 * log_skip.always (names that are not logged when they are reached) and doh.always (names of resolvers
 * besides those of access/resolvers.h). One target per line. A missing list is empty; for one that cannot be
 * read or parsed, the previous version stays in force. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/policy.h"

struct err;

#define OPERATOR_LIST_BYTES_MAX (512 * 1024) /* of one list */

struct operator_list {
	struct policy *rules; /* never NULL once opened */
	int64_t mtime_ns, size; /* of the file that they are from; -1: there is none */
};

struct operator_rules {
	const char *dir; /* NULL: there are none */
	struct operator_list deny, allow, log_skip, doh;
};

/* The first time everything must be right: E names the file. */
int operator_rules_open(struct operator_rules *a, const char *dir, struct err *e);
/* what has changed; whether it was deny or allow. Says in the log what is wrong */
bool operator_rules_reload(struct operator_rules *a);
void operator_rules_done(struct operator_rules *a);

/* What holds for a sandbox with this policy: the lists before it. Where something is denied and the rest is
 * allowed, resolvers that would tell of it are denied, too, unless a rule allows them. */
bool operator_rules_default_is_allow(const struct operator_rules *a, const struct policy *p);
/* may be asked for */
bool operator_rules_allow_name(const struct operator_rules *a, const struct policy *p, const char *name);
/* by a rule, not by the default */
bool operator_rules_deny_name(const struct operator_rules *a, const struct policy *p, const char *name);
/* The ports at which the name may be reached under a default of deny. */
size_t operator_rules_ports(const struct operator_rules *a, const struct policy *p, const char *name,
			    uint16_t out[POLICY_PORTS_MAX]);
/* About an address every deny goes before every allow. NULL: no rule does. */
const struct policy_rule *operator_rules_address(const struct operator_rules *a, const struct policy *p,
						 const struct sockaddr *sa);
