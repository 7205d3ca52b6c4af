// SPDX-License-Identifier: Apache-2.0
#include "fetch/auth.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/decode.h"
#include "base/escape.h"
#include "base/json.h"
#include "fetch/registry.h"
#include "image/challenge.h"
#include "net/http/url.h"

#include "base/banned.h"

/* ---- who may see credentials ---- */

/* "b.c" of "a.b.c", if it is more than the last label. */
static struct str parent(struct str host)
{
	struct str label, rest;

	if (!str_cut(host, '.', &label, &rest) || !memchr(rest.p, '.', rest.n))
		return (struct str){ 0 };
	return rest;
}

static bool is_address(struct str host)
{
	if (host.n > 0 && host.p[0] == '[')
		return true;
	for (size_t i = 0; i < host.n; i++)
		if (host.p[i] != '.' && (host.p[i] < '0' || host.p[i] > '9'))
			return false;
	return true;
}

static bool is_below(struct str host, struct str domain)
{
	return host.n > domain.n + 1 && str_ends(host, domain) && host.p[host.n - domain.n - 1] == '.';
}

/* The registry itself; its neighbours and its domain (registry-1.docker.io: auth.docker.io); whom the operator named. */
bool auth_is_trusted(const char *home, const char *host, const char *named)
{
	struct str h = str_of(host), domain = parent(str_of(home));

	if (str_eq_nocase(h, str_of(home)) || (named && str_eq_nocase(h, str_of(named))))
		return true;
	if (domain.n == 0 || is_address(str_of(home)) || is_address(h))
		return false;
	return str_eq(h, domain) || is_below(h, domain);
}

/* ---- Basic ---- */

static int set_basic(struct buf *out, const struct order *o, struct err *e)
{
	AUTO(buf_done) struct buf pair = BUF_INIT(AUTHORIZATION_MAX);

	if (strchr(o->username, ':'))
		return err_set(e, ERR_INVALID, "a user name with ':' in it");
	buf_addf(&pair, "%s:%s", o->username, o->password);
	buf_clear(out);
	buf_add_str(out, STR("Basic "));
	if (pair.failed || !base64_encode(out, pair.p, pair.n, BASE64_STD)) {
		if (pair.p)
			secret_wipe(pair.p, pair.n);
		return err_set(e, ERR_LIMIT, "the credentials are too long");
	}
	secret_wipe(pair.p, pair.n);
	return 0;
}

/* ---- Bearer ---- */

struct token {
	const char *token, *access_token;
};

static const struct field token_fields[] = {
	FIELD(struct token, token, FIELD_STRING, "token", .max = TOKEN_MAX, .secret = true),
	FIELD(struct token, access_token, FIELD_STRING, "access_token", .max = TOKEN_MAX, .secret = true),
	{ 0 },
};

static int set_token(struct registry *r, struct str text, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4 * TOKEN_ANSWER_MAX);
	struct decode d = { .arena = &a };
	struct token t = { 0 };
	struct json *root = json_parse(&a, text, NULL, NULL, &(struct err){ 0 }); /* its words could repeat a secret */
	const char *value;

	if (!root || decode(&d, root, token_fields, &t, &(struct err){ 0 }) < 0)
		return err_set(e, ERR_INVALID, "what was to be a token is none");
	value = t.token && t.token[0] ? t.token : t.access_token;
	if (!value || !value[0])
		return err_set(e, ERR_INVALID, "the token server's answer has no token");
	for (const char *p = value; *p; p++)
		if (*p <= 0x20 || *p >= 0x7f)
			return err_set(e, ERR_INVALID, "a token with blanks or control characters");
	buf_clear(&r->authorization);
	return buf_addf(&r->authorization, "Bearer %s", value) ? 0 : err_set(e, ERR_LIMIT, "a token that is too long");
}

static int write_url(const struct registry *r, const struct challenge *c, struct buf *url, struct err *e)
{
	AUTO(buf_done) struct buf scope = BUF_INIT(1024);
	struct target realm;

	if (target_parse(NULL, c->realm, &realm, e) < 0)
		return err_wrap(e, "where tokens come from");
	buf_addf(&scope, "repository:%s:pull", r->order->repository);
	buf_addf(url, "%s%cscope=", realm.url, strchr(realm.url, '?') ? '&' : '?');
	(void)url_encode_query(url, c->scope[0] ? str_of(c->scope) : buf_str(&scope));
	if (c->service[0]) {
		buf_add_str(url, STR("&service="));
		(void)url_encode_query(url, str_of(c->service));
	}
	return url->failed || scope.failed ? err_set(e, ERR_INVALID, "the registry's challenge is too long") : 0;
}

static int check_realm(const struct registry *r, const struct target *realm, struct err *e)
{
	const struct registry_rule *rule = target_rule(r->order, realm), *home = r->session.rule;

	if (!realm->is_https && !(rule && rule->is_insecure) && !(!r->at.is_https && strcmp(realm->place, r->at.place) == 0))
		return err_set(e, ERR_DENIED, "tokens come from '%s' without https", SHOWN(str_of(realm->host)));
	if (r->has_credentials && !auth_is_trusted(r->at.host, realm->host, home ? home->auth_host : NULL))
		return err_set(e, ERR_DENIED, "'%s' wants its credentials to be sent to '%s' (images.registries, auth_host)",
			       SHOWN(str_of(r->at.host)), SHOWN(str_of(realm->host)));
	return 0;
}

static int token_failed(const struct registry *r, const struct transfer *t, struct err *e)
{
	if (t->status == 401 || t->status == 403 || t->status == 400)
		return err_set(e, ERR_DENIED, r->has_credentials ? "'%s' does not take these credentials" : "'%s' gives no access without credentials",
			       SHOWN(str_of(r->at.host)));
	return err_set(e, ERR_UNAVAILABLE, "'%s' answers with status %u instead of a token", SHOWN(str_of(t->target.host)), t->status);
}

static int ask_for_token(struct registry *r, struct transfer *t, struct err *e)
{
	AUTO(buf_done) struct buf basic = BUF_INIT(AUTHORIZATION_MAX);
	int rc = r->has_credentials ? set_basic(&basic, r->order, e) : 0;

	t->authorization = basic.n > 0 ? basic.p : NULL;
	if (rc == 0)
		rc = transfer_begin(&r->session, t, e);
	if (rc == 0)
		rc = session_wait(&r->session, t, e);
	t->authorization = NULL;
	if (basic.p)
		secret_wipe(basic.p, basic.n);
	return rc;
}

static int answer_bearer(struct registry *r, const struct challenge *c, struct err *e)
{
	AUTO(transfer_done) struct transfer t;
	AUTO(buf_done) struct buf body = BUF_INIT(TOKEN_ANSWER_MAX);
	AUTO(buf_done) struct buf url = BUF_INIT(URL_MAX - 1);
	int rc;

	transfer_init(&t);
	t.whole = &body;
	if (write_url(r, c, &url, e) < 0 || target_parse(NULL, url.p, &t.target, e) < 0 || check_realm(r, &t.target, e) < 0)
		return -1;
	if (ask_for_token(r, &t, e) < 0)
		return -1;
	if (t.err.code != ERR_NONE) {
		*e = t.err;
		return err_wrap(e, "ask for a token");
	}
	if (t.status != 200)
		return token_failed(r, &t, e);
	rc = set_token(r, buf_str(&body), e);
	if (body.p)
		secret_wipe(body.p, body.n);
	return rc;
}

/* ---- either ---- */

int auth_answer(struct registry *r, struct str text, struct err *e)
{
	struct challenge c;

	if (challenge_parse(text, &c, e) < 0)
		return -1;
	if (c.has_bearer)
		return answer_bearer(r, &c, e);
	if (c.has_basic && r->has_credentials)
		return set_basic(&r->authorization, r->order, e);
	if (c.has_basic)
		return err_set(e, ERR_DENIED, "'%s' gives no access without credentials", SHOWN(str_of(r->at.host)));
	return err_set(e, ERR_UNAVAILABLE, "'%s' asks for an unsupported kind of credentials",
		       SHOWN(str_of(r->at.host)));
}
