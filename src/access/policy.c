// SPDX-License-Identifier: Apache-2.0
#include "access/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/map.h"

#include "base/banned.h"

#define DOCUMENT_MAX (1024 * 1024)      /* bytes of a policy's text */
#define TREE_MAX (16 * 1024 * 1024)     /* of what it is parsed into */
#define REASON_RULES_MAX 8              /* that a reason names */

/* Rules before there is a place for them. The targets are views of a document or of another policy. */
struct draft {
	enum policy_action action;
	struct str target;
};

struct drafts {
	struct draft *items;
	size_t n, cap;
};

static void drafts_done(struct drafts *d)
{
	free(d->items);
	*d = (struct drafts){ 0 };
}
DEFINE_AUTO_DONE(struct drafts, drafts_done)

static int drafts_room(struct drafts *d, size_t cap, struct err *e)
{
	d->items = calloc(cap + 1, sizeof(*d->items));
	d->cap = cap;
	return d->items ? 0 : err_no_memory(e);
}

static int too_many(size_t n, size_t max, struct err *e)
{
	return err_set(e, ERR_LIMIT, "egress rule total count %zu exceeds limit %zu", n, max);
}

static size_t ceiling(size_t max_rules)
{
	return max_rules == 0 || max_rules > POLICY_RULES_MAX ? POLICY_RULES_MAX : max_rules;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	free(p->rules);
	free(p->bytes);
	free(p);
}

/* ---- from drafts ---- */

static struct policy *policy_new(enum policy_action fallback, size_t n, size_t bytes, struct err *e)
{
	struct policy *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->fallback = fallback;
	p->rules = calloc(n + 1, sizeof(*p->rules));
	p->bytes = malloc(bytes + 1);
	if (!p->rules || !p->bytes) {
		policy_free(p);
		(void)err_no_memory(e);
		return NULL;
	}
	return p;
}

/* One rule more, whose strings go to *at. */
static int policy_add(struct policy *p, const struct draft *d, char **at, struct err *e)
{
	struct policy_rule *r = &p->rules[p->n];
	char name[HOST_NAME_LEN_MAX + 1] = "";
	size_t n;

	r->action = d->action;
	if (policy_target(d->target, r, name, e) < 0)
		return -1;
	memcpy(*at, d->target.p, d->target.n);
	(*at)[d->target.n] = '\0';
	r->target = *at;
	*at += d->target.n + 1;
	if (r->kind != POLICY_NET) {
		n = strlen(name) + 1;
		memcpy(*at, name, n);
		r->name = *at;
		*at += n;
	}
	p->n++;
	return 0;
}

/* WHERE is how an error calls the place of a rule: "egress[%zu].target". */
static struct policy *policy_make(enum policy_action fallback, const struct drafts *d, const char *where, struct err *e)
{
	AUTO(policy_free) struct policy *p = NULL;
	size_t bytes = 0;
	char *at;

	for (size_t i = 0; i < d->n; i++)
		bytes += 2 * (MIN(d->items[i].target.n, (size_t)POLICY_TARGET_MAX) + 1);
	p = policy_new(fallback, d->n, bytes, e);
	if (!p)
		return NULL;
	at = p->bytes;
	for (size_t i = 0; i < d->n; i++)
		if (policy_add(p, &d->items[i], &at, e) < 0) {
			(void)err_wrap(e, "%s[%zu].target", where, i);
			return NULL;
		}
	return take_ptr(&p);
}

struct policy *policy_allow_all(struct err *e)
{
	return policy_new(POLICY_ALLOW, 0, 0, e);
}

/* ---- from JSON ---- */

/* Empty text is a deny, in any case and with blanks around it (E7: nothing else is understood). */
static int action_from_json(const struct json *v, enum policy_action *ret, struct err *e)
{
	struct str s = v && v->type == JSON_STRING ? str_trim(v->s) : (struct str){ 0 };

	if (v && v->type != JSON_STRING && v->type != JSON_NULL)
		return err_set(e, ERR_INVALID, "a string is expected, not %s", json_type_name(v->type));
	if (s.n == 0 || str_eq_nocase(s, STR("deny")))
		*ret = POLICY_DENY;
	else if (str_eq_nocase(s, STR("allow")))
		*ret = POLICY_ALLOW;
	else
		return err_set(e, ERR_INVALID, "unsupported action \"%.*s\"", (int)MIN(s.n, (size_t)32), s.p);
	return 0;
}

/* The member KEY, or NULL. A key that is there twice could be read in two ways. */
static int member(const struct json *object, const char *key, const struct json **ret, struct err *e)
{
	*ret = json_get(object, key);
	for (const struct json *v = *ret ? (*ret)->next : NULL; v; v = v->next)
		if (str_is(v->key, key))
			return err_set(e, ERR_INVALID, "%s: it is there twice", key);
	return 0;
}

static int draft_from_json(const struct json *v, struct draft *ret, struct err *e)
{
	const struct json *action, *target;

	if (v->type != JSON_OBJECT)
		return err_set(e, ERR_INVALID, ": an object is expected, not %s", json_type_name(v->type));
	if (member(v, "action", &action, e) < 0 || member(v, "target", &target, e) < 0)
		return -1;
	if (action_from_json(action, &ret->action, e) < 0)
		return err_wrap(e, ".action");
	if (target && target->type != JSON_STRING && target->type != JSON_NULL)
		return err_set(e, ERR_INVALID, ".target: a string is expected, not %s", json_type_name(target->type));
	ret->target = target && target->type == JSON_STRING ? str_trim(target->s) : (struct str){ 0 };
	return 0;
}

/* Behind those that D has. */
static int drafts_from_json(struct drafts *d, const struct json *array, struct err *e)
{
	struct err why = { 0 };

	for (const struct json *v = json_first(array); v && d->n < d->cap; v = v->next) {
		if (draft_from_json(v, &d->items[d->n], &why) < 0)
			return err_set(e, why.code, "egress[%zu]%s%s", d->n, why.msg[0] == '.' || why.msg[0] == ':' ? "" : ".", why.msg);
		d->n++;
	}
	return 0;
}

struct policy *policy_from_json(const struct json *v, size_t max_rules, struct err *e)
{
	AUTO(drafts_done) struct drafts d = { 0 };
	enum policy_action fallback = POLICY_DENY;
	const struct json *rules = NULL, *action = NULL;
	size_t n;

	if (v && v->type != JSON_OBJECT && v->type != JSON_NULL) {
		(void)err_set(e, ERR_INVALID, "an object is expected, not %s", json_type_name(v->type));
		return NULL;
	}
	if (v && v->type == JSON_OBJECT && (member(v, "defaultAction", &action, e) < 0 || member(v, "egress", &rules, e) < 0))
		return NULL;
	if (action_from_json(action, &fallback, e) < 0) {
		(void)err_wrap(e, "defaultAction");
		return NULL;
	}
	if (rules && rules->type != JSON_ARRAY && rules->type != JSON_NULL) {
		(void)err_set(e, ERR_INVALID, "egress: an array is expected, not %s", json_type_name(rules->type));
		return NULL;
	}
	n = rules && rules->type == JSON_ARRAY ? rules->kids.n : 0;
	if (n > ceiling(max_rules)) {
		(void)too_many(n, ceiling(max_rules), e);
		return NULL;
	}
	if (drafts_room(&d, n, e) < 0 || drafts_from_json(&d, rules, e) < 0)
		return NULL;
	return policy_make(fallback, &d, "egress", e);
}

struct policy *policy_parse(struct str text, size_t max_rules, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	const struct json_limits limits = { .bytes = DOCUMENT_MAX };
	const struct json *v = NULL;

	if (str_trim(text).n > 0) {
		v = json_parse(&a, text, &limits, NULL, e);
		if (!v)
			return NULL;
	}
	return policy_from_json(v, max_rules, e);
}

struct policy *policy_from_lines(struct str text, enum policy_action action, size_t max_rules, struct err *e)
{
	AUTO(drafts_done) struct drafts d = { 0 };
	char name[HOST_NAME_LEN_MAX + 1];
	struct str line;

	if (drafts_room(&d, ceiling(max_rules), e) < 0)
		return NULL;
	for (size_t no = 1; text.n > 0; no++) {
		struct policy_rule r = { .action = action };

		(void)str_cut(text, '\n', &line, &text);
		line = str_trim(line);
		if (line.n == 0 || line.p[0] == '#')
			continue;
		if (d.n == d.cap) {
			(void)too_many(d.n + 1, d.cap, e);
			return NULL;
		}
		if (policy_target(line, &r, name, e) < 0) {
			(void)err_wrap(e, "line %zu", no);
			return NULL;
		}
		d.items[d.n++] = (struct draft){ action, line };
	}
	return policy_make(POLICY_DENY, &d, "rule", e);
}

/* ---- changes ---- */

/* How targets are compared: by what they mean. "A.test." and "a.test" are one, "192.0.2.7" and "192.0.2.7/32", too. */
struct target_key {
	char text[POLICY_TARGET_MAX + 8];
	size_t n;
};

static struct target_key rule_key(const struct policy_rule *r)
{
	struct target_key k = { 0 };
	int n;

	if (r->kind == POLICY_NET) {
		k.text[0] = '/';
		k.text[1] = r->family == AF_INET ? '4' : '6';
		k.text[2] = (char)r->prefix;
		memcpy(k.text + 3, r->bytes, sizeof(r->bytes));
		k.n = 3 + sizeof(r->bytes);
		return k;
	}
	n = snprintf(k.text, sizeof(k.text), "%s%s:%u", r->kind == POLICY_BELOW ? "*." : "", r->name, r->port);
	k.n = (size_t)n;
	return k;
}

/* What targets have been seen: a map whose keys live in one block. */
struct seen {
	struct map map;
	struct target_key *keys;
	size_t n;
};

static void seen_done(struct seen *s)
{
	map_done(&s->map);
	free(s->keys);
}
DEFINE_AUTO_DONE(struct seen, seen_done)

static int seen_room(struct seen *s, size_t cap, struct err *e)
{
	s->keys = calloc(cap + 1, sizeof(*s->keys));
	return s->keys ? 0 : err_no_memory(e);
}

static bool seen_has(const struct seen *s, const struct policy_rule *r)
{
	struct target_key k = rule_key(r);

	return map_get(&s->map, (struct str){ k.text, k.n }) != NULL;
}

static int seen_add(struct seen *s, const struct policy_rule *r, struct err *e)
{
	struct target_key *k = &s->keys[s->n];

	*k = rule_key(r);
	if (!map_put(&s->map, (struct str){ k->text, k->n }, k))
		return err_no_memory(e);
	s->n++;
	return 0;
}

/* Those of FROM whose target has not been seen, behind those of D. */
static int drafts_merge(struct drafts *d, struct seen *s, const struct policy *from, struct err *e)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct policy_rule *r = &from->rules[i];

		if (seen_has(s, r))
			continue;
		if (seen_add(s, r, e) < 0)
			return -1;
		d->items[d->n++] = (struct draft){ r->action, str_of(r->target) };
	}
	return 0;
}

static int want_array(const struct json *v, struct err *e)
{
	if (v && v->type != JSON_ARRAY && v->type != JSON_NULL)
		return err_set(e, ERR_INVALID, "an array is expected, not %s", json_type_name(v->type));
	return json_first(v) ? 0 : err_set(e, ERR_INVALID, "empty array");
}

struct policy *policy_patch(const struct policy *p, const struct json *patch, size_t max_rules, struct err *e)
{
	struct json document = { .type = JSON_OBJECT }, rules;
	AUTO(policy_free) struct policy *front = NULL;
	AUTO(drafts_done) struct drafts d = { 0 };
	AUTO(seen_done) struct seen s = { 0 };

	if (want_array(patch, e) < 0)
		return NULL;
	rules = *patch;
	rules.key = STR("egress");
	rules.next = NULL;
	json_append(&document, &rules);
	front = policy_from_json(&document, max_rules, e);
	if (!front || drafts_room(&d, front->n + p->n, e) < 0 || seen_room(&s, front->n + p->n, e) < 0)
		return NULL;
	if (drafts_merge(&d, &s, front, e) < 0 || drafts_merge(&d, &s, p, e) < 0)
		return NULL;
	if (d.n > ceiling(max_rules)) {
		(void)too_many(d.n, ceiling(max_rules), e);
		return NULL;
	}
	return policy_make(p->fallback, &d, "egress", e);
}

static int see_targets(struct seen *s, const struct json *targets, struct err *e)
{
	char name[HOST_NAME_LEN_MAX + 1];
	size_t i = 0;

	for (const struct json *v = json_first(targets); v; v = v->next, i++) {
		struct policy_rule r = { .action = POLICY_ALLOW };

		if (v->type != JSON_STRING)
			return err_set(e, ERR_INVALID, "[%zu]: a string is expected, not %s", i, json_type_name(v->type));
		if (policy_target(str_trim(v->s), &r, name, &(struct err){ 0 }) < 0)
			continue; /* no rule can have it */
		if (!seen_has(s, &r) && seen_add(s, &r, e) < 0)
			return -1;
	}
	return 0;
}

struct policy *policy_without(const struct policy *p, const struct json *targets, size_t *ret_removed, struct err *e)
{
	AUTO(drafts_done) struct drafts d = { 0 };
	AUTO(seen_done) struct seen s = { 0 };
	struct policy *rest;

	if (want_array(targets, e) < 0 || seen_room(&s, targets->kids.n, e) < 0 || drafts_room(&d, p->n, e) < 0)
		return NULL;
	if (see_targets(&s, targets, e) < 0)
		return NULL;
	for (size_t i = 0; i < p->n; i++)
		if (!seen_has(&s, &p->rules[i]))
			d.items[d.n++] = (struct draft){ p->rules[i].action, str_of(p->rules[i].target) };
	rest = policy_make(p->fallback, &d, "egress", e);
	if (rest)
		*ret_removed = p->n - d.n;
	return rest;
}

/* ---- how it is shown ---- */

static const char *action_name(enum policy_action a)
{
	return a == POLICY_ALLOW ? "allow" : "deny";
}

void policy_write(const struct policy *p, struct buf *out)
{
	struct json_out o = json_out(out);

	json_open(&o, '{');
	json_key(&o, "egress"), json_open(&o, '[');
	for (size_t i = 0; i < p->n; i++) {
		json_open(&o, '{');
		json_key(&o, "action"), json_cstr(&o, action_name(p->rules[i].action));
		json_key(&o, "target"), json_cstr(&o, p->rules[i].target);
		json_close(&o, '}');
	}
	json_close(&o, ']');
	json_key(&o, "defaultAction"), json_cstr(&o, action_name(p->fallback));
	json_close(&o, '}');
}

const char *policy_mode(const struct policy *p)
{
	if (p->n > 0)
		return "enforcing";
	return p->fallback == POLICY_ALLOW ? "allow_all" : "deny_all";
}

static bool has_no_effect(const struct policy_rule *r)
{
	return r->kind == POLICY_NET && r->action == POLICY_ALLOW && (r->is_reserved || r->family == AF_INET6);
}

void policy_reason(const struct policy *p, struct buf *out)
{
	size_t named = 0, more = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (!has_no_effect(&p->rules[i]))
			continue;
		if (named == REASON_RULES_MAX) {
			more++;
			continue;
		}
		buf_addf(out, "%s%s", named++ == 0 ? "allowed, but not reachable from sandboxes: " : ", ", p->rules[i].target);
	}
	if (more > 0)
		buf_addf(out, " and %zu more", more);
}
