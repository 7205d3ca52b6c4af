// SPDX-License-Identifier: Apache-2.0
/* access/policy.h - what a sandbox may reach: rules for names, addresses and networks, and a default.
 *
 *     {"defaultAction":"deny","egress":[{"action":"allow","target":"*.example.com"},
 *                                       {"action":"deny","target":"192.0.2.0/24"}]}
 *
 * For a name, the first rule that matches decides; "*.a.test" matches all names below a.test, and not a.test
 * itself (W11). For an address, every deny precedes every allow. A target is a name ("a.test", "*.a.test"; in
 * an allow also with ":port", which then is the only port), an address, or a network in CIDR form; anything
 * else is refused. Case and one final dot are ignored. The text of the rules is stored as it was written, and
 * shown so.
 *
 * Policies are immutable: a change makes a new one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "net/host_name.h"

struct buf;
struct err;
struct json;

#define POLICY_RULES_MAX 4096
#define POLICY_TARGET_MAX (2 + HOST_NAME_LEN_MAX + 1 + 6) /* "*.", a name with its dot, ":65535" */
#define POLICY_PORTS_MAX 16 /* of one name */

enum policy_action { POLICY_DENY, POLICY_ALLOW };
/* "a.test", "*.a.test", an address or a network */
enum policy_kind { POLICY_NAME, POLICY_BELOW, POLICY_NET };

struct policy_rule {
	enum policy_action action;
	enum policy_kind kind;
	const char *target; /* as it was written, trimmed */
	const char *name;   /* lower case, without "*." and the last dot; NULL with POLICY_NET */
	uint16_t port;      /* of a name; 0: those that names have by default */
	sa_family_t family; /* with POLICY_NET */
	uint8_t bytes[16];  /* of the network, the rest is 0 */
	uint8_t prefix;     /* bits */
	bool is_reserved;   /* an allow that has no effect: the network is within W4's */
};

struct policy {
	enum policy_action fallback; /* "defaultAction" */
	struct policy_rule *rules;   /* as they came */
	size_t n;
	char *bytes; /* that the rules point to */
};

/* Of a document's value: NULL, null and {} deny everything. ERR_INVALID names the field ("egress[2].action:
 * ..."), ERR_LIMIT: more than MAX_RULES. */
struct policy *policy_from_json(const struct json *v, size_t max_rules, struct err *e);
/* empty text, too, denies everything */
struct policy *policy_parse(struct str text, size_t max_rules, struct err *e);
struct policy *policy_allow_all(struct err *e);
/* Rules that all say ACTION: a target a line; empty lines and those that begin with '#' do not count.
 * ERR_INVALID names the line. */
struct policy *policy_from_lines(struct str text, enum policy_action action, size_t max_rules, struct err *e);
void policy_free(struct policy *p); /* NULL is fine */
DEFINE_AUTO(struct policy *, policy_free)

/* The rules of PATCH (an array with a rule or more) in front of P's, the first of each target alone; P's
 * default. */
struct policy *policy_patch(const struct policy *p, const struct json *patch, size_t max_rules,
			    struct err *e);
/* P without the rules about TARGETS (an array with a string or more); *ret_removed of them. What is no target
 * has no rules. */
struct policy *policy_without(const struct policy *p, const struct json *targets, size_t *ret_removed,
			      struct err *e);

/* {"egress":[...],"defaultAction":...}: both are always there. */
void policy_write(const struct policy *p, struct buf *out);
const char *policy_mode(const struct policy *p); /* "allow_all", "deny_all" or "enforcing" */
/* What of it has no effect, as one line of text; empty: nothing. */
void policy_reason(const struct policy *p, struct buf *out);

/* What TARGET, which lives as long as the rule, is about; NAME is where a name goes. ERR_INVALID. */
int policy_target(struct str target, struct policy_rule *ret, char name[HOST_NAME_LEN_MAX + 1],
		  struct err *e);

/* For who makes one: an allow about this network has an effect after all, the operator has opened it (W4). */
void policy_open(struct policy *p, const struct policy_rule *network);

/* The rule that decides about NAME, which host_name() has made, or NULL: the default does. */
const struct policy_rule *policy_match_name(const struct policy *p, const char *name);
/* The same about an address; is_reserved ones are not looked at. */
const struct policy_rule *policy_match_address(const struct policy *p, const struct sockaddr *sa);
/* Adds the TCP ports at which NAME may be reached by those allows that stand before the first deny about it
 * (W7), each once: 22, 80 and 443, or those of rules with a port. What there is no room for is left out.
 * False: such a deny is there. */
bool policy_ports(const struct policy *p, const char *name, uint16_t out[POLICY_PORTS_MAX], size_t *n);
