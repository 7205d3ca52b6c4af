// SPDX-License-Identifier: Apache-2.0
#include "egress/sidecar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/uuid.h"
#include "egress/resolv.h"

#include "base/banned.h"

#define PREFIX "OPENSANDBOX_EGRESS_"
#define RULES_DIR "/var/egress/rules"
#define ID "sandbox" /* of one that nobody has named */

/* ---- values ---- */

static bool is_true(const char *value)
{
	static const char *const words[] = { "1", "true", "yes", "y", "on" };
	struct str v = str_trim(str_of(value));

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq_nocase(v, str_of(words[i])))
			return true;
	return false;
}

static int take_rules(struct sidecar *s, const char *value, struct err *e)
{
	if (strlen(value) > SIDECAR_POLICY_MAX)
		return err_set(e, ERR_LIMIT, "more than %d bytes", SIDECAR_POLICY_MAX);
	s->policy = value;
	return 0;
}

/* What is enforced is more than the first of the two, whatever was asked for; what is neither is refused (E30). */
static int take_mode(struct sidecar *s, const char *value, struct err *e)
{
	struct str rest = str_of(value), word;
	bool has_dns = false;

	(void)s;
	while (rest.n > 0) {
		(void)str_cut(rest, '+', &word, &rest);
		word = str_trim(word);
		has_dns |= str_eq_nocase(word, STR("dns"));
		if (!str_eq_nocase(word, STR("dns")) && !str_eq_nocase(word, STR("nft")))
			return err_set(e, ERR_INVALID, "'%s' is neither dns nor dns+nft", value);
	}
	return has_dns ? 0 : err_set(e, ERR_INVALID, "'%s' is neither dns nor dns+nft", value);
}

static int take_token(struct sidecar *s, const char *value, struct err *e)
{
	if (strlen(value) > SIDECAR_TOKEN_MAX)
		return err_set(e, ERR_LIMIT, "more than %d bytes", SIDECAR_TOKEN_MAX);
	s->egress.token = value;
	return 0;
}

static int take_api(struct sidecar *s, const char *value, struct err *e)
{
	char text[ADDR_TEXT_MAX];

	if (snprintf(text, sizeof(text), "%s%s", value[0] == ':' ? "0.0.0.0" : "", value) >= (int)sizeof(text))
		return err_set(e, ERR_INVALID, "no address");
	if (sockaddr_parse(str_of(text), &s->api, e) < 0)
		return -1;
	return s->api.sa.sa_family == AF_UNIX ? err_set(e, ERR_INVALID, "'%s' has no port", value) : 0;
}

static int take_file(struct sidecar *s, const char *value, struct err *e)
{
	if (value[0] != '/' || value[strlen(value) - 1] == '/')
		return err_set(e, ERR_INVALID, "'%s' is no absolute path of a file", value);
	s->policy_file = value;
	return 0;
}

/* As operators have it: nonsense is the default, 0 the most that there is. */
static int take_max_rules(struct sidecar *s, const char *value, struct err *e)
{
	uint64_t n;

	(void)e;
	if (str_to_u64(str_trim(str_of(value)), 1, POLICY_RULES_MAX, &n))
		s->egress.max_rules = (size_t)n;
	return 0;
}

static int take_log_level(struct sidecar *s, const char *value, struct err *e)
{
	(void)e;
	if (str_eq_nocase(str_of(value), STR("fatal")) || !log_level_parse(str_of(value), &s->log_level))
		s->log_level = str_eq_nocase(str_of(value), STR("fatal")) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO;
	return 0;
}

static int take_log_output(struct sidecar *s, const char *value, struct err *e)
{
	if (strchr(value, ','))
		return err_set(e, ERR_INVALID, "one place alone: stdout, stderr or a path");
	if (strcmp(value, "stdout") != 0 && strcmp(value, "stderr") != 0 && value[0] != '/')
		return err_set(e, ERR_INVALID, "'%s' is neither stdout nor stderr nor an absolute path", value);
	s->log_output = value;
	return 0;
}

static int take_webhook(struct sidecar *s, const char *value, struct err *e)
{
	(void)e;
	s->egress.webhook = value;
	return 0;
}

static int take_id(struct sidecar *s, const char *value, struct err *e)
{
	if (!id_valid(str_of(value)))
		return err_set(e, ERR_INVALID, "'%s' is no id of a sandbox", value);
	(void)snprintf(s->id, sizeof(s->id), "%s", value); /* a valid one fits */
	return 0;
}

static int take_blocks_443(struct sidecar *s, const char *value, struct err *e)
{
	(void)e;
	s->blocks_443 = is_true(value);
	return 0;
}

/* ---- lists ---- */

typedef int item_fn(struct sidecar *s, struct str item, struct err *e);

static int take_list(struct sidecar *s, const char *value, item_fn *fn, struct err *e)
{
	struct str rest = str_of(value), item;

	while (rest.n > 0) {
		(void)str_cut(rest, ',', &item, &rest);
		item = str_trim(item);
		if (item.n > 0 && fn(s, item, e) < 0)
			return -1;
	}
	return 0;
}

/* A network of IPv4; false: something else. */
static bool read_net(struct str item, struct policy_rule *ret)
{
	char name[HOST_NAME_LEN_MAX + 1];

	*ret = (struct policy_rule){ .action = POLICY_ALLOW };
	return policy_target(item, ret, name, &(struct err){ 0 }) == 0 && ret->kind == POLICY_NET && ret->family == AF_INET;
}

static int add_resolver(struct sidecar *s, struct str item, struct err *e)
{
	if (s->n_resolvers == SIDECAR_RESOLVERS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d networks", SIDECAR_RESOLVERS_MAX);
	if (read_net(item, &s->resolvers[s->n_resolvers]))
		s->n_resolvers++;
	else
		log_warn("not a network of IPv4, ignoring it", LOG_S("variable", PREFIX "DOH_BLOCKLIST"), LOG_STR("value", item));
	return 0;
}

static int add_upstream(struct sidecar *s, struct str item, struct err *e)
{
	struct addr a = { 0 };

	if (resolv_address(item, &a, e) < 0)
		return -1;
	resolv_add(s->egress.upstreams, &s->egress.n_upstreams, UPSTREAMS_MAX, &a);
	return 0;
}

static int add_opened(struct sidecar *s, struct str item, struct err *e)
{
	if (s->egress.n_opened == OPENED_MAX)
		return err_set(e, ERR_LIMIT, "more than %d networks", OPENED_MAX);
	if (!read_net(item, &s->egress.opened[s->egress.n_opened]))
		return err_set(e, ERR_INVALID, "'%.*s' is no network of IPv4", STR_ARG(item));
	s->egress.opened[s->egress.n_opened++].target = "";
	return 0;
}

static int take_resolvers(struct sidecar *s, const char *value, struct err *e)
{
	return take_list(s, value, add_resolver, e);
}

static int take_upstreams(struct sidecar *s, const char *value, struct err *e)
{
	return take_list(s, value, add_upstream, e);
}

static int take_opened(struct sidecar *s, const char *value, struct err *e)
{
	return take_list(s, value, add_opened, e);
}

/* ---- what is not done ---- */

static int refuse_interception(struct sidecar *s, const char *value, struct err *e)
{
	(void)s;
	return is_true(value) ? err_set(e, ERR_UNAVAILABLE, "a sidecar does not intercept TLS") : 0;
}

/* A resolver that the sandbox may ask by itself is a way out that nobody looks at (E10). */
static int ignore_exempt(struct sidecar *s, const char *value, struct err *e)
{
	(void)s, (void)value, (void)e;
	log_warn("no resolver is exempt: what is sent to it is answered here", LOG_S("variable", PREFIX "NAMESERVER_EXEMPT"));
	return 0;
}

static int ignore(struct sidecar *s, const char *value, struct err *e)
{
	(void)s, (void)value, (void)e;
	log_warn("a setting of resolvers or of metrics has no effect here, ignoring it");
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct sidecar *s, const char *value, struct err *e); /* VALUE is not empty */
} settings[] = {
	{ PREFIX "LOG_LEVEL", take_log_level },
	{ "OPENSANDBOX_LOG_OUTPUT", take_log_output },
	{ PREFIX "RULES", take_rules },
	{ PREFIX "MODE", take_mode },
	{ PREFIX "TOKEN", take_token },
	{ PREFIX "HTTP_ADDR", take_api },
	{ PREFIX "POLICY_FILE", take_file },
	{ PREFIX "MAX_RULES", take_max_rules },
	{ PREFIX "DENY_WEBHOOK", take_webhook },
	{ PREFIX "SANDBOX_ID", take_id },
	{ PREFIX "BLOCK_DOH_443", take_blocks_443 },
	{ PREFIX "DOH_BLOCKLIST", take_resolvers },
	{ PREFIX "DNS_UPSTREAM", take_upstreams },
	{ PREFIX "ALLOW_PRIVATE", take_opened },
	{ PREFIX "NAMESERVER_EXEMPT", ignore_exempt },
	{ PREFIX "MITMPROXY_TRANSPARENT", refuse_interception },
	{ PREFIX "DNS_UPSTREAM_TIMEOUT", ignore },
	{ PREFIX "DNS_UPSTREAM_PROBE", ignore },
	{ PREFIX "DNS_UPSTREAM_PROBE_INTERVAL_SEC", ignore },
	{ PREFIX "METRICS_EXTRA_ATTRS", ignore },
};

/* Those of resolv.conf, unless there are others; nothing but IPv4 leaves. */
static void find_upstreams(struct egress_options *o)
{
	struct err e = { 0 };
	size_t kept = 0;

	if (o->n_upstreams == 0 && resolv_read(o->upstreams, UPSTREAMS_MAX, &o->n_upstreams, &e) < 0)
		log_warn("no resolver is known", LOG_ERR(&e));
	for (size_t i = 0; i < o->n_upstreams; i++)
		if (o->upstreams[i].sa.sa_family == AF_INET)
			o->upstreams[kept++] = o->upstreams[i];
	o->n_upstreams = kept;
	if (kept == 0)
		log_warn("no resolver is known: no name can be resolved");
}

int sidecar_read(struct sidecar *s, const char *(*get)(const char *name), struct err *e)
{
	*s = (struct sidecar){ .egress = { .warden_fd = -1, .sockets_fd = -1, .pulse = -1, .is_sidecar = true, .rules_dir = RULES_DIR, .api = -1,
					   .max_rules = POLICY_RULES_MAX, .state = { .dir = -1 } },
			       .id = ID, .policy = "", .log_level = LOG_LEVEL_INFO, .log_output = "stdout" };
	s->api = (struct addr){ .len = sizeof(s->api.in) };
	s->api.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(SIDECAR_PORT) };
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const char *value = get(settings[i].name);

		if (value && value[0] && settings[i].take(s, value, e) < 0)
			return err_wrap(e, "%s", settings[i].name);
	}
	find_upstreams(&s->egress);
	return 0;
}
