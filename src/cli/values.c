// SPDX-License-Identifier: Apache-2.0
#include "cli/values.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/opt.h"
#include "client/opensandbox.h"

#include "base/banned.h"

#define MODE_MAX 7777

static int bad_duration(const char *text, struct err *e)
{
	return err_set(e, ERR_INVALID, "invalid duration '%s'; it is written like 90s, 10m or 1h30m", SHOWN(str_of(text)));
}

/* Takes digits and UNIT off *s; 0 if they are not there. False: the number is too large. */
static bool take_part(struct str *s, char unit, uint64_t seconds, uint64_t *total)
{
	size_t n = 0;
	uint64_t v;

	while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9')
		n++;
	if (n == 0 || n == s->n || s->p[n] != unit)
		return true;
	if (!str_to_u64(str_first(*s, n), 0, VALUES_DURATION_MAX, &v))
		return false;
	*total += v * seconds;
	*s = str_skip(*s, n + 1);
	return *total <= VALUES_DURATION_MAX;
}

int value_duration(const char *text, int64_t *ret_s, struct err *e)
{
	struct str s = str_trim(str_of(text));
	uint64_t total = 0;

	if (s.n == 0)
		return bad_duration(text, e);
	if (!str_to_u64(s, 0, VALUES_DURATION_MAX, &total)) {
		total = 0;
		if (!take_part(&s, 'h', 3600, &total) || !take_part(&s, 'm', 60, &total) || !take_part(&s, 's', 1, &total) || s.n > 0)
			return bad_duration(text, e);
	}
	*ret_s = (int64_t)total;
	return 0;
}

int value_duration_or_none(const char *text, int64_t *ret_s, struct err *e)
{
	if (!str_eq_nocase(str_trim(str_of(text)), STR("none")))
		return value_duration(text, ret_s, e);
	*ret_s = VALUES_NONE;
	return 0;
}

void value_show_duration(int64_t s, char out[VALUES_SPAN_SIZE])
{
	int64_t days = s / 86400, rest = s % 86400;
	char before[32] = "";

	if (days > 0)
		(void)snprintf(before, sizeof(before), "%" PRId64 " day%s, ", days, days == 1 ? "" : "s");
	(void)snprintf(out, VALUES_SPAN_SIZE, "%s%" PRId64 ":%02" PRId64 ":%02" PRId64, before, rest / 3600, rest / 60 % 60, rest % 60);
}

/* Where the pair with KEY is, or N. */
static size_t find_pair(const struct osb_pair *pairs, size_t n, const char *key)
{
	size_t i = 0;

	while (i < n && !str_is(str_of(pairs[i].key), key))
		i++;
	return i;
}

int value_pairs(const struct opt_list *list, struct arena *a, struct osb_map *ret, struct err *e)
{
	struct osb_pair *pairs = arena_array(a, MAX(list->n, (size_t)1), sizeof(*pairs));
	size_t n = 0;

	if (!pairs)
		return err_no_memory(e);
	for (size_t i = 0; i < list->n; i++) {
		struct str key, value;
		const char *name;
		size_t at;

		if (!str_cut(str_of(list->items[i]), '=', &key, &value))
			return err_set(e, ERR_INVALID, "expected KEY=VALUE, got '%s'", SHOWN(str_of(list->items[i])));
		name = arena_dup(a, key);
		if (!name)
			return err_no_memory(e);
		at = find_pair(pairs, n, name);
		pairs[at] = (struct osb_pair){ name, list->items[i] + key.n + 1 };
		n += at == n;
	}
	*ret = (struct osb_map){ .items = pairs, .n = n };
	return 0;
}

static int parse_rule(const char *text, struct arena *a, struct osb_rule *ret, struct err *e)
{
	struct str action, target;

	if (!str_cut(str_of(text), '=', &action, &target))
		return err_set(e, ERR_INVALID, "invalid rule '%s'; it is written ACTION=TARGET, as in allow=packages.example.org",
			       SHOWN(str_of(text)));
	action = str_trim(action);
	if (!str_eq_nocase(action, STR("allow")) && !str_eq_nocase(action, STR("deny")))
		return err_set(e, ERR_INVALID, "invalid action '%s' of a rule; it is allow or deny", SHOWN(action));
	ret->action = str_eq_nocase(action, STR("allow")) ? "allow" : "deny";
	ret->target = arena_dup(a, str_trim(target));
	return ret->target ? 0 : err_no_memory(e);
}

int value_rules(const struct opt_list *list, struct arena *a, struct osb_rule **ret, struct err *e)
{
	struct osb_rule *rules = arena_array(a, MAX(list->n, (size_t)1), sizeof(*rules));

	if (!rules)
		return err_no_memory(e);
	for (size_t i = 0; i < list->n; i++)
		if (parse_rule(list->items[i], a, &rules[i], e) < 0)
			return -1;
	*ret = rules;
	return 0;
}

int value_mode(const char *text, int *ret, struct err *e)
{
	struct str s = str_trim(str_of(text));
	bool is_octal = s.n > 0;
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		is_octal = is_octal && s.p[i] >= '0' && s.p[i] <= '7';
	if (!is_octal || !str_to_u64(s, 0, MODE_MAX, &v))
		return err_set(e, ERR_INVALID, "invalid mode '%s'; it is written like 644 or 755", SHOWN(str_of(text)));
	*ret = (int)v;
	return 0;
}

static bool is_safe(const char *word)
{
	for (const char *p = word; *p; p++) {
		bool is_word = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');

		if (!is_word && !strchr("@%+=:,./_-", *p))
			return false;
	}
	return *word != '\0';
}

void value_quote(char *const *words, int n, struct buf *out)
{
	for (int i = 0; i < n; i++) {
		if (i > 0)
			buf_add_char(out, ' ');
		if (is_safe(words[i])) {
			buf_addf(out, "%s", words[i]);
			continue;
		}
		buf_add_char(out, '\'');
		for (const char *p = words[i]; *p; p++) {
			if (*p == '\'')
				buf_addf(out, "'\"'\"'");
			else
				buf_add_char(out, *p);
		}
		buf_add_char(out, '\'');
	}
}
