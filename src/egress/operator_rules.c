// SPDX-License-Identifier: Apache-2.0
#include "egress/operator_rules.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "access/resolvers.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "sys/fd.h"

#include "base/banned.h"

struct source {
	const char *name;
	enum policy_action action;
	bool is_of_names; /* networks make no sense in it */
	size_t offset;
};

static const struct source sources[] = {
	{ "deny.always", POLICY_DENY, false, offsetof(struct operator_rules, deny) },
	{ "allow.always", POLICY_ALLOW, false, offsetof(struct operator_rules, allow) },
	{ "log_skip.always", POLICY_ALLOW, true, offsetof(struct operator_rules, log_skip) },
	{ "doh.always", POLICY_DENY, true, offsetof(struct operator_rules, doh) },
};

static struct operator_list *list_of(struct operator_rules *a, const struct source *s)
{
	return (struct operator_list *)(void *)((char *)a + s->offset);
}

static struct policy *parse(const struct source *s, struct str text, struct err *e)
{
	AUTO(policy_free) struct policy *p = policy_from_lines(text, s->action, 0, e);

	for (size_t i = 0; p && s->is_of_names && i < p->n; i++)
		if (p->rules[i].kind == POLICY_NET) {
			(void)err_set(e, ERR_INVALID, "'%s' is no name", p->rules[i].target);
			return NULL;
		}
	return take_ptr(&p);
}

/* 1: it has changed, and is in force; 0: it has not; -1. */
static int read_list(const char *dir, const struct source *s, struct operator_list *list, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(OPERATOR_LIST_BYTES_MAX);
	AUTO(policy_free) struct policy *p = NULL;
	AUTO_FD folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	bool is_there = folder >= 0 && fstatat(folder, s->name, &st, 0) == 0;
	int64_t mtime = is_there ? (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : -1;

	if (!is_there && errno != ENOENT)
		return err_sys(e, errno, "look at '%s/%s'", dir, s->name);
	if (list->rules && mtime == list->mtime_ns && (is_there ? st.st_size : -1) == list->size)
		return 0;
	if (is_there && fd_read_file(folder, s->name, OPERATOR_LIST_BYTES_MAX, &b, e) < 0)
		return -1;
	p = parse(s, buf_str(&b), e);
	if (!p)
		return err_wrap(e, "'%s/%s'", dir, s->name);
	policy_free(list->rules);
	*list = (struct operator_list){ take_ptr(&p), mtime, is_there ? st.st_size : -1 };
	return 1;
}

int operator_rules_open(struct operator_rules *a, const char *dir, struct err *e)
{
	a->dir = dir;
	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		struct operator_list *list = list_of(a, &sources[i]);

		*list = (struct operator_list){ .mtime_ns = -1, .size = -1 };
		if (dir && read_list(dir, &sources[i], list, e) < 0)
			return -1;
		if (!list->rules)
			list->rules = parse(&sources[i], STR(""), e);
		if (!list->rules)
			return -1;
	}
	return 0;
}

bool operator_rules_reload(struct operator_rules *a)
{
	bool has_changed = false;

	for (size_t i = 0; a->dir && i < ARRAY_LEN(sources); i++) {
		struct err e = { 0 };
		int k = read_list(a->dir, &sources[i], list_of(a, &sources[i]), &e);

		if (k < 0)
			log_warn("a list of the operator's was not read, the one before stays", LOG_S("name", sources[i].name), LOG_ERR(&e));
		if (k > 0)
			log_info("a list of the operator's has changed", LOG_S("name", sources[i].name),
				 LOG_U("rules", list_of(a, &sources[i])->rules->n));
		has_changed |= k > 0 && !sources[i].is_of_names;
	}
	return has_changed;
}

void operator_rules_done(struct operator_rules *a)
{
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		policy_free(list_of(a, &sources[i])->rules);
}

/* ---- what holds ---- */

static const struct policy_rule *match(const struct operator_rules *a, const struct policy *p,
				       const char *name)
{
	const struct policy_rule *r = policy_match_name(a->deny.rules, name);

	if (!r)
		r = policy_match_name(a->allow.rules, name);
	return r ? r : policy_match_name(p, name);
}

static bool has_deny(const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].action == POLICY_DENY)
			return true;
	return false;
}

bool operator_rules_default_is_allow(const struct operator_rules *a, const struct policy *p)
{
	return p->fallback == POLICY_ALLOW && (a->deny.rules->n > 0 || has_deny(p));
}

/* Without a rule about it. */
static bool is_resolver(const struct operator_rules *a, const struct policy *p, const char *name)
{
	return operator_rules_default_is_allow(a, p) && (resolver_is_name(name) ||
							 policy_match_name(a->doh.rules, name));
}

bool operator_rules_allow_name(const struct operator_rules *a, const struct policy *p, const char *name)
{
	const struct policy_rule *r = match(a, p, name);

	if (r)
		return r->action == POLICY_ALLOW;
	return p->fallback == POLICY_ALLOW && !is_resolver(a, p, name);
}

bool operator_rules_deny_name(const struct operator_rules *a, const struct policy *p, const char *name)
{
	const struct policy_rule *r = match(a, p, name);

	return r ? r->action == POLICY_DENY : is_resolver(a, p, name);
}

size_t operator_rules_ports(const struct operator_rules *a, const struct policy *p, const char *name,
			    uint16_t out[POLICY_PORTS_MAX])
{
	size_t n = 0;

	if (policy_ports(a->deny.rules, name, out, &n) && policy_ports(a->allow.rules, name, out, &n))
		(void)policy_ports(p, name, out, &n);
	return n;
}

const struct policy_rule *operator_rules_address(const struct operator_rules *a, const struct policy *p,
						 const struct sockaddr *sa)
{
	const struct policy_rule *deny = policy_match_address(a->deny.rules, sa);
	const struct policy_rule *own = policy_match_address(p, sa);

	if (deny)
		return deny;
	if (own && own->action == POLICY_DENY)
		return own;
	return own ? own : policy_match_address(a->allow.rules, sa);
}
